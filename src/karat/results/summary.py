"""SCORES → SUMMARY: one row a metric, with how sure it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.ceilings import Bounds
from karat.scoring.metrics.base import Metric
from karat.statistics.distribution import Distribution, describe, quantile_interval
from karat.statistics.intervals import mean_intervals
from karat.statistics.sampling import Sampling
from karat.statistics.sums import Sums, sum_up

FEW = 20  # under so many queries a number is shown, and said to be too little to judge by


class SummaryRow(msgspec.Struct, frozen=True):
    """One metric over all queries. `mean` is the metric's own aggregate: the mean, or a quantile of latency."""

    metric: str
    n: int  # queries on which it is defined
    undefined: int
    mean: float | None
    low: float | None = None  # null where there are too few queries to say
    high: float | None = None
    ceiling: float | None = None  # what a perfect ranking of the gold would reach
    floor: float | None = None  # what a random ranking of the corpus would reach
    few: bool = False  # too few queries to judge by
    distribution: Distribution | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """Values of several metrics on the same queries, with what else their means depend on."""

    metrics: list[Metric]
    values: dict[str, Floats]  # one value a query, NaN where undefined
    weights: dict[str, Floats] = field(default_factory=dict)  # votes of each query, where not all have one
    clusters: Ints | None = None  # queries with the same number belong together

    def select(self, rows: Ints) -> Scores:
        return Scores(
            self.metrics,
            {name: values[rows] for name, values in self.values.items()},
            {name: votes[rows] for name, votes in self.weights.items()},
            None if self.clusters is None else self.clusters[rows],
        )

    def sums(self, names: Sequence[str]) -> Sums:
        """The given columns as sums over what is resampled."""
        values = np.column_stack([self.values[name] for name in names])
        if not any(name in self.weights for name in names):
            return sum_up(values, None, self.clusters)
        ones = np.ones(len(values))
        return sum_up(values, np.column_stack([self.weights.get(name, ones) for name in names]), self.clusters)

    def mean(self, metric: Metric) -> float | None:
        return aggregate(metric, self.values[str(metric)], self.weights.get(str(metric)))


def summarise(scores: Scores, sampling: Sampling, ceilings: Bounds, floors: Bounds) -> list[SummaryRow]:
    limits = intervals(scores, sampling)
    return [_row(m, scores, limits[str(m)], ceilings, floors) for m in scores.metrics]


def intervals(scores: Scores, sampling: Sampling) -> dict[str, tuple[float | None, float | None]]:
    """(low, high) of every metric."""
    return {str(metric): _limits(scores, metric, sampling) for metric in scores.metrics}


def _limits(scores: Scores, metric: Metric, sampling: Sampling) -> tuple[float | None, float | None]:
    if metric.aggregate is not None:
        values = scores.values[str(metric)]
        return quantile_interval(values[~np.isnan(values)], metric.aggregate, sampling.level) or (None, None)
    ((low, high),) = mean_intervals(scores.sums([str(metric)]), [metric.range], sampling).tolist()
    return number(low), number(high)


def _row(
    metric: Metric,
    scores: Scores,
    limits: tuple[float | None, float | None],
    ceilings: Bounds,
    floors: Bounds,
) -> SummaryRow:
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


def aggregate(metric: Metric, values: Floats, votes: Floats | None = None) -> float | None:
    """The one number that stands for a metric; None where it is defined on no query."""
    defined = ~np.isnan(values)
    if metric.aggregate is None or not defined.any():
        return mean_of(values, votes)
    return float(np.quantile(values[defined], metric.aggregate))


def mean_of(values: Floats, votes: Floats | None = None) -> float | None:
    """Exactly rounded, so that neither the order of the queries nor the slicing changes a digit."""
    defined = ~np.isnan(values)
    if not defined.any():
        return None
    if votes is None:
        return _exact_sum(values[defined]) / int(defined.sum())
    total = math.fsum(votes[defined].tolist())
    return math.fsum((values[defined] * votes[defined]).tolist()) / total if total else None


def _exact_sum(values: Floats) -> float:
    """As math.fsum. Numbers from 0 to 1, if not tiny, are added as whole multiples of 2^-63, which rounds nothing."""
    if values.min() >= 0 and values.max() <= 1:
        scaled = values * 2.0**63
        if (scaled == np.floor(scaled)).all():
            units = scaled.astype(np.uint64)
            high, low = units >> np.uint64(32), units & np.uint64(2**32 - 1)  # neither sum can overflow
            return ((int(high.sum()) << 32) + int(low.sum())) / 2**63  # division of whole numbers rounds once
    return math.fsum(values.tolist())


def _mean_beside(values: Floats, bounds: Floats, votes: Floats | None) -> float | None:
    """Mean of a bound; None where a query on which the metric is defined has no bound."""
    defined = ~np.isnan(values)
    if np.isnan(bounds[defined]).any():
        return None
    return mean_of(bounds, votes)


def number(value: float) -> float | None:
    """None for NaN, which JSON has no word for."""
    return None if value != value else value
