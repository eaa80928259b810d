"""How newer documents affect the scores: the run again, without hits newer than their query's as_of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from karat.data.audit import Entry
from karat.data.gold import Gold
from karat.data.hits import OPTIONAL_COLUMNS
from karat.data.ids import DocRule
from karat.results.analyses.base import PERMUTATIONS, Analysis, Lacking, Setup, pair
from karat.results.differences import Difference
from karat.results.summary import SummaryRow
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.lists import Freshness
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result

_EXAMPLES = 3


class Fresh(msgspec.Struct, frozen=True):
    """How many hits are newer than their query's as_of, and how the scores change without them."""

    k: int
    queries: int  # with as_of
    freshness: SummaryRow  # freshness@k
    affected: int  # queries with a newer hit in the top k
    hits: int  # of the queries with as_of, at any depth
    newer_hits: int
    undated_hits: int  # without a version; they are kept
    odd_versions: int  # hits whose version cannot be compared; they are kept too
    differences: list[Difference]  # lists without newer hits − lists as they are
    newer_gold: int  # relevant items newer than their query's as_of: labels to check
    newer_gold_examples: list[str]
    all_gold: bool  # versions of gold items are from a corpus; otherwise only those that the run returned are known
    counted: list[Entry] = []  # for the audit


class FreshnessAnalysis(Analysis):
    """Compares the lists with the same lists without newer documents."""

    name = "freshness"
    title = "Freshness"
    finds: ClassVar[type[msgspec.Struct]] = Fresh

    def need(self, setup: Setup) -> Need:
        if not setup.gold.has_as_of:
            raise Lacking("`as_of` in the gold set")
        k, requested = setup.rules.k, _of_lists(setup.metrics)
        names = _compared(k, requested)
        return Need(
            metrics=requested,
            views={
                setup.own.but(no_future=False): [*names, f"freshness@{k}"],
                setup.own.but(no_future=True): names,
            },
        )

    def find(self, side: Result) -> Fresh:
        k = side.rules.k
        names, fresh = _compared(k, side.metrics), f"freshness@{k}"
        before = side.measure([*names, fresh], side.view.but(no_future=False))
        after = side.measure(names, side.view.but(no_future=True))
        _refuse_undated(after)
        asked = np.array([side.gold.as_of[row] is not None for row in before.rows.tolist()], np.bool_)
        gold, of_all = _newer_gold(side, after)
        return Fresh(
            k=k,
            queries=int(asked.sum()),
            freshness=before.row(fresh),
            affected=int((before.values[fresh] < 1).sum()),
            hits=int(before.depths[asked].sum()),
            newer_hits=after.audit["future_hits"],
            undated_hits=after.audit["undated_hits"],
            odd_versions=after.audit["odd_versions"],
            differences=pair(before, after, names)[0].differences(side.sampling, PERMUTATIONS),
            newer_gold=len(gold) if of_all else after.audit["future_gold"],
            newer_gold_examples=gold[:_EXAMPLES],
            all_gold=of_all,
            counted=[entry for entry in after.audit if entry.code == "odd_versions"],
        )


def _of_lists(metrics: Iterable[Metric]) -> list[Metric]:
    """The metrics that depend only on lists (not on time, cost or route), except freshness itself."""
    return [m for m in metrics if m.reads <= OPTIONAL_COLUMNS and not isinstance(m, Freshness)]


def _compared(k: int, requested: Iterable[Metric]) -> list[str]:
    """The usual four metrics, then all others that were requested."""
    usual = (f"recall@{k}", f"ndcg@{k}", f"precision@{k}", "mrr")
    return list(dict.fromkeys([*usual, *map(str, requested)]))


def _refuse_undated(after: Result) -> None:
    """Raise if no hit has a version: nothing was removed."""
    if not after.data.tables[after.view].undated:
        return
    odd = after.data.odd_version
    if odd is None:
        raise Lacking("`doc_version` in `topk` of the run log, or in a corpus (--corpus)")
    error = odd.error(after.run)
    where = ":".join(str(part) for part in (error.file, error.line) if part is not None)
    raise Lacking(f"versions that can be compared with `as_of` ({where}: got {error.got})")


def _newer_gold(side: Result, after: Result) -> tuple[list[str], bool]:
    """Relevant items newer than their query's as_of, and whether these are all, or only some that the run returned."""
    from karat.scoring.dates import item_versions

    if side.corpus is None or side.corpus.versions is None:
        return [name for entry in after.audit if entry.code == "future_gold" for name in entry.examples], False
    return _newer_than_as_of(side.gold, item_versions(side.gold, side.corpus, DocRule(side.rules.doc_of))), True


def _newer_than_as_of(gold: Gold, versions: list[list[Any]]) -> list[str]:
    """Items of which every version is newer."""
    from karat.data.versions import Version

    found = []
    for item in np.flatnonzero(gold.grades > 0).tolist():
        query = int(gold.query_of_item[item])
        as_of, read = gold.as_of[query], map(Version.read, versions[item])
        verdicts = [version.newer_than(as_of) for version in read if as_of is not None and version is not None]
        if True in verdicts and False not in verdicts:
            found.append(f"{gold.queries[query]}: {gold.ids[item]}")
    return found
