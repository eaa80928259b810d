"""Reads the headers of Parquet files: Thrift, compact protocol."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_DEEPEST = 32  # structs in structs
# Types of the compact protocol
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 12, 13
_NUMBERS = (4, 5, 6)


class DamagedParquet(Exception):
    """A file that contradicts itself."""


class Thrift:
    """Reads the compact protocol. Raises IndexError past the end."""

    def __init__(self, data: bytes) -> None:
        self.data: bytes = data
        self.at: int = 0

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

    def values(self, depth: int = 0) -> dict[int, Any]:
        """Return the fields of a struct: numbers, truths, bytes, lists and structs of the same. Others are left out."""
        found: dict[int, Any] = {}
        for field, kind in self.fields():
            if kind in (_TRUE, _FALSE):
                found[field] = kind == _TRUE
            else:
                found[field] = self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise DamagedParquet("a header is nested too deeply")
        if kind in _NUMBERS:
            return self._zigzag()
        if kind == _BINARY:
            size = self._varint()
            self._leap(size)
            return self.data[self.at - size : self.at]
        if kind == STRUCT:
            return self.values(depth + 1)
        if kind == _LIST:
            count, inner = self._list()
            if inner not in (_TRUE, _FALSE):
                return [self._value(inner, depth + 1) for _ in range(count)]
            self._leap(count)
            return None
        self.skip(kind, depth)
        return None

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
        elif kind == STRUCT:
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
