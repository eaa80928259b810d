"""The spread of values; quantiles with intervals, and the difference of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import msgspec
import numpy as np

from karat.statistics.resampling import blocks
from karat.statistics.special import binomial_cdf, normal_quantile
from karat.statistics.sums import Floats, Ints

_RESAMPLES = 2_000  # each ranks the queries again, and two digits are enough for milliseconds
_MANY = 1_000  # queries from which only those near a quantile are drawn one by one
_SPREAD = 7.0  # standard deviations of a quantile's position that count as near


class Distribution(msgspec.Struct, frozen=True):
    """The scores of one metric over the queries where it is defined."""

    q1: float
    median: float
    q3: float
    zeros: float  # share of queries
    ones: float  # share of queries


def quantiles(values: Floats, at: Sequence[float]) -> Floats:
    """One row of quantiles per requested position, along the first axis; NaN where a value is NaN.

    Equal to `np.quantile`, to the last digit, which loads a part of numpy that takes as long as a small evaluation.

    >>> quantiles(np.array([0.0, 1.0, 4.0]), (0.5, 0.75)).tolist()
    [1.0, 2.5]
    """
    ordered = np.sort(values.T)
    place = np.asarray(at) * (len(values) - 1)
    below = np.floor(place).astype(np.int64)
    part = place - below
    low, high = ordered[..., below], ordered[..., np.minimum(below + 1, len(values) - 1)]
    return np.where(np.isnan(ordered[..., -1:]), np.nan, between(low, high, part)).T


def between(low: Floats, high: Floats, part: Floats) -> Floats:
    """The values at these parts of the way from low to high, rounded as numpy does."""
    return np.where(part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part))


@cache
def rank_limits(n: int, at: float, level: float) -> tuple[int, int]:
    """How many of n values are below the limits of the quantile `at`: at least 1 and fewer than n, if there are limits.

    Valid for any distribution: the number of values below the quantile is binomial.
    """
    tail = (1 - level) / 2
    middle, far = n * at, normal_quantile(1 - tail) * (n * at * (1 - at)) ** 0.5
    low = _first(n, middle - far, lambda rank: binomial_cdf(rank, n, at) > tail)  # most ranks with only `tail` below
    high = _first(n, middle + far, lambda rank: binomial_cdf(rank, n, at) >= 1 - tail)
    return low, high


def _first(n: int, guess: float, holds: Callable[[int], bool]) -> int:
    """The smallest number from 0 to n for which a monotone condition holds. It is near `guess`."""
    low = high = min(max(round(guess), 0), n)
    step = 1
    while high < n and not holds(high):
        low, high, step = high + 1, min(high + step, n), 2 * step
    step = 1
    while low > 0 and holds(low - 1):
        low, high, step = max(low - step, 0), low - 1, 2 * step
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def quantile_difference_interval(
    before: Floats, after: Floats, at: float, tails: tuple[float, float], seed: int
) -> tuple[float, float] | None:
    """Limits of the quantile of `after` minus that of `before`: Bayesian bootstrap, the same weights for both sides."""
    if len(before) < 2:
        return None
    order = np.lexsort((after, before))  # the order of the queries must not change a digit
    before, after = before[order], after[order]
    rng = np.random.default_rng([seed, 2])
    draw = _draw_all if len(before) <= _MANY else _draw_near
    low, high = quantiles(draw(before, after, at, rng), tails).tolist()
    return low, high


def _draw_all(before: Floats, after: Floats, at: float, rng: np.random.Generator) -> Floats:
    drawn = []
    for size in blocks(_RESAMPLES, len(before)):
        weights = rng.standard_exponential((size, len(before)))
        drawn.append(_quantiles(after, weights, at) - _quantiles(before, weights, at))
    return np.concatenate(drawn)


def _quantiles(values: Floats, weights: Floats, at: float) -> Floats:
    """The weighted quantile of every row of weights."""
    by_value = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[:, by_value], axis=1)
    place = (reached < at * reached[:, -1:]).sum(axis=1)
    found: Floats = values[by_value][np.minimum(place, len(values) - 1)]
    return found


class _Side:
    """Values in order, and which of them may be the quantile of a resample."""

    def __init__(self, values: Floats, at: float) -> None:
        size = len(values)
        self.by_value = np.argsort(values, kind="stable")
        self.values = values[self.by_value]
        reach = _SPREAD * np.sqrt(size * at * (1 - at)) + 1
        self.first, self.end = max(0, int(at * size - reach)), min(size, int(at * size + reach) + 1)
        self.place = np.empty(size, np.int64)
        self.place[self.by_value] = np.arange(size)
        self.near = (self.place >= self.first) & (self.place < self.end)
        self.above = self.place >= self.end


def _columns(side: _Side, near: Ints) -> list[Ints | slice]:
    """Which weights belong to values before those that may be the quantile, and to these in order. Columns beside each
    other are a slice, which copies nothing: all of the first side are, because its values are sorted."""
    inside = np.flatnonzero(side.near[near])
    found = [np.flatnonzero(side.place[near] < side.first), inside[np.argsort(side.place[near[inside]])]]
    return [slice(c[0], c[-1] + 1) if len(c) and (np.diff(c) == 1).all() else c for c in found]


def _draw_near(before: Floats, after: Floats, at: float, rng: np.random.Generator) -> Floats:
    """The same distribution for very many queries. A sum of n exponential weights is a Gamma of n: for queries
    far from the quantile on both sides only these sums are drawn."""
    sides = _Side(before, at), _Side(after, at)
    near = np.flatnonzero(sides[0].near | sides[1].near)
    far = ~(sides[0].near | sides[1].near)
    groups = [(a, b, int((far & (sides[0].above == a) & (sides[1].above == b)).sum())) for a in (0, 1) for b in (0, 1)]
    columns = [_columns(side, near) for side in sides]
    drawn = []
    for size in blocks(_RESAMPLES, len(near)):
        weights = rng.standard_exponential((size, len(near)))
        sums = {(a, b): rng.standard_gamma(count, size) for a, b, count in groups}
        total = weights.sum(axis=1) + sum(sums.values())
        found = []
        for which, side in enumerate(sides):
            below = sum(amount for above, amount in sums.items() if not above[which])
            before_them, inside = columns[which]
            below = below + weights[:, before_them].sum(axis=1)
            reached = np.cumsum(weights[:, inside], axis=1)
            reached += below[:, None]
            place = side.first + (reached < (at * total)[:, None]).sum(axis=1)
            found.append(side.values[np.minimum(place, len(side.values) - 1)])
        drawn.append(found[1] - found[0])
    return np.concatenate(drawn)
