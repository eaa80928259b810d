"""Summarise scores: one row per metric, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.bulk import Bulk
from karat.data.ids import Bools, Floats, Ints
from karat.scoring.ceilings import Bounds, Extremes
from karat.scoring.doubts import MOST_MISSING
from karat.scoring.metrics.base import Metric
from karat.statistics.distribution import Distribution
from karat.statistics.intervals import OPEN, Range, bounded, mean_intervals
from karat.statistics.sampling import Sampling
from karat.statistics.sums import Sums, sum_up
from karat.statistics.tally import Tallies, Tally, tally

Limits: TypeAlias = tuple[float | None, float | None]  # null: too few queries
FEW = 20  # with fewer queries a number is shown, but marked as too few to rely on


def is_outage(audit: Audit, queries: int) -> bool:
    """Whether so many queries are missing or failed that scores say little about the retriever."""
    lost = audit["missing_queries"] + audit["failed_queries"]
    return lost > MOST_MISSING * max(queries - audit["no_answer_queries"], 1)


class SummaryRow(msgspec.Struct, frozen=True):
    """One metric over all queries. `mean` is the metric's own aggregate: the mean, or a quantile of latency."""

    metric: str
    n: int  # queries on which it is defined
    undefined: int
    mean: float | None
    low: float | None = None  # null: too few queries
    high: float | None = None
    ceiling: float | None = None  # what a perfect ranking of the gold would reach
    floor: float | None = None  # what a random ranking of the corpus would reach
    few: bool = False  # too few queries to rely on
    narrow: bool = False  # the interval may be too narrow: no upper end, and fewer than 100 queries or conversations
    distribution: Distribution | None = None

    def __repr__(self) -> str:
        if self.mean is None:
            return f"{self.metric}: undefined"
        limits = "" if self.low is None or self.high is None else f" [{self.low:.4f}, {self.high:.4f}]"
        return f"{self.metric} {self.mean:.4f}{limits}, n={self.n}"


class SegmentRow(msgspec.Struct, frozen=True):
    """One group of queries, with all metrics over it."""

    segment: str  # the attribute, such as language
    value: str
    queries: int
    few: bool  # too few queries to rely on
    summary: list[SummaryRow]


class Scores(Bulk, frozen=True):
    """Values of several metrics on the same queries, with everything their means depend on."""

    metrics: list[Metric]
    values: dict[str, Floats]  # one value per query, NaN where undefined
    weights: dict[str, Floats] = {}  # votes of each query, if not all have one
    clusters: Ints | None = None  # queries with the same number belong together
    extremes: Extremes | None = None  # lowest and highest possible value per query; None: the metric's range
    tallies: Tallies = {}  # of columns that were counted

    def tally(self, metric: Metric) -> Tally:
        """The values of a metric, counted once."""
        return self.counted(self.values[str(metric)])

    def counted(self, column: Floats) -> Tally:
        known = self.tallies.get(id(column))
        if known is None:
            self.tallies[id(column)] = known = column, tally(column)
        return known[1]

    def select(self, rows: Ints) -> Scores:
        if len(rows) == len(next(iter(self.values.values()), ())) and (rows == np.arange(len(rows))).all():
            return self
        return Scores(
            self.metrics,
            {name: values[rows] for name, values in self.values.items()},
            {name: votes[rows] for name, votes in self.weights.items()},
            None if self.clusters is None else self.clusters[rows],
            None if self.extremes is None else self.extremes.select(rows),
        )

    def ends(self, metric: Metric) -> Range:
        """The range that the interval of the mean must stay in."""
        if self.extremes is None:
            return metric.range
        values = self.values[str(metric)]
        return farthest(*self.extremes.of(metric), None if self.tally(metric).n == len(values) else ~np.isnan(values))

    def is_narrow(self, metric: Metric) -> bool:
        """Whether the interval of a mean may be too narrow: rare large values may be missing from few queries."""
        if metric.aggregate is not None or bounded(metric.range) or bounded(self.ends(metric)):
            return False
        return self.units(~np.isnan(self.values[str(metric)])) < OPEN

    def units(self, rows: Bools) -> int:
        """How many of these queries are resampled, or conversations."""
        return int(rows.sum()) if self.clusters is None else len(np.unique(self.clusters[rows]))

    def sums(self, names: Sequence[str]) -> Sums:
        """The given columns, summed over the units that are resampled."""
        values = np.column_stack([self.values[name] for name in names])
        if not any(name in self.weights for name in names):
            return sum_up(values, None, self.clusters)
        ones = np.ones(len(values))
        return sum_up(values, np.column_stack([self.weights.get(name, ones) for name in names]), self.clusters)

    def mean(self, metric: Metric) -> float | None:
        """The metric's aggregate: its mean, or a quantile for some metrics. None if it is undefined for every query."""
        votes = self.weights.get(str(metric))
        if metric.aggregate is None and votes is not None:
            return mean_of(self.values[str(metric)], votes)
        found = self.tally(metric)
        if metric.aggregate is None:
            return found.mean
        return found.quantiles([metric.aggregate])[0] if found.n else None


