"""Tables of 64-bit hashes: which are there, which items of a query have them, and which came before."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from karat.data.packed_ids import Hashes, Ints, Packed, hash_texts
from karat.files.native import native

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Owners(msgspec.Struct, frozen=True):
    """The query of every row: rows offsets[i] … offsets[i + 1] belong to queries[i]."""

    offsets: Ints
    queries: Ints

    def of_rows(self) -> Ints:
        return np.repeat(self.queries, np.diff(self.offsets))


class MarkedNames(msgspec.Struct, frozen=True):
    """The texts behind the hashes of a table, and the number of each among all that are marked."""

    packed: Packed
    numbers: Ints


class HashTable:
    """A hash table for lookups. A bit filter comes first: most hashes are not there."""

    def __init__(self, table: Hashes) -> None:
        self._table = np.ascontiguousarray(table)
        bits = max(12, int(len(table) * 8 - 1).bit_length())
        self._shift = 64 - bits
        library = native()
        self._slots: NDArray[np.uint32] | None = None
        if library is not None:
            self._slots = np.zeros(1 << max(4, (2 * len(table)).bit_length()), np.uint32)
            self._bits = np.zeros(1 << (bits - 6), np.uint64)
            slots, last = self._slots.ctypes.data, len(self._slots) - 1
            library.karat_index(self._table.ctypes.data, len(table), slots, last, self._bits.ctypes.data, self._shift)
            return
        self._order = np.argsort(table)
        self._ordered = table[self._order]
        self._present = np.zeros(1 << bits, np.bool_)
        self._present[table >> np.uint64(self._shift)] = True

    def __reduce__(self) -> tuple[type[HashTable], tuple[Hashes]]:
        return HashTable, (self._table,)  # another process may have no native reader

    def find(self, wanted: Hashes) -> tuple[Ints, Ints]:
        """Rows of `wanted` that are in the table, and where."""
        if not len(wanted) or not len(self._table):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        if self._slots is not None:
            return self.find_owned(wanted, Owners(np.array([0, len(wanted)]), np.zeros(1, np.int64)))
        rows = np.flatnonzero(self._present[wanted >> np.uint64(self._shift)])
        at = np.minimum(np.searchsorted(self._ordered, wanted[rows]), len(self._ordered) - 1)
        found = self._ordered[at] == wanted[rows]
        return rows[found], self._order[at[found]]

    def mark(
        self, hashed: Hashes, ids: Packed, byte: int | None, names: MarkedNames, marked: NDArray[np.bool_]
    ) -> bool:
        """Mark the names of the table that are among the ids, or among their documents, which end before a byte.
        `hashed`: of what is searched. False where there is no native reader, and nothing was done."""
        if self._slots is None:
            return False
        hashed, ids = np.ascontiguousarray(hashed), np.ascontiguousarray(ids)
        native().karat_mark(
            self._table.ctypes.data,
            self._slots.ctypes.data,
            len(self._slots) - 1,
            self._bits.ctypes.data,
            self._shift,
            hashed.ctypes.data,
            ids.ctypes.data,
            len(ids),
            ids.itemsize,
            -1 if byte is None else byte,
            names.packed.ctypes.data,
            names.packed.itemsize,
            names.numbers.ctypes.data,
            marked.ctypes.data,
        )
        return True

    def find_owned(self, wanted: Hashes, owners: Owners) -> tuple[Ints, Ints]:
        """The same, with `keys(wanted, query)` in the table. Only with the native reader."""
        assert self._slots is not None
        wanted, offsets = np.ascontiguousarray(wanted), np.ascontiguousarray(owners.offsets)
        queries = np.ascontiguousarray(owners.queries)
        rows, at = np.empty((2, len(wanted)), np.int64)
        found = native().karat_find(
            self._table.ctypes.data,
            self._slots.ctypes.data,
            len(self._slots) - 1,
            self._bits.ctypes.data,
            self._shift,
            wanted.ctypes.data,
            offsets.ctypes.data,
            queries.ctypes.data,
            len(queries),
            rows.ctypes.data,
            at.ctypes.data,
        )
        return rows[:found].copy(), at[:found].copy()


def match(
    hashed: Hashes, owners: Owners, table: Hashes, bounds: Ints, left_out: NDArray[np.bool_] | None
) -> tuple[Ints, Ints]:
    """(row, item) of every hash that an item of the same query has, by row. Query q has the items bounds[q] …
    bounds[q + 1] of the table, without those that are left out."""
    library = native()
    assert library is not None
    hashed, offsets = np.ascontiguousarray(hashed), np.ascontiguousarray(owners.offsets)
    queries, bounds = np.ascontiguousarray(owners.queries), np.ascontiguousarray(bounds)
    table = np.ascontiguousarray(table)
    left_out = None if left_out is None else np.ascontiguousarray(left_out)
    rows, items = np.empty((2, len(hashed)), np.int64)
    found = library.karat_match(
        hashed.ctypes.data,
        offsets.ctypes.data,
        queries.ctypes.data,
        len(queries),
        table.ctypes.data,
        bounds.ctypes.data,
        None if left_out is None else left_out.ctypes.data,
        rows.ctypes.data,
        items.ctypes.data,
    )
    if found < 0:
        raise MemoryError
    return rows[:found].copy(), items[:found].copy()


def confirmed(
    ids: Packed, byte: int | None, names: Packed, rows: Ints, items: Ints, chosen: NDArray[np.bool_] | None = None
) -> tuple[Ints, Ints]:
    """Those pairs of a row and an item in which the id is the name, or, with a byte, its part before the byte is.
    `chosen`: the rows that may be paired. Only with the native reader."""
    if chosen is not None and not (kept := chosen[rows]).all():
        rows, items = rows[kept], items[kept]
    ids, names, same = np.ascontiguousarray(ids), np.ascontiguousarray(names), np.empty(len(rows), np.bool_)
    all_same = native().karat_confirm(
        ids.ctypes.data,
        ids.itemsize,
        -1 if byte is None else byte,
        names.ctypes.data,
        names.itemsize,
        rows.ctypes.data,
        items.ctypes.data,
        len(rows),
        same.ctypes.data,
    )
    return (rows, items) if all_same else (rows[same], items[same])


def first_equal(hashed: Hashes) -> Ints:
    """For each hash the position of the first that is equal."""
    library = native()
    if library is None or len(hashed) >= 1 << 31:
        _, first, which = np.unique(hashed, return_index=True, return_inverse=True)
        return first[which]
    hashed, first = np.ascontiguousarray(hashed), np.empty(len(hashed), np.int64)
    slots = np.zeros(1 << max(4, (2 * len(hashed)).bit_length()), np.uint32)
    library.karat_firsts(hashed.ctypes.data, len(hashed), slots.ctypes.data, len(slots) - 1, first.ctypes.data)
    return first


def count_distinct(hashed: Hashes, offsets: Ints) -> Ints:
    """How many different hashes each owner has: owner i has offsets[i] … offsets[i + 1]."""
    library, size = native(), len(offsets) - 1
    if library is None:
        owner = np.repeat(np.arange(size), np.diff(offsets))
        order = np.lexsort((hashed, owner))
        fresh = np.append(True, (np.diff(hashed[order]) != 0) | (np.diff(owner[order]) != 0))[: len(order)]
        return np.bincount(owner[order[fresh]], minlength=size)
    hashed, offsets = np.ascontiguousarray(hashed), np.ascontiguousarray(offsets)
    counts = np.empty(size, np.int64)
    if library.karat_distinct(hashed.ctypes.data, offsets.ctypes.data, size, counts.ctypes.data) < 0:
        raise MemoryError
    return counts


class Seen:
    """Names seen so far. Each is kept as a 64-bit hash: false alarms are next to impossible, and callers check every
    alarm."""

    def __init__(self) -> None:
        self._blocks: list[Ints] = []  # sorted, and each more than twice as long as the next
        self._slots = np.zeros(1 << 8, np.uint64)  # instead of them, with the native reader
        self._count = 0

    def add(self, names: Sequence[Hashable]) -> bool:
        """Whether one of them was seen before, or occurs twice."""
        new = np.fromiter(map(hash, names), np.int64, len(names))
        return self._add_sorted(np.sort(new)) if native() is None else self.add_hashes(new.view(np.uint64))

    def add_texts(self, names: list[str]) -> bool:
        """The same, for texts only: either all names are added this way, or none."""
        return self.add(names) if native() is None else self.add_hashes(hash_texts(names))

    def add_hashes(self, new: Hashes) -> bool:
        """The same, for hashes of texts. Only with the native reader."""
        self._count += len(new)
        if 2 * self._count > len(self._slots):
            old, self._slots = self._slots, np.zeros(1 << (4 * self._count).bit_length(), np.uint64)
            self._fill(old[old != 0])
        return self._fill(new)

    def _fill(self, new: Hashes) -> bool:
        slots = self._slots.ctypes.data
        return bool(native().karat_seen(new.ctypes.data, len(new), slots, len(self._slots) - 1))

    def _add_sorted(self, new: Ints) -> bool:
        again = bool((new[1:] == new[:-1]).any()) or any(_any_in(new, block) for block in self._blocks)
        self._blocks.append(new)
        while len(self._blocks) > 1 and len(self._blocks[-2]) <= 2 * len(self._blocks[-1]):
            self._blocks[-2:] = [np.sort(np.concatenate(self._blocks[-2:]), kind="stable")]
        return again


class QueriesSeen:
    """Queries seen so far. As long as they come in the order of the gold set, which has each of them once, nothing is
    kept of them."""

    def __init__(self, expected: list[str]) -> None:
        self._expected, self._in_order = expected, 0
        self._seen: Seen | None = None
        self.is_new: bool = True  # whether none was added

    def expected(self, begun: int, count: int) -> list[str]:
        """The next queries of the gold set, after some that were not added yet; none if another order was seen."""
        start = self._in_order + begun
        return self._expected[start : start + count] if self._seen is None else []

    def add(self, queries: list[str]) -> list[str] | None:
        """The queries, as the gold set has them if they are in order; None if one was seen before."""
        self.is_new = False
        if self._seen is None:
            known = self._expected[self._in_order : self._in_order + len(queries)]
            if known == queries:
                self._in_order += len(queries)
                return known
            self._seen = Seen()
            self._seen.add_texts(self._expected[: self._in_order])
        return None if self._seen.add_texts(queries) else queries


def _any_in(names: Ints, block: Ints) -> bool:
    return len(block) > 0 and bool((block.take(np.searchsorted(block, names), mode="clip") == names).any())
