"""How sure is the difference of two quantiles that were measured on the same queries."""

from __future__ import annotations

import numpy as np

from karat.statistics.resampling import blocks
from karat.statistics.sums import Floats

_RESAMPLES = 2_000  # each one ranks all queries anew, and two digits are enough for milliseconds


def quantile_difference_interval(
    before: Floats, after: Floats, at: float, tails: tuple[float, float], seed: int
) -> tuple[float, float] | None:
    """Limits of the quantile of `after` minus that of `before`: Bayesian bootstrap, the same weights for both sides."""
    if len(before) < 2:
        return None
    order = np.lexsort((after, before))  # the order of the queries must not change a digit
    rng = np.random.default_rng([seed, 2])
    drawn = []
    for size in blocks(_RESAMPLES, len(before)):
        weights = rng.standard_exponential((size, len(before)))
        drawn.append(_quantiles(after[order], weights, at) - _quantiles(before[order], weights, at))
    low, high = np.quantile(np.concatenate(drawn), tails).tolist()
    return low, high


def _quantiles(values: Floats, weights: Floats, at: float) -> Floats:
    """The weighted quantile of every row of weights."""
    by_value = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[:, by_value], axis=1)
    place = (reached < at * reached[:, -1:]).sum(axis=1)
    found: Floats = values[by_value][np.minimum(place, len(values) - 1)]
    return found
