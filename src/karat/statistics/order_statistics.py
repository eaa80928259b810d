"""Limits of a quantile: two of the values themselves, chosen so that they enclose it often enough."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from karat.statistics.special import binomial_cdf
from karat.statistics.sums import Floats


def quantile_interval(values: Floats, at: float, level: float = 0.95) -> tuple[float, float] | None:
    """(low, high) for the quantile `at`; None where there are too few values for a limit on both sides.

    Holds whatever the distribution is: the number of values under the quantile is binomial.

    >>> quantile_interval(np.arange(35.0), 0.9), quantile_interval(np.arange(36.0), 0.9)
    (None, (28.0, 35.0))
    """
    n, tail = len(values), (1 - level) / 2
    low = _first(n, lambda rank: binomial_cdf(rank, n, at) > tail)  # most ranks under which only `tail` falls
    high = _first(n, lambda rank: binomial_cdf(rank, n, at) >= 1 - tail)
    if low < 1 or high >= n:
        return None
    ordered = np.sort(values)
    return float(ordered[low - 1]), float(ordered[high])


def _first(n: int, holds: Callable[[int], bool]) -> int:
    """The smallest number from 0 to n for which a condition holds that stays true once it is."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low
