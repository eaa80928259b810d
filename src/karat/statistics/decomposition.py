"""Splits the change of a mean into a change of the mix of kinds and changes within kinds (Kitagawa 1955)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from karat.statistics.distribution import quantiles
from karat.statistics.resampling import bayesian_sums
from karat.statistics.sampling import Sampling
from karat.statistics.sums import Floats, Ints, Sums

Numbers = NDArray[Any]  # floats, or exact fractions
_MOST = 100_000_000  # weights that are drawn; with more units, fewer resamples
_FEWEST = 1_000  # resamples


class Parts(NamedTuple):
    """What each kind adds to the change of the mean. Kinds are in the last axis."""

    mix: Numbers  # because its share changed
    quality: Numbers  # because its mean changed


def decompose(shares: tuple[Numbers, Numbers], means: tuple[Numbers, Numbers], middle: Numbers | None = None) -> Parts:
    """`shares` and `means` of each kind, before and after; `middle`: the average of both overall means.

    If the shares add up to 1, mix and quality of all kinds add up to the change of the overall mean. The middle has no
    effect on that sum. With it, more of a kind that is worse than the average lowers the mean.

    >>> found = decompose((np.array([0.8, 0.2]), np.array([0.5, 0.5])), (np.array([1.0, 0.5]), np.array([1.0, 0.4])))
    >>> found.mix.round(4).tolist(), found.quality.round(4).tolist()
    ([-0.06, -0.105], [0.0, -0.035])
    """
    (p0, p1), (m0, m1) = shares, means
    if middle is None:
        middle = ((p0 * m0).sum(axis=-1, keepdims=True) + (p1 * m1).sum(axis=-1, keepdims=True)) / 2
    return Parts((p1 - p0) * ((m0 + m1) / 2 - middle), (m1 - m0) * (p0 + p1) / 2)


def means_of_kinds(weights: tuple[Numbers, Numbers], totals: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    """The mean of each kind, before and after. A kind that only one period has keeps its mean: all of it is mix."""
    there = [weight > 0 for weight in weights]
    own = [total / np.where(has, weight, 1) for weight, total, has in zip(weights, totals, there, strict=True)]
    return np.where(there[0], own[0], own[1]), np.where(there[1], own[1], own[0])


def shares_of_kinds(weights: tuple[Numbers, Numbers]) -> tuple[Numbers, Numbers]:
    before, after = (weight / weight.sum(axis=-1, keepdims=True) for weight in weights)
    return before, after


class Observations(NamedTuple):
    """The values of one metric in both periods, query by query."""

    period: Ints  # 0: before, 1: after
    kind: Ints  # from 0 on
    value: Floats
    weight: Floats  # in the mean; 1 unless it is a micro average
    unit: Ints  # queries with the same number are resampled together, also if they are in different periods
    kinds: int

    @property
    def cell(self) -> Ints:
        return self.period * self.kinds + self.kind

    def per_kind(self, amounts: Floats) -> tuple[Floats, Floats]:
        """Sums over the queries of each kind, before and after."""
        both = np.bincount(self.cell, amounts, 2 * self.kinds).astype(np.float64)
        return both[: self.kinds], both[self.kinds :]

    @property
    def shares(self) -> tuple[Numbers, Numbers]:
        return shares_of_kinds(self.per_kind(self.weight))

    @property
    def means(self) -> tuple[Numbers, Numbers]:
        return means_of_kinds(self.per_kind(self.weight), self.per_kind(self.weight * self.value))

    def units(self, period: int) -> Ints:
        """How many units each kind has in one period."""
        pairs = np.unique(np.column_stack([self.kind, self.unit])[self.period == period], axis=0)
        return np.bincount(pairs[:, 0], minlength=self.kinds)

    def by_unit(self) -> Sums:
        """What each unit adds to weight and sum of each kind, before and after; alike single queries are one row."""
        cells, cell, weight, value = 2 * self.kinds, self.cell, self.weight, self.value
        order = np.lexsort((weight, value, cell))  # neither the order of the queries nor their names change a digit
        cell, weight, value, unit = cell[order], weight[order], value[order], self.unit[order]
        names, number = np.unique(unit, return_inverse=True)
        counts, single = np.ones(len(names), np.int64), len(names) == len(unit)
        if single:
            rows = np.column_stack([cell, weight, value])
            starts = np.flatnonzero(np.append(True, (rows[1:] != rows[:-1]).any(axis=1)))
            counts = np.diff(np.append(starts, len(rows)))
            cell, weight, value, number = cell[starts], weight[starts], value[starts], np.arange(len(starts))
        table = np.zeros((len(counts), 2 * cells))
        np.add.at(table, (number, cell), weight)
        np.add.at(table, (number, cells + cell), weight * value)
        if not single:
            table = table[np.lexsort(table.T)]
        return Sums(counts, table, np.zeros((len(counts), 0)))


class PartLimits(NamedTuple):
    """(low, high) of the change and its two parts, and of each kind: one row per kind, NaN if unknown."""

    change: Floats
    mix: Floats
    quality: Floats
    kind_mix: Floats
    kind_quality: Floats
    kind_share: Floats  # of the change of its share
    kind_mean: Floats  # of the change of its mean


def part_limits(seen: Observations, ends: tuple[float, float], sampling: Sampling) -> PartLimits:
    """Intervals by a Bayesian bootstrap over units.

    As for any mean, each period has half an observation at each end of the range, spread over the kinds by share. The
    parts depend on differences between means of kinds, some of which have few queries: there, each kind has its own.
    """
    units = seen.by_unit()
    resamples = min(sampling.resamples, max(_FEWEST, _MOST // len(units.counts)))
    drawn = bayesian_sums(units, sampling.seed, resamples)[0].reshape(resamples, 2, 2, seen.kinds)
    rng, bounded = np.random.default_rng([sampling.seed, 5]), all(map(math.isfinite, ends))
    usual = np.array([seen.weight[seen.period == i].sum() / max(seen.units(i).sum(), 1) for i in (0, 1)])[:, None]

    def with_ends(size: Numbers) -> Floats:
        low, high = rng.standard_gamma(np.broadcast_to(size, (2, resamples, 2, seen.kinds))) * usual
        return drawn + np.stack([low + high, low * ends[0] + high * ends[1]], axis=1) if bounded else drawn

    whole, alone = with_ends(np.stack(seen.shares) / 2), with_ends(np.full(1, 0.5))
    shares = shares_of_kinds(_periods(whole[:, 0]))
    before, after = (total.sum(axis=-1) / weight.sum(axis=-1) for weight, total in whole.transpose(2, 1, 0, 3))
    there = np.stack(seen.per_kind(seen.weight)) > 0
    own = means_of_kinds(_periods(np.where(there, alone[:, 0], 0.0)), _periods(alone[:, 1]))
    parts = decompose(shares, own)
    # For a kind alone, its share is a yes or no of each query, with half an observation of either.
    yes, no = rng.standard_gamma(0.5, (2, resamples, 2, seen.kinds)) * usual
    own_shares = _periods((drawn[:, 0] + yes) / (drawn[:, 0].sum(axis=-1, keepdims=True) + yes + no))
    of_kinds = decompose(own_shares, own, ((before + after) / 2)[:, None])
    known = there.all(axis=0) & (bounded | (np.minimum(seen.units(0), seen.units(1)) > 1))
    found = decompose(seen.shares, seen.means)
    change = (seen.shares[1] * seen.means[1]).sum() - (seen.shares[0] * seen.means[0]).sum()
    return PartLimits(
        change=_limits((after - before)[:, None], change, sampling)[0],
        mix=_limits(parts.mix.sum(axis=-1)[:, None], found.mix.sum(), sampling)[0],
        quality=_limits(parts.quality.sum(axis=-1)[:, None], found.quality.sum(), sampling)[0],
        kind_mix=_limits(of_kinds.mix, found.mix, sampling),
        kind_quality=np.where(known[:, None], _limits(of_kinds.quality, found.quality, sampling), np.nan),
        kind_share=_limits(own_shares[1] - own_shares[0], seen.shares[1] - seen.shares[0], sampling),
        kind_mean=np.where(known[:, None], _limits(own[1] - own[0], seen.means[1] - seen.means[0], sampling), np.nan),
    )


def _periods(drawn: Floats) -> tuple[Floats, Floats]:
    return drawn[:, 0], drawn[:, 1]


def _limits(draws: Floats, estimate: Numbers, sampling: Sampling) -> Floats:
    """(low, high) of each column, which always include the estimate."""
    low, high = quantiles(draws, sampling.tails)
    return np.round(np.column_stack([np.minimum(low, estimate), np.maximum(high, estimate)]), 6) + 0.0
