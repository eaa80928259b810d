"""Item ids in bulk: a Python list, a polars Series (large tables), the keys of dicts, or bytes packed in an array (run
logs); one set of operations.

Ids are matched by a 64-bit hash and then confirmed as text, so hashes need not be unique.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import chain, pairwise, repeat
from math import nan
from operator import contains, eq
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from karat.data.hash_tables import HashTable as HashTable
from karat.data.hash_tables import MarkedNames as MarkedNames
from karat.data.hash_tables import Owners as Owners
from karat.data.hash_tables import QueriesSeen as QueriesSeen
from karat.data.hash_tables import Seen as Seen
from karat.data.hash_tables import confirmed as confirmed
from karat.data.hash_tables import count_distinct as count_distinct
from karat.data.hash_tables import first_equal as first_equal
from karat.data.hash_tables import match as match
from karat.data.packed_ids import LONGEST as LONGEST
from karat.data.packed_ids import PIECE, Shape, cut_packed, has_byte, hash_cut, hash_packed, pack, same_packed, unpack
from karat.data.packed_ids import Hashes as Hashes
from karat.data.packed_ids import Ints as Ints
from karat.data.packed_ids import Packed as Packed
from karat.errors import ConfigError
from karat.files.native import native

if TYPE_CHECKING:
    import polars as pl

Ids: TypeAlias = "list[str] | pl.Series | Keys | Packed"

Floats: TypeAlias = np.ndarray[Shape, np.dtype[np.float64]]
Bools: TypeAlias = np.ndarray[Shape, np.dtype[np.bool_]]

_JOINED = 100_000
_TEXT = 56  # overhead of a Python string, in bytes
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


def bisect_descending(values: Floats, low: Ints, high: Ints, wanted: Floats, before: np.ufunc) -> Ints:
    """For each i the first position in values[low[i]:high[i]], which descend, that is not `before` wanted[i]."""
    place = low.copy()
    step = 1 << int((high - low).max(initial=0)).bit_length() >> 1
    while step:  # binary search for all at once
        last = place + (step - 1)
        inside = last < high
        inside &= before(values.take(last, mode="clip"), wanted)
        place += inside * step
        step >>= 1
    return place


class Keys:
    """Ids that are the keys of dicts id → score, one dict per query: looked up instead of scanned wherever possible."""

    def __init__(self, tables: list[dict[str, float]], listed: list[str], offsets: Ints, scores: Floats) -> None:
        self.tables = tables
        self.listed = listed
        self.offsets = offsets
        self.scores = scores

    def __len__(self) -> int:
        return len(self.scores)

    def find(self, query: Ints, table: list[str], table_query: Ints) -> tuple[Ints, Ints]:
        """As `find` below."""
        filled = np.flatnonzero(np.diff(self.offsets))
        last = max(int(query.max(initial=0)), int(table_query.max(initial=0)))
        place = np.full(last + 1, -1)
        place[query[self.offsets[filled]]] = filled
        at = np.flatnonzero(place[table_query] >= 0)
        names, of = take_list(table, at), place[table_query[at]]
        found = self._looked_up(names, of)
        rows, nth = self._listed(names, of) if found is None else found
        return rows, at[nth]

    def _looked_up(self, names: list[str], of: Ints) -> tuple[Ints, Ints] | None:
        """(row, number of the name). A dict tells whether an id is present, its score tells where. None where so many
        scores are tied that checking every id is less work."""
        tables = map(self.tables.__getitem__, of.tolist())
        score = np.fromiter(map(dict.get, tables, names, repeat(nan)), np.float64, len(names))
        there = np.flatnonzero(~np.isnan(score))
        score, of = score[there], of[there]
        order = self._by_score
        scores = self.scores if order is None else self.scores[order]
        ends = self.offsets[of + 1]
        first = bisect_descending(scores, self.offsets[of], ends, score, np.greater)
        rows = first if order is None else order[first]
        after = np.minimum(first + 1, len(scores) - 1)
        tied = np.flatnonzero((after < ends) & (scores[after] == score))
        sizes = bisect_descending(scores, first[tied], ends[tied], score[tied], np.greater_equal) - first[tied]
        if sizes.sum() > len(self):
            return None
        which = np.repeat(np.arange(len(tied)), sizes)
        places = np.arange(len(which)) + (first[tied] - (np.cumsum(sizes) - sizes))[which]
        candidates = places if order is None else order[places]
        same = equal(self.take(candidates), take_list(names, there[tied[which]]))
        rows[tied[which[same]]] = candidates[same]
        return rows, there

    def _listed(self, names: list[str], of: Ints) -> tuple[Ints, Ints]:
        """The same by checking every id."""
        rows, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        bounds = np.flatnonzero(np.diff(of, prepend=-1, append=-1)).tolist()
        for start, end in pairwise(bounds):
            wanted = dict(zip(names[start:end], range(start, end), strict=True))
            keyed = self.tables[of[start]]
            number = np.fromiter(map(wanted.get, keyed, repeat(-1)), np.int64, len(keyed))
            there = np.flatnonzero(number >= 0)
            rows.append(there + self.offsets[of[start]])
            numbers.append(number[there])
        return np.concatenate(rows), np.concatenate(numbers)

    @cached_property
    def _by_score(self) -> Ints | None:
        """Rows by query and score, highest first; None where they are in this order already."""
        rises = np.append(self.scores[1:] > self.scores[:-1], False)
        rises[self.offsets[1:] - 1] = False  # the next row belongs to another query
        if not rises.any():
            return None
        return np.lexsort((-self.scores, np.repeat(np.arange(len(self.tables)), np.diff(self.offsets))))

    def take(self, rows: Ints) -> list[str]:
        return list(map(self.listed.__getitem__, rows.tolist()))


def hashes(ids: Ids) -> Hashes:
    """A 64-bit hash of every id. Comparable only between containers of the same kind, in one process."""
    if isinstance(ids, Keys):
        return hashes(ids.listed)
    if isinstance(ids, list):
        return np.fromiter(map(hash, ids), np.int64, len(ids)).view(np.uint64)
    if isinstance(ids, np.ndarray):
        return hash_packed(ids)
    return ids.hash(0).to_numpy()


def joined_ids(parts: list[list[str] | Packed]) -> list[str] | Packed:
    """Concatenate ids, in an array where all of them are."""
    if len(parts) == 1:
        return parts[0]
    if parts and all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return list(chain.from_iterable(map(as_list, parts)))


def size_of(ids: Ids) -> int:
    """Approximate bytes of ids in memory."""
    if isinstance(ids, np.ndarray):
        return int(ids.nbytes)
    if isinstance(ids, (list, Keys)):
        return sum(map(len, as_list(ids))) + _TEXT * len(ids)
    return int(ids.estimated_size())


def compact(ids: list[str]) -> Ids:
    """The same ids in the container whose operations are vectorised."""
    import polars as pl

    return pl.Series(ids, dtype=pl.String)


def like(ids: Ids, values: list[str]) -> Ids:
    """`values` in the same kind of container as `ids`, so that their hashes can be compared."""
    if isinstance(ids, np.ndarray):
        return pack(values)
    return values if isinstance(ids, (list, Keys)) else compact(values)


def take(ids: Ids, rows: Ints) -> Ids:
    if isinstance(ids, Keys):
        return ids.take(rows)
    if isinstance(ids, list):
        return ids[rows[0] : rows[-1] + 1] if adjoin(rows) else list(map(ids.__getitem__, rows.tolist()))
    if isinstance(ids, np.ndarray):
        return ids[rows]
    return ids.gather(rows)


def adjoin(rows: Ints) -> bool:
    """Whether rows are consecutive and ascending."""
    return len(rows) > 0 and rows[-1] - rows[0] == len(rows) - 1 and bool((rows[1:] - rows[:-1] == 1).all())


def as_slice(rows: Ints) -> Ints | slice:
    """The same rows, as a slice if they are consecutive: arrays are read and filled faster with it."""
    return slice(int(rows[0]), int(rows[-1]) + 1) if adjoin(rows) else rows


def take_list(ids: Ids, rows: Ints) -> list[str]:
    return as_list(take(ids, rows))


def as_list(ids: Ids) -> list[str]:
    if isinstance(ids, Keys):
        return ids.listed
    if isinstance(ids, np.ndarray):
        return unpack(ids)
    return ids if isinstance(ids, list) else ids.to_list()


def equal(left: Ids, right: Ids) -> Bools:
    """Pairwise; what was taken from a container is a list or a Series."""
    if isinstance(left, (list, Keys)):
        return np.fromiter(map(eq, as_list(left), as_list(right)), np.bool_, len(left))
    if isinstance(left, np.ndarray):
        return same_packed(left, right) if isinstance(right, np.ndarray) else np.asarray(left == right)
    return left.eq(right).to_numpy()


def keys(hashed: Hashes, query: Ints) -> Hashes:
    """Hashes made distinct by query, so that one lookup covers many queries at once."""
    return hashed ^ (query.astype(np.uint64) * _SPREAD)


def hashes_if_needed(ids: Ids) -> Hashes | None:
    """For `find` and `may_repeat`, so that an id is hashed once for both; None where neither hashes every id."""
    return None if isinstance(ids, (list, Keys)) else hashes(ids)


def find(
    ids: Ids, owners: Owners | Ints, table: list[str] | Packed, table_query: Ints, hashed: Hashes | None = None
) -> tuple[Ints, Ints]:
    """(row, table row) of every id that is in the table under the same query. Packed ids need a packed table."""
    if isinstance(owners, Owners) and native() is not None and not isinstance(ids, (list, Keys)):
        listed = table if isinstance(table, np.ndarray) else like(ids, table)
        found, at = HashTable(keys(hashes(listed), table_query)).find_owned(
            hashes(ids) if hashed is None else hashed, owners
        )
        same = equal(take(ids, found), take(listed, at))
        return (found, at) if same.all() else (found[same], at[same])
    query = owners.of_rows() if isinstance(owners, Owners) else owners
    if isinstance(ids, Keys):
        return ids.find(query, as_list(table), table_query)
    if isinstance(ids, list):
        wanted = set(table)
        rows = np.flatnonzero(np.fromiter(map(wanted.__contains__, ids), np.bool_, len(ids)))
        ids, query = take(ids, rows), query[rows]
    else:
        rows = None
    listed = table if isinstance(table, np.ndarray) else like(ids, table)
    found, at = HashTable(keys(hashes(listed), table_query)).find(
        keys(hashes(ids) if hashed is None else hashed, query)
    )
    same = equal(take(ids, found), take(listed, at))
    found, at = found[same], at[same]
    return found if rows is None else rows[found], at


def may_repeat(ids: Ids, offsets: Ints, hashed: Hashes | None = None) -> bool:
    """Whether some id may occur twice in its query; never False when one does."""
    if isinstance(ids, Keys):
        return False
    if isinstance(ids, list):
        bounds = offsets.tolist()
        distinct = sum(len(set(ids[a:b])) for a, b in pairwise(bounds))
        return distinct < len(ids)
    hashed, library = hashes(ids) if hashed is None else hashed, native()
    if library is not None:
        hashed, offsets = np.ascontiguousarray(hashed), np.ascontiguousarray(offsets)
        return bool(library.karat_repeats(hashed.ctypes.data, offsets.ctypes.data, len(offsets) - 1))
    return has_repeats(keys(hashed, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))


def has_repeats(keyed: Hashes) -> bool:
    ordered = np.sort(keyed)
    return bool((ordered[1:] == ordered[:-1]).any())


def repeats_within(ids: list[str] | Packed, counts: Ints) -> bool:
    """Whether some id may occur twice with its owner, where owner i has counts[i] ids; never False when one does."""
    ends = np.cumsum(counts)
    at = first = 0
    while first < len(counts):
        last = int(np.searchsorted(ends, at + PIECE, "right"))
        last = max(last, first + 1)
        bounds = np.append(at, ends[first:last]) - at
        piece = ids[at : int(ends[last - 1])]
        if may_repeat(piece, bounds):
            return True
        at, first = int(ends[last - 1]), last
    return False


def rows_of(offsets: Ints, owners: Ints) -> Ints:
    """The rows of the given owners, one after the other: owner i has offsets[i] … offsets[i + 1]."""
    if adjoin(owners):
        return np.arange(offsets[owners[0]], offsets[owners[-1] + 1])
    starts, counts = offsets[owners], offsets[owners + 1] - offsets[owners]
    first = np.repeat(starts - (np.cumsum(counts) - counts), counts)
    return first + np.arange(counts.sum())


class DocRule:
    """Maps a chunk to its document: the text before a separator, or the group of a regular expression."""

    def __init__(self, rule: str = "#") -> None:
        self.rule = rule
        self.pattern: re.Pattern[str] | None = None
        if "(" in rule:
            try:
                self.pattern = re.compile(rule)
            except re.error as error:
                raise ConfigError(
                    f"--doc-of {rule!r} is not a regular expression: {error}", code="bad-pattern"
                ) from error
            if self.pattern.groups != 1:
                raise ConfigError(f"--doc-of {rule!r} must have one group: the document id", code="bad-pattern")

    def doc(self, item: str) -> str:
        if self.pattern is None:
            return item.partition(self.rule)[0] if self.rule else item
        found = self.pattern.search(item)
        return item if found is None or found[1] is None else found[1]

    def chunks(self, ids: list[str]) -> Bools:
        """Which ids name a part of a document."""
        if self.pattern is None and self.rule:
            return np.fromiter(map(contains, ids, repeat(self.rule)), np.bool_, len(ids))
        return np.fromiter((self.doc(i) != i for i in ids), np.bool_, len(ids))

    @cached_property
    def byte(self) -> int | None:
        """The separator if it is a single byte. NUL and 1 do not count: packed ids use them for padding and escapes."""
        byte = self.rule.encode("utf-8", "replace") if self.pattern is None else b""
        return byte[0] if len(byte) == 1 and byte > b"\1" else None

    def docs(self, ids: Ids) -> Ids:
        if self.byte is not None and isinstance(ids, np.ndarray):
            return cut_packed(ids, self.byte)
        values = as_list(ids)
        if self.pattern is None and self.rule:
            cut = self.rule
            return like(ids, [i.partition(cut)[0] for i in values])
        return like(ids, [self.doc(i) for i in values])

    def doc_hashes(self, ids: Ids) -> Hashes:
        """As `hashes(self.docs(ids))`."""
        if self.byte is not None and isinstance(ids, np.ndarray):
            return hash_cut(ids, self.byte)
        return hashes(self.docs(ids))

    def any_chunk(self, ids: Ids, written: bytes | None = None) -> bool:
        """Whether an id may name a part of a document; `written`: the bytes they were read from, faster to search."""
        if self.pattern is not None:
            return True
        if not self.rule:
            return False
        if self.byte is not None and isinstance(ids, np.ndarray):
            return has_byte(ids, self.byte)
        if isinstance(ids, np.ndarray) and min(self.rule) > "\1":  # these two are padding and escapes
            written = ids.tobytes()
        if written is not None and self.rule.encode() not in written:
            return False
        if isinstance(ids, (Keys, np.ndarray)):
            ids = as_list(ids)
        if isinstance(ids, list):
            # One search in joined text is ten times faster than one per id.
            parts = ("\0".join(ids[i : i + _JOINED]) for i in range(0, len(ids), _JOINED))
            return any(self.rule in part for part in parts)
        return bool(ids.str.contains(self.rule, literal=True).any())
