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
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from karat.ids import WORD, Bools, Floats, Hashes, Ints, Packed, gather

Bytes: TypeAlias = NDArray[np.uint8]
ValueKind: TypeAlias = Literal["text", "number", "whole", "other"]  # other: not for columns

_VALUE = re.compile(rb'(\s*[{,]\s*"([^"\\]*)"\s*:\s*)(?:("[^"\\]*")|-?\d[^\s,}]*)')
_END = re.compile(rb"\s*\}")
_BETWEEN = re.compile(rb"\}(\s*,\s*)\{")
_QUOTE, _MINUS, _POINT, _ZERO = b'"-.0'
_LONGEST = 128  # bytes of a text; every text of a column takes as much room as the longest
_BEYOND = 1024  # NULs after the last list, so that one can look beyond it

# For _short_numbers, by the size of a number: how far it is moved to the end of its word, and the zeros before it.
_SHIFT = np.array([8 * (WORD - size) for size in range(WORD + 1)], np.uint64)
_PADDING = np.array([int.from_bytes(b"0" * (WORD - size), "little") for size in range(WORD + 1)], np.uint64)
_LANES = {8: np.uint64(0x00FF00FF00FF00FF), 16: np.uint64(0x0000FFFF0000FFFF), 32: np.uint64(0xFFFFFFFF)}
# What a point at a place divides by. Both numbers are exact, so that the division rounds as reading the text does.
_POINTS = np.array([0, *(0x80 << 8 * place for place in range(WORD))], np.uint64)
_TENS = np.array([1.0, *(10.0 ** (WORD - 1 - place) for place in range(WORD))])


@dataclass(frozen=True)
class Columns:
    """Values of all objects by name, and how many objects each list has."""

    counts: Ints
    values: Mapping[str, Any]  # Floats or Packed

    def of_lists(self, lists: Sequence[int]) -> Columns:
        rows = np.flatnonzero(np.repeat(np.isin(np.arange(len(self.counts)), lists), self.counts))
        return Columns(self.counts[lists], {name: values[rows] for name, values in self.values.items()})


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
    """Columns out of lists in JSON; None where they are not all alike, or where the values are not of the wanted kind.

    `lists` are known to be JSON: that a value ends where the next bytes of the shape begin needs no second proof.
    """
    joined = b"".join([*lists, bytes(_BEYOND)])
    shape = None if b"\\" in joined else _learn(joined, wanted)
    if shape is None or not _is_text(joined):
        return None
    sizes = np.fromiter(map(len, lists), np.int64, len(lists))
    return _Reader(joined, shape, np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])).columns(wanted)


def _is_text(joined: bytes) -> bool:
    if joined.isascii():
        return True
    try:
        joined.decode()
    except UnicodeDecodeError:
        return False
    return True


def _learn(joined: bytes, wanted: Mapping[str, ValueKind]) -> _Shape | None:
    names: list[str] = []
    literals = [b""]
    at = joined.find(b"{")
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
    if sum(map(len, literals)) > _BEYOND - _LONGEST:
        return None
    return _Shape(names, literals, b"," if between is None else between[1])


