"""Metrics of queries with several searches: what they found together, and what they cost."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from karat.data.bulk import Bulk
from karat.data.hits import FOUND_AT, SEARCHES, STEPS
from karat.data.ids import Floats, Ints
from karat.errors import shorten
from karat.scoring.judged import Judged, relevance
from karat.scoring.metrics.base import Basis, CutoffUse, Direction, Metric, Relevance, share
from karat.scoring.metrics.hops import found_items

SEARCHED = "searched"  # name of the fact


class FoundPlaces(Bulk, frozen=True):
    """Where judged hits were: a row for each hit and search. Lists without this data are one search."""

    hit: Ints
    search: Ints
    rank: Ints

    @classmethod
    def of(cls, judged: Judged) -> FoundPlaces:
        cache: dict[str, FoundPlaces] = judged.__dict__
        if "_found_places" not in cache:
            cache["_found_places"] = cls._read(judged)
        return cache["_found_places"]

    @classmethod
    def _read(cls, judged: Judged) -> FoundPlaces:
        every = np.arange(len(judged.hit_query))
        column = None if judged.hits is None else judged.hits.columns.get(FOUND_AT)
        if judged.hits is None or column is None:
            return cls(every, np.ones_like(every), judged.hit_rank)
        places = judged.hits.offsets[judged.hit_query] + judged.hit_rank - 1
        rows = (places if judged.order is None else judged.order[places]).tolist()
        counts = [len(column[row]) for row in rows]
        told = np.array([place for row in rows for place in column[row]], np.int64).reshape(-1, 2)
        return cls(np.repeat(every, counts), told[:, 0], told[:, 1])


def first_searches(judged: Judged) -> Ints:
    """The first search that found each item of the gold set, from 1; 0: none."""
    places, never = FoundPlaces.of(judged), np.iinfo(np.int64).max
    first = np.full(len(judged.gold.grades), never)
    if judged.hit_item is not None:
        np.minimum.at(first, judged.hit_item[places.hit], places.search)
    return np.where(first == never, 0, first)


def _told(judged: Judged) -> list[list[dict[str, Any]] | None]:
    """What the log says about the searches of each query; None: it had one."""
    assert judged.hits is not None
    return judged.hits.fields.get(STEPS) or [None] * judged.n


def count_searches(judged: Judged) -> Floats:
    """Number of searches of each query; NaN for queries that the run lacks."""
    if judged.hits is None:
        return np.full(judged.n, np.nan)
    return np.array([1.0 if steps is None else len(steps) for steps in _told(judged)])


class UnionRecall(Relevance, frozen=True, kw_only=True):
    """Share of the relevant items that the searches of a query found together.

    With k, in the first k hits of each search; without, in all hits. A line of the log without `steps` is one search.
    Tools that join the lists first and cut them afterwards mostly score the first search.

    >>> import karat
    >>> run = [{"query_id": "q", "steps": [{"topk": ["a", "x", "b"]}, {"topk": ["c", "y"]}]}]
    >>> karat.evaluate(run, {"q": ["a", "b", "c", "d"]}, ["union_recall@1", "union_recall"]).means
    {'union_recall@1': 0.5, 'union_recall': 0.75}
    """

    name = "union_recall"
    cutoff: ClassVar[CutoffUse] = "optional"
    by_tokens = False
    uses_hits = True
    lists: ClassVar[str | None] = SEARCHES

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        if judged.hit_item is None:
            return np.zeros(judged.n)
        places = FoundPlaces.of(judged)
        inside = places.rank <= self.limit(judged)[judged.hit_query[places.hit]]
        items = np.unique(judged.hit_item[places.hit[inside]])
        items = items[relevance(judged.gold.grades[items], self.rel)]
        return _by_query(judged, items) / relevant

    def ceiling(self, judged: Judged) -> Floats:
        """Unknown if one search cannot find all items: the number of searches is not limited."""
        relevant = judged.relevant(self.rel)
        return np.where((relevant > 0) & (relevant <= self.limit(judged)), 1.0, np.nan)


class _OfSearches(Metric, frozen=True, kw_only=True):
    """What the metrics about the number of searches have in common."""

    direction: ClassVar[Direction] = "lower"
    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    rests_on: ClassVar[frozenset[Basis]] = frozenset()
    is_share = False
    uses_hits = True
    lists: ClassVar[str | None] = SEARCHES


class SearchCount(_OfSearches, frozen=True, kw_only=True):
    """Number of searches for a query: its `steps`, or 1 for a line of the log without them.

    >>> import karat
    >>> run = [{"query_id": "q", "steps": [{"topk": ["a"]}, {"topk": ["b"]}]}, {"query_id": "r", "topk": ["c"]}]
    >>> karat.evaluate(run, {"q": ["a"], "r": ["c"]}, ["steps"]).means
    {'steps': 1.5}
    """

    name = "steps"
    aliases: ClassVar[dict[str, str]] = {"searches": "steps"}
    is_quality = False

    def score(self, judged: Judged) -> Floats:
        return count_searches(judged)


class WastedSteps(_OfSearches, frozen=True, kw_only=True):
    """Number of searches that found nothing new: no relevant item that earlier searches had missed.

    Undefined without relevant gold, and for a query that is missing from the run.

    >>> import karat
    >>> run = [{"query_id": "q", "steps": [{"topk": ["a"]}, {"topk": ["x", "a"]}, {"topk": ["b"]}]}]
    >>> karat.evaluate(run, {"q": ["a", "b"]}, ["wasted_steps", "relevant_per_step"]).means
    {'wasted_steps': 1.0, 'relevant_per_step': 0.6666666666666666}
    """

    name = "wasted_steps"
    rests_on: ClassVar[frozenset[Basis]] = frozenset({"ids"})

    def score(self, judged: Judged) -> Floats:
        first = first_searches(judged)
        items = np.flatnonzero((first > 0) & (judged.gold.grades > 0))
        owners = judged.gold.query_of_item[items]
        useful = np.unique(np.stack([owners, first[items]]), axis=1)[0]
        count = np.bincount(useful, minlength=len(judged.gold.queries))[judged.queries]
        return np.where(judged.relevant(None) > 0, count_searches(judged) - count, np.nan)


class RelevantPerStep(_OfSearches, frozen=True, kw_only=True):
    """Relevant items that the searches of a query found together, divided by the number of searches.

    Queries are weighted by their searches, so the mean is all items divided by all searches. Its inverse is the number
    of searches per relevant item. Undefined without relevant gold or searches, and for a query that is missing from
    the run.

    >>> import karat
    >>> steps = [{"topk": ["a", "b"]}, {"topk": ["x"]}, {"topk": ["y"]}]
    >>> run = [{"query_id": "q", "steps": steps}, {"query_id": "r", "topk": ["c"]}]
    >>> karat.evaluate(run, {"q": ["a", "b"], "r": ["c"]}, ["relevant_per_step"]).means
    {'relevant_per_step': 0.75}
    """

    name = "relevant_per_step"
    direction: ClassVar[Direction] = "higher"
    rests_on: ClassVar[frozenset[Basis]] = frozenset({"ids"})

    def score(self, judged: Judged) -> Floats:
        found = _by_query(judged, np.flatnonzero((first_searches(judged) > 0) & (judged.gold.grades > 0)))
        return np.where(judged.relevant(None) > 0, share(found, np.nan_to_num(count_searches(judged))), np.nan)

    def votes(self, judged: Judged) -> Floats | None:
        return np.nan_to_num(count_searches(judged))


def _by_query(judged: Judged, items: Ints) -> Floats:
    """How many of these items of the gold set each query has."""
    counts = np.bincount(judged.gold.query_of_item[items], minlength=len(judged.gold.queries))
    return counts[judged.queries].astype(np.float64)


class Search(NamedTuple):
    """One search of a query."""

    found: int  # relevant items
    new: int  # that no earlier search found
    repeated: bool  # the same hits as an earlier search, in any order
    ms: float | None
    cost: float | None
    query: str | None


class SearchedQuery(NamedTuple):
    """The searches of one query, and its hops."""

    searches: list[Search]
    hops: list[int]  # the first search that covers each hop, from 1; 0: none
    final: list[bool]  # whether the final list covers each hop


def searched(own: Judged, lists: Judged) -> list[SearchedQuery | None]:
    """The searches of each query. `own`: the final lists; `lists`: those of the searches, of the same queries."""
    from karat.data.hops import hop_items

    if lists.hits is None or own.hits is None:
        return [None] * own.n
    places, told = FoundPlaces.of(lists), _told(lists)
    assert lists.hit_item is not None
    first, hops = first_searches(lists), hop_items(own.gold)
    by_hop, final = hops.lowest(first).tolist(), hops.covered(found_items(own, own.depth)).tolist()
    pairs = np.stack([lists.hit_query[places.hit], places.search, lists.hit_item[places.hit]], axis=1)
    pairs = np.unique(pairs[lists.gold.grades[pairs[:, 2]] > 0], axis=0)
    found: dict[tuple[int, int], int] = {}
    new: dict[tuple[int, int], int] = {}
    for query, search, item in pairs.tolist():
        key = query, search
        found[key] = found.get(key, 0) + 1
        new[key] = new.get(key, 0) + int(first[item] == search)
    bounds = np.searchsorted(hops.query, np.stack([own.queries, own.queries + 1]))
    row_of = {query: at for at, query in enumerate(lists.queries.tolist())}
    made: list[SearchedQuery | None] = []
    for at, query in enumerate(own.queries.tolist()):
        row = row_of[query]
        steps = told[row]
        repeated = _repeated(lists, row, 1 if steps is None else len(steps))
        searches = [
            Search(found.get((row, n), 0), new.get((row, n), 0), repeated[n - 1], *_spent(step, lists))
            for n, step in enumerate([{}] if steps is None else steps, 1)
        ]
        own_hops = slice(*bounds[:, at].tolist())
        made.append(SearchedQuery(searches, by_hop[own_hops], final[own_hops]))
    return made


def _repeated(lists: Judged, query: int, searches: int) -> list[bool]:
    assert lists.hits is not None
    column = lists.hits.columns.get(FOUND_AT)
    if column is None or searches < 2:
        return [False] * searches
    hits: list[set[int]] = [set() for _ in range(searches)]
    for row in range(*lists.hits.offsets[query : query + 2].tolist()):
        for search, _ in column[row]:
            hits[search - 1].add(row)
    return [bool(own) and own in hits[:at] for at, own in enumerate(hits)]


def _spent(step: dict[str, Any], judged: Judged) -> tuple[float | None, float | None, str | None]:
    """Time, cost and query of a search; None where the log does not say."""
    times, usage, query = (step.get(name) for name in ("latency_ms", "usage", "query"))
    if isinstance(times, dict):
        stages = [ms for stage, ms in sorted(times.items()) if ms is not None and stage != "total"]
        times = times.get("total") if times.get("total") is not None else sum(stages) if stages else None
    cost = None if usage is None or judged.prices is None else judged.prices.total(usage)
    return times, cost, None if query is None else shorten(query, 80)
