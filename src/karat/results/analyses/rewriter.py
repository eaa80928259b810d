"""Whether rewriting the query helps: the lists of the original query compared with the final ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np

from karat.data.ids import Bools, Ints
from karat.results.analyses.base import PERMUTATIONS, Analysis, Setup, pair, with_lists
from karat.results.differences import SAME, Difference
from karat.results.summary import SummaryRow, mean_row
from karat.scoring.views import ORIGINAL, Need, View

if TYPE_CHECKING:
    from karat.results.result import Result

_EXAMPLES = 3


class Rewriting(msgspec.Struct, frozen=True):
    """One query whose results changed with its wording."""

    query_id: str
    original: str | None
    rewritten: str | None
    before: float
    after: float


class Rewritten(msgspec.Struct, frozen=True):
    """How rewriting the query changed the results."""

    k: int
    metric: str  # decides whether a query is harmed or helped
    queries: int  # with a list for the original query
    without_original: int  # without one, left out here
    unchanged: int  # of these queries, those that were not rewritten
    differences: list[Difference]  # rewritten − original
    harmed: SummaryRow
    helped: SummaryRow
    harmed_most: list[Rewriting]
    helped_most: list[Rewriting]


class Rewriter(Analysis):
    """Compares the final lists with `topk_original`, from the same log or another run."""

    name = "rewriter"
    title = "Query rewriting"
    finds: ClassVar[type[msgspec.Struct]] = Rewritten

    def need(self, setup: Setup) -> Need:
        names = _metrics(setup.rules.k)
        views = {View(lists=ORIGINAL): names, setup.unfiltered: names}
        return Need(views=views, facts=frozenset({"query", "rewritten_query"}))

    def find(self, side: Result) -> Rewritten:
        names = _metrics(side.rules.k)
        original, final = side.measure(names, View(lists=ORIGINAL)), side.measure(names, side.setup.unfiltered)
        paired, rows = pair(original, final, names)
        leading = paired.baseline.metrics[0]
        deltas = paired.deltas(leading)
        places = side.rows.tolist()
        asked = {row: text or side.gold.text(row) for row, text in zip(places, side.facts("query"), strict=True)}
        rewritten = dict(zip(places, side.facts("rewritten_query"), strict=True))
        before, after = paired.baseline.values[str(leading)], paired.candidate.values[str(leading)]

        def share(name: str, happened: Bools) -> SummaryRow:
            values = np.where(np.isnan(deltas), np.nan, happened)
            return mean_row(name, values, paired.baseline.clusters, side.sampling)

        def most(order: Ints) -> list[Rewriting]:
            found = ((int(rows[i]), float(before[i]), float(after[i])) for i in order[:_EXAMPLES].tolist())
            return [Rewriting(side.gold.queries[row], asked[row], rewritten[row], *scores) for row, *scores in found]

        worse, better = np.flatnonzero(deltas < -SAME), np.flatnonzero(deltas > SAME)
        return Rewritten(
            k=side.rules.k,
            metric=str(leading),
            queries=len(rows),
            without_original=int((with_lists(side) & ~np.isin(side.rows, rows)).sum()),
            unchanged=sum(rewritten[row] is not None and rewritten[row] == asked[row] for row in rows.tolist()),
            differences=paired.differences(side.sampling, PERMUTATIONS),
            harmed=share("harmed", deltas < -SAME),
            helped=share("helped", deltas > SAME),
            harmed_most=most(worse[np.argsort(deltas[worse], kind="stable")]),
            helped_most=most(better[np.argsort(-deltas[better], kind="stable")]),
        )


def _metrics(k: int) -> list[str]:
    return [f"ndcg@{k}", f"recall@{k}", f"precision@{k}", "mrr"]
