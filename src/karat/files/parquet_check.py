"""Checks the sizes in the headers of a Parquet file before anything is unpacked.

Only the footer and the page headers are read (Thrift, compact protocol). They give the number of values and the
unpacked size of every page. This is fast: there is about one header per megabyte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

_MAGIC = b"PAR1"
_HEADER = 1 << 10  # bytes, enough for most page headers; longer ones are read again
_LONGEST_HEADER = 16 << 20
_DEEPEST = 32  # structs in structs
_WIDTHS = (1, 4, 8, 12, 4, 8, 16, 16)  # bytes of a value in memory, by physical type
# Types of the compact protocol
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 12, 13
_NUMBERS = (4, 5, 6)


class DamagedParquet(Exception):
    """A file that contradicts itself."""


def expanded_size(stream: IO[bytes], size: int) -> int:
    """Return the approximate bytes of the file in memory. Raises DamagedParquet if its parts do not fit its size."""
    try:
        return _expanded_size(stream, size)
    except IndexError:
        raise DamagedParquet("a header is cut off") from None


def _expanded_size(stream: IO[bytes], size: int) -> int:
    stream.seek(max(0, size - 8))
    end = stream.read(8)
    if size < 12 or end[4:] != _MAGIC:
        raise DamagedParquet("the end of the file is missing")
    start = size - 8 - int.from_bytes(end[:4], "little")
    if start < len(_MAGIC):
        raise DamagedParquet("the footer is larger than the file")
    stream.seek(start)
    total = 0
    for chunk in _chunks(_Thrift(stream.read(size - 8 - start))):
        total += _chunk_size(stream, chunk, start)
    return total


def _chunks(footer: _Thrift) -> Iterator[dict[int, int]]:
    """Yield the numbers of every column chunk, by field."""
    for field, kind in footer.fields():
        if field == 3 and footer.number(kind) < 0:
            raise DamagedParquet("the number of rows is negative")
        elif field == 4:
            for _ in footer.items(kind, _STRUCT):
                yield from _row_group(footer)
        elif field != 3:
            footer.skip(kind)


def _row_group(footer: _Thrift) -> Iterator[dict[int, int]]:
    for field, kind in footer.fields():
        if field != 1:
            footer.skip(kind)
            continue
        for _ in footer.items(kind, _STRUCT):
            for inner, type_ in footer.fields():
                if inner == 3 and type_ == _STRUCT:
                    yield footer.numbers()
                else:
                    footer.skip(type_)


def _chunk_size(stream: IO[bytes], chunk: dict[int, int], end: int) -> int:
    """Return the unpacked bytes of a column chunk. `end`: where the footer begins."""
    values, packed, at = chunk.get(5, 0), chunk.get(7, 0), chunk.get(9, 0)
    dictionary = chunk.get(11, 0)
    at = dictionary if 0 < dictionary < at else at
    if values < 0 or packed < 0 or not 0 <= chunk.get(1, 0) < len(_WIDTHS):
        raise DamagedParquet("a column has an impossible size")
    total = values * _WIDTHS[chunk.get(1, 0)]
    while values > 0:
        if not len(_MAGIC) <= at < end:
            raise DamagedParquet("a page is outside the file")
        header, after = _page_header(stream, at, end)
        unpacked, size, count = header.get(2, 0), header.get(3, 0), header.get(-1, 0)
        if min(unpacked, size, count) < 0 or after + size > end:
            raise DamagedParquet("a page has an impossible size")
        total += unpacked
        values -= count
        at = after + size
    if values < 0:
        raise DamagedParquet("a column has more values than its header says")
    return total


def _page_header(stream: IO[bytes], at: int, end: int) -> tuple[dict[int, int], int]:
    """Return the numbers of a page by field (-1: its values), and where the page begins."""
    size = _HEADER
    while True:
        stream.seek(at)
        reader = _Thrift(stream.read(min(size, end - at)))
        try:
            found: dict[int, int] = {}
            for field, kind in reader.fields():
                if field in (5, 8) and kind == _STRUCT:
                    found[-1] = reader.numbers().get(1, -1)
                elif field in (2, 3):
                    found[field] = reader.number(kind)
                else:
                    reader.skip(kind)
            return found, at + reader.at
        except IndexError:
            if size >= min(end - at, _LONGEST_HEADER):
                raise
            size *= 16


class _Thrift:
    """Reads the compact protocol. Raises IndexError past the end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Yield number and type of each field of a struct; the caller reads or skips its value."""
        field = 0
        while head := self._byte():
            kind, step = head & 15, head >> 4
            field = field + step if step else self._zigzag()
            yield field, kind

    def numbers(self) -> dict[int, int]:
        """Return the whole numbers of a struct by field."""
        found = {}
        for field, kind in self.fields():
            if kind in _NUMBERS:
                found[field] = self._zigzag()
            else:
                self.skip(kind)
        return found

    def number(self, kind: int) -> int:
        if kind not in _NUMBERS:
            raise DamagedParquet("a header has a value of another type")
        return self._zigzag()

    def items(self, kind: int, of: int) -> range:
        """Iterate over the items of a list, which must have this type."""
        if kind != _LIST:
            raise DamagedParquet("a header has a value of another type")
        count, inner = self._list()
        if inner != of and count:
            raise DamagedParquet("a header has a list of another type")
        return range(count)

    def skip(self, kind: int, depth: int = 0) -> None:
        if depth > _DEEPEST:
            raise DamagedParquet("a header is nested too deeply")
        if kind in _NUMBERS:
            self._varint()
        elif kind == _BINARY:
            self._leap(self._varint())
        elif kind == _STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind in (_LIST, _SET):
            count, inner = self._list()
            for _ in range(count):
                if inner in (_TRUE, _FALSE):
                    self._byte()
                else:
                    self.skip(inner, depth + 1)
        elif kind == _DOUBLE:
            self._leap(8)
        elif kind == _BYTE:
            self._byte()
        elif kind == _UUID:
            self._leap(16)
        elif kind not in (_TRUE, _FALSE):  # no header of Parquet has a map
            raise DamagedParquet("a header has a value of an unknown type")

    def _list(self) -> tuple[int, int]:
        head = self._byte()
        count = head >> 4
        if count == 15:
            count = self._varint()
        if count > len(self.data) - self.at:  # every item takes a byte at least
            raise DamagedParquet("a header has a list that is longer than the file")
        return count, head & 15

    def _leap(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise IndexError

    def _byte(self) -> int:
        found = self.data[self.at]
        self.at += 1
        return found

    def _varint(self) -> int:
        found = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 127) << shift
            if byte < 128:
                return found
            shift += 7
            if shift > 63:
                raise DamagedParquet("a header has a number that is too large")

    def _zigzag(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
