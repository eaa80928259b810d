"""Ids as bytes in an array: packed, hashed and cut without a Python text for each of them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from karat.data.native import native

Ints: TypeAlias = NDArray[np.int64]
Hashes: TypeAlias = NDArray[np.uint64]
Packed: TypeAlias = NDArray[np.bytes_]  # UTF-8, filled up with NUL to whole words

WORD = 8  # bytes
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_EACH_1 = 0x0101010101010101
_U_EACH_1, _EACH_80, _U1, _U7 = map(np.uint64, (_EACH_1, 0x80 * _EACH_1, 1, 7))
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(WORD + 1)], "<u8")  # masks that leave so many of a word


def pack(ids: list[str]) -> Packed:
    """Ids as bytes in an array. A NUL inside of an id gets a companion, for at the end of one it would not be seen."""
    joined = "".join(ids)
    if joined.isascii() and "\0" not in joined:
        text, sizes = joined.encode(), np.fromiter(map(len, ids), np.int64, len(ids))
    else:
        encoded = [i.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\1") for i in ids]
        text, sizes = b"".join(encoded), np.fromiter(map(len, encoded), np.int64, len(ids))
    return gather(text + bytes(int(sizes.max(initial=0)) + WORD), np.cumsum(sizes) - sizes, sizes)


def gather(text: bytes, first: Ints, sizes: Ints) -> Packed:
    """Pieces of a text. It must go on after the last of them for as long as the longest, and a word."""
    width = max(1, -(-int(sizes.max(initial=0)) // WORD)) * WORD
    windows: Packed = np.ndarray(len(text) - width + 1, f"S{width}", text, strides=(1,))
    packed = windows[first]
    words = _words(packed)
    for place in range(width // WORD):
        words[:, place] &= _FIRST_BYTES[np.minimum(np.maximum(sizes - place * WORD, 0), WORD)]
    return packed


def packed_pieces(text: bytes, first: NDArray[np.uint32], sizes: NDArray[np.uint32], longest: int) -> Packed:
    """Pieces of a text, by the native reader. They must lie inside of it, and none may be longer than is said."""
    packed: Packed = np.empty(len(first), f"S{max(1, -(-longest // WORD)) * WORD}")
    native().karat_pack(text, first.ctypes.data, sizes.ctypes.data, len(first), packed.itemsize, packed.ctypes.data)
    return packed


def joined_pieces(text: bytes, first: Ints, end: Ints) -> bytes:
    """Pieces of a text with a line break between two, by the native reader. They must lie inside of it."""
    first, end = np.ascontiguousarray(first), np.ascontiguousarray(end)
    joined = np.empty(int((end - first).sum()) + len(first), np.uint8)
    size = native().karat_join(text, first.ctypes.data, end.ctypes.data, len(first), joined.ctypes.data)
    return joined[:size].tobytes()


def _words(packed: Packed) -> Hashes:
    return packed.view("<u8").reshape(len(packed), packed.itemsize // WORD)


def hash_packed(packed: Packed) -> Hashes:
    """Words that are NUL add nothing, so that arrays of different width can be compared."""
    library = native()
    if library is not None:
        packed, hashed = np.ascontiguousarray(packed), np.empty(len(packed), np.uint64)
        library.karat_hash(packed.ctypes.data, len(packed), packed.itemsize // WORD, hashed.ctypes.data)
        return hashed
    total = np.zeros(len(packed), np.uint64)
    for place, word in enumerate(_words(packed).T):
        mixed = word * (_SPREAD + np.uint64(2 * place))
        total += mixed ^ (mixed >> np.uint64(32))
    total *= _SPREAD
    return total ^ (total >> np.uint64(29))


def cut_packed(packed: Packed, byte: int) -> Packed:
    """Cut each id before the first occurrence of a byte, eight bytes at a time."""
    cut = packed.copy()
    each = np.uint64(byte * _EACH_1)
    done = np.zeros(len(cut), np.bool_)
    for word in _words(cut).T:
        same = word ^ each  # 0 where the byte is
        found = (same - _U_EACH_1) & ~same & _EACH_80
        found &= ~found + _U1  # the first byte of a text is the lowest of its word
        word &= (found >> _U7) - _U1
        word[done] = 0
        done |= found != 0
    return cut
