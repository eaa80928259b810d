"""Ids as bytes in an array: packed, hashed and cut without a Python string for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from karat.files.native import native

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Not from `numpy.typing`, which takes a millisecond to load.
Shape: TypeAlias = tuple[Any, ...]
Ints: TypeAlias = np.ndarray[Shape, np.dtype[np.int64]]
Hashes: TypeAlias = np.ndarray[Shape, np.dtype[np.uint64]]
Packed: TypeAlias = np.ndarray[Shape, np.dtype[np.bytes_]]  # UTF-8, filled up with NUL to whole words

WORD = 8  # bytes
LONGEST = 128  # bytes of an id in an array, where each takes as much space as the longest
PIECE = 10_000  # ids converted to Python strings at a time, to save memory
_SPARSE = 3  # an array may be this many times as large as the texts
_SPREAD = np.uint64(0x9E3779B97F4A7C15)
_EACH_1 = 0x0101010101010101
_U_EACH_1, _EACH_80, _U1, _U7 = map(np.uint64, (_EACH_1, 0x80 * _EACH_1, 1, 7))
_FIRST_BYTES = np.array([(1 << 8 * n) - 1 for n in range(WORD + 1)], "<u8")  # masks that keep this many bytes of a word


def pack(ids: list[str]) -> Packed:
    """Ids as bytes in an array. A NUL inside an id is escaped, since trailing NULs are padding."""
    packed = pack_joined("\0".join(ids), len(ids))
    if packed is not None:
        return packed
    encoded = [i.encode("utf-8", "surrogatepass").replace(b"\0", b"\0\1") for i in ids]
    text, sizes = b"".join(encoded), np.fromiter(map(len, encoded), np.int64, len(ids))
    return gather(text + bytes(int(sizes.max(initial=0)) + WORD), np.cumsum(sizes) - sizes, sizes)


def pack_joined(joined: str, count: int, longest: int | None = None) -> Packed | None:
    """Ids that are joined by NULs, as bytes in an array. None where an id contains a NUL or half a character, or has
    more bytes than `longest`."""
    try:
        text = joined.encode()
    except UnicodeEncodeError:
        return None
    bounds = np.empty(count + 1, np.int64)  # the NULs, and one before the first id
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == 0)
    if not count or len(ends) != count - 1:
        return None if count else np.zeros(0, f"S{WORD}")
    bounds[0], bounds[1:-1], bounds[-1] = -1, ends, len(text)
    first = bounds[:-1] + 1
    sizes = bounds[1:] - first
    largest = int(sizes.max())
    if longest is not None and largest > longest:
        return None
    return gather(text + bytes(largest + WORD), first, sizes)


def pack_short(ids: list[str]) -> list[str] | Packed:
    """The same ids in an array; as they are where one does not fit: see `pack_joined`."""
    packed = pack_joined("\0".join(ids), len(ids), LONGEST)
    return ids if packed is None else packed


def gather(text: bytes, first: Ints, sizes: Ints) -> Packed:
    """Pieces of a text. The text must continue after the last piece by the longest piece plus a word."""
    width = max(1, -(-int(sizes.max(initial=0)) // WORD)) * WORD
    windows: Packed = np.ndarray(len(text) - width + 1, f"S{width}", text, strides=(1,))
    packed = windows[first]
    words = _words(packed)
    for place in range(width // WORD):
        words[:, place] &= _FIRST_BYTES[np.minimum(np.maximum(sizes - place * WORD, 0), WORD)]
    return packed


def packed_pieces(
    text: bytes, first: NDArray[np.uint32], sizes: NDArray[np.uint32], longest: int
) -> tuple[Packed, Hashes]:
    """Pieces of a text and their hashes, by the native reader. They must be inside it, and none may be longer than
    `longest`."""
    packed: Packed = np.empty(len(first), f"S{max(1, -(-longest // WORD)) * WORD}")
    hashed = np.empty(len(first), np.uint64)
    pieces = (text, len(text), first.ctypes.data, sizes.ctypes.data, len(first))
    native().karat_pack(*pieces, packed.itemsize, packed.ctypes.data, hashed.ctypes.data)
    return packed, hashed


def joined_pieces(text: bytes, first: Ints, end: Ints) -> bytes:
    """Pieces of a text, joined by line breaks, by the native reader. They must be inside it."""
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


def hash_texts(texts: list[str]) -> Hashes:
    """As `hash_packed(pack(texts))`."""
    library = native()
    joined = "" if library is None else "\n".join(texts)
    if library is None or not texts or "\0" in joined or joined.count("\n") != len(texts) - 1:
        return _hashed_by_size(texts)
    text, hashed = joined.encode("utf-8", "surrogatepass"), np.empty(len(texts), np.uint64)
    library.karat_hash_lines(text, len(text), len(texts), hashed.ctypes.data)
    return hashed


def _hashed_by_size(texts: list[str]) -> Hashes:
    """In groups of about the same size, since an array takes as much space for each text as for the longest."""
    groups: dict[int, list[int]] = {}
    for at, size in enumerate(map(len, texts)):
        groups.setdefault(max(size, LONGEST).bit_length(), []).append(at)
    if len(groups) < 2:
        return hash_packed(pack(texts))
    hashed = np.empty(len(texts), np.uint64)
    for group in groups.values():
        hashed[group] = hash_packed(pack([texts[at] for at in group]))
    return hashed


def hash_cut(packed: Packed, byte: int) -> Hashes:
    """As `hash_packed(cut_packed(packed, byte))`."""
    library = native()
    if library is None:
        return hash_packed(cut_packed(packed, byte))
    packed, hashed = np.ascontiguousarray(packed), np.empty(len(packed), np.uint64)
    library.karat_hash_cut(packed.ctypes.data, len(packed), packed.itemsize // WORD, byte, hashed.ctypes.data)
    return hashed


def has_byte(packed: Packed, byte: int) -> bool:
    """Whether an id contains a byte."""
    library = native()
    if library is None:
        return byte in packed.tobytes()
    packed = np.ascontiguousarray(packed)
    return bool(library.karat_has(packed.ctypes.data, packed.nbytes, byte))


def same_packed(left: Packed, right: Packed) -> NDArray[np.bool_]:
    """As `left == right`, but a word at a time."""
    if left.itemsize != right.itemsize:
        return np.asarray(left == right)
    same = np.ones(len(left), np.bool_)
    for one, other in zip(_words(left).T, _words(right).T, strict=True):
        same &= one == other
    return same


def cut_packed(packed: Packed, byte: int) -> Packed:
    """Cut each id before the first occurrence of a byte."""
    library, cut = native(), packed.copy()
    if library is not None:
        library.karat_cut(cut.ctypes.data, len(cut), cut.itemsize // WORD, byte)
        return cut
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


def unpack(packed: Packed) -> list[str]:
    """The texts of ids."""
    joined = b"\n".join(packed.tolist()).decode("utf-8", "surrogatepass")
    texts = joined.split("\n")  # three times as fast as one by one
    return texts if len(texts) == len(packed) else [i.decode("utf-8", "surrogatepass") for i in packed.tolist()]


def first_empty(ids: list[str] | Packed) -> int | None:
    """The position of the first id that is empty."""
    if isinstance(ids, np.ndarray):
        found: list[int] = np.flatnonzero(_words(ids)[:, 0] == 0)[:1].tolist()
        return found[0] if found else None
    return None if all(ids) else ids.index("")


class PackedIds:
    """Ids as bytes in an array, filled piece by piece so that no Python strings are kept; a list where they do not
    pack well: where a few are much longer than the others, or contain a NUL."""

    def __init__(self, size: int = 0) -> None:
        self._ids: list[str] | Packed = np.zeros(size, f"S{WORD}")
        self._filled = self._characters = 0

    @property
    def ids(self) -> list[str] | Packed:
        return self._ids[: self._filled]

    def add(self, ids: list[str]) -> None:
        if any("\0" in name for name in ids):
            self._ids = _listed(self.ids)
        self._add(ids if isinstance(self._ids, list) else pack(ids), sum(map(len, ids)))

    def add_packed(self, ids: Packed) -> None:
        self._add(ids, int(np.count_nonzero(np.ascontiguousarray(ids).view(np.uint8))))

    def _add(self, ids: list[str] | Packed, characters: int) -> None:
        end = self._filled + len(ids)
        self._characters += characters
        if isinstance(self._ids, np.ndarray) and isinstance(ids, np.ndarray):
            width = max(ids.itemsize, self._ids.itemsize)
            if width * end > _SPARSE * (self._characters + WORD * end):
                self._ids = _listed(self.ids)
            else:
                self._make_room(end, width)
                self._ids[self._filled : end] = ids
        if isinstance(self._ids, list):
            self._ids += _listed(ids)
        self._filled = end

    def _make_room(self, end: int, width: int) -> None:
        if end > len(self._ids) or width > self._ids.itemsize:  # type: ignore[union-attr]
            wider = np.zeros(max(len(self._ids), end if end <= len(self._ids) else 2 * end), f"S{width}")
            wider[: self._filled] = self.ids
            self._ids = wider


def pieces(ids: list[str] | Packed) -> Iterator[list[str]]:
    """Ids as strings, some at a time."""
    return (_listed(ids[at : at + PIECE]) for at in range(0, len(ids), PIECE))


def _listed(ids: list[str] | Packed) -> list[str]:
    return ids if isinstance(ids, list) else unpack(ids)
