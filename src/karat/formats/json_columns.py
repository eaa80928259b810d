"""Lists of JSON objects that all have one shape, as columns, without building an object for any of them.

A log's hits are written by one program: the same keys in the same order, and between two values always the same
bytes. Those bytes are learnt from the first object and looked for in all others at once. Whatever looks different
(other keys, null, an escaped character) makes `read_columns` give up, and the lists are decoded the usual way: so this
is a matter of speed only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from karat.data.ids import WORD, Bools, Floats, Hashes, Ints, Packed, gather

Bytes: TypeAlias = NDArray[np.uint8]
ValueKind: TypeAlias = Literal["text", "number", "whole", "other"]  # other: not for columns

_VALUE = re.compile(rb'(\s*[{,]\s*"([^"\\]*)"\s*:\s*)(?:("[^"\\]*")|-?\d[^\s,}]*)')
_END = re.compile(rb"\s*\}")
_BETWEEN = re.compile(rb"\}(\s*,\s*)\{")
_QUOTE, _SPACE, _MINUS, _POINT, _ZERO = b'" -.0'
LONGEST = 128  # bytes of a text; every text of a column takes as much room as the longest
BEYOND = 1024  # NULs after the last list, so that one can look beyond it

# For _short_numbers, by the size of a number: how far it is moved to the end of its word, and the zeros before it.
_SHIFT = np.array([8 * (WORD - size) for size in range(WORD + 1)], np.uint64)
_PADDING = np.array([int.from_bytes(b"0" * (WORD - size), "little") for size in range(WORD + 1)], np.uint64)
_LANES = [
    (np.uint64(8), np.uint64(10), np.uint64(0x00FF00FF00FF00FF)),
    (np.uint64(16), np.uint64(100), np.uint64(0x0000FFFF0000FFFF)),
    (np.uint64(32), np.uint64(10_000), np.uint64(0xFFFFFFFF)),
]
_ZERO_BYTE = np.uint8(_ZERO)
_U1, _U7, _U8, _U_ZERO = map(np.uint64, (1, 7, 8, _ZERO))
_EACH_1, _EACH_76, _EACH_80, _EACH_POINT, _EACH_ZERO = (
    np.uint64(byte * 0x0101010101010101) for byte in (0x01, 0x76, 0x80, _POINT, _ZERO)
)
_ONE, _TWO, _ZERO_DIGIT = np.uint64(0xFF), np.uint64(0xF0FF), np.uint64(0x3030)  # 0x30 … 0x39: a zero before a digit
# What a point at a place divides by. Both numbers are exact, so that the division rounds as reading the text does.
_POINTS = np.array([0, *(0x80 << 8 * place for place in range(WORD))], np.uint64)
_TENS = np.array([1.0, *(10.0 ** (WORD - 1 - place) for place in range(WORD))])
# Times this, the mark of a point has the number of its entry in _TENS as its highest four bits.
_ENTRIES = np.uint64(1 + sum((place + 1) << (53 - 8 * place) for place in range(WORD - 1)))
_U60 = np.uint64(60)


@dataclass(frozen=True)
class Columns:
    """Values of all objects by name, and how many objects each list has."""

    counts: Ints
    values: Mapping[str, Any]  # Floats or Packed

    def of_lists(self, lists: Sequence[int]) -> Columns:
        rows = np.flatnonzero(np.repeat(np.isin(np.arange(len(self.counts)), lists), self.counts))
        return Columns(self.counts[lists], {name: values[rows] for name, values in self.values.items()})


class Places(NamedTuple):
    """Where pieces of something start and end."""

    first: Ints
    end: Ints


class PaddedBytes:
    """Bytes to cut pieces out of, many at once; followed by NULs, so that one can look beyond their end."""

    def __init__(self, *parts: Any) -> None:
        self.joined = b"".join([*parts, bytes(BEYOND)])
        self.bytes: Bytes = np.frombuffer(self.joined, np.uint8)

    def is_plain(self) -> bool:
        """Whether it is UTF-8 without an escaped character."""
        if b"\\" in self.joined:
            return False
        if self.joined.isascii():
            return True
        try:
            self.joined.decode()
        except UnicodeDecodeError:
            return False
        return True

    def quotes(self) -> Ints:
        return np.flatnonzero(self.bytes == _QUOTE)

    def controls(self) -> Ints:
        """Where control characters stand, those after the end left out. They are few: whole words of the text that hold
        none are passed over at once."""
        control = np.zeros(-(-len(self.joined) // WORD) * WORD, np.bool_)
        np.less(self.bytes[:-BEYOND], _SPACE, out=control[: len(self.joined) - BEYOND])
        words = np.flatnonzero(control.view("<u8"))
        nth, place = np.nonzero(control.reshape(-1, WORD)[words])
        return words[nth] * WORD + place

    def windows(self, kind: str, size: int) -> NDArray[Any]:
        """All pieces of so many bytes, one from each place of the text on."""
        return np.ndarray(len(self.joined) - size + 1, kind, self.joined, strides=(1,))

    def stands(self, literal: bytes, places: Ints) -> bool:
        """Whether some bytes stand at every one of the places."""
        found = self.windows(f"V{len(literal)}", len(literal))[places]
        return found.tobytes() == literal * len(places)

    def packed(self, places: Places) -> Packed | None:
        """What stands at places, if it is not too long to be packed."""
        sizes = places.end - places.first
        return None if sizes.max(initial=0) > LONGEST else gather(self.joined, places.first, sizes)

    def pieces(self, places: Places) -> list[bytes]:
        """What stands at places."""
        return [self.joined[a:b] for a, b in zip(places.first.tolist(), places.end.tolist(), strict=True)]


@dataclass(frozen=True)
class _Shape:
    """The bytes before, between and after the values of an object, and those between two objects of a list."""

    names: list[str]
    literals: list[bytes]
    between: bytes

    @property
    def quotes(self) -> int:
        return sum(literal.count(b'"') for literal in self.literals)


def read_columns(lists: Sequence[Any], wanted: Mapping[str, ValueKind]) -> Columns | None:
    """Columns out of lists in JSON; None where they are not all alike, or their values not of the wanted kind."""
    text = PaddedBytes(*lists)
    if not text.is_plain():
        return None
    ends = np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)))
    begins, quotes = np.append(0, ends[:-1]), text.quotes()
    bounds = np.searchsorted(quotes, begins), np.searchsorted(quotes, ends)
    return columns_at(text, Places(begins, ends), Places(*bounds), quotes, wanted)


def columns_at(
    text: PaddedBytes, lists: Places, bounds: Places, quotes: Ints, wanted: Mapping[str, ValueKind]
) -> Columns | None:
    """The same out of lists that stand at given places of a plain text. `quotes` are all of the text, and between the
    `bounds` those of each list.

    Where columns are given, all of the lists are JSON; control characters in texts are not looked for.
    """
    filled = np.flatnonzero(lists.end - lists.first > len("[]"))
    shape = _learn(text.joined, int(lists.first[filled[0]]), wanted) if len(filled) else None
    return None if shape is None else _Reader(text, shape, lists).columns(quotes, bounds, wanted)


def _learn(joined: bytes, at: int, wanted: Mapping[str, ValueKind]) -> _Shape | None:
    names: list[str] = []
    literals = [b""]
    at = joined.find(b"{", at)
    while (value := _VALUE.match(joined, max(at, 0))) is not None:
        name = value[2].decode("utf-8", "replace")
        is_text = value[3] is not None
        kind = wanted.get(name, "text" if is_text else "number")
        if name in names or kind == "other" or is_text != (kind == "text"):
            return None
        names.append(name)
        literals[-1] += value[1] + b'"' * is_text
        literals.append(b'"' * is_text)
        at = value.end()
    end = _END.match(joined, max(at, 0))
    if not names or end is None:
        return None
    literals[-1] += end[0]
    between = _BETWEEN.search(joined, end.end() - 1)
    if sum(map(len, literals)) > BEYOND - LONGEST:
        return None
    return _Shape(names, literals, b"," if between is None else between[1])


class _Reader:
    def __init__(self, text: PaddedBytes, shape: _Shape, lists: Places) -> None:
        self.text, self.shape, self.lists = text, shape, lists

    def columns(self, quotes: Ints, bounds: Places, wanted: Mapping[str, ValueKind]) -> Columns | None:
        counts, odd = np.divmod(bounds.end - bounds.first, self.shape.quotes)
        if odd.any():
            return None
        # The first quote of each object, if all objects have as many as the first.
        before = np.repeat(bounds.first - (np.cumsum(counts) - counts) * self.shape.quotes, counts)
        nth = before + np.arange(0, len(before) * self.shape.quotes, self.shape.quotes)
        places = self._places(quotes, nth, counts)
        if places is None:
            return None
        values: dict[str, Any] = {}
        for name, literal, at, end in zip(self.shape.names, self.shape.literals, places, places[1:], strict=False):
            first = at + len(literal)
            if not literal.endswith(b'"'):
                values[name] = read_numbers(self.text, Places(first, end), whole=wanted.get(name) == "whole")
            elif name in wanted:
                values[name] = self.text.packed(Places(first, end))
            if name in values and values[name] is None:
                return None
        return Columns(counts, {name: column for name, column in values.items() if name in wanted})

    def _places(self, quotes: Ints, nth: Ints, counts: Ints) -> list[Ints] | None:
        """Where each literal of each object stands; None where one of them does not."""
        literals = self.shape.literals
        starts = quotes[nth] - literals[0].index(b'"')
        ends = self._ends(starts, counts)
        if ends is None:
            return None
        places = [starts]
        seen = literals[0].count(b'"')
        for literal in literals[1:-1]:
            places.append(quotes[nth + seen] - literal.index(b'"'))
            seen += literal.count(b'"')
            if not self.text.stands(literal, places[-1]):
                return None
        return [*places, ends - len(literals[-1])]

    def _ends(self, starts: Ints, counts: Ints) -> Ints | None:
        """Where each object ends, if every list is `[]` or, from first byte to last, one object after another."""
        first, last, between = self.shape.literals[0], self.shape.literals[-1], self.shape.between
        filled = counts > 0
        after = np.cumsum(counts)[filled]  # the last object of each list stands before that
        begin, end = self.lists.first[filled], self.lists.end[filled]
        ends = np.append(starts[1:], 0) - len(between)
        ends[after - 1] = end - 1
        inner = np.delete(ends, after - 1)
        stands = self.text.stands
        if (
            (starts[after - counts[filled]] == begin + 1).all()
            and stands(b"[]", self.lists.first[~filled])
            and ((self.lists.end - self.lists.first)[~filled] == 2).all()
            and stands(b"[" + first, begin)
            and stands(last + between + first, inner - len(last))
            and stands(last + b"]", end - 1 - len(last))
        ):
            return ends
        return None


def read_numbers(text: PaddedBytes, places: Places, *, whole: bool = False) -> Floats | None:
    """Numbers as JSON writes them; None where one is anything else."""
    first, end = places
    if whole and (numbers := _one_or_two_digits(text, places)) is not None:
        return numbers
    negative = text.bytes[first] == _MINUS
    digits = first + negative
    numbers, short = _short_numbers(text.windows("<u8", WORD)[digits], end - digits, whole=whole)
    if negative.any():
        numbers = np.where(negative, -numbers, numbers)
    if not short.all():
        rest = np.flatnonzero(~short)
        others = None if whole else _any_numbers(text, Places(first[rest], end[rest]))
        if others is None:
            return None
        numbers[rest] = others
    return numbers


def _one_or_two_digits(text: PaddedBytes, places: Places) -> Floats | None:
    """Ranks and grades, mostly; None where a number is anything else."""
    first, end = places
    sizes = end - first
    if (sizes.max(initial=1) > 2) or (sizes.min(initial=1) < 1):
        return None
    tens, ones = text.bytes[first] - _ZERO_BYTE, text.bytes[end - 1] - _ZERO_BYTE  # below 0: far above 9
    two = sizes == 2
    if tens.max(initial=0) > 9 or ones.max(initial=0) > 9 or (two & (tens == 0)).any():
        return None
    return np.where(two, tens * np.uint8(10) + ones, ones).astype(np.float64)


def _any_numbers(text: PaddedBytes, places: Places) -> list[float] | None:
    listed = b"[%b]" % b",".join(text.pieces(places))
    try:
        numbers = msgspec.json.decode(listed, type=list[float])
    except msgspec.MsgspecError:
        return None
    return numbers if len(numbers) == len(places.first) else None


def _short_numbers(words: Hashes, sizes: Ints, *, whole: bool) -> tuple[Floats, Bools]:
    """Numbers of up to eight bytes, read as digits and a point; and which of them were such, as JSON writes them.

    Each step works on all eight bytes of a word side by side. The first byte of a text is the lowest of its word.
    """
    short = (sizes > 0) & (sizes <= WORD)
    short &= words & _TWO != _ZERO_DIGIT
    first = words & _ONE
    sizes = np.where(short, sizes, WORD)
    words = (words << _SHIFT[sizes]) | _PADDING[sizes]  # to the right end of the word, zeros before it
    points = words ^ _EACH_POINT
    points = (points - _EACH_1) & ~points & _EACH_80
    points &= ~points + _U1  # the highest bit of the byte that is the point; 0 = there is none
    pointed = points != 0
    if whole:
        short &= ~pointed
    elif pointed.any():
        short &= (first != _POINT) & (points != _POINTS[WORD])  # no point at either end
        before = (points >> _U7) - _U1
        closed = (words & ~((points << _U1) - _U1)) | (words & before) << _U8 | _U_ZERO
        words = np.where(pointed, closed, words)
    digits = words ^ _EACH_ZERO
    short &= ((digits + _EACH_76) | digits) & _EACH_80 == 0  # no byte above 9
    for bits, ten, lanes in _LANES:  # digits to pairs, pairs to fours, fours to the number
        digits = (digits * ten + (digits >> bits)) & lanes
    numbers = digits.astype(np.float64)
    return numbers if whole else numbers / _TENS[(points * _ENTRIES) >> _U60], short
