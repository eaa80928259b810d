"""Whether queries were sent to the right source, and what wrong routing costs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.results.analyses.base import Analysis, Lacking, Setup
from karat.results.summary import FEW, SummaryRow, mean_of, mean_row
from karat.scoring.metrics.query import expected_sources, sources_of
from karat.scoring.sources import NO_SOURCE
from karat.scoring.views import Need, View, route_lists

if TYPE_CHECKING:
    from karat.results.result import Result

_EXAMPLES = 3
_DIFFERENCE = (-1.0, 1.0)


class Chosen(msgspec.Struct, frozen=True):
    """How often one source was searched, among all queries with a route, and how often it was needed."""

    source: str
    asked: int
    share: float  # of the queries that have a route
    needed: int


class Confusion(msgspec.Struct, frozen=True):
    """Queries that need one source and were sent to another, or to the same."""

    needed: str
    asked: str
    queries: int
    right: bool
    examples: list[str]


class OfSource(msgspec.Struct, frozen=True):
    """Recall of the queries that need one source (or one set of sources)."""

    needed: str
    all: SummaryRow
    right: SummaryRow  # queries that were sent there
    wrong: SummaryRow  # queries that were not


class Regret(msgspec.Struct, frozen=True):
    """What routing costs in recall. With a run per route, compared with the best of them, query by query. Without, an
    estimate: misrouted queries are assumed to do as well as correctly routed ones that need the same source."""

    against: list[str]  # the routes with a run; empty: the estimate
    recall: float
    best: float
    cost: SummaryRow  # best − recall, per query; no interval for the estimate
    queries: int  # all that can be compared, or for the estimate the misrouted ones


class Routed(msgspec.Struct, frozen=True):
    """Where queries were sent, and where they should have been."""

    metric: str
    queries: int  # with a route and an expected source
    not_routed: int  # with an expected source but no route
    not_labelled: int  # with a route but no expected source
    right: SummaryRow
    over: SummaryRow  # right, with more sources searched than needed
    partly: int  # wrong, but some of the needed sources were searched
    chosen: list[Chosen]
    confusion: list[Confusion]
    by_source: list[OfSource]
    regret: Regret | None


class Router(Analysis):
    """Compares `route` in the run log with `source` in the gold set."""

    name = "router"
    title = "Routing"
    finds: ClassVar[type[msgspec.Struct]] = Routed

    def need(self, setup: Setup) -> Need:
        needed = expected_sources(setup.gold, np.arange(len(setup.gold.queries)))
        if needed.count(None) == len(needed):
            raise Lacking("`source` in the gold set")
        recall = f"recall@{setup.rules.k}"
        return Need(
            metrics=["route_accuracy", "route_accuracy(match=exact)", recall],
            views={View(lists=route_lists(source)): [recall] for source in setup.routes},
            facts=frozenset({"route"}),
        )

    def find(self, side: Result) -> Routed:
        if all(route is None for route in side.facts("route")):
            raise Lacking("`route` in the run log")
        return _Routes(side).found()


class _Routes:
    """The needed and searched sources of each query, in columns."""

    def __init__(self, side: Result) -> None:
        self.side, self.metric = side, f"recall@{side.rules.k}"
        self.needed = expected_sources(side.gold, side.rows)
        self.asked = list(map(sources_of, side.facts("route")))
        self.right = side.values["route_accuracy"]
        self.recall = side.values[self.metric]
        self.groups = np.array(["" if needed is None else _label(needed) for needed in self.needed], object)

    def found(self) -> Routed:
        both, pairs = ~np.isnan(self.right), list(zip(self.needed, self.asked, strict=True))
        over = (self.right == 1) & (self.side.values["route_accuracy(match=exact)"] == 0)
        touched = [bool(n and a and n & a) for n, a in pairs]
        return Routed(
            metric=self.metric,
            queries=int(both.sum()),
            not_routed=sum(n is not None and a is None for n, a in pairs),
            not_labelled=sum(n is None and a is not None for n, a in pairs),
            right=self._rate("routed right", self.right),
            over=self._rate("more asked than needed", np.where(both, over, np.nan)),
            partly=int(((self.right == 0) & np.array(touched)).sum()),
            chosen=self._chosen(),
            confusion=self._confusion(both),
            by_source=self._by_source(both),
            regret=self._against_routes() if self.side.context.routes else self._estimate(),
        )

    def _rate(self, name: str, values: Floats) -> SummaryRow:
        return mean_row(name, values, self.side.columns.clusters, self.side.sampling)

    def _chosen(self) -> list[Chosen]:
        routed = [asked for asked in self.asked if asked is not None]
        asked = Counter(source for route in routed for source in route)
        needed = Counter(source for sources in self.needed if sources is not None for source in sources)
        return [
            Chosen(source, asked[source], asked[source] / len(routed), needed[source])
            for source in sorted(asked | needed, key=lambda source: (-asked[source], source))
        ]

    def _confusion(self, both: Bools) -> list[Confusion]:
        found: dict[tuple[str, str], list[int]] = {}
        for at in np.flatnonzero(both).tolist():
            found.setdefault((self.groups[at], _label(self.asked[at] or frozenset())), []).append(at)
        return [
            Confusion(needed, asked, len(at), bool(self.right[at[0]]), [self.side.queries[i] for i in at[:_EXAMPLES]])
            for (needed, asked), at in sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[0]))
        ]

    def _by_source(self, both: Bools) -> list[OfSource]:
        parts = {label: (self.groups == label) & both for label in sorted(set(self.groups[both]))}
        return [
            OfSource(label, *map(self._recall, (of, of & (self.right == 1), of & (self.right == 0))))
            for label, of in parts.items()
        ]

    def _recall(self, of: Bools) -> SummaryRow:
        return self._rate(self.metric, np.where(of, self.recall, np.nan))

    def _estimate(self) -> Regret | None:
        """The estimate, only for queries whose source was searched for some other query: else it has no reference."""
        reference = np.full(len(self.recall), np.nan)
        for label in set(self.groups) - {""}:
            of = self.groups == label
            mean = mean_of(np.where(of & (self.right == 1), self.recall, np.nan))
            reference[of & (self.right == 0)] = np.nan if mean is None else mean
        missed = ~np.isnan(reference - self.recall)
        routed = missed | ((self.right == 1) & ~np.isnan(self.recall))
        if not missed.any():
            return None
        best = np.where(missed, reference, self.recall)
        cost = mean_of(np.where(routed, best - self.recall, np.nan))
        n = int(routed.sum())
        row = SummaryRow("cost", n, len(routed) - n, cost, few=int(missed.sum()) < FEW)
        return self._regret([], best, routed, row, int(missed.sum()))

    def _against_routes(self) -> Regret | None:
        """The regret over the queries for which every route has a list."""
        best = np.full(len(self.recall), -np.inf)
        for source in self.side.context.routes:
            best = np.maximum(best, _column(self.side, source, self.metric))
        cost = best - self.recall
        there = ~np.isnan(cost)
        if not there.any():
            return None
        row = mean_row("cost", cost, self.side.columns.clusters, self.side.sampling, _DIFFERENCE)
        return self._regret(list(self.side.context.routes), best, there, row, row.n)

    def _regret(self, against: list[str], best: Floats, of: Bools, cost: SummaryRow, queries: int) -> Regret:
        recall, most = (mean_of(np.where(of, values, np.nan)) for values in (self.recall, best))
        assert recall is not None
        assert most is not None
        return Regret(against, recall, most, cost, queries)


def _column(side: Result, source: str, metric: str) -> Floats:
    """A metric of the run that searched only one source, on the side's queries; NaN if it has no list."""
    lists = side.measure([metric], View(lists=route_lists(source)))
    values = np.full(len(side.gold.queries), np.nan)
    values[lists.rows] = lists.values[metric]
    rows: Ints = side.rows
    return values[rows]


def _label(sources: frozenset[str]) -> str:
    return " + ".join(sorted(sources)) or NO_SOURCE
