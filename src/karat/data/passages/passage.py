"""Passages: gold that names a place in a document instead of a chunk, so that it works with every chunking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from karat.data.ids import Bools, Ints, find, rows_of
from karat.data.packed_ids import pack

if TYPE_CHECKING:
    from karat.data.ids import Ids

Stretch: TypeAlias = tuple[int, int]  # its first character, and the one after its last

# Shorter pieces of a passage do not identify it, and shorter chunks do not show what they are about.
PIECE, CHUNK = 8, 20


class Passage(NamedTuple):
    """Where a gold item is. Without a document it is only a note and is not located."""

    doc: str | None
    quote: str | None = None
    start: int | None = None
    end: int | None = None


class Place(NamedTuple):
    """Where a chunk is."""

    doc: str
    start: int
    end: int


class Located(msgspec.Struct, frozen=True, dict=True):
    """Where the passages of a gold set are in one chunking. A chunk may hold several; a passage may be in several."""

    settled: Bools  # one per item: it was searched among chunks, and is not matched by document
    chunks: list[str]  # that hold an item of a query, each once per query, in the order of the queries
    bounds: Ints  # query i owns chunks bounds[i] … bounds[i + 1]
    firsts: Ints  # chunk j holds items[firsts[j] … firsts[j + 1]]
    items: Ints
    several: Bools  # queries with a chunk that holds more than one item
    places: Sequence[Sequence[Stretch] | None]  # of each item in its document; None where unknown
    place_of: Callable[[str], Place | None]  # chunk → its place
    known: Literal["corpus", "hits"]  # the source of the chunks

    @cached_property
    def _query(self) -> Ints:
        return np.repeat(np.arange(len(self.bounds) - 1), np.diff(self.bounds))

    @cached_property
    def holders(self) -> list[list[str]]:
        """The chunks that hold each item."""
        found: list[list[str]] = [[] for _ in self.settled]
        for at, chunk in enumerate(self.chunks):
            for item in self.items[self.firsts[at] : self.firsts[at + 1]].tolist():
                found[item].append(chunk)
        return found

    def count_chunks(self, items: Bools) -> Ints:
        """How many chunks of each query hold one of these items."""
        chunk = np.repeat(np.arange(len(self.chunks)), np.diff(self.firsts))
        return np.bincount(self._query[np.unique(chunk[items[self.items]])], minlength=len(self.bounds) - 1)

    def find(self, ids: Ids, gold_query: Ints, queries: Ints) -> tuple[Ints, Ints]:
        """(row, gold item) of every hit that holds an item of its query; one row for each item that it holds."""
        table = rows_of(self.bounds, queries)
        names = [self.chunks[i] for i in table.tolist()]
        rows, at = find(ids, gold_query, pack(names) if isinstance(ids, np.ndarray) else names, self._query[table])
        held = table[at]
        return np.repeat(rows, self.firsts[held + 1] - self.firsts[held]), self.items[rows_of(self.firsts, held)]


def merged(stretches: Sequence[Stretch]) -> list[Stretch]:
    """The same characters, each once, in order.

    >>> merged([(5, 9), (0, 3), (2, 4), (9, 10)])
    [(0, 4), (5, 10)]
    """
    found: list[Stretch] = []
    for start, end in sorted(stretches):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def size(stretches: Sequence[Stretch]) -> int:
    return sum(end - start for start, end in stretches)


def shared(one: Sequence[Stretch], other: Sequence[Stretch]) -> int:
    """How many characters two merged lists have in common.

    >>> shared([(0, 4), (5, 10)], [(3, 6), (8, 20)])
    4
    """
    total = i = j = 0
    while i < len(one) and j < len(other):
        total += max(0, min(one[i][1], other[j][1]) - max(one[i][0], other[j][0]))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return total
