"""How sure is the difference of two quantiles that were measured on the same queries."""

from __future__ import annotations

import numpy as np

from karat.statistics.resampling import blocks
from karat.statistics.sums import Floats

_RESAMPLES = 2_000  # each one ranks the queries again, and two digits are enough for milliseconds
_MANY = 10_000  # queries from which on only those near a quantile are drawn one by one
_SPREAD = 7.0  # standard deviations of a quantile's place that count as near


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
    low, high = np.quantile(draw(before, after, at, rng), tails).tolist()
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


def _draw_near(before: Floats, after: Floats, at: float, rng: np.random.Generator) -> Floats:
    """The same distribution for very many queries. A sum of n exponential weights is a Gamma of n: of queries that are
    far from the quantile on both sides only these sums are drawn."""
    sides = _Side(before, at), _Side(after, at)
    near = np.flatnonzero(sides[0].near | sides[1].near)
    far = ~(sides[0].near | sides[1].near)
    groups = [(a, b, int((far & (sides[0].above == a) & (sides[1].above == b)).sum())) for a in (0, 1) for b in (0, 1)]
    drawn = []
    for size in blocks(_RESAMPLES, len(near)):
        weights = rng.standard_exponential((size, len(near)))
        sums = {(a, b): rng.standard_gamma(count, size) for a, b, count in groups}
        total = weights.sum(axis=1) + sum(sums.values())
        found = []
        for which, side in enumerate(sides):
            below = sum(amount for above, amount in sums.items() if not above[which])
            below = below + weights[:, side.place[near] < side.first].sum(axis=1)
            inside = np.flatnonzero(side.near[near])
            inside = inside[np.argsort(side.place[near[inside]])]
            reached = np.cumsum(weights[:, inside], axis=1) + below[:, None]
            place = side.first + (reached < (at * total)[:, None]).sum(axis=1)
            found.append(side.values[np.minimum(place, len(side.values) - 1)])
        drawn.append(found[1] - found[0])
    return np.concatenate(drawn)
