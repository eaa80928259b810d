"""Agreement beyond chance: Cohen's kappa of two annotators, Fleiss' kappa of many, with intervals.

Kappa is (observed − chance) / (1 − chance): 1 for full agreement, 0 for as much as by chance. It
is undefined (NaN) where everyone gave the same grade, since chance then always agrees.

Intervals are a Bayesian bootstrap over groups (queries), since the passages of one query are not independent, with half
an observation of agreement and half of disagreement, so that full agreement on ten pairs is not treated as certain.
One group says nothing about others: its interval is the whole range, as in `calibration`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from karat.statistics.calibration import FEWEST, independent
from karat.statistics.resampling import blocks
from karat.statistics.sums import Floats, Ints

_ONE = 1e-9  # chance agreement of 1, up to rounding


class Kappa(NamedTuple):
    """Agreement with its interval; NaN where undefined."""

    kappa: float
    low: float
    high: float
    observed: float  # share of agreement


def cohen_kappa(
    one: Ints, other: Ints, groups: Ints, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Kappa:
    """Kappa of two annotators who graded (with any whole numbers from 0 on) the same pairs.

    >>> round(cohen_kappa(np.array([2, 0, 1, 0]), np.array([2, 0, 0, 0]), np.arange(4)).kappa, 4)
    0.5556
    """
    size = int(max(one.max(), other.max())) + 1
    agreed = (one == other).astype(np.float64)
    columns = np.column_stack([agreed, np.ones(len(one)), np.eye(size)[one], np.eye(size)[other]])

    def chance(sums: Floats) -> Floats:
        total = sums[:, 1]
        first, second = sums[:, 2 : 2 + size], sums[:, 2 + size :]
        return np.asarray((first * second).sum(axis=1) / total**2)

    return _with_interval(columns, groups, chance, level, resamples, seed)


def fleiss_kappa(counts: Ints, groups: Ints, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0) -> Kappa:
    """Kappa of any number of annotators: `counts` is pair × grade, how many gave the grade. A pair needs two of them;
    pairs may have different numbers, and count equally.

    >>> round(fleiss_kappa(np.array([[3, 0], [0, 3], [2, 1]]), np.arange(3)).kappa, 4)
    0.55
    """
    raters = counts.sum(axis=1)
    agreed = (counts * (counts - 1)).sum(axis=1) / (raters * (raters - 1))
    columns = np.column_stack([agreed, np.ones(len(counts)), counts])

    def chance(sums: Floats) -> Floats:
        given = sums[:, 2:]
        return np.asarray(((given / given.sum(axis=1, keepdims=True)) ** 2).sum(axis=1))

    return _with_interval(columns, groups, chance, level, resamples, seed)


def _with_interval(
    columns: Floats, groups: Ints, chance: Callable[[Floats], Floats], level: float, resamples: int, seed: int
) -> Kappa:
    """`columns`: for each pair its agreement, a 1, and the terms of chance agreement."""
    table = np.zeros((int(groups.max()) + 1, columns.shape[1]))
    np.add.at(table, groups, columns)
    total = table.sum(axis=0, keepdims=True)
    observed = float(total[0, 0] / total[0, 1])
    expected = chance(total)
    kappa = float(_beyond(np.array([observed]), expected)[0])
    if np.isnan(kappa):
        return Kappa(np.nan, np.nan, np.nan, observed)
    if independent(table[:, 1:2]) < FEWEST:
        return Kappa(kappa, -1.0, 1.0, observed)
    drawn = _resampled(table, chance, resamples, seed)
    low, high = np.quantile(drawn[~np.isnan(drawn)], [(1 - level) / 2, (1 + level) / 2])
    # Half an observation of the other kind must not move the limit off the end where all observations are.
    return Kappa(kappa, min(float(low), kappa), 1.0 if observed == 1 else max(float(high), kappa), observed)


def _resampled(table: Floats, chance: Callable[[Floats], Floats], resamples: int, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    mean = table[:, 1].mean()  # pairs per group: the unit of half an observation
    found = []
    for size in blocks(resamples, *table.shape):
        sums = rng.standard_exponential((size, len(table))) @ table
        more = rng.standard_gamma(0.5, (2, size)) * mean
        observed = (sums[:, 0] + more[0]) / (sums[:, 1] + more.sum(axis=0))
        # Half an observation without grades may disagree more than grades can.
        found.append(np.maximum(_beyond(observed, chance(sums)), -1.0))
    return np.concatenate(found)


def _beyond(observed: Floats, expected: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected < 1 - _ONE, (observed - expected) / (1 - expected), np.nan)