def summarise(scores: Scores, sampling: Sampling, ceilings: Bounds, floors: Bounds) -> list[SummaryRow]:
    return [summary_row(metric, scores, sampling, ceilings, floors) for metric in scores.metrics]


def intervals(scores: Scores, sampling: Sampling) -> dict[str, Limits]:
    """(low, high) of every metric."""
    return {str(metric): _limits(scores, metric, sampling) for metric in scores.metrics}


def _limits(scores: Scores, metric: Metric, sampling: Sampling) -> Limits:
    if metric.aggregate is not None:
        return scores.tally(metric).quantile_interval(metric.aggregate, sampling.level) or (None, None)
    plain = scores.clusters is None and str(metric) not in scores.weights
    sums = scores.tally(metric).sums if plain else scores.sums([str(metric)])
    return mean_limits(sums, scores.ends(metric), sampling.strict if metric.exact else sampling)


def farthest(low: Floats, high: Floats, defined: Bools | None) -> Range:
    """The range of a mean over queries with ranges of their own. `defined`: which of them count; None: all.

    It uses the farthest ends: with those of a typical query, intervals would be too narrow where the ends differ
    (docs/decisions/030-ends-of-intervals.md).
    """
    low, high = (low, high) if defined is None else (low[defined], high[defined])
    return float(low.min(initial=np.inf)), float(high.max(initial=-np.inf))


def mean_limits(sums: Sums, ends: Range, sampling: Sampling) -> Limits:
    ((low, high),) = mean_intervals(sums, [ends], sampling).tolist()
    return number(low), number(high)


def mean_row(
    name: str, values: Floats, clusters: Ints | None, sampling: Sampling, ends: Range = (0.0, 1.0)
) -> SummaryRow:
    """The mean of a column (NaN: undefined) with its interval. For zeros and ones, it is the share of queries."""
    found = tally(values)
    sums = found.sums if clusters is None else sum_up(values[:, None], None, clusters)
    limits = mean_limits(sums, ends, sampling)
    return SummaryRow(name, found.n, len(values) - found.n, found.mean, *limits, few=found.n < FEW)


def summary_row(metric: Metric, scores: Scores, sampling: Sampling, ceilings: Bounds, floors: Bounds) -> SummaryRow:
    name, found, (low, high) = str(metric), scores.tally(metric), _limits(scores, metric, sampling)
    return SummaryRow(
        metric=name,
        n=found.n,
        undefined=found.size - found.n,
        mean=scores.mean(metric),
        low=low,
        high=high,
        ceiling=_mean_beside(scores, name, ceilings[name]) if name in ceilings else None,
        floor=_mean_beside(scores, name, floors[name]) if name in floors else None,
        few=found.n < FEW,
        narrow=low is not None and scores.is_narrow(metric),
        distribution=found.describe(),
    )


def mean_of(values: Floats, votes: Floats | None = None) -> float | None:
    """The exactly rounded mean, so that neither the order of the queries nor the slicing changes a digit."""
    if votes is None:
        return tally(values).mean
    defined = ~np.isnan(values)
    if not defined.any():
        return None
    total = math.fsum(votes[defined].tolist())
    return math.fsum((values[defined] * votes[defined]).tolist()) / total if total else None


def _mean_beside(scores: Scores, name: str, bounds: Floats) -> float | None:
    """Mean of a bound; None if a query for which the metric is defined has no bound."""
    found = scores.counted(bounds)
    if found.n < len(bounds) and (np.isnan(bounds) & ~np.isnan(scores.values[name])).any():
        return None
    votes = scores.weights.get(name)
    return found.mean if votes is None else mean_of(bounds, votes)


def number(value: float) -> float | None:
    """None for NaN, which JSON cannot express."""
    return None if value != value else value


def nullable(values: Floats) -> list[float | None]:
    """None for NaN."""
    return [None if v != v else v for v in values.tolist()]  # only NaN differs from itself
