"""Cells of TREC files whose lines are all alike: taken apart all at once, where a loop over lines would be slow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from karat.data.ids import Floats, Ints, Packed
from karat.formats.json_columns import BEYOND, PaddedBytes, Places, read_numbers

_PIECE = 1 << 17
_SPACE, _TAB, _BREAK = b" \t\n"


class Cells:
    """Columns of a block of lines."""

    def __init__(self, text: PaddedBytes, first: Ints, end: Ints) -> None:
        self._text, self._first, self._end = text, first, end

    def packed(self, column: int) -> Packed | None:
        """None where one is too long for that."""
        return self._text.packed(self._at(column))

    def numbers(self, column: int) -> Floats | None:
        """None where one is not written as in JSON, or not finite."""
        found = read_numbers(self._text, self._at(column))
        return found if found is not None and np.isfinite(found).all() else None

    def _at(self, column: int) -> Places:
        return Places(self._first[:, column], self._end[:, column])


def cells(block: bytes, columns: int) -> Cells | None:
    """None unless each line of a block has so many cells, with one space or tab between two, in UTF-8."""
    if not block.endswith(b"\n"):
        block += b"\n"
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    text = PaddedBytes(block)
    inside = text.bytes[:-BEYOND]
    end = np.flatnonzero(inside <= _SPACE)
    if len(end) % columns:
        return None
    first = np.append(0, end[:-1] + 1)
    between = inside[end].reshape(-1, columns)
    parted = between[:, :-1]
    if (
        (first == end).any()
        or not (between[:, -1] == _BREAK).all()
        or not ((parted == _SPACE) | (parted == _TAB)).all()
        or not _is_utf8(block)
    ):
        return None
    return Cells(text, first.reshape(-1, columns), end.reshape(-1, columns))


def _is_utf8(block: bytes) -> bool:
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


def is_regular(block: bytes, separator: bytes) -> bool:
    """Whether every piece of white space in a block is one separator between two columns, or one line break."""
    text = np.frombuffer(block, np.uint8)
    pieces = (text[at : at + _PIECE + 1] for at in range(0, len(text), _PIECE))  # they overlap by a byte
    return block[0] > _SPACE and all(_is_regular_piece(piece, ord(separator)) for piece in pieces)


def _is_regular_piece(piece: NDArray[np.uint8], separator: int) -> bool:
    white = piece <= _SPACE
    if (white[1:] & white[:-1]).any():
        return False
    usual = np.count_nonzero(piece == separator) + np.count_nonzero(piece == _BREAK)
    return bool(np.count_nonzero(white) == usual)
