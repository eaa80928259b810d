"""How values are spread; quantiles with intervals, and the difference of two."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from karat.statistics.special import binomial_cdf
from karat.statistics.sums import Floats

_RESAMPLES = 2_000  # each one ranks all queries anew, and two digits are enough for milliseconds


class Distribution(msgspec.Struct, frozen=True):
    """Of the scores of one metric over the queries on which it is defined."""

    q1: float
    median: float
    q3: float
    zeros: float  # share of queries
    ones: float  # share of queries


def describe(values: Floats) -> Distribution | None:
    """None where nothing is defined.

    >>> describe(np.array([0.0, 0.5, 1.0, 1.0]))
    Distribution(q1=0.375, median=0.75, q3=1.0, zeros=0.25, ones=0.5)
    """
    if not len(values):
        return None
    q1, median, q3 = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return Distribution(q1, median, q3, float(np.mean(values == 0)), float(np.mean(values == 1)))


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
