"""Paired differences between two runs on the queries that both have."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.bulk import Bulk
from karat.data.ids import Bools, Floats, Ints
from karat.results.summary import FEW, Limits, Scores, farthest, mean_limits, mean_of
from karat.scoring.metrics.base import Metric
from karat.statistics.distribution import quantile_difference_interval
from karat.statistics.intervals import OPEN, Range, bounded
from karat.statistics.sampling import Sampling
from karat.statistics.sums import sum_up
from karat.statistics.tally import tally

SAME = 1e-9  # scores that differ by less differ by rounding
ROUNDING = 1e-12
_MANY = 2_000  # from this many differences on, a quick p uses the normal approximation


InAWord: TypeAlias = Literal["better", "worse", "higher", "lower", "unclear", "same", "too few", "undefined"]


class Difference(msgspec.Struct, frozen=True):
    """The difference in one metric between two runs, on the queries for which both have it."""

    metric: str
    n: int
    baseline: float | None
    candidate: float | None
    delta: float | None  # candidate − baseline
    low: float | None = None
    high: float | None = None
    p: float | None = None  # null for quantiles, which only have an interval, and if not requested
    wins: int = 0  # queries on which the candidate is better
    ties: int = 0
    losses: int = 0
    few: bool = False  # too few queries to rely on
    p_holm: float | None = None  # adjusted for all comparisons of the table: for decisions
    p_bh: float | None = None  # adjusted for all comparisons of the table: for exploration
    certain: bool = False  # beyond chance: the interval excludes 0 and p is at most 1 − level
    reading: InAWord = "undefined"  # interval and p together, in one word
    narrow: bool = False  # the interval may be too narrow: no upper end, and fewer than 100 queries or conversations

    def __repr__(self) -> str:
        if self.delta is None:
            return f"{self.metric}: undefined"
        limits = "" if self.low is None or self.high is None else f" [{self.low:+.4f}, {self.high:+.4f}]"
        p = "" if self.p is None else f", p={self.p:.2g}"
        return f"{self.metric} {self.delta:+.4f}{limits}{p}, n={self.n}: {self.reading}"


def reading_of(
    delta: float | None, direction: str, *, certain: bool, few: bool, moved: bool, quality: bool = True
) -> InAWord:
    """Sum up interval and p in one word. `quality`: whether a change is better or worse, not only higher or lower."""
    if delta is None:
        return "undefined"
    if few:
        return "too few"
    if not certain:
        return "unclear" if moved else "same"
    if not quality:
        return "higher" if delta > 0 else "lower"
    return "better" if (delta > 0) == (direction == "higher") else "worse"


class Paired(Bulk, frozen=True):
    """The scores of two runs, query by query."""

    baseline: Scores
    candidate: Scores

    def select(self, rows: Ints) -> Paired:
        return Paired(self.baseline.select(rows), self.candidate.select(rows))

    def of(self, metrics: list[Metric]) -> Paired:
        """Only these metrics."""
        return Paired(replace(self.baseline, metrics=metrics), replace(self.candidate, metrics=metrics))

    def deltas(self, metric: Metric) -> Floats:
        """Candidate − baseline, NaN where either is undefined."""
        return self.candidate.values[str(metric)] - self.baseline.values[str(metric)]

    def differences(self, sampling: Sampling, permutations: int) -> list[Difference]:
        return [self._difference(metric, sampling, permutations) for metric in self.baseline.metrics]

    def _difference(self, metric: Metric, sampling: Sampling, permutations: int) -> Difference:
        deltas = self.deltas(metric)
        there = ~np.isnan(deltas)
        better = deltas[there] if metric.direction == "higher" else -deltas[there]
        before, after = (_mean(side, metric, there) for side in (self.baseline, self.candidate))
        delta = None
        if before is not None and after is not None:
            delta = after - before if metric.aggregate is not None else mean_of(*self._moved(metric))
        low, high = self._limits(metric, sampling)
        p = self._p(metric, there, sampling.seed, permutations)
        wins, losses = int((better > SAME).sum()), int((better < -SAME).sum())
        certain = self._is_certain(metric, there, sampling, (low, high), p)
        few = len(better) < FEW
        return Difference(
            metric=str(metric),
            n=len(better),
            baseline=before,
            candidate=after,
            delta=delta,
            low=low,
            high=high,
            p=p,
            wins=wins,
            losses=losses,
            ties=int((np.abs(better) <= SAME).sum()),
            few=few,
            certain=certain,
            reading=reading_of(
                delta,
                metric.direction,
                certain=certain,
                few=few,
                moved=bool(wins or losses),
                quality=metric.is_quality,
            ),
            narrow=low is not None and bool(wins or losses) and self._is_narrow(metric, there),
        )

    def _is_narrow(self, metric: Metric, there: Bools) -> bool:
        if metric.aggregate is not None or bounded(metric.range) or bounded(self._ends(metric, there)):
            return False
        return self.baseline.units(there) < OPEN

    def _is_certain(self, metric: Metric, there: Bools, sampling: Sampling, limits: Limits, p: float | None) -> bool:
        """Whether interval and p both show a difference. A quantile has no p: its interval decides."""
        low, high = limits
        if low is None or high is None or low <= 0 <= high:
            return False
        if metric.aggregate is None and p is None:
            p = self._p(metric, there, sampling.seed, sampling.resamples, quick=True)
        return p is None or p <= 1 - sampling.level + ROUNDING

    def _p(self, metric: Metric, there: Bools, seed: int, permutations: int, *, quick: bool = False) -> float | None:
        if metric.aggregate is not None or not there.any() or not permutations:
            return None
        from karat.statistics.significance import sign_flip_p

        deltas, votes = self._moved(metric)
        weighed = deltas if votes is None else deltas * votes
        clusters = None if self.baseline.clusters is None else self.baseline.clusters[there]
        flipped = np.where(np.abs(weighed[there]) <= SAME, 0.0, weighed[there])
        return sign_flip_p(flipped, permutations, seed, clusters, normal_from=_MANY if quick else None)

    def _limits(self, metric: Metric, sampling: Sampling) -> Limits:
        if metric.aggregate is not None:
            there = ~np.isnan(self.deltas(metric))
            before, after = (side.values[str(metric)][there] for side in (self.baseline, self.candidate))
            found = quantile_difference_interval(before, after, metric.aggregate, sampling.tails, sampling.seed)
            return found or (None, None)
        deltas, votes = self._moved(metric)
        there = ~np.isnan(deltas)
        if votes is None and self.baseline.clusters is None:
            sums = tally(deltas).sums
        else:
            sums = sum_up(deltas[:, None], None if votes is None else votes[:, None], self.baseline.clusters)
        return mean_limits(sums, self._ends(metric, None if there.all() else there), sampling)

    def _ends(self, metric: Metric, there: Bools | None) -> Range:
        """The smallest and largest possible difference."""
        if self._own_votes(metric):
            return -math.inf, math.inf
        known = [side.extremes for side in (self.baseline, self.candidate) if side.extremes is not None]
        if len(known) < 2:
            span = metric.range[1] - metric.range[0]
            return -span, span
        (low, high), (other_low, other_high) = (extremes.of(metric) for extremes in known)
        span = farthest(low, np.maximum(high - other_low, other_high - low), there)[1]
        return -span, span

    def _moved(self, metric: Metric) -> tuple[Floats, Floats | None]:
        """What each query adds to the difference of the means, and its weight."""
        deltas, votes = self.deltas(metric), self.baseline.weights.get(str(metric))
        if not self._own_votes(metric):
            return deltas, votes
        there = ~np.isnan(deltas)
        before, after = (_linear(side, metric, there) for side in (self.baseline, self.candidate))
        return after - before, None

    def _own_votes(self, metric: Metric) -> bool:
        """Whether the runs have different weights, such as the number of links that each made."""
        before, after = (side.weights.get(str(metric)) for side in (self.baseline, self.candidate))
        return before is not None and after is not None and not np.array_equal(before, after)


def _mean(side: Scores, metric: Metric, there: Bools) -> float | None:
    """The mean of a metric over some queries."""
    if there.all():
        return side.mean(metric)
    name = str(metric)
    votes = {name: side.weights[name][there]} if name in side.weights else {}
    return Scores([metric], {name: side.values[name][there]}, votes).mean(metric)


def _linear(side: Scores, metric: Metric, there: Bools) -> Floats:
    """Unweighted values with the mean and the spread of the weighted mean (the delta method)."""
    values, votes = (np.where(there, column[str(metric)], np.nan) for column in (side.values, side.weights))
    mean, vote = mean_of(values, votes), mean_of(votes)
    return values if mean is None or vote is None else np.asarray(mean + votes * (values - mean) / vote)
