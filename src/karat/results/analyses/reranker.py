"""Retriever and reranker separately: what was found, and how its order changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np

from karat.data.gold import Gold
from karat.data.ids import Bools, Floats, Ints
from karat.results.analyses.base import PERMUTATIONS, Analysis, Setup, pair, with_lists
from karat.results.differences import SAME, Difference, Paired
from karat.results.summary import FEW, SummaryRow, mean_limits, mean_of
from karat.scoring.judged import judge_places
from karat.scoring.views import RAW, Need, View
from karat.statistics.sampling import Sampling
from karat.statistics.sums import ratio

if TYPE_CHECKING:
    from karat.results.result import Result

_RAW = ("recall@50", "recall@100", "mrr@50")
_EXAMPLES = 5
_CANDIDATES = 50  # default number of candidates for a reranker
_NO_BOUND = (-np.inf, np.inf)  # a reranker can lose many times what it could gain


class Gain(msgspec.Struct, frozen=True):
    """What a perfect order of the candidates would gain, and how much of that was gained."""

    metric: str
    best: float  # the metric with the candidates of every query in the best order
    possible: float  # best − raw
    captured: SummaryRow | None  # (final − raw) / (best − raw), over the sums; null if there was nothing to gain
    rerank_depth: int | None = None  # raw hits that were candidates; null: all (results of older versions)


class Reranked(msgspec.Struct, frozen=True):
    """What the retriever found (raw lists), and how the reranker changed it."""

    k: int
    raw_depth: int  # hits in the longest raw list
    raw: list[SummaryRow]
    differences: list[Difference]  # final − raw
    rescued: int  # queries with a relevant hit in the top k only after reranking
    demoted: int  # queries with one only before reranking
    rescued_examples: list[str]
    demoted_examples: list[str]
    gain: Gain | None = None
    queries: int = 0  # with a raw list
    without_raw: int = 0  # without one, left out here
    reordered: bool = True  # False: every judged item has the same rank as in the raw list, so there is no reranker
    logged_depths: int = 0  # number of different values of `rerank_depth` in the log, if none could be chosen


class RerankerAnalysis(Analysis):
    """Compares the final lists with `raw` lists, from the same log or another run."""

    name = "reranker"
    title = "Retriever and reranker"
    finds: ClassVar[type[msgspec.Struct]] = Reranked

    def need(self, setup: Setup) -> Need:
        names = _metrics(setup.rules.k)
        return Need(views={View(lists=RAW): [*names, *_RAW], setup.unfiltered: names})

    def find(self, side: Result) -> Reranked:
        k, names = side.rules.k, _metrics(side.rules.k)
        raw, final = side.measure([*names, *_RAW], View(lists=RAW)), side.measure(names, side.setup.unfiltered)
        depth = int(raw.depths.max(initial=0))
        paired, rows = pair(raw, final, names)
        was, now = (scores.values[f"hit@{k}"] > 0 for scores in (paired.baseline, paired.candidate))
        rescued, demoted = _names(side, rows, now & ~was), _names(side, rows, was & ~now)
        return Reranked(
            k=k,
            raw_depth=depth,
            raw=_of_depth(raw.summary_rows, depth),
            differences=paired.differences(side.sampling, PERMUTATIONS),
            rescued=len(rescued),
            demoted=len(demoted),
            rescued_examples=rescued[:_EXAMPLES],
            demoted_examples=demoted[:_EXAMPLES],
            gain=_gain(paired, rows, raw.places, side, _rerank_depth(side, raw, final, rows)),
            queries=len(rows),
            without_raw=int((with_lists(side) & ~np.isin(side.rows, rows)).sum()),
            reordered=_reordered(raw, final, rows),
            logged_depths=_logged_depths(side),
        )


def _metrics(k: int) -> list[str]:
    return [f"ndcg@{k}", f"precision@{k}", f"recall@{k}", f"hit@{k}"]


def _names(side: Result, rows: Ints, which: Bools) -> list[str]:
    return [side.gold.queries[row] for row in rows[which].tolist()]


def _of_depth(found: list[SummaryRow], depth: int) -> list[SummaryRow]:
    """Metrics of the raw lists, with cutoffs no deeper than the lists."""
    shown: dict[str, SummaryRow] = {}
    for row in found:
        kind, _, cutoff = row.metric.partition("@")
        if row.metric in _RAW:
            name = f"{kind}@{max(min(int(cutoff), depth), 1)}"
            shown.setdefault(name, msgspec.structs.replace(row, metric=name))
    return list(shown.values())


def _logged_depths(side: Result) -> int:
    """How many different values of `rerank_depth` the log has, if several and the option is not set."""
    logged = side.provenance.get("rerank_depth")
    if side.rules.rerank_depth is not None or not isinstance(logged, dict):
        return 0
    return int(logged.get("values", 0))


def _rerank_depth(side: Result, raw: Result, final: Result, rows: Ints) -> int:
    """The number of the reranker's candidates: from the option, the log, or the default.

    With the default, an item that moved up from further down shows that there were more.
    """
    logged, retriever = side.provenance.get("rerank_depth"), side.provenance.get("retriever")
    if not isinstance(logged, int) and isinstance(retriever, dict):
        logged = retriever.get("top_n")  # as `karat run` logs it
    told = side.rules.rerank_depth or (logged if isinstance(logged, int) and logged > 0 else None)
    if told is not None:
        return told
    items = raw.gold.items_of(rows)
    before, after = raw.places[items], final.places[items]
    return max(_CANDIDATES, int(before[(after > 0) & (after < before)].max(initial=0)))


def best_places(gold: Gold, places: Ints, depth: int | None = None) -> Ints:
    """The ranks of gold items in a list if its first `depth` hits (default: all) were in the best order.

    Highest grades come first; items further down keep their rank.
    """
    there = np.flatnonzero((places > 0) & (places <= (places.max(initial=0) if depth is None else depth)))
    there = there[np.lexsort((-gold.grades[there], gold.query_of_item[there]))]
    query = gold.query_of_item[there]
    best = places.copy()
    best[there] = np.arange(len(there)) - np.searchsorted(query, query) + 1
    return best


def _gain(paired: Paired, rows: Ints, places: Ints, side: Result, depth: int) -> Gain | None:
    metric = paired.baseline.metrics[0]
    raw, final = paired.baseline.values[str(metric)], paired.candidate.values[str(metric)]
    best = metric.score(judge_places(side.gold, rows, best_places(side.gold, places, depth), side.rules))
    mean, possible = mean_of(best), mean_of(best - raw)
    if mean is None or possible is None:
        return None
    captured = _captured(final - raw, best - raw, paired.baseline.clusters, side.sampling) if possible > SAME else None
    return Gain(str(metric), mean, possible, captured, depth)


def _captured(gained: Floats, possible: Floats, clusters: Ints | None, sampling: Sampling) -> SummaryRow:
    """The share captured, as a ratio of sums: a query with a perfect raw list has nothing to gain but may lose."""
    defined = ~np.isnan(gained)
    above, below = (np.where(defined, values, 0.0)[:, None] for values in (gained, possible))
    sums = ratio(above, below, clusters)
    n, limits = int(defined.sum()), mean_limits(sums, _NO_BOUND, sampling)
    return SummaryRow("share captured", n, len(gained) - n, float(sums.estimate[0]), *limits, few=n < FEW)


def _reordered(raw: Result, final: Result, rows: Ints) -> bool:
    """Whether some judged item has another rank than in the raw list, other than being cut off at the end."""
    gold = raw.gold
    items = gold.items_of(rows)
    depth = np.zeros(len(gold.queries), np.int64)
    depth[final.rows] = final.depths
    before, after = raw.places[items], final.places[items]
    expected = np.where(before <= depth[gold.query_of_item[items]], before, 0)
    return bool((after != expected).any()) or not before.any()
