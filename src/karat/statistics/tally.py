"""A column of values as its distinct values and how often each occurs: one sort for mean, quantiles and intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import msgspec
import numpy as np

from karat.statistics.distribution import Distribution, between, rank_limits
from karat.statistics.sums import Floats, Ints, Sums

_SPLIT = 2.0**27 + 1  # cuts a float into two halves of 26 bits (Dekker 1971)
_MOST, _LARGEST, _SMALLEST = 2**26, 2.0**900, 2.0**-900  # products of a count and a half are exact within these


class Tally(msgspec.Struct, frozen=True, dict=True):
    """The defined values of a column, in order and each once."""

    values: Floats
    counts: Ints
    size: int  # of the column, with undefined values

    @cached_property
    def n(self) -> int:
        """How many values are defined."""
        return int(self._ends[-1]) if len(self.counts) else 0

    @cached_property
    def _ends(self) -> Ints:
        return np.cumsum(self.counts)

    @cached_property
    def total(self) -> float:
        """The exactly rounded sum, so that neither the order of the queries nor the slicing changes a digit."""
        if len(self.values) * 4 > self.n or not self._exact:
            return math.fsum(np.repeat(self.values, self.counts).tolist())
        high = self.values * _SPLIT
        high = high - (high - self.values)
        return math.fsum([*(high * self.counts).tolist(), *((self.values - high) * self.counts).tolist()])

    @property
    def _exact(self) -> bool:
        size = np.abs(self.values[self.values != 0])
        return self.n <= _MOST and bool(((size >= _SMALLEST) & (size <= _LARGEST)).all())

    @property
    def mean(self) -> float | None:
        return self.total / self.n if self.n else None

    @property
    def sums(self) -> Sums:
        """Every query as a unit with one vote."""
        return Sums(self.counts, self.values[:, None], np.ones((len(self.values), 1)))

    def at(self, ranks: Ints) -> Floats:
        """The values at these places of the sorted column, from 0."""
        return self.values[np.searchsorted(self._ends, ranks, side="right")]

    def quantiles(self, at: Sequence[float]) -> list[float]:
        """As `distribution.quantiles`; at least one value must be defined."""
        place = np.asarray(at) * (self.n - 1)
        below = np.floor(place).astype(np.int64)
        low, high = self.at(below), self.at(np.minimum(below + 1, self.n - 1))
        found: list[float] = between(low, high, place - below).tolist()
        return found

    def quantile_interval(self, at: float, level: float = 0.95) -> tuple[float, float] | None:
        """(low, high) for the quantile `at`; None where there are too few values for a limit on both sides.

        >>> tally(np.arange(35.0)).quantile_interval(0.9), tally(np.arange(36.0)).quantile_interval(0.9)
        (None, (28.0, 35.0))
        """
        low, high = rank_limits(self.n, at, level)
        if low < 1 or high >= self.n:
            return None
        first, last = self.at(np.array([low - 1, high])).tolist()
        return first, last

    def count(self, value: float) -> int:
        """How often a value occurs."""
        at = int(np.searchsorted(self.values, value))
        return int(self.counts[at]) if at < len(self.values) and self.values[at] == value else 0

    def describe(self) -> Distribution | None:
        """The spread of the values; None where nothing is defined.

        >>> tally(np.array([0.0, 0.5, 1.0, 1.0])).describe()
        Distribution(q1=0.375, median=0.75, q3=1.0, zeros=0.25, ones=0.5)
        """
        if not self.n:
            return None
        q1, median, q3 = self.quantiles((0.25, 0.5, 0.75))
        return Distribution(q1, median, q3, self.count(0.0) / self.n, self.count(1.0) / self.n)


Tallies: TypeAlias = dict[int, tuple[Floats, Tally]]  # by the identity of the column, which is kept so that it stays


def tally_kinds(values: Floats, counts: Ints) -> Tally:
    """As `tally` of a column that has each value so many times.

    >>> found = tally_kinds(np.array([1.0, 0.5, np.nan, 1.0]), np.array([2, 3, 4, 5]))
    >>> found.values.tolist(), found.counts.tolist(), found.size
    ([0.5, 1.0], [3, 7], 14)
    """
    defined = ~np.isnan(values)
    distinct, which = np.unique(values[defined] + 0.0, return_inverse=True)  # −0.0 and 0.0 are one value
    found = np.zeros(len(distinct), np.int64)
    np.add.at(found, which, counts[defined])
    return Tally(distinct, found, int(counts.sum()))


def tally(values: Floats) -> Tally:
    """Count the distinct values of a column; NaN is undefined.

    >>> found = tally(np.array([1.0, 0.5, np.nan, 1.0]))
    >>> found.values.tolist(), found.counts.tolist(), found.n, found.mean
    ([0.5, 1.0], [1, 2], 3, 0.8333333333333334)
    """
    ordered = np.sort(values)
    if len(ordered) and ordered[-1] != ordered[-1]:  # NaN comes last
        ordered = ordered[: np.searchsorted(ordered, np.nan)]
    if not len(ordered):
        return Tally(ordered, np.zeros(0, np.int64), len(values))
    starts = np.append(0, np.flatnonzero(ordered[1:] != ordered[:-1]) + 1)
    counts = np.diff(np.append(starts, len(ordered)))
    return Tally(ordered[starts] + 0.0, counts, len(values))  # −0.0 and 0.0 are one value
