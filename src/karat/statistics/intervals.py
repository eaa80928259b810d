"""Intervals of means, by name: `bayes` (the default), `percentile`, `bca` and `strict`.

    bayes       Bayesian bootstrap with half an observation at each end of the range; Jeffreys' interval for 0/1 scores
    percentile  the plain bootstrap; too narrow for small sets and for scores near the ends
    bca         the plain bootstrap, corrected for bias and skew
    strict      conservative: Gaffke's bound; Clopper–Pearson, never below its level, for 0/1 scores

Values without a bound (milliseconds, searches) have no end for an observation, and are often skewed. For up to 512
units, `bayes` and `strict` then cover the bootstrap-t too, which has a long side where values have a long tail. No
interval knows of rare large values that are not among the units: below `OPEN` units it may be too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import TypeAlias

import numpy as np

from karat.statistics.distribution import quantiles
from karat.statistics.draws import Draws
from karat.statistics.resampling import MANY, bayesian_sums, blocks, multinomial_weights, resampled_sums
from karat.statistics.sampling import Sampling
from karat.statistics.special import beta_quantile, normal_cdf, normal_quantile
from karat.statistics.sums import Floats, Sums

Range: TypeAlias = tuple[float, float]
OPEN = 100  # units from which on the interval of a mean without an upper end has its level in simulations

# Above this many distinct units the limit theorem applies.
_LARGE = 50_000
_FEW_ALIKE = 20
# Limits have sampling noise in the third digit; later digits would only differ between machines.
_DIGITS = 6
_MOST_SKEW, _MOST_KURTOSIS = 0.2, 0.1  # of a nearly normal mean; beyond, higher terms would be needed


def mean_intervals(sums: Sums, ranges: list[Range], sampling: Sampling) -> Floats:
    """(low, high) of every column; NaN where unknown.

    Each column is drawn separately, from the same seed: other columns do not change its digits.
    """
    return np.concatenate([_interval(sums.column(j), ends, sampling) for j, ends in enumerate(ranges)])


def _interval(sums: Sums, ends: Range, sampling: Sampling) -> Floats:
    if sums.units > MANY:
        return _new_interval(sums, ends, sampling)
    return _kept_interval(sums.counts.tobytes(), sums.above.tobytes(), sums.below.tobytes(), ends, sampling)


@lru_cache(maxsize=2048)
def _kept_interval(counts: bytes, above: bytes, below: bytes, ends: Range, sampling: Sampling) -> Floats:
    """The same scores are asked for again: by a segment with all queries, and by every page of a dashboard."""
    columns = (np.frombuffer(part).copy()[:, None] for part in (above, below))
    return _new_interval(Sums(np.frombuffer(counts, np.int64).copy(), *columns), ends, sampling)


def _new_interval(sums: Sums, ends: Range, sampling: Sampling) -> Floats:
    if not int(sums.defined[0]) or (not bounded(ends) and _unknown_spread(sums, ends)):
        return np.full((1, 2), np.nan)
    ends = _alike(sums, ends)
    limits = _normal_limits if len(sums.counts) > _LARGE else METHODS[sampling.method]
    return _rounded(limits(sums, np.array([ends]), sampling), ends)


def _alike(sums: Sums, ends: Range) -> Range:
    """The ends for differences that are all equal: no change, and twice the change. So a delay of 10 ms on each of 30
    queries has a width; where nothing changed, there is none."""
    if math.isfinite(ends[0]) or math.isfinite(ends[1]):
        return ends
    values = sums.above[:, 0] / np.where(sums.below[:, 0], sums.below[:, 0], np.nan)
    same = float(np.nanmax(values))
    return (min(0.0, 2 * same), max(0.0, 2 * same)) if same and np.nanmin(values) == same else ends


def _unknown_spread(sums: Sums, ends: Range) -> bool:
    """Whether equal values without ends say nothing about how far others may be.

    Differences (no end on either side) of many queries are another matter: see `_alike`.
    """
    same = np.ptp(sums.above[:, 0] / np.where(sums.below[:, 0], sums.below[:, 0], np.nan)) == 0
    few = sums.units < _FEW_ALIKE or math.isfinite(ends[0]) or math.isfinite(ends[1])
    return bool(same) and few


def _rounded(limits: Floats, ends: Range) -> Floats:
    """Round limits. Values without a bound may be tiny (dollars per query): for them, significant digits count."""
    largest = np.abs(limits).max()
    tiny = not bounded(ends) and 0 < largest < 1
    digits = _DIGITS - 1 - math.floor(math.log10(largest)) if tiny else _DIGITS
    return np.round(limits, digits) + 0.0  # never −0.0


def bounded(ends: Range) -> bool:
    """Whether a value has both ends.

    >>> bounded((0.0, 1.0)), bounded((0.0, math.inf))
    (True, False)
    """
    return math.isfinite(ends[0]) and math.isfinite(ends[1])


def _bayes(sums: Sums, bounds: Floats, sampling: Sampling) -> Floats:
    if (shares := _closed_form(sums, bounds, sampling, 0.5)) is not None:
        return shares
    limits = _from_moments(sums, bounds, [(at, 0.5, 0.5) for at in sampling.tails])
    if limits is None:
        ends = _half_observations(sampling.seed, sampling.resamples)
        limits = _with_ends(sums, bounds, sampling, ends, ends)
    # Where all scores are equal and near or at an end, the half observation there is too rare to reach them.
    limits = np.column_stack([np.minimum(limits[:, 0], sums.estimate), np.maximum(limits[:, 1], sums.estimate)])
    return _with_tail(limits, sums, bounds, sampling)


@lru_cache(maxsize=4)
def _half_observations(seed: int, resamples: int) -> tuple[Floats, Floats]:
    """Weights at the lower and at the upper end; the same for every column."""
    both = np.empty((2, resamples))
    Draws([seed, 1]).gamma(0.5, both)
    return both[0], both[1]


def _strict(sums: Sums, bounds: Floats, sampling: Sampling) -> Floats:
    """A whole observation at the far end, each limit separately (Gaffke 2005)."""
    if (shares := _closed_form(sums, bounds, sampling, 0.0)) is not None:
        return shares
    below, above = sampling.tails
    if (limits := _from_moments(sums, bounds, [(below, 1.0, 0.0), (above, 0.0, 1.0)])) is not None:
        return limits
    extra, none = np.empty(sampling.resamples), np.zeros(sampling.resamples)
    Draws([sampling.seed, 1]).exponential(extra)
    return _with_tail(_with_ends(sums, bounds, sampling, (extra, none), (none, extra)), sums, bounds, sampling)


def _from_moments(sums: Sums, bounds: Floats, wanted: list[tuple[float, float, float]]) -> Floats | None:
    """Limits of many single queries whose mean is nearly normal; nothing for others, which are drawn.

    `wanted`: for each limit, its position and the weight of an observation at the lower and at the upper end.
    """
    if sums.units <= MANY or not sums.single.all():
        return None
    within = np.isfinite(bounds).all()
    values = np.append(sums.above[:, 0], bounds[0] if within else [0.0, 0.0])
    limits: list[float] = []
    for ends, same in groupby(wanted, lambda limit: limit[1:]):
        weights = np.append(sums.counts, ends if within else (0.0, 0.0))
        found = mean_quantiles(values, weights, [at for at, *_ in same])
        if found is None:
            return None
        limits += found
    return np.array([limits])


def _with_ends(
    sums: Sums, bounds: Floats, sampling: Sampling, for_low: tuple[Floats, Floats], for_high: tuple[Floats, Floats]
) -> Floats:
    """Limits of the Bayesian bootstrap with observations of random weight at both ends of the range."""
    above, below = bayesian_sums(sums, sampling.seed, sampling.resamples)
    # No end, no observation there; otherwise it has the average weight of a unit.
    size = np.where(np.isfinite(bounds).all(axis=1), sums.usual, 0.0)
    ends = np.where(np.isfinite(bounds), bounds, 0.0)

    def means(extra: tuple[Floats, Floats]) -> Floats:
        low, high = extra
        more = np.outer(low, size * ends[:, 0]) + np.outer(high, size * ends[:, 1])
        return np.asarray((above + more) / (below + np.outer(low + high, size)))

    if for_low is for_high:
        return quantiles(means(for_low), sampling.tails).T
    below_it, above_it = sampling.tails
    return np.concatenate([quantiles(means(for_low), [below_it]), quantiles(means(for_high), [above_it])]).T


def _closed_form(sums: Sums, bounds: Floats, sampling: Sampling, prior: float) -> Floats | None:
    """For single queries at one of the two ends the posterior is a Beta, and no draws are needed.

    `prior`: weight of an observation at both ends; 0: a whole one at the far end of each limit.
    """
    (low, high), values = bounds[0], sums.above[:, 0]
    if not sums.single.all() or not np.isfinite(bounds).all() or not ((values == low) | (values == high)).all():
        return None
    n, ones = sums.units, int(sums.counts[values == high].sum())
    below, above = sampling.tails
    shares = (
        0.0 if ones == 0 else beta_quantile(below, ones + prior, n - ones + (prior or 1)),
        1.0 if ones == n else beta_quantile(above, ones + (prior or 1), n - ones + prior),
    )
    return np.array([[low + (high - low) * share for share in shares]])


def _with_tail(limits: Floats, sums: Sums, bounds: Floats, sampling: Sampling) -> Floats:
    """Limits of values without a bound, as wide as those of the bootstrap-t at least: each resample is measured in its
    own standard error, so that a sample with a long tail has a long side. Not for many units."""
    if np.isfinite(bounds).all() or sums.units > MANY:
        return limits
    above, below, estimate = sums.above[:, 0], sums.below[:, 0], float(sums.estimate[0])
    table = np.column_stack([above, below, above**2, above * below, below**2])
    draw = multinomial_weights(sums, sampling.seed)
    drawn = np.concatenate([draw(size) @ table for size in blocks(sampling.resamples, *table.shape)])
    with np.errstate(invalid="ignore", divide="ignore"):
        means = drawn[:, 0] / drawn[:, 1]
        rest = drawn[:, 2] - 2 * means * drawn[:, 3] + means**2 * drawn[:, 4]
        errors = np.sqrt(np.maximum(rest, 0.0)) / drawn[:, 1]
    own = float(np.sqrt(sums.counts @ (above - estimate * below) ** 2) / (sums.counts @ below))
    spread = errors > 1e-6 * own
    if own == 0.0 or 2 * spread.sum() < len(spread):
        return limits
    low, high = quantiles((means[spread] - estimate) / errors[spread], sampling.tails).tolist()
    found = np.clip([estimate - high * own, estimate - low * own], *bounds[0])
    return np.array([[min(limits[0, 0], found[0]), max(limits[0, 1], found[1])]])


def _percentile(sums: Sums, bounds: Floats, sampling: Sampling) -> Floats:
    return quantiles(_bootstrap(sums, sampling), sampling.tails).T


def _bca(sums: Sums, bounds: Floats, sampling: Sampling) -> Floats:
    """Efron 1987: the percentiles are adjusted for bias and skew, as estimated by the jackknife."""
    means, estimate = _bootstrap(sums, sampling), sums.estimate
    limits = np.column_stack([estimate, estimate])
    for j, skew in enumerate(_acceleration(sums).tolist()):
        column = means[:, j]
        if column.min() == column.max():
            continue
        away = column - estimate[j]
        same = np.abs(away) <= 1e-12 * np.abs(column).max()  # up to rounding, which must not change a digit
        share = float(np.mean((away < 0) & ~same) + np.mean(same) / 2)
        bias = normal_quantile(min(max(share, 1e-9), 1 - 1e-9))
        for side, at in enumerate(sampling.tails):
            z = bias + normal_quantile(at)
            [limits[j, side]] = quantiles(column, [normal_cdf(bias + z / (1 - skew * z))])
    return limits


def _bootstrap(sums: Sums, sampling: Sampling) -> Floats:
    above, below = resampled_sums(sums, multinomial_weights(sums, sampling.seed), sampling.resamples)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = above / below
    return np.where(np.isnan(means), sums.estimate, means)  # a sample without any defined query adds nothing


def _acceleration(sums: Sums) -> Floats:
    """Skew of the estimates that leave out one unit each."""
    with np.errstate(invalid="ignore", divide="ignore"):
        left_out = (sums.counts @ sums.above - sums.above) / (sums.counts @ sums.below - sums.below)
    left_out = np.where(np.isfinite(left_out), left_out, sums.estimate)
    away = (sums.counts @ left_out) / sums.units - left_out
    spread = 6 * (sums.counts @ away**2) ** 1.5
    return np.asarray((sums.counts @ away**3) / np.where(spread > 0, spread, 1.0))


def _normal_limits(sums: Sums, bounds: Floats, sampling: Sampling) -> Floats:
    """Variance of a ratio of sums over very many units, where the bootstrap gives the same, slowly."""
    estimate, total = sums.estimate, sums.counts @ sums.below
    away = sums.above - estimate * sums.below
    error = np.sqrt(sums.counts @ away**2) / total
    z = normal_quantile(sampling.tails[1])
    low, high = estimate - z * error, estimate + z * error
    with np.errstate(invalid="ignore", divide="ignore"):
        values = sums.above / sums.below
    return np.column_stack([np.maximum(low, np.nanmin(values, axis=0)), np.minimum(high, np.nanmax(values, axis=0))])


METHODS: dict[str, Callable[[Sums, Floats, Sampling], Floats]] = {
    "bayes": _bayes,
    "percentile": _percentile,
    "bca": _bca,
    "strict": _strict,
}


def mean_quantiles(values: Floats, weights: Floats, at: Sequence[float]) -> list[float] | None:
    """Quantiles of the mean of values with Dirichlet shares of these weights; nothing where it is too far from normal.

    The weights of a Bayesian bootstrap over many units are like this. The moments of such a mean are known: where it is
    nearly normal, they give its quantiles (Cornish and Fisher 1937) more exactly than ten thousand draws: the error is
    below a hundredth of the mean's deviation, that of the draws about three hundredths.

    >>> mean_quantiles(np.array([0.0, 1.0]), np.array([1000.0, 1000.0]), [0.5])
    [0.5]
    """
    total = float(weights.sum())
    mean = float(weights @ values) / total
    second, third, fourth = (float(weights @ (values - mean) ** k) / total for k in (2, 3, 4))
    variance = second / (total + 1)
    if variance == 0:
        return [mean] * len(at)
    skew = 2 * third / ((total + 1) * (total + 2)) / variance**1.5
    kurtosis = 3 * (total * second**2 + 2 * fourth) / ((total + 1) * (total + 2) * (total + 3)) / variance**2 - 3
    if abs(skew) > _MOST_SKEW or abs(kurtosis) > _MOST_KURTOSIS:
        return None
    return [mean + math.sqrt(variance) * _deviation(normal_quantile(p), skew, kurtosis) for p in at]


def _deviation(z: float, skew: float, kurtosis: float) -> float:
    """The number of deviations from the mean, where a normal distribution has z of them."""
    return z + (z**2 - 1) * skew / 6 + (z**3 - 3 * z) * kurtosis / 24 - (2 * z**3 - 5 * z) * skew**2 / 36
