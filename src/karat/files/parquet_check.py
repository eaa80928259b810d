"""Checks the sizes in the headers of a Parquet file before anything is unpacked.

Only the footer and the page headers are read. They give the number of values and the unpacked size of every page. This
is fast: there is about one header per megabyte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from karat.files.thrift import STRUCT, DamagedParquet, Thrift

_MAGIC = b"PAR1"
_HEADER = 1 << 10  # bytes, enough for most page headers; longer ones are read again
_LONGEST_HEADER = 16 << 20
_WIDTHS = (1, 4, 8, 12, 4, 8, 16, 16)  # bytes of a value in memory, by physical type


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
    for chunk in _chunks(Thrift(stream.read(size - 8 - start))):
        total += _chunk_size(stream, chunk, start)
    return total


def _chunks(footer: Thrift) -> Iterator[dict[int, int]]:
    """Yield the numbers of every column chunk, by field."""
    for field, kind in footer.fields():
        if field == 3 and footer.number(kind) < 0:
            raise DamagedParquet("the number of rows is negative")
        elif field == 4:
            for _ in footer.items(kind, STRUCT):
                yield from _row_group(footer)
        elif field != 3:
            footer.skip(kind)


def _row_group(footer: Thrift) -> Iterator[dict[int, int]]:
    for field, kind in footer.fields():
        if field != 1:
            footer.skip(kind)
            continue
        for _ in footer.items(kind, STRUCT):
            for inner, type_ in footer.fields():
                if inner == 3 and type_ == STRUCT:
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
        reader = Thrift(stream.read(min(size, end - at)))
        try:
            found: dict[int, int] = {}
            for field, kind in reader.fields():
                if field in (5, 8) and kind == STRUCT:
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
