"""Columns of a Parquet file, page by page, by the native reader: texts and numbers, none of them missing.

Whatever is unusual raises `Unusual`. Such files are for polars (`safe_parquet.py`), which also finds what is wrong with
damaged ones.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Iterator
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from karat.files.limits import largest_content
from karat.files.native import native
from karat.files.thrift import DamagedParquet, Thrift

MAGIC = b"PAR1"
_BLOCK = 1 << 20  # bytes of a column to read at once
_LARGEST_FOOTER, _LARGEST_PAGE = 16 << 20, 64 << 20
_LONGEST = 128  # bytes of a text in an array, where each takes as much space as the longest
_WORD = 8
_DICTIONARY = 2  # a kind of page
_PLAIN, _RUNS, _INDEXED = 0, 3, (2, 8)  # how values and levels are written
_FULL = -3
_TYPES: dict[int, Any] = {1: np.int32, 2: np.int64, 4: np.float32, 5: np.float64}
_TEXT = 6
_SIGNED = (None, 15, 16, 17, 18)  # what may be said of whole numbers
_NONE, _SNAPPY, _GZIP, _ZSTD = 0, 1, 2, 6
Bytes = NDArray[np.uint8]


class Unusual(Exception):
    """The native reader does not read this."""


class Field(msgspec.Struct, frozen=True):
    """A column as the schema says it."""

    name: str
    kind: Literal["text", "number", "nested", "other"]
    type: int
    optional: bool


class Chunk(msgspec.Struct, frozen=True):
    """A column in a group of rows."""

    at: int  # where its first page begins
    end: int  # and where it ends
    values: int
    codec: int
    written: frozenset[int]


class ParquetTable(msgspec.Struct, frozen=True):
    """What the footer of a file says."""

    path: str
    size: int
    fields: dict[str, Field]
    rows: list[int]  # of each group
    chunks: dict[str, list[Chunk]]  # one per group

    @property
    def nested(self) -> bool:
        """Whether a column has lists or objects."""
        return any(field.kind == "nested" for field in self.fields.values())

    @property
    def height(self) -> int:
        return sum(self.rows)

    def group_of(self, row: int) -> tuple[int, int]:
        """The group that has a row, and its first row."""
        first = 0
        for group, rows in enumerate(self.rows):
            if row < first + rows:
                return group, first
            first += rows
        return len(self.rows), first

    def reads(self, name: str, kind: Literal["text", "number"]) -> bool:
        """Whether the native reader can read a column, as far as the footer tells."""
        found = self.fields.get(name)
        return (
            native() is not None
            and found is not None
            and found.kind == kind
            and all(
                chunk.written <= {_PLAIN, _RUNS, *_INDEXED} and _codec(chunk.codec) is not None
                for chunk in self.chunks[name]
            )
        )


def table_of(path: str | Path) -> ParquetTable | None:
    """Read the footer; None if it is damaged or unusual."""
    try:
        said = os.stat(path)
        return _known_table(str(path), said.st_ino, said.st_size, said.st_mtime_ns)
    except (OSError, DamagedParquet, Unusual, IndexError, KeyError, TypeError, AttributeError, ValueError):
        return None  # polars says what is wrong


@lru_cache(maxsize=4)  # several formats look at the columns of a file
def _known_table(path: str, *_: int) -> ParquetTable:
    with open(path, "rb") as stream:
        return _table(path, stream)


def _table(path: str, stream: IO[bytes]) -> ParquetTable:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 8))
    tail = stream.read(8)
    end = size - 8 - int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or end < len(MAGIC) or size - end > _LARGEST_FOOTER:
        raise Unusual
    stream.seek(end)
    footer = Thrift(stream.read(size - 8 - end)).values()
    fields = {field.name: field for field in _fields(footer[2])}
    rows, chunks = [], {name: list[Chunk]() for name in fields}
    for group in footer.get(4) or []:
        rows.append(group[3])
        for column in group[1]:
            name, *inner = (part.decode() for part in column[3][3])
            if not inner:
                chunks[name].append(_chunk(column, group[3], end))
    if min(rows, default=0) < 0 or sum(rows) != footer[3] or len(fields) < len(list(_fields(footer[2]))):
        raise Unusual
    return ParquetTable(path, size, fields, rows, chunks)


def _fields(schema: list[dict[int, Any]]) -> Iterator[Field]:
    """The columns of the first level."""
    at = 1
    for _ in range(schema[0][5]):
        said = schema[at]
        name, repeated, at = said[4].decode(), said.get(3, 0) == 2, _after(schema, at)
        yield Field(name, "nested" if repeated or said.get(5) else _kind(said), said.get(1, -1), said.get(3, 0) == 1)


def _after(schema: list[dict[int, Any]], at: int) -> int:
    """Where the next column begins."""
    left = 1
    while left:
        left += schema[at].get(5, 0) - 1
        at += 1
    return at


def _kind(said: dict[int, Any]) -> Literal["text", "number", "other"]:
    converted, logical = said.get(6), said.get(10) or {}
    if said[1] == _TEXT:
        return "text" if converted == 0 or 1 in logical else "other"
    plain = not logical or (10 in logical and logical[10].get(2) is True)
    return "number" if said[1] in _TYPES and converted in _SIGNED and plain else "other"


def _chunk(column: dict[int, Any], rows: int, most: int) -> Chunk:
    said = column[3]
    if column.get(1) or column.get(8) or said[5] != rows:  # in another file, or encrypted
        return Chunk(0, 0, 0, -1, frozenset())
    first, dictionary = said[9], said.get(11, 0)
    first = dictionary if 0 < dictionary < first else first
    if not len(MAGIC) <= first <= first + said[7] <= most:
        raise Unusual
    return Chunk(first, first + said[7], said[5], said[4], frozenset(said[2]))


@cache
def _codec(codec: int) -> Any:
    """What unpacks pages, as a function of bytes and their unpacked size; None where there is nothing for it."""
    if codec == _NONE:
        return lambda packed, size: packed
    if codec == _SNAPPY:
        return partial(_snappy, native())
    if codec == _GZIP:
        return lambda packed, size: zlib.decompressobj(31).decompress(packed, size + 1)
    return _zstd() if codec == _ZSTD else None


def _snappy(library: Any, packed: bytes, size: int) -> Bytes:
    unpacked = np.empty(size, np.uint8)
    if library.karat_snappy(packed, len(packed), unpacked.ctypes.data, size) < 0:
        raise Unusual
    return unpacked


def _zstd() -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        return lambda packed, size: zstd.ZstdDecompressor().decompress(packed, size + 1)
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        return None
    said = zstandard.frame_content_size
    return lambda packed, size: b"" if said(packed) > size else zstandard.decompress(packed, max_output_size=size)


class _State(ctypes.Structure):
    """`column_t` of parquet.c."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("size", "at", "left", "type", "bits", "run", "index", "base", "bit")),
        *((name, ctypes.c_int64) for name in ("wide", "entries", "width")),
        *((name, ctypes.c_void_p) for name in ("text", "firsts", "sizes", "packed", "hashes", "numbers")),
    ]


