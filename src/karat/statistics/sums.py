"""Scores as sums over the units that are resampled: queries, or conversations of several queries.

A mean over queries is a ratio of sums (of scores, of defined queries), and so is a micro average (of hits, of relevant
items). In this form all of them are resampled with the same weights: a weighted sum over a weighted sum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Not from `numpy.typing`, which takes a millisecond to load.
Shape: TypeAlias = tuple[Any, ...]
Floats: TypeAlias = np.ndarray[Shape, np.dtype[np.float64]]
Ints: TypeAlias = np.ndarray[Shape, np.dtype[np.int64]]


class Sums(msgspec.Struct, frozen=True):
    """Units, usually all different, how often each occurs, and what each adds to numerator and denominator."""

    counts: Ints  # of each distinct unit
    above: Floats  # unit × column
    below: Floats  # unit × column

    @property
    def units(self) -> int:
        return int(self.counts.sum())

    @property
    def estimate(self) -> Floats:
        """The ratio of the sums of each column, NaN where nothing is defined."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return (self.counts @ self.above) / (self.counts @ self.below)

    @property
    def defined(self) -> Ints:
        """How many units have a value, by column."""
        return self.counts @ (self.below > 0)

    @property
    def usual(self) -> Floats:
        """The average weight of a unit in each column."""
        return (self.counts @ self.below) / np.maximum(self.defined, 1)

    @property
    def single(self) -> NDArray[np.bool_]:
        """Columns in which every unit has one vote or none, so that they are shares of independent queries."""
        return np.asarray(((self.below == 0) | (self.below == 1)).all(axis=0))

    def column(self, which: int) -> Sums:
        """One column alone, of the units that add something to it: fewer distinct ones."""
        above, below = self.above[:, which], self.below[:, which]
        if self.above.shape[1] == 1 and (above[1:] > above[:-1]).all() and (below == 1).all():
            return self  # all different, and in order
        used = (above != 0) | (below != 0)
        return _collapse(above[used, None], below[used, None], self.counts[used])


def sum_up(
    values: Floats, weights: Floats | None = None, clusters: Ints | None = None, *, distinct: bool = True
) -> Sums:
    """`values`: query × column, NaN where undefined; `weights`: of each value in its column's mean (default 1);
    `clusters`: queries with the same number belong together; `distinct`: equal units become one, which takes time."""
    defined = ~np.isnan(values)
    below = defined.astype(np.float64) if weights is None else np.where(defined, weights, 0.0)
    return ratio(np.where(defined, values, 0.0) * below, below, clusters, distinct=distinct)


def ratio(above: Floats, below: Floats, clusters: Ints | None = None, *, distinct: bool = True) -> Sums:
    """Numerators and denominators of each query, both query × column, where a query may add to one of them only."""
    if clusters is not None and len(clusters):
        above, below = by_cluster(above, clusters), by_cluster(below, clusters)
    counts = np.ones(len(above), np.int64)
    return _collapse(above, below, counts) if distinct else Sums(counts, above, below)


def _collapse_votes(values: Floats, defined: NDArray[np.bool_]) -> Sums:
    """One column in which every unit has one vote or none: sorting numbers is much faster than sorting rows."""
    ordered = np.sort(values[defined])
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    counts, above = np.diff(np.append(starts, len(ordered))), ordered[starts]
    below = np.ones(len(above))
    if without := len(values) - len(ordered):
        at = int(np.searchsorted(above, 0.0))  # rows are sorted: those without a vote come before those that are 0
        counts, above, below = (np.insert(a, at, v) for a, v in ((counts, without), (above, 0.0), (below, 0.0)))
    return Sums(counts, above[:, None], below[:, None])


def by_cluster(table: Floats, clusters: Ints) -> Floats:
    """Sums of the rows of each cluster; clusters may have any numbers."""
    _, starts = np.unique(np.sort(clusters), return_index=True)
    # Smallest first within a cluster: rounding must not depend on the order of the queries.
    columns = (column[np.lexsort((column, clusters))] for column in table.T)
    return np.column_stack([np.add.reduceat(column, starts) for column in columns])


def _collapse(above: Floats, below: Floats, counts: Ints) -> Sums:
    """Units with equal rows are exchangeable: one row for all of them, rows in a canonical order.

    So neither the order of the queries nor their slices can change a digit, and large sets cost little.
    """
    if above.shape[1] == 1 and (counts == 1).all() and ((below == 0) | (below == 1)).all():
        return _collapse_votes(above[:, 0] + 0.0, below[:, 0] == 1)
    rows = np.column_stack([above, below]) + 0.0  # −0.0 and 0.0 are one value
    if not len(rows):
        return Sums(counts, above, below)
    varying = [column for column in rows.T if (column != column[0]).any()]
    order = np.lexsort(varying[::-1]) if varying else np.arange(len(rows))
    ordered = rows[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    starts = np.flatnonzero(first)
    kept, width = ordered[starts], above.shape[1]
    return Sums(np.add.reduceat(counts[order], starts), kept[:, :width], kept[:, width:])
