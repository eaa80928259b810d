"""How the scores of each list are ordered: whether they fall, rise, repeat or are missing. One look at every score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.files.native import native

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GAP, _FALLS, _RISES, _UNSORTED, _TIED, _ROUNDED = (1 << bit for bit in range(6))


class ScoreOrder(msgspec.Struct, frozen=True):
    """Facts of each list: what holds somewhere in it, between a hit and the one before it."""

    facts: NDArray[np.uint8]
    tied: Bools  # by row: whether its score equals that of the row before it, in the same list
    anywhere: int  # the facts that hold in some list

    @classmethod
    def of(cls, facts: NDArray[np.uint8], tied: Bools) -> ScoreOrder:
        return cls(facts, tied, int(np.bitwise_or.reduce(facts)))

    @property
    def usual(self) -> bool:
        """Every hit has a score, and no score is above the one before it."""
        return not self.anywhere & (_GAP | _UNSORTED)

    @property
    def any_ties(self) -> bool:
        return bool(self.anywhere & _TIED)

    @property
    def complete(self) -> Bools:
        """Every hit has a score."""
        return ~self._has(_GAP)

    @property
    def falls(self) -> Bools:
        return self._has(_FALLS)

    @property
    def rises(self) -> Bools:
        return self._has(_RISES)

    @property
    def unsorted(self) -> Bools:
        """A score is above the one before it, as far as scores are compared."""
        return self._has(_UNSORTED)

    @property
    def has_ties(self) -> Bools:
        return self._has(_TIED)

    @property
    def rounded(self) -> Bools:
        """Scores that differ are equal as far as they are compared."""
        return self._has(_ROUNDED)

    def _has(self, fact: int) -> Bools:
        return (self.facts & fact) != 0 if self.anywhere & fact else np.zeros(len(self.facts), np.bool_)


def compared(score: Floats, width: int) -> NDArray[np.floating[Any]]:
    """Scores at the precision of comparison. What 32 bits cannot hold is infinite, as in trec_eval."""
    if width == 64:
        return score
    with np.errstate(over="ignore"):
        return score.astype(np.float32)


def score_order(score: Floats, offsets: Ints, width: int) -> ScoreOrder:
    """`width`: how many bits of a score are compared."""
    library = native()
    if library is None:
        return _plain(score, offsets, width)
    score, offsets = np.ascontiguousarray(score), np.ascontiguousarray(offsets)
    facts, tied = np.empty(len(offsets) - 1, np.uint8), np.empty(len(score), np.bool_)
    library.karat_order(
        score.ctypes.data, offsets.ctypes.data, len(facts), width == 32, facts.ctypes.data, tied.ctypes.data
    )
    return ScoreOrder.of(facts, tied)


def ties_at(tied: Bools, places: Ints) -> tuple[Ints, Ints]:
    """Where the ties at some places begin and end, each tie once, in order. `tied[i]`: places i − 1 and i are tied."""
    library = native()
    if library is None:
        breaks = np.flatnonzero(~np.append(tied, False))
        last = np.flatnonzero(np.bincount(np.searchsorted(breaks, places, "right")))
        return breaks[last - 1], breaks[last]
    tied, places = np.ascontiguousarray(tied), np.ascontiguousarray(places)
    starts, ends = np.empty((2, len(places)), np.int64)
    library.karat_ties(
        tied.ctypes.data, len(tied), places.ctypes.data, len(places), starts.ctypes.data, ends.ctypes.data
    )
    starts, first = np.unique(starts, return_index=True)
    return starts, ends[first]


def best_first(values: Floats, offsets: Ints) -> Floats:
    """The values of each list, the highest first."""
    library = native()
    if library is not None:
        ordered, offsets = values.astype(np.float64), np.ascontiguousarray(offsets)
        if library.karat_descend(ordered.ctypes.data, len(ordered), offsets.ctypes.data, len(offsets) - 1):
            return ordered
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return values[np.lexsort((-values, owner))]


def ranks_are_places(rank: Floats, offsets: Ints) -> bool:
    """Whether the hits of every list are ranked 1, 2, 3 … as they are listed."""
    library = native()
    if library is None:
        return bool((rank == np.arange(len(rank)) - np.repeat(offsets[:-1], np.diff(offsets)) + 1).all())
    rank, offsets = np.ascontiguousarray(rank), np.ascontiguousarray(offsets)
    return bool(library.karat_ranks(rank.ctypes.data, offsets.ctypes.data, len(offsets) - 1))


def _plain(score: Floats, offsets: Ints, width: int) -> ScoreOrder:
    size = len(offsets) - 1
    query = np.repeat(np.arange(size), np.diff(offsets))
    together, key = query[1:] == query[:-1], compared(score, width)
    tied = together & (key[1:] == key[:-1])
    facts = np.zeros(size, np.uint8)
    for fact, rows in (
        (_GAP, query[np.isnan(score)]),
        (_FALLS, query[1:][together & (score[1:] < score[:-1])]),
        (_RISES, query[1:][together & (score[1:] > score[:-1])]),
        (_UNSORTED, query[1:][together & (key[1:] > key[:-1])]),
        (_TIED, query[1:][tied]),
        (_ROUNDED, query[1:][tied & (score[1:] != score[:-1])]),
    ):
        facts[rows] |= fact
    tied = np.concatenate([np.zeros(min(1, len(score)), np.bool_), tied])
    return ScoreOrder.of(facts, tied)