class _Stretches(ctypes.Structure):
    """`stretches_t` of parquet.c."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("room", "name_room", "stretches", "used", "last")),
        *((name, ctypes.c_void_p) for name in ("counts", "names")),
    ]


class _Page(ctypes.Structure):
    """`page_t` of parquet.c."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("optional", "codec", "values")),
        ("room", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("room_size", "kind", "unpacked", "packed", "count", "written", "levels")),
        *((name, ctypes.c_int64) for name in ("is_packed", "used")),
    ]


class Budget:
    """How much a file may unpack to."""

    def __init__(self, size: int) -> None:
        self._left = largest_content(size)

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise Unusual


class PageColumn:
    """The values of a column from some group of rows on. Each method reads the next ones."""

    def __init__(self, table: ParquetTable, name: str, stream: IO[bytes], group: int, budget: Budget) -> None:
        self._field, self._stream, self._budget = table.fields[name], stream, budget
        self._chunks = iter(table.chunks[name][group:])
        self._at = self._end = 0  # of the chunk: what was not read yet
        self._bytes, self._used = b"", 0  # read already, and how many of these were used
        self._native = native()
        self._state = _State(type=self._field.type)
        self._page = _Page(optional=self._field.optional)
        self._places = (ctypes.byref(self._state), ctypes.byref(self._page))
        self._room = np.empty(0, np.uint8)
        self._kept: list[Any] = []  # arrays of the dictionary, to which the state points

    def texts(self, count: int, ids: NDArray[np.bytes_], hashes: NDArray[np.uint64], at: int) -> NDArray[np.bytes_]:
        """Write texts and their hashes from a place on; returns the array, or a wider copy."""
        done = at
        while done < at + count:
            self._find_page()
            width = ids.itemsize
            places = (ids.ctypes.data + done * width, hashes.ctypes.data + done * hashes.itemsize)
            done += self._read(self._native.karat_page_ids, at + count - done, width, *places)
            if self._state.wide > _LONGEST:
                raise Unusual
            if self._state.wide:
                ids = ids.astype(f"S{-(-self._state.wide // _WORD) * _WORD}")
        return ids

    def numbers(self, count: int, numbers: NDArray[np.float64], at: int) -> None:
        """Write finite numbers from a place on."""
        done = at
        while done < at + count:
            self._find_page()
            done += self._read(self._native.karat_page_numbers, at + count - done, numbers.ctypes.data + 8 * done)

    def stretches(self, count: int, name: str = "", before: int = 0) -> tuple[list[str], NDArray[np.int64]]:
        """The next texts, the same in a row only once, and how many of each. `name` was read `before` times already."""
        opening = f"{name}\n".encode() if before else b""
        counts, names = np.empty(count + 1, np.int64), np.empty(len(opening) + 16 * count + 256, np.uint8)
        counts[0], names[: len(opening)] = before, np.frombuffer(opening, np.uint8)
        found = _Stretches(room=len(counts), stretches=before > 0, used=len(opening), counts=counts.ctypes.data)
        while count:
            found.name_room, found.names = len(names), names.ctypes.data
            self._find_page()
            read = self._read(self._native.karat_page_stretches, count, ctypes.byref(found))
            if not read:
                if len(names) > _LARGEST_PAGE:
                    raise Unusual
                names = np.concatenate([names[: found.used], np.empty(3 * len(names), np.uint8)])
            count -= read
        texts = names[: max(found.used - 1, 0)].tobytes().decode().split("\n")
        return texts if found.stretches else [], counts[: found.stretches]

    def _read(self, function: Any, *arguments: Any) -> int:
        read: int = function(self._places[0], *arguments)
        if read < 0:
            raise Unusual
        return read

    def _find_page(self) -> None:
        """Go to the next page with values, if all of this one were read."""
        page = self._page
        while not self._state.left:
            while not page.values:
                self._begin_chunk()
            text, left = self._bytes, len(self._bytes) - self._used
            place = _address(text) + self._used
            used = self._native.karat_page_next(self._places[0], place, left, self._places[1])
            if used == _FULL:
                self._make_room(left)
            elif used < 0:
                raise Unusual
            else:
                self._budget.spend(page.unpacked + _WORD * max(page.count, 0))
                if used < page.used:
                    self._take(text[self._used + used : self._used + page.used])
                self._used += page.used

    def _begin_chunk(self) -> None:
        chunk = next(self._chunks, None)
        if chunk is None:
            raise Unusual
        self._at, self._end = chunk.at, chunk.end
        self._page.values, self._page.codec = chunk.values, chunk.codec
        self._bytes, self._used = b"", 0
        self._state.entries, self._kept = 0, []

    def _make_room(self, left: int) -> None:
        """Read more bytes, or make the room for unpacked ones larger."""
        page = self._page
        if page.unpacked > _LARGEST_PAGE or page.used > _LARGEST_PAGE:
            raise Unusual
        if page.used and page.used <= left:
            self._room = np.empty(2 * page.unpacked, np.uint8)
            page.room, page.room_size = self._room.ctypes.data, len(self._room)
            return
        self._stream.seek(self._at)
        more = self._stream.read(min(max(_BLOCK, page.used), self._end - self._at))
        if not more or left > _LARGEST_PAGE:
            raise Unusual
        self._at += len(more)
        self._bytes, self._used = self._bytes[self._used :] + more, 0

    def _take(self, content: bytes) -> None:
        """Take a page that the library does not unpack, or a dictionary."""
        page = self._page
        before = max(page.levels, 0)
        packed = content[before:]
        data = self._unpacked(packed, page.unpacked - before) if page.is_packed else np.frombuffer(packed, np.uint8)
        if page.kind == _DICTIONARY:
            self._set_dictionary(page.count, page.written, data)
            return
        self._room = data
        page.room_size = 0
        if self._native.karat_page_take(*self._places, _address(content), data.ctypes.data, len(data)) < 0:
            raise Unusual

    def _unpacked(self, content: bytes, size: int) -> Bytes:
        try:
            made = _codec(self._page.codec)(content, size)
        except Exception:  # zlib and the zstd packages raise different errors
            raise Unusual from None
        if len(made) != size:
            raise Unusual
        return np.frombuffer(made, np.uint8)

    def _set_dictionary(self, count: int, written: int, data: Bytes) -> None:
        state = self._state
        if written not in (_PLAIN, 2) or not 0 <= count <= len(data):
            raise Unusual
        state.entries, self._kept = count, [data]
        if self._field.kind == "number":
            kind = np.dtype(_TYPES[self._field.type])
            if len(data) != count * kind.itemsize:
                raise Unusual
            numbers = data.view(kind).astype(np.float64)
            if not np.isfinite(numbers).all():
                raise Unusual
            self._kept.append(numbers)
            state.numbers = numbers.ctypes.data
            return
        firsts, sizes = np.empty((2, count), np.uint32)
        places = (firsts.ctypes.data, sizes.ctypes.data)
        longest = self._native.karat_page_texts(data.ctypes.data, len(data), count, *places)
        width = max(1, -(-longest // _WORD)) * _WORD
        if not 0 <= longest <= _LONGEST or width * count > 4 * len(data) + _BLOCK:
            raise Unusual
        packed, hashes = np.empty(count, f"S{width}"), np.empty(count, np.uint64)
        self._native.karat_pack(
            data.ctypes.data, len(data), *places, count, width, packed.ctypes.data, hashes.ctypes.data
        )
        self._kept += [firsts, sizes, packed, hashes]
        state.width, state.text = width, data.ctypes.data
        state.firsts, state.sizes = places
        state.packed, state.hashes = packed.ctypes.data, hashes.ctypes.data


def _address(content: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(content), ctypes.c_void_p).value or 0
