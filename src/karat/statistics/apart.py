"""Do two groups of different queries differ."""

from __future__ import annotations

import math

from karat.statistics.special import normal_cdf, normal_quantile


def apart_p(lower: float, lower_limit: float, higher: float, higher_limit: float, level: float = 0.95) -> float:
    """Two-sided p-value of the difference of two independent means, from their intervals (Newcombe 1998).

    `lower_limit`: the upper limit of the lower mean; `higher_limit`: the lower limit of the higher one. The sides that
    face each other say how far each mean could move towards the other.

    >>> round(apart_p(0.5, 0.6, 0.7, 0.6), 3), round(apart_p(0.5, 0.55, 0.7, 0.65), 5), apart_p(0.5, 0.6, 0.5, 0.4)
    (0.006, 0.0, 1.0)
    """
    error = math.hypot(lower_limit - lower, higher - higher_limit) / normal_quantile((1 + level) / 2)
    if error == 0:
        return 1.0 if higher <= lower else 0.0
    return 2 * (1 - normal_cdf(abs(higher - lower) / error))
