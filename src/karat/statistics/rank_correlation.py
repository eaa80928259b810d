"""Rank correlation with an interval: does one value rise with another."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from karat.statistics.sampling import Sampling
from karat.statistics.sums import Floats, Ints

FEWEST = 10  # pairs, below which a correlation is meaningless
_WORK = 20_000_000  # total weights drawn
_LEAST = 200  # resamples


class RankCorrelation(NamedTuple):
    """Spearman's rho; NaN where one side is constant, or there are too few pairs."""

    rho: float
    low: float
    high: float
    n: int


def rank_correlation(x: Floats, y: Floats, sampling: Sampling, unit: Ints | None = None) -> RankCorrelation:
    """Spearman's rho with middle ranks for ties, and the interval of a Bayesian bootstrap over units (queries, or the
    conversations that they belong to). Pairs in which one side is NaN are left out."""
    both = ~(np.isnan(x) | np.isnan(y))
    n, nothing = int(both.sum()), (np.nan, np.nan, np.nan)
    first, one = np.unique(x[both], return_inverse=True)
    second, other = np.unique(y[both], return_inverse=True)
    if n < FEWEST or len(first) < 2 or len(second) < 2:
        return RankCorrelation(*nothing, n)
    of = np.arange(n) if unit is None else np.unique(unit[both], return_inverse=True)[1]
    rng, resamples = np.random.default_rng([sampling.seed, 7]), max(min(sampling.resamples, _WORK // n), _LEAST)
    drawn = [_rho(one, other, rng.standard_exponential(int(of.max()) + 1)[of]) for _ in range(resamples)]
    rho = _rho(one, other, np.ones(n))
    low, high = np.nanquantile(drawn, sampling.tails)
    return RankCorrelation(rho, min(float(low), rho), max(float(high), rho), n)


def _rho(one: Ints, other: Ints, weight: Floats) -> float:
    a, b = _ranks(one, weight), _ranks(other, weight)
    total = weight.sum()
    a, b = a - (weight * a).sum() / total, b - (weight * b).sum() / total
    spread = np.sqrt((weight * a * a).sum() * (weight * b * b).sum())
    return float((weight * a * b).sum() / spread) if spread > 0 else float("nan")


def _ranks(code: Ints, weight: Floats) -> Floats:
    """The middle of the weight of each value."""
    of_value = np.bincount(code, weight)
    return np.asarray((np.cumsum(of_value) - of_value / 2)[code])
