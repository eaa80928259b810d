"""How much can a set of queries tell: the smallest difference it can find, and how many queries a wanted one needs."""

from __future__ import annotations

import math

from karat.statistics.special import normal_quantile


def detectable_difference(spread: float, units: int, level: float = 0.95, power: float = 0.8) -> float:
    """The smallest true difference that is found with chance `power`.

    `spread`: standard deviation of the paired differences.

    >>> round(detectable_difference(0.3, 200), 4)
    0.0594
    """
    return _effort(level, power) * spread / math.sqrt(units)


def units_needed(spread: float, difference: float, level: float = 0.95, power: float = 0.8) -> int:
    """How many queries find a true difference with chance `power`.

    >>> units_needed(0.3, 0.03)
    785
    """
    return max(2, math.ceil((_effort(level, power) * spread / difference) ** 2))


def _effort(level: float, power: float) -> float:
    """Standard errors between no difference and one that is found: some to be significant, some to be sure of it."""
    return normal_quantile((1 + level) / 2) + normal_quantile(power)
