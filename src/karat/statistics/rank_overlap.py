"""Overlap of two rankings per query: rank-biased overlap with ties, and Jaccard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import numpy as np

from karat.statistics.sums import Floats, Ints, Shape

if TYPE_CHECKING:
    from numpy.typing import NDArray

Bools: TypeAlias = np.ndarray[Shape, np.dtype[np.bool_]]
Ties: TypeAlias = Literal["b", "a", "w"]
_WIDE = 48  # columns, from which on sorting is faster than comparing every pair of places
_BLOCK = 1 << 15  # places
_ROUNDING = 1e-12


class Rankings(NamedTuple):
    """One ranking per row. Only the first `length` columns of a row are used."""

    ids: NDArray[np.uint32]
    tied: Bools  # with the place before it
    length: Ints  # −1: there is no list, which is the same as an empty one

    def rows(self, which: Bools | slice) -> Rankings:
        return Rankings(self.ids[which], self.tied[which], self.length[which])

    def rows_at(self, rows: Ints) -> Rankings:
        return Rankings(self.ids[rows], self.tied[rows], self.length[rows])

    def fill(self, rows: Ints, part: Rankings) -> None:
        """Set some rows."""
        self.ids[rows], self.tied[rows], self.length[rows] = part

    def replaced(self, which: Bools, other: Rankings) -> Rankings:
        """With the rankings of another table in some rows."""
        ids, tied = (np.where(which[:, None], b, a) for a, b in ((self.ids, other.ids), (self.tied, other.tied)))
        return Rankings(ids, tied, np.where(which, other.length, self.length))

    def widened(self, width: int) -> Rankings:
        """With so many columns, and no negative length."""
        more = ((0, 0), (0, width - self.ids.shape[1]))
        ids, tied = (self.ids, self.tied) if not more[1][1] else (np.pad(self.ids, more), np.pad(self.tied, more))
        return Rankings(ids, tied, np.maximum(self.length, 0))

    def cut(self, k: Ints | int) -> Rankings:
        """The first k places."""
        width = min(int(np.max(k, initial=0)), self.ids.shape[1])
        return Rankings(self.ids[:, :width], self.tied[:, :width], np.minimum(self.length, k))


def jaccard(first: Rankings, other: Rankings) -> Floats:
    """Shared ids of each row / ids of either; NaN where both are empty."""
    shared, changed = np.maximum(first.length, 0), ~_equal(first, other)
    blocks = [(_places(one, two) > 0).sum(axis=1) for one, two in _blocks(first.rows(changed), other.rows(changed))]
    shared[changed] = np.concatenate([np.zeros(0, np.int64), *blocks])
    whole = np.maximum(first.length, 0) + np.maximum(other.length, 0) - shared
    return np.where(whole > 0, shared / np.maximum(whole, 1), np.nan)


def rank_biased_overlap(first: Rankings, other: Rankings, p: float, ties: Ties = "b") -> Floats:
    """Extrapolated RBO of each row; NaN where both are empty, 0 where one is.

    Ties: `b` corrected for their number, `a` the mean over all orders, `w` all at the first place of their group.
    """
    changed = ~_equal(first, other)
    blocks = [_overlap(one, two, p, ties) for one, two in _blocks(first.rows(changed), other.rows(changed))]
    found = np.ones(len(changed))
    found[changed] = np.concatenate([np.zeros(0), *blocks])
    return found


def _equal(first: Rankings, other: Rankings) -> Bools:
    """Rows with the same ranking, not empty and without ties: usually most of them, with an overlap of exactly 1."""
    width = min(first.ids.shape[1], other.ids.shape[1])
    one, two = first.cut(width), other.cut(width)
    same = ((one.ids == two.ids) & ~one.tied & ~two.tied) | ~_inside(one)
    whole = (first.length == other.length) & (one.length == first.length) & (first.length > 0)
    return np.asarray(whole & same.all(axis=1))


def _blocks(first: Rankings, other: Rankings) -> Iterator[tuple[Rankings, Rankings]]:
    """A few rows at a time, which stay in the processor's cache."""
    width = max(first.ids.shape[1], other.ids.shape[1], 1)
    rows = max(_BLOCK // width, 1)
    for start in range(0, len(first.length), rows):
        some = slice(start, start + rows)
        yield first.rows(some).widened(width), other.rows(some).widened(width)


def _overlap(first: Rankings, other: Rankings, p: float, ties: Ties) -> Floats:
    shorter, longer = first, other
    swap = first.length > other.length
    if swap.any():
        shorter, longer = first.replaced(swap, other), other.replaced(swap, first)
    found = np.where(longer.length > 0, 0.0, np.nan)
    both = shorter.length > 0
    tied = _has_ties(shorter) | _has_ties(longer)
    for rows, agreement in ((both & ~tied, _plain_agreement), (both & tied, _tied_agreement)):
        if rows.any():
            short, long = shorter.rows(rows), longer.rows(rows)
            found[rows] = _weighed(*agreement(short, long, ties), long.length, p)
    return found


def _weighed(agreement: Floats, last: Floats, length: Ints, p: float) -> Floats:
    """The mean of the agreement at every depth, where depth d weighs (1 − p) p^(d − 1); `last`: beyond the lists.

    What is missing from 1 is summed, so that equal rankings give exactly 1.
    """
    depth = np.arange(agreement.shape[1])
    weight = (1 - p) * p**depth * (depth < length[:, None])
    found = 1 - (weight * (1 - agreement)).sum(axis=1) - p**length * (1 - last)
    return np.where(found < _ROUNDING, 0.0, np.minimum(found, 1.0))


def _plain_agreement(short: Rankings, long: Rankings, ties: Ties) -> tuple[Floats, Floats]:
    """Shared ids / depth. Beyond the shorter ranking, its agreement is assumed to continue."""
    rows, width = short.ids.shape
    place = _places(short, long)
    row, at = np.nonzero(place)
    both = np.maximum(at + 1, place[row, at]) - 1  # the depth at which both rankings have it
    shared = np.bincount(row * width + both, minlength=rows * width).reshape(rows, width).cumsum(axis=1)
    depth, end = np.arange(1, width + 1), short.length[:, None]
    ended = np.take_along_axis(shared, end - 1, axis=1) / end  # the agreement where the shorter one ends
    more = np.maximum(depth - end, 0) * ended
    agreement = (shared + more) / depth
    return agreement, np.take_along_axis(agreement, long.length[:, None] - 1, axis=1)[:, 0]


def _tied_agreement(short: Rankings, long: Rankings, ties: Ties) -> tuple[Floats, Floats]:
    """The same with ties: an item of a group that depth d cuts belongs to the first d in part (`a`, `b`), or as a
    whole (`w`)."""
    place = _places(short, long)
    found, twin = place > 0, np.maximum(place - 1, 0)
    groups, others = _groups(short), _groups(long)
    twins = [np.take_along_axis(side, twin, axis=1) for side in others]
    uneven = (short.length < long.length).any()
    unseen = (_places(long, short) == 0) * _inside(long) if uneven else found
    columns, ended = [], np.zeros(len(place))
    for depth in range(1, short.ids.shape[1] + 1):
        one, two = _part_inside(groups, depth, ties), _part_inside(others, depth, ties)
        shared = _sums(one * found, _part_inside(twins, depth, ties))
        size = depth * np.ones(len(place))
        if ties == "b":
            sizes = np.where(depth > short.length, depth, _sums(one, one)) * _sums(two, two)
            size = np.sqrt(sizes)
        elif ties == "w":
            size = (np.where(depth > short.length, depth, one.sum(axis=1)) + two.sum(axis=1)) / 2
        if uneven:
            active = ((two > 0) & unseen).sum(axis=1)
            part = _sums(two, unseen) / np.maximum(active, 1)
            shared += np.where(depth > short.length, (depth - short.length) * ended * part, 0.0)
        agreement = shared / size
        ended = np.where(short.length == depth, agreement, ended)
        columns.append(agreement)
    last = (found.sum(axis=1) + (long.length - short.length) * ended) / long.length
    return np.stack(columns, axis=1), last


def _sums(one: Floats, two: Floats | Bools) -> Floats:
    """The sum of the products of each row."""
    return np.asarray(np.einsum("ij,ij->i", one, two))


def _groups(ranking: Rankings) -> list[Floats]:
    """Of each place, the first place of its tie group (from 1) and 1 / the size of the group. Empty places are beyond
    every depth."""
    rows, width = ranking.ids.shape
    place, inside = np.arange(1, width + 1), _inside(ranking)
    starts = ~ranking.tied | (place == 1)
    ends = np.append(starts[:, 1:], np.ones((rows, 1), np.bool_), axis=1) | (place == ranking.length[:, None])
    top = np.maximum.accumulate(np.where(starts, place, 0), axis=1)
    bottom = np.minimum.accumulate(np.where(ends, place, width)[:, ::-1], axis=1)[:, ::-1]
    return [np.where(inside, top, width + 1).astype(np.float64), 1 / (bottom - top + 1)]


def _part_inside(groups: Sequence[Floats], depth: int, ties: Ties) -> Floats:
    """How much of each place is among the first `depth`."""
    top, share = groups
    if ties == "w":
        return (top <= depth).astype(np.float64)
    part = (depth + 1 - top) * share
    return np.clip(part, 0.0, 1.0, out=part)


def _has_ties(ranking: Rankings) -> Bools:
    return np.asarray((ranking.tied & _inside(ranking))[:, 1:].any(axis=1))


def _inside(ranking: Rankings) -> Bools:
    return np.asarray(np.arange(ranking.ids.shape[1]) < ranking.length[:, None])


def _places(first: Rankings, other: Rankings) -> Ints:
    """For each place of the first, where the other has its id, from 1; 0: nowhere."""
    mine, theirs = _inside(first), _inside(other)
    if other.ids.shape[1] <= _WIDE:
        place = np.zeros(first.ids.shape, np.int8)
        for at in range(other.ids.shape[1]):
            same = (first.ids == other.ids[:, at, None]) & theirs[:, at, None]
            np.maximum(place, same.view(np.int8) * np.int8(at + 1), out=place)
        return (place * mine).astype(np.int64)
    found = np.zeros(first.ids.shape, np.int64)
    (row, _), (other_row, other_at) = np.nonzero(mine), np.nonzero(theirs)
    key = other_row.astype(np.uint64) << np.uint64(32) | other.ids[theirs]
    if not len(key):
        return found
    order = np.argsort(key)
    wanted = row.astype(np.uint64) << np.uint64(32) | first.ids[mine]
    near = order[np.minimum(np.searchsorted(key[order], wanted), len(key) - 1)]
    found[mine] = np.where(key[near] == wanted, other_at[near] + 1, 0)
    return found
