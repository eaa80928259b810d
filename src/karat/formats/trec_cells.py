"""Cells of TREC files whose lines are all alike: taken apart all at once, where a loop over lines would be slow."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_PIECE = 1 << 17
_AS_SPACES = bytes.maketrans(b"\t\n", b"  ")


def cells(block: bytes, columns: int) -> list[str] | None:
    """All cells of a block, line after line; None unless each line has so many, with one space or tab between two."""
    if not block.endswith(b"\n"):
        block += b"\n"
    if not is_regular(block, b" \t"):
        block = block.replace(b"\r\n", b"\n")
        if not is_regular(block, b" \t"):
            return None
    text = np.frombuffer(block, np.uint8)
    ends = text[text <= 32] == ord("\n")
    if len(ends) % columns or ends.sum() * columns != len(ends) or not ends[columns - 1 :: columns].all():
        return None
    try:
        return block[:-1].translate(_AS_SPACES).decode().split(" ")
    except UnicodeDecodeError:
        return None


def is_regular(block: bytes, separators: bytes) -> bool:
    """Whether every piece of white space in a block is one separator between two columns, or one line break."""
    text = np.frombuffer(block, np.uint8)
    pieces = (text[at : at + _PIECE + 1] for at in range(0, len(text), _PIECE))  # they overlap by a byte
    return block[0] > 32 and all(_is_regular_piece(piece, separators) for piece in pieces)


def _is_regular_piece(piece: NDArray[np.uint8], separators: bytes) -> bool:
    white = piece <= 32
    if (white[1:] & white[:-1]).any():
        return False
    usual = sum(np.count_nonzero(piece == byte) for byte in (*separators, ord("\n")))
    return bool(np.count_nonzero(white) == usual)
