"""The few special functions that intervals need, to avoid a scientific library."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

_TINY = 1e-300
_EXACT = 1e-15


def beta_cdf(x: float, a: float, b: float) -> float:
    """Regularised incomplete beta function: the probability that a Beta(a, b) value is at most x.

    >>> round(beta_cdf(0.5, 2, 2), 12), round(beta_cdf(0.25, 1, 1), 12)
    (0.5, 0.25)
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction only converges fast on the other side
        return 1 - _lower_beta(1 - x, b, a)
    return _lower_beta(x, a, b)


def _lower_beta(x: float, a: float, b: float) -> float:
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return math.exp(log_front) / (a * _beta_fraction(x, a, b))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Continued fraction of the incomplete beta function (DLMF 8.17.22), by Lentz's method."""
    value = numerator = 1.0
    denominator = 0.0
    for i in range(1, 100_000):
        m = i // 2
        if i % 2:
            step = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            step = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator, numerator = 1 + step * denominator, 1 + step / numerator
        if -_TINY <= denominator <= _TINY:
            denominator = _TINY
        if -_TINY <= numerator <= _TINY:
            numerator = _TINY
        denominator = 1 / denominator
        change = numerator * denominator
        value *= change
        if -_EXACT < change - 1 < _EXACT:
            break
    return value


@cache
def beta_quantile(p: float, a: float, b: float) -> float:
    """The p-quantile of a Beta(a, b) distribution.

    >>> round(beta_quantile(0.025, 1, 3), 6)
    0.008404
    """
    if p <= 0 or p >= 1:
        return 0.0 if p <= 0 else 1.0
    log_scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    low, high, x = 0.0, 1.0, a / (a + b)
    for _ in range(200):  # Newton's method, a few steps; bisection where it would leave the limits
        rest = beta_cdf(x, a, b) - p
        low, high = (x, high) if rest < 0 else (low, x)
        density = math.exp(log_scale + (a - 1) * math.log(x) + (b - 1) * math.log1p(-x))
        found = x - rest / density if density else low
        found = found if low < found < high else (low + high) / 2
        if abs(found - x) <= 10 * _EXACT * x or found in (low, high):
            return found
        x = found
    return x


def binomial_cdf(k: int, n: int, p: float) -> float:
    """The probability of at most k successes in n trials.

    >>> round(binomial_cdf(0, 36, 0.9), 12), round(binomial_cdf(35, 36, 0.9), 6)
    (0.0, 0.977472)
    """
    if k < 0:
        return 0.0
    return 1.0 if k >= n else beta_cdf(1 - p, n - k, k + 1)


def normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


@cache
def normal_quantile(p: float) -> float:
    """The p-quantile of the standard normal distribution.

    >>> round(normal_quantile(0.975), 6)
    1.959964
    """
    if p < 0.5:  # the upper half is the mirror of the lower, to the last digit
        return -normal_quantile(1 - p)
    return _root(lambda x: normal_cdf(x), p, 0.0, 40.0)


@cache
def student_quantile(p: float, freedom: float) -> float:
    """The p-quantile of Student's t distribution, for p of at least a half.

    >>> round(student_quantile(0.975, 9), 6)
    2.262157
    """
    share = beta_quantile(2 * (1 - p), freedom / 2, 0.5)
    return math.sqrt(freedom * (1 - share) / share) if share else math.inf


def _root(rising: Callable[[float], float], wanted: float, low: float = 0.0, high: float = 1.0) -> float:
    """Where a rising function reaches `wanted`, by bisection: sixty steps are exact."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if rising(middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2
