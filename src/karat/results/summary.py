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
from karat.statistics.distribution import Distribution, describe, quantile_interval, quantiles
from karat.statistics.intervals import Range, mean_intervals
from karat.statistics.sampling import Sampling
from karat.statistics.sums import Sums, sum_up

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
    distribution: Distribution | None = None

    def __repr__(self) -> str:
        if self.mean is None:
            return f"{self.metric}: undefined"
        limits = "" if self.low is None or self.high is None else f" [{self.low:.4f}, {self.high:.4f}]"
        return f"{self.metric} {self.mean:.4f}{limits}, n={self.n}"


class Scores(Bulk, frozen=True):
    """Values of several metrics on the same queries, with everything their means depend on."""

    metrics: list[Metric]
    values: dict[str, Floats]  # one value per query, NaN where undefined
    weights: dict[str, Floats] = {}  # votes of each query, if not all have one
    clusters: Ints | None = None  # queries with the same number belong together
    extremes: Extremes | None = None  # lowest and highest possible value per query; None: the metric's range

    def select(self, rows: Ints) -> Scores:
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
        return farthest(*self.extremes.of(metric), ~np.isnan(self.values[str(metric)]))

    def sums(self, names: Sequence[str]) -> Sums:
        """The given columns, summed over the units that are resampled."""
        values = np.column_stack([self.values[name] for name in names])
        if not any(name in self.weights for name in names):
            return sum_up(values, None, self.clusters)
        ones = np.ones(len(values))
        return sum_up(values, np.column_stack([self.weights.get(name, ones) for name in names]), self.clusters)

    def mean(self, metric: Metric) -> float | None:
        """The metric's aggregate: its mean, or a quantile for some metrics. None if it is undefined for every query."""
        values = self.values[str(metric)]
        if metric.aggregate is None:
            return mean_of(values, self.weights.get(str(metric)))
        defined = values[~np.isnan(values)]
        return float(quantiles(defined, [metric.aggregate])[0]) if len(defined) else None


def summarise(scores: Scores, sampling: Sampling, ceilings: Bounds, floors: Bounds) -> list[SummaryRow]:
    limits = intervals(scores, sampling)
    return [_row(m, scores, limits[str(m)], ceilings, floors) for m in scores.metrics]


def intervals(scores: Scores, sampling: Sampling) -> dict[str, Limits]:
    """(low, high) of every metric."""
    return {str(metric): _limits(scores, metric, sampling) for metric in scores.metrics}


def _limits(scores: Scores, metric: Metric, sampling: Sampling) -> Limits:
    if metric.aggregate is not None:
        values = scores.values[str(metric)]
        return quantile_interval(values[~np.isnan(values)], metric.aggregate, sampling.level) or (None, None)
    return mean_limits(scores.sums([str(metric)]), scores.ends(metric), sampling.strict if metric.exact else sampling)


def farthest(low: Floats, high: Floats, defined: Bools) -> Range:
    """The range of a mean over queries with ranges of their own.

    It uses the farthest ends: with those of a typical query, intervals would be too narrow where the ends differ
    (docs/decisions/030-ends-of-intervals.md).
    """
    return float(low[defined].min(initial=np.inf)), float(high[defined].max(initial=-np.inf))


def mean_limits(sums: Sums, ends: Range, sampling: Sampling) -> Limits:
    ((low, high),) = mean_intervals(sums, [ends], sampling).tolist()
    return number(low), number(high)


def mean_row(
    name: str, values: Floats, clusters: Ints | None, sampling: Sampling, ends: Range = (0.0, 1.0)
) -> SummaryRow:
    """The mean of a column (NaN: undefined) with its interval. For zeros and ones, it is the share of queries."""
    n = int((~np.isnan(values)).sum())
    limits = mean_limits(sum_up(values[:, None], None, clusters), ends, sampling)
    return SummaryRow(name, n, len(values) - n, mean_of(values), *limits, few=n < FEW)


def _row(metric: Metric, scores: Scores, limits: Limits, ceilings: Bounds, floors: Bounds) -> SummaryRow:
    name = str(metric)
    values, votes = scores.values[name], scores.weights.get(name)
    defined = values[~np.isnan(values)]
    return SummaryRow(
        metric=name,
        n=len(defined),
        undefined=len(values) - len(defined),
        mean=scores.mean(metric),
        low=limits[0],
        high=limits[1],
        ceiling=_mean_beside(values, ceilings[name], votes) if name in ceilings else None,
        floor=_mean_beside(values, floors[name], votes) if name in floors else None,
        few=len(defined) < FEW,
        distribution=describe(defined),
    )


def mean_of(values: Floats, votes: Floats | None = None) -> float | None:
    """The exactly rounded mean, so that neither the order of the queries nor the slicing changes a digit."""
    defined = ~np.isnan(values)
    if not defined.any():
        return None
    if votes is None:
        return _exact_sum(values[defined]) / int(defined.sum())
    total = math.fsum(votes[defined].tolist())
    return math.fsum((values[defined] * votes[defined]).tolist()) / total if total else None


def _exact_sum(values: Floats) -> float:
    """Like math.fsum. Numbers from 0 to 1, if not tiny, are added as multiples of 2^-63, without rounding."""
    if values.min() >= 0 and values.max() <= 1:
        scaled = values * 2.0**63
        if (scaled == np.floor(scaled)).all():
            units = scaled.astype(np.uint64)
            high, low = units >> np.uint64(32), units & np.uint64(2**32 - 1)  # neither sum can overflow
            return ((int(high.sum()) << 32) + int(low.sum())) / 2**63  # division of whole numbers rounds once
    return math.fsum(values.tolist())


def _mean_beside(values: Floats, bounds: Floats, votes: Floats | None) -> float | None:
    """Mean of a bound; None if a query for which the metric is defined has no bound."""
    defined = ~np.isnan(values)
    if np.isnan(bounds[defined]).any():
        return None
    return mean_of(bounds, votes)


def number(value: float) -> float | None:
    """None for NaN, which JSON cannot express."""
    return None if value != value else value


def nullable(values: Floats) -> list[float | None]:
    """None for NaN."""
    return [None if v != v else v for v in values.tolist()]  # only NaN differs from itself