class _Reader:
    def __init__(self, joined: bytes, shape: _Shape, bounds: Ints) -> None:
        self.joined, self.shape, self.bounds = joined, shape, bounds
        self.text: Bytes = np.frombuffer(joined, np.uint8)

    def columns(self, wanted: Mapping[str, ValueKind]) -> Columns | None:
        quotes = np.flatnonzero(self.text == _QUOTE)
        size, rest = divmod(len(quotes), self.shape.quotes)
        if rest or not size:
            return None
        # Where the objects start if all have as many quotes as the first.
        starts = quotes[:: self.shape.quotes] - self.shape.literals[0].index(b'"')
        counts = np.diff(np.searchsorted(starts, self.bounds))
        ends = self._ends(starts, counts)
        places = None if ends is None else self._places(quotes.reshape(size, -1), starts, ends)
        if places is None:
            return None
        values: dict[str, Any] = {}
        for name, literal, at, end in zip(self.shape.names, self.shape.literals, places, places[1:], strict=False):
            first = at + len(literal)
            if not literal.endswith(b'"'):
                values[name] = self._numbers(first, end, whole=wanted.get(name) == "whole")
            elif name in wanted:
                values[name] = self._texts(first, end)
            if name in values and values[name] is None:
                return None
        return Columns(counts, {name: column for name, column in values.items() if name in wanted})

    def _ends(self, starts: Ints, counts: Ints) -> Ints | None:
        """Where each object ends, if every list is `[]` or, from first byte to last, one object after another."""
        first, last, between = self.shape.literals[0], self.shape.literals[-1], self.shape.between
        filled = counts > 0
        after = np.cumsum(counts)[filled]  # the last object of each list stands before that
        begin, end = self.bounds[:-1][filled], self.bounds[1:][filled]
        ends = np.append(starts[1:], 0) - len(between)
        ends[after - 1] = end - 1
        inner = np.delete(ends, after - 1)
        if (
            (starts[after - counts[filled]] == begin + 1).all()
            and self._stands(b"[]", self.bounds[:-1][~filled])
            and (np.diff(self.bounds)[~filled] == 2).all()
            and self._stands(b"[" + first, begin)
            and self._stands(last + between + first, inner - len(last))
            and self._stands(last + b"]", end - 1 - len(last))
        ):
            return ends
        return None

    def _places(self, quotes: Ints, starts: Ints, ends: Ints) -> list[Ints] | None:
        """Where each literal of each object stands; None where one of them does not. The outer ones are known to."""
        literals = self.shape.literals
        places = [starts]
        seen = literals[0].count(b'"')
        for literal in literals[1:-1]:
            places.append(quotes[:, seen] - literal.index(b'"'))
            seen += literal.count(b'"')
        inner = all(map(self._stands, literals[1:-1], places[1:]))
        return [*places, ends - len(literals[-1])] if inner else None

    def _stands(self, literal: bytes, places: Ints) -> bool:
        return bool((self._windows(f"S{len(literal)}", len(literal))[places] == literal).all())

    def _windows(self, kind: str, size: int) -> NDArray[Any]:
        """All pieces of so many bytes, one from each place of the text on."""
        return np.ndarray(len(self.joined) - size + 1, kind, self.joined, strides=(1,))

    def _texts(self, first: Ints, end: Ints) -> Packed | None:
        sizes = end - first
        if sizes.max() > _LONGEST:
            return None
        return gather(self.joined, first, sizes)

    def _numbers(self, first: Ints, end: Ints, *, whole: bool) -> Floats | None:
        negative = self.text[first] == _MINUS
        first = first + negative
        numbers, short = _short_numbers(self._windows("<u8", WORD)[first], end - first, whole=whole)
        if not short.all():
            if whole:
                return None
            rest = np.flatnonzero(~short)
            spans = zip(first[rest].tolist(), end[rest].tolist(), strict=True)
            try:
                numbers[rest] = [float(self.joined[a:b]) for a, b in spans]
            except ValueError:
                return None
            if not np.isfinite(numbers).all():
                return None
        return np.where(negative, -numbers, numbers) if negative.any() else numbers


def _short_numbers(words: Hashes, sizes: Ints, *, whole: bool) -> tuple[Floats, Bools]:
    """Numbers of up to eight bytes, read as digits and a point; and which of them were such.

    Each step works on all eight bytes of a word side by side. The first byte of a text is the lowest of its word.
    """
    short = (sizes > 0) & (sizes <= WORD)
    sizes = np.where(short, sizes, WORD)
    words = (words << _SHIFT[sizes]) | _PADDING[sizes]  # to the right end of the word, zeros before it
    points = words ^ _each(_POINT)
    points = (points - _each(1)) & ~points & _each(0x80)
    points &= ~points + np.uint64(1)  # the highest bit of the byte that is the point; 0 = there is none
    pointed = points != 0
    if whole:
        short &= ~pointed
    elif pointed.any():
        before = (points >> np.uint64(7)) - np.uint64(1)
        closed = (
            (words & ~((points << np.uint64(1)) - np.uint64(1))) | (words & before) << np.uint64(8) | np.uint64(_ZERO)
        )
        words = np.where(pointed, closed, words)
    digits = words ^ _each(_ZERO)
    short &= ((digits + _each(0x76)) | digits) & _each(0x80) == 0  # no byte above 9
    for bits in (8, 16, 32):  # digits to pairs, pairs to fours, fours to the number
        digits = (digits * np.uint64(10 ** (bits // 8)) + (digits >> np.uint64(bits))) & _LANES[bits]
    numbers = digits.astype(np.float64)
    return numbers if whole else numbers / _TENS[np.searchsorted(_POINTS, points)], short


def _each(byte: int) -> np.uint64:
    """A word of eight such bytes."""
    return np.uint64(byte * 0x0101010101010101)
