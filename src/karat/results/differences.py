"""Paired differences: what a candidate changes on the queries that both runs have."""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.results.summary import FEW, Scores, aggregate, mean_of, number
from karat.scoring.metrics.base import Metric
from karat.statistics.intervals import mean_intervals
from karat.statistics.quantile_difference import quantile_difference_interval
from karat.statistics.sampling import Sampling
from karat.statistics.significance import sign_flip_p
from karat.statistics.sums import sum_up

SAME = 1e-9  # scores that differ by less differ by rounding


class Difference(msgspec.Struct, frozen=True):
    """One metric of two runs, on the queries on which it is defined for both."""

    metric: str
    n: int
    baseline: float | None
    candidate: float | None
    delta: float | None  # candidate − baseline
    low: float | None = None
    high: float | None = None
    p: float | None = None  # null for quantiles, which have an interval only, and where nobody asked for it
    wins: int = 0  # queries on which the candidate is better
    ties: int = 0
    losses: int = 0
    few: bool = False  # too few queries to judge by
    p_holm: float | None = None  # adjusted for all comparisons of the table: for decisions
    p_bh: float | None = None  # adjusted for all comparisons of the table: for exploration

    @property
    def certain(self) -> bool:
        """Whether the interval leaves no doubt about the sign."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, eq=False, repr=False)
class Paired:
    """The scores of two runs, query by query."""

    baseline: Scores
    candidate: Scores

    def select(self, rows: Ints) -> Paired:
        return Paired(self.baseline.select(rows), self.candidate.select(rows))

    def deltas(self, metric: Metric) -> Floats:
        """Candidate − baseline, NaN where either is undefined."""
        return self.candidate.values[str(metric)] - self.baseline.values[str(metric)]

    def differences(self, sampling: Sampling, permutations: int) -> list[Difference]:
        limits = self._limits(sampling)
        return [self._difference(m, limits[str(m)], sampling, permutations) for m in self.baseline.metrics]

    def _difference(
        self, metric: Metric, limits: tuple[float | None, float | None], sampling: Sampling, permutations: int
    ) -> Difference:
        name, deltas = str(metric), self.deltas(metric)
        there = ~np.isnan(deltas)
        better = deltas[there] if metric.direction == "higher" else -deltas[there]
        before, after = (_value(side.select(np.flatnonzero(there)), metric) for side in (self.baseline, self.candidate))
        delta = None
        if before is not None and after is not None:
            delta = after - before if metric.aggregate is not None else mean_of(*self._moved(metric))
        return Difference(
            metric=name,
            n=len(better),
            baseline=before,
            candidate=after,
            delta=delta,
            low=limits[0],
            high=limits[1],
            p=self._p(metric, there, sampling.seed, permutations),
            wins=int((better > SAME).sum()),
            losses=int((better < -SAME).sum()),
            ties=int((np.abs(better) <= SAME).sum()),
            few=len(better) < FEW,
        )

    def _p(self, metric: Metric, there: Bools, seed: int, permutations: int) -> float | None:
        if metric.aggregate is not None or not there.any() or not permutations:
            return None
        deltas, votes = self._moved(metric)
        weighed = deltas if votes is None else deltas * votes
        clusters = None if self.baseline.clusters is None else self.baseline.clusters[there]
        return sign_flip_p(np.where(np.abs(weighed[there]) <= SAME, 0.0, weighed[there]), permutations, seed, clusters)

    def _limits(self, sampling: Sampling) -> dict[str, tuple[float | None, float | None]]:
        return {
            str(metric): self._mean_limits(metric, sampling)
            if metric.aggregate is None
            else self._quantile_limits(metric, metric.aggregate, sampling)
            for metric in self.baseline.metrics
        }

    def _mean_limits(self, metric: Metric, sampling: Sampling) -> tuple[float | None, float | None]:
        deltas, votes = self._moved(metric)
        sums = sum_up(deltas[:, None], None if votes is None else votes[:, None], self.baseline.clusters)
        span = self._span(metric)
        ((low, high),) = mean_intervals(sums, [(-span, span)], sampling).tolist()
        return number(low), number(high)

    def _quantile_limits(self, metric: Metric, at: float, sampling: Sampling) -> tuple[float | None, float | None]:
        there = ~np.isnan(self.deltas(metric))
        before, after = (side.values[str(metric)][there] for side in (self.baseline, self.candidate))
        return quantile_difference_interval(before, after, at, sampling.tails, sampling.seed) or (None, None)

    def _moved(self, metric: Metric) -> tuple[Floats, Floats | None]:
        """What each query adds to the difference of the means, and how much it counts there."""
        deltas, votes = self.deltas(metric), self.baseline.weights.get(str(metric))
        if not self._own_votes(metric):
            return deltas, votes
        there = ~np.isnan(deltas)
        before, after = (_linear(side, metric, there) for side in (self.baseline, self.candidate))
        return after - before, None

    def _own_votes(self, metric: Metric) -> bool:
        """Whether each run divides by something of its own, such as the links that it made."""
        before, after = (side.weights.get(str(metric)) for side in (self.baseline, self.candidate))
        return before is not None and after is not None and not np.array_equal(before, after)

    def _span(self, metric: Metric) -> float:
        return math.inf if self._own_votes(metric) else metric.range[1] - metric.range[0]


def _linear(side: Scores, metric: Metric, there: Bools) -> Floats:
    """Values without votes whose mean is the mean by votes, and whose spread is its spread (the delta method)."""
    values, votes = (np.where(there, column[str(metric)], np.nan) for column in (side.values, side.weights))
    mean, vote = mean_of(values, votes), mean_of(votes)
    return values if mean is None or vote is None else np.asarray(mean + votes * (values - mean) / vote)


def _value(scores: Scores, metric: Metric) -> float | None:
    return aggregate(metric, scores.values[str(metric)], scores.weights.get(str(metric)))
