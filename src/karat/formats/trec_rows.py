"""Lines of TREC files: by the native reader, with any white space between columns and lines of a query in stretches;
or value by value, with errors that name the line. And where a block of them may be cut."""

from __future__ import annotations

import ctypes
import re
import threading
from math import isfinite

import msgspec
import numpy as np

from karat.data.ids import LONGEST, Floats, Hashes, Ints, Packed
from karat.data.packed_ids import WORD, joined_pieces
from karat.errors import InputError
from karat.files.native import native

_LARGEST = 1 << 30  # bytes of a block
_LOOKED_AT, _SPARE = 1 << 16, 1.25  # for a first guess how many lines a block has
_STEP = 1 << 12  # rows: memory is used again if arrays of all blocks are equally large
_FULL, _WIDE = -3, -4


class TrecRows(msgspec.Struct, frozen=True):
    """Lines of a block. Consecutive lines of a query are a stretch."""

    queries: list[str]  # by stretch
    counts: Ints
    starts: Ints  # where its first line begins
    lines: Ints  # the number of that line, from 0
    ids: Packed  # by row
    hashed: Hashes  # of the ids
    numbers: Floats
    more_columns: int  # rows with more than six


class _Asked(ctypes.Structure):
    """`table_t` of trec.c."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("columns", "exactly", "number", "row_room", "odd_room", "width")),
        *((name, ctypes.c_void_p) for name in ("numbers", "ids", "hashes", "starts", "names", "name_sizes")),
        *((name, ctypes.c_void_p) for name in ("lines", "counts", "odd")),
        *((name, ctypes.c_int64) for name in ("odd_count", "stretches", "longest", "more_columns")),
    ]


class _Room(threading.local):
    """Arrays that the native reader fills, reused for the next block. Each thread has its own."""

    least = 0.0  # bytes of a line, as far as is known
    rows = 0

    def make(self, rows: int) -> None:
        if rows > self.rows:
            self.rows = rows
            # Little of them is used, so none should be so large that NumPy asks for huge pages.
            new = (np.empty(rows, np.int64) for _ in range(5))
            self.starts, self.names, self.name_sizes, self.lines, self.counts = new
            self.odd = np.empty((rows, 3), np.int64)
            self.pointers = {name: getattr(self, name).ctypes.data for name in _FILLED}


_FILLED = ("starts", "names", "name_sizes", "lines", "counts", "odd")
_LONGEST_NUMBER = 4096  # characters; for longer ones Python takes seconds to reject them
_room = _Room()
CUT_OFF = "the file may be cut off: copy it again, or remove its last line"


def read_rows(
    block: bytes, *, columns: int, number: int, exactly: bool = False, size: int | None = None, width: int = WORD
) -> TrecRows | None:
    """Query, id and number of every line of a block; None where the plain reader must read them.

    `columns`: how many there are, at least or exactly. `size`: how many bytes of the block count; all, if None.
    `width`: bytes of an id, as far as is known.
    """
    size = len(block) if size is None else size
    if native() is None or size > _LARGEST:
        return None
    if not _room.least:
        looked_at = max(1, min(size, _LOOKED_AT))
        _room.least = looked_at / (_SPARE * (block.count(b"\n", 0, looked_at) + 1))
    room = (int(size / _room.least) // _STEP + 1) * _STEP
    while True:
        _room.make(room)
        numbers, hashed = np.empty(room), np.empty(room, np.uint64)
        ids: Packed = np.empty(room, f"S{width}")
        asked = _Asked(
            columns=columns,
            exactly=exactly,
            number=number,
            row_room=room,
            odd_room=room,
            width=width,
            numbers=numbers.ctypes.data,
            ids=ids.ctypes.data,
            hashes=hashed.ctypes.data,
            **_room.pointers,
        )
        rows = native().karat_table(block, size, ctypes.byref(asked))
        if rows == _FULL:
            room *= 4  # this ends: a row takes more than a byte
        elif rows == _WIDE and asked.longest <= LONGEST:
            width = -(-asked.longest // WORD) * WORD
        else:
            break
    if rows <= 0:
        return None
    if size >= _LOOKED_AT:  # a small block says little about others
        _room.least = size / (rows + rows // 8 + 1)
    if not _read_odd(numbers[:rows], block, _room.odd[: asked.odd_count]):
        return None
    first, sizes = _room.names[: asked.stretches], _room.name_sizes[: asked.stretches]
    return TrecRows(
        joined_pieces(block, first, first + sizes).decode().split("\n"),
        _room.counts[: asked.stretches].copy(),
        _room.starts[: asked.stretches].copy(),
        _room.lines[: asked.stretches].copy(),
        ids[:rows],
        hashed[:rows],
        numbers[:rows],
        asked.more_columns,
    )


def read_float(text: bytes) -> float:
    if len(text) > _LONGEST_NUMBER or b"_" in text:  # only Python reads 1_0 as a number
        raise ValueError
    return float(text)


def _read_odd(numbers: Floats, block: bytes, odd: Ints) -> bool:
    """Read the numbers that need more than one exact step; False where one is not a finite number."""
    if not len(odd):
        return True
    try:
        found = [read_float(block[first : first + size]) for first, size in odd[:, 1:].tolist()]
    except ValueError:
        return False
    numbers[odd[:, 0]] = found
    return bool(np.isfinite(numbers).all())


def as_text(raw: bytes, label: str, line: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "the line is not UTF-8 text", code="not-utf8", file=label, line=line, hint="save the file as UTF-8"
        ) from error


def as_number(text: bytes, label: str, line: int, field: str) -> float:
    try:
        value = read_float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise not_usable(text, label, line, field, "a finite number")
    return value


def not_usable(text: bytes, label: str, line: int, field: str, expected: str) -> InputError:
    found = text.decode("utf-8", "replace")
    return InputError(
        "invalid value", code="bad-value", file=label, line=line, field=field, expected=expected, got=found
    )


def wrong_columns(label: str, line: int, expected: str, got: int, hint: str | None = None) -> InputError:
    said = f"{got} column{'s' if got != 1 else ''}"
    return InputError(
        "wrong number of columns", code="bad-row", file=label, line=line, expected=expected, got=said, hint=hint
    )


def is_number(text: bytes) -> bool:
    if text.replace(b".", b"", 1).isdigit():  # as most are; then no pattern is compiled
        return True
    return re.fullmatch(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf(inity)?)", text, re.I) is not None


def has_moved(parts: list[bytes], raw: bytes) -> bool:
    """Whether white space in an id moved the columns behind it, in a line with too many: a word becomes the rank, or a
    number becomes the tag. Or the line is several."""
    return not parts[3].isdigit() or is_number(parts[5]) or is_cut(raw)


def is_cut(raw: bytes) -> bool:
    """Whether a carriage return ends a line before the end of this one, as old computers wrote them."""
    return b"\r" in raw.rstrip(b"\r\n")


def last_query(block: bytes) -> int:
    """A place near the end of a block before which another query ends; 0 where there is only one."""
    end, mine = block.rfind(b"\n"), len(block)
    query: list[bytes] = []
    while not query and mine > 0:  # the last line that is not blank
        mine = block.rfind(b"\n", 0, max(end, 0)) + 1
        query, end = block[mine:end].split(maxsplit=1)[:1], mine - 1

    def is_other(begin: int) -> bool:
        """Whether the first line from a place on that is not blank is of another query."""
        return block[begin:mine].split(maxsplit=1)[:1] not in ([], query)

    step = 4096
    while not is_other(other := block.rfind(b"\n", 0, max(mine - step, 0)) + 1):
        if not other:
            return 0
        mine, step = other, 2 * step
    while True:  # lines begin at both places, of another query and of this one
        begin = block.rfind(b"\n", other, (other + mine) // 2) + 1 or block.find(b"\n", other) + 1
        if begin == mine:
            return mine
        other, mine = (begin, mine) if is_other(begin) else (other, begin)
