"""Quantiles of a Bayesian bootstrap over many units, from its moments instead of from draws.

The weights of a Bayesian bootstrap are Dirichlet, and the moments of a mean under such weights are known exactly. Where
that mean is nearly normal, they give its quantiles (Cornish and Fisher 1937) closer than ten thousand draws would: the
error is under a hundredth of the mean's deviation, that of the draws about three hundredths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from karat.statistics.special import normal_quantile
from karat.statistics.sums import Floats

_MOST_SKEW, _MOST_KURTOSIS = 0.2, 0.1  # beyond, the next terms of the series would be missed


def mean_quantiles(values: Floats, weights: Floats, at: Sequence[float]) -> list[float] | None:
    """Of the mean of values whose shares are Dirichlet with these weights; nothing where it is too far from normal.

    >>> import numpy as np
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
    """How many deviations from the mean, where a normal distribution has z of them."""
    return z + (z**2 - 1) * skew / 6 + (z**3 - 3 * z) * kurtosis / 24 - (2 * z**3 - 5 * z) * skew**2 / 36
