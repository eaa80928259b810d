"""How alike the lists of two results are, without labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.attributes import cluster_numbers
from karat.data.ids import Bools, Floats, Ints
from karat.results.differences import SAME, Paired
from karat.results.pipeline import OVERLAP
from karat.results.result import Result
from karat.results.summary import FEW, Scores, SummaryRow, summarise
from karat.scoring.metrics.against_run import AgainstRun
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metrics
from karat.scoring.top_lists import TOP
from karat.statistics.rank_overlap import Rankings
from karat.statistics.sampling import Sampling

_EXAMPLES = 5


class LeastAlike(msgspec.Struct, frozen=True):
    """One of the queries whose lists differ most."""

    query_id: str
    query: str | None
    value: float


class SegmentOverlap(msgspec.Struct, frozen=True):
    """The overlap in one group of queries."""

    segment: str
    value: str
    queries: int
    few: bool
    overlap: list[SummaryRow]


class ListOverlap(msgspec.Struct, frozen=True):
    """The lists of two runs. Counts are queries, and compare the first `depth` hits."""

    depth: int
    overlap: list[SummaryRow]  # rbo, jaccard: mean and interval over queries
    same: int  # the same hits in the same order
    reordered: int  # the same hits in another order
    partly: int  # some hits in common
    disjoint: int  # no hit in common
    one_empty: int  # hits on one side only
    both_empty: int  # no hits on either side: undefined
    unseen: int | None = None  # other lists, but the same score in every metric; null without labels
    unseen_queries: list[str] = []
    unlisted: int | None = None  # the same lists, but another score in some metric that depends on hits
    unlisted_queries: list[str] = []
    least: list[LeastAlike] = []  # lowest overlap first, by the first metric
    segments: list[SegmentOverlap] = []


def split_overlap(
    metrics: Iterable[str | Metric] | None, reference: Any = None
) -> tuple[list[AgainstRun], list[Metric] | None]:
    """Metrics that compare two runs with each other (default: the usual ones), and metrics of each run (None: the usual
    ones). With a reference run, all are metrics of each run."""
    asked = parse_metrics(metrics or ())
    named = [metric for metric in asked if isinstance(metric, AgainstRun) and reference is None]
    usual = [metric for metric in parse_metrics(OVERLAP) if isinstance(metric, AgainstRun)]
    return named or usual, [metric for metric in asked if metric not in named] or None


def overlap_depth(metrics: Sequence[AgainstRun], k: int) -> int:
    """How many hits of each list the metrics compare."""
    return max((metric.k or k for metric in metrics), default=TOP)


def list_overlap(
    first: Result,
    other: Result,
    paired: Paired,
    at: Ints,
    of: Ints,
    metrics: Sequence[AgainstRun],
    segmented_by: Sequence[str],
    sampling: Sampling,
    notes: list[str],
) -> ListOverlap | None:
    """Compare the lists of two results on the queries that both have. None if a side keeps no lists."""
    before, after = first.data.tops, other.data.tops
    if before is None or after is None:
        return None
    kept = min(before.ids.shape[1], after.ids.shape[1])
    metrics = [metric if metric.k else replace(metric, k=first.rules.k) for metric in metrics]
    deep = [str(metric) for metric in metrics if (metric.k or 0) > kept]
    if deep:
        notes.append(f"{', '.join(deep)} left out: a saved result keeps the first {kept} hits of each query.")
    shown: list[Metric] = [metric for metric in metrics if (metric.k or 0) <= kept]
    if not shown:
        return None
    depth = max(metric.k or 0 for metric in shown)
    one, two = before.rows_at(first.rows[at]), after.rows_at(other.rows[of])
    clusters = None if first.cluster is None else cluster_numbers(first.gold, first.cluster)[first.rows[at]]
    values = {str(m): m.overlap(one.cut(m.k or 0), two.cut(m.k or 0)) for m in metrics if m in shown}
    scores = Scores(shown, values, {}, clusters)
    one, two = one.cut(depth), two.cut(depth)
    kinds = _Kinds(one, two)
    unseen = unlisted = None
    if first.gold.made_of != "queries":
        moved, told = _moved(paired)
        unseen, unlisted = ~kinds.same & ~kinds.both_empty & told & ~moved, kinds.same & moved
    queries = [first.queries[i] for i in at.tolist()]
    return ListOverlap(
        depth=depth,
        overlap=summarise(scores, sampling, {}, {}),
        same=int(kinds.same.sum()),
        reordered=int(kinds.reordered.sum()),
        partly=int(kinds.partly.sum()),
        disjoint=int(kinds.disjoint.sum()),
        one_empty=int(kinds.one_empty.sum()),
        both_empty=int(kinds.both_empty.sum()),
        unseen=None if unseen is None else int(unseen.sum()),
        unseen_queries=_named(queries, unseen),
        unlisted=None if unlisted is None else int(unlisted.sum()),
        unlisted_queries=_named(queries, unlisted),
        least=_least(first, queries, first.rows[at], values[str(shown[0])]),
        segments=[group for name in segmented_by for group in _segments(first, scores, at, name, sampling)],
    )


class _Kinds:
    """Which queries have which kind of difference."""

    def __init__(self, one: Rankings, two: Rankings) -> None:
        width = np.arange(one.ids.shape[1])
        filled = [side.length > 0 for side in (one, two)]
        both = filled[0] & filled[1]
        self.both_empty = ~filled[0] & ~filled[1]
        self.one_empty = filled[0] ^ filled[1]
        equal = ((one.ids == two.ids) | (width >= one.length[:, None])).all(axis=1)
        self.same = both & equal & (one.length == two.length)
        shared = parse_metrics(["jaccard@1"])[0]
        assert isinstance(shared, AgainstRun)
        alike = shared.overlap(one, two)
        self.reordered = both & ~self.same & (alike == 1)
        self.disjoint = both & (alike == 0)
        self.partly = both & (alike > 0) & (alike < 1)


def _moved(paired: Paired) -> tuple[Bools, Bools]:
    """Queries on which some metric that depends on hits differs, and queries on which one is defined."""
    size = len(next(iter(paired.baseline.values.values()), np.zeros(0)))
    moved, told = np.zeros(size, np.bool_), np.zeros(size, np.bool_)
    for metric in paired.baseline.metrics:
        if metric.rests_on and not isinstance(metric, AgainstRun):
            deltas = paired.deltas(metric)
            one_sided = np.isnan(paired.baseline.values[str(metric)]) != np.isnan(paired.candidate.values[str(metric)])
            told |= ~np.isnan(deltas)
            moved |= one_sided | (np.abs(np.nan_to_num(deltas)) > SAME)
    return moved, told


def _named(queries: Sequence[str], which: Bools | None) -> list[str]:
    """The first by name, so that the order of the queries changes nothing."""
    return [] if which is None else sorted(queries[i] for i in np.flatnonzero(which).tolist())[:_EXAMPLES]


def lowest(values: Floats, among: Ints, names: Sequence[str], most: int) -> list[int]:
    """Some of these places, those with the lowest values first; of equal values, by name.

    >>> lowest(np.array([0.5, 0.1, 0.5, 0.9]), np.arange(4), ["b", "c", "a", "d"], 2)
    [1, 2]
    """
    if len(among) > most > 0:  # to sort all of them by name would take longer than everything else
        among = among[values[among] <= np.partition(values[among], most - 1)[most - 1]]
    return sorted(among.tolist(), key=lambda i: (values[i], names[i]))[:most]


def _least(first: Result, queries: Sequence[str], rows: Ints, values: Floats) -> list[LeastAlike]:
    """`rows`: of the queries in the gold set."""
    found = lowest(values, np.flatnonzero(values < 1), queries, _EXAMPLES)
    return [LeastAlike(queries[i], first.gold.text(int(rows[i])), float(values[i])) for i in found]


def _segments(first: Result, scores: Scores, at: Ints, name: str, sampling: Sampling) -> list[SegmentOverlap]:
    place = np.full(len(first.rows), -1)
    place[at] = np.arange(len(at))
    found = []
    for label, members in first.groups(name):
        rows = place[members][place[members] >= 0]
        if len(rows):
            summary = summarise(scores.select(rows), sampling, {}, {})
            found.append(SegmentOverlap(name, label, len(rows), len(rows) < FEW, summary))
    return found
