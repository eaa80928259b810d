"""Whether differences are more than chance, alone or several at once, and how large a set must be to show them."""

from __future__ import annotations

import math

import numpy as np

from karat.statistics.special import normal_cdf, normal_quantile
from karat.statistics.sums import Floats, Ints, by_cluster

_EXACT = 14  # up to this many differences every combination of signs is checked
_NEVER = 40.0  # −log of the chance that a draw is as far from 0 as the observed sum, which is then not expected
_OFTEN = 64  # for a difference that occurs this often, the number of pluses is drawn at once
_SIGNS = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # byte → eight signs


def sign_flip_p(
    differences: Floats, permutations: int, seed: int, clusters: Ints | None = None, *, normal_from: int | None = None
) -> float:
    """Two-sided p-value of the mean of paired differences.

    If neither side were better, each difference could equally have the other sign. Queries of one cluster flip
    together. The observed signs count as one of the permutations, so p is never 0. Ties never matter: they are 0
    whatever their sign. From `normal_from` differences on, the limit of the same distribution is used.

    >>> sign_flip_p(np.array([1.0, 1.0, 1.0, 0.0]), 1000, 0)  # all pluses or all minuses: 2 of 8
    0.25
    """
    units = differences if clusters is None else by_cluster(differences[:, None], clusters)[:, 0]
    sizes, counts = np.unique(np.abs(units[units != 0]), return_counts=True)
    observed = abs(float(np.sort(units).sum()))
    rounding = 1e-10 * float(sizes @ counts)
    if counts.sum() <= _EXACT:
        sums = _every_sum(np.repeat(sizes, counts))
        return float(np.mean(np.abs(sums) >= observed - rounding))
    spread = float(counts @ sizes**2)
    if normal_from is not None and counts.sum() >= normal_from:
        return 2 * (1 - normal_cdf(observed / math.sqrt(spread)))
    # Where no draw can be expected to be as far from 0 (Hoeffding 1963), none is made.
    if (observed - rounding) ** 2 / (2 * spread) > _NEVER + math.log(2 * permutations):
        return 1 / (permutations + 1)
    sums = _drawn_sums(sizes, counts, permutations, np.random.default_rng(seed))
    return float((1 + np.count_nonzero(np.abs(sums) >= observed - rounding)) / (permutations + 1))


def _every_sum(sizes: Floats) -> Floats:
    sums = np.zeros(1)
    for size in sizes.tolist():
        sums = np.concatenate([sums + size, sums - size])
    return sums


def _drawn_sums(sizes: Floats, counts: Ints, permutations: int, rng: np.random.Generator) -> Floats:
    often = counts > _OFTEN
    sums = np.zeros(permutations)
    for size, count in zip(sizes[often].tolist(), counts[often].tolist(), strict=True):
        sums += size * (2.0 * rng.binomial(count, 0.5, permutations) - count)
    rest = np.repeat(sizes[~often], counts[~often])
    for start in range(0, len(rest), 8):
        # One random byte signs eight differences: their sum is looked up in a table.
        eight = rest[start : start + 8]
        table = _SIGNS[:, : len(eight)] @ eight
        sums += table[np.frombuffer(rng.bytes(permutations), np.uint8)]
    return sums


def holm(p: Floats) -> Floats:
    """Adjusted so that the probability of even one false positive stays below the level: for decisions.

    >>> [float(x) for x in holm(np.array([0.01, 0.04, 0.03])).round(6)]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _in_place(np.minimum(raised, 1.0), order)


def benjamini_hochberg(p: Floats) -> Floats:
    """Adjusted so that the share of false positives among all positives stays below the level: for exploration.

    >>> [float(x) for x in benjamini_hochberg(np.array([0.01, 0.04, 0.03])).round(6)]
    [0.03, 0.04, 0.04]
    """
    order = np.argsort(p, kind="stable")
    raised = p[order] * len(p) / np.arange(1, len(p) + 1)
    lowered = np.minimum.accumulate(raised[::-1])[::-1]
    return _in_place(np.minimum(lowered, 1.0), order)


def _in_place(adjusted: Floats, order: Ints) -> Floats:
    found = np.empty(len(adjusted))
    found[order] = adjusted
    return found


def apart_p(lower: float, lower_limit: float, higher: float, higher_limit: float, level: float = 0.95) -> float:
    """Two-sided p-value of the difference of two independent means, from their intervals (Newcombe 1998).

    `lower_limit`: the upper limit of the lower mean; `higher_limit`: the lower limit of the higher one. The sides that
    face each other show how far each mean could move towards the other.

    >>> round(apart_p(0.5, 0.6, 0.7, 0.6), 3), round(apart_p(0.5, 0.55, 0.7, 0.65), 5), apart_p(0.5, 0.6, 0.5, 0.4)
    (0.006, 0.0, 1.0)
    """
    error = math.hypot(lower_limit - lower, higher - higher_limit) / normal_quantile((1 + level) / 2)
    if error == 0:
        return 1.0 if higher <= lower else 0.0
    return 2 * (1 - normal_cdf(abs(higher - lower) / error))


def detectable_difference(spread: float, units: int, level: float = 0.95, power: float = 0.8) -> float:
    """The smallest true difference that is found with probability `power`.

    `spread`: standard deviation of the paired differences.

    >>> round(detectable_difference(0.3, 200), 4)
    0.0594
    """
    return _effort(level, power) * spread / math.sqrt(units)


def units_needed(spread: float, difference: float, level: float = 0.95, power: float = 0.8) -> int:
    """How many queries are needed to find a true difference with probability `power`.

    >>> units_needed(0.3, 0.03)
    785
    """
    return max(2, math.ceil((_effort(level, power) * spread / difference) ** 2))


def _effort(level: float, power: float) -> float:
    """Standard errors between no difference and one that is found: for significance and for power."""
    return normal_quantile((1 + level) / 2) + normal_quantile(power)
