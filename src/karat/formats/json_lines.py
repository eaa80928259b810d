"""Lines of JSON that all have one shape, field by field, without building an object for any of them.

As with lists of like objects (`json_columns.py`): what one program writes has the same keys in the same order. The
bytes between the values are learnt from the first line and looked for in all others at once. Whatever looks different
makes `read_lines` give up, and the lines are decoded the usual way: so this is a matter of speed only.

That every line is JSON is proven piece by piece. The bytes between the values are those of the first line, which a
decoder has read. A text is what stands between two quotes, in UTF-8 without backslashes and control characters.
The list is proven by `json_columns`, and any other value by a decoder of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np

from karat.data.ids import Ints, as_list
from karat.files.decode_errors import DECODE_ERRORS
from karat.formats.json_columns import BEYOND, Columns, PaddedBytes, Places, ValueKind, columns_at

_KEY = re.compile(rb'\s*[{,]\s*"([^"]*)"\s*:\s*')
_BREAK, _SPACE = b"\n "


@dataclass(frozen=True)
class LineTable:
    """Lines of one shape: one value a line for every field, and the objects of their lists as columns."""

    starts: Ints  # where each line begins
    columns: Mapping[str, Columns]  # field → the objects of its lists
    text: PaddedBytes
    texts: Mapping[str, Places]  # field → where its texts stand
    values: dict[str, list[Any]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts)

    def __contains__(self, name: str) -> bool:
        """Whether `column` has the field."""
        return name in self.texts or name in self.values

    def column(self, name: str) -> list[Any]:
        if name not in self.values:
            self.values[name] = _strings(self.text, self.texts[name])
        return self.values[name]

    def pick(self, at: Sequence[int]) -> LineTable:
        texts = {name: Places(places.first[at], places.end[at]) for name, places in self.texts.items()}
        values = {name: [column[i] for i in at] for name, column in self.values.items()}
        columns = {name: lists.of_lists(at) for name, lists in self.columns.items()}
        return LineTable(self.starts[at], columns, self.text, texts, values)


def read_lines(
    block: bytes, lists: Sequence[str], wanted: Mapping[str, ValueKind], decoders: Mapping[str, Any]
) -> LineTable | None:
    """Read the lines of a block; None if they are not all alike. The first line is known to be valid.

    `lists` are fields with lists of objects that have the `wanted` fields; each list can have any length. The first
    field is read as columns, or nothing is read. The others can be missing, and are decoded if their objects are not
    alike. Every other value except texts is read by the decoder of its field.
    """
    text = PaddedBytes(block, b"" if block.endswith(b"\n") else b"\n")
    shape = _learn(block[: text.joined.index(b"\n")], lists)
    if shape is None or any(_is_passed_over(decoders[shape.names[at]]) for at in shape.lists):
        return None
    if not text.is_plain():
        return None
    controls = text.controls()
    if (text.bytes[controls] != _BREAK).any():
        return None
    return _Reader(text, shape, controls).table(lists[0], wanted, decoders)


@dataclass(frozen=True)
class _Shape:
    """The fields of a line, and the bytes before, between and after their values."""

    names: list[str]
    literals: list[bytes]  # the quotes of texts belong to them
    quotes: list[int]  # of each literal and, unless it is a list, of the value after it
    lists: list[int]  # which of the values are the lists


def _learn(line: bytes, lists: Sequence[str]) -> _Shape | None:
    try:
        values = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
    except DECODE_ERRORS:
        return None
    names: list[str] = []
    literals, inside = [b""], []
    found: list[int] = []
    at = 0
    while (key := _KEY.match(line, at)) is not None:
        name = key[1].decode("utf-8", "replace")
        value = bytes(values.get(name, b""))
        if not value or name in names or not line.startswith(value, key.end()):
            return None
        is_text, is_list = value.startswith(b'"'), name in lists and value.startswith(b"[")
        if is_list:
            found.append(len(names))
        names.append(name)
        literals[-1] += key[0] + b'"' * is_text
        literals.append(b'"' * is_text)
        inside.append(0 if is_text or is_list else value.count(b'"'))
        at = key.end() + len(value)
    literals[-1] += line[at:]
    if lists[0] not in (names[at] for at in found) or max(map(len, literals)) > BEYOND:
        return None
    quotes = [literal.count(b'"') + more for literal, more in zip(literals, [*inside, 0], strict=True)]
    return _Shape(names, literals, quotes, found)


class _Reader:
    def __init__(self, text: PaddedBytes, shape: _Shape, breaks: Ints) -> None:
        self.text, self.shape = text, shape
        self.starts, self.ends = np.append(0, breaks[:-1] + 1), breaks
        self.quotes = text.quotes()
        self.before, self.after = _bounds(self.quotes, self.starts, self.ends)
        self._between: dict[int, Ints] = {}  # literal after a list → its first quote in each line

    def table(self, main: str, wanted: Mapping[str, ValueKind], decoders: Mapping[str, Any]) -> LineTable | None:
        places = self._places()
        if places is None:
            return None
        names, literals = self.shape.names, self.shape.literals
        spans = {
            name: Places(place + len(literal), end)
            for name, literal, place, end in zip(names, literals, places, places[1:], strict=False)
        }
        columns: dict[str, Columns] = {}
        for name, bounds in zip((names[at] for at in self.shape.lists), self._quotes_of_lists(), strict=True):
            if (bounds.first > bounds.end).any():
                return None
            found = columns_at(self.text, spans[name], bounds, self.quotes, wanted)
            if found is not None:
                columns[name] = found
                del spans[name]
        if main not in columns:
            return None
        texts = {n: spans.pop(n) for n, literal in zip(names, literals, strict=False) if literal.endswith(b'"')}
        try:
            values = {name: _decoded(decoders[name], self.text, places) for name, places in spans.items()}
        except DECODE_ERRORS:
            return None
        if any(len(column) != len(self.ends) for column in values.values()):
            return None
        return LineTable(self.starts, columns, self.text, texts, values)

    def _places(self) -> list[Ints] | None:
        """Where each literal of each line stands; None where one of them does not."""
        literals, quotes = self.shape.literals, self.shape.quotes
        if (self.after - self.before < sum(quotes)).any():
            return None
        places: list[Ints] = []
        for at, literal in enumerate(literals[:-1]):
            nth = self._nth_quote(at, places)
            if nth is None:
                return None
            places.append(self.quotes[nth] - literal.index(b'"'))
        places.append(self.ends - len(literals[-1]))
        stand = (places[0] == self.starts).all() and all(map(self.text.stands, literals, places))
        return places if stand else None

    def _nth_quote(self, at: int, places: list[Ints]) -> Ints | None:
        """The first quote of a literal, counted from the start of a line if it comes before all lists, from the end of
        the line if it comes after them, and from the end of the previous list if it is between two."""
        quotes, lists = self.shape.quotes, self.shape.lists
        if at <= lists[0]:
            return self.before + sum(quotes[:at])
        if at > lists[-1]:
            return self.after - sum(quotes[at:])
        after = max(place for place in lists if place < at) + 1
        if after not in self._between:
            first = places[after - 1] + len(self.shape.literals[after - 1])
            found = self._ends_of_lists(first, self.shape.literals[after])
            if found is None:
                return None
            self._between[after] = found
        nth = self._between[after] + sum(quotes[after:at])
        return nth if int(nth[-1]) < len(self.quotes) else None

    def _ends_of_lists(self, first: Ints, literal: bytes) -> Ints | None:
        """The first quote after each list. Lists begin at `first` and are followed by a literal."""
        find, end = self.text.joined.find, b"]" + literal
        found = [find(end, a, b) for a, b in zip(first.tolist(), self.ends.tolist(), strict=True)]
        if min(found) < 0:
            return None
        return np.searchsorted(self.quotes, np.array(found) + end.index(b'"'))

    def _quotes_of_lists(self) -> list[Places]:
        """For each list, the number of quotes before it and up to its end."""
        quotes, lists = self.shape.quotes, self.shape.lists
        begins = [self.before + sum(quotes[: lists[0] + 1])]
        ends = [self.after - sum(quotes[lists[-1] + 1 :])]
        for last, at in pairwise(lists):
            ends.insert(-1, self._between[last + 1])
            begins.append(self._between[last + 1] + sum(quotes[last + 1 : at + 1]))
        return list(map(Places, begins, ends))


def _is_passed_over(decoder: Any) -> bool:
    """Whether lists are not requested. A decoder skips them faster than their end could be found here."""
    return decoder.type is msgspec.Raw


def _bounds(quotes: Ints, starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Of each line the number of quotes before it and up to its end. Mostly all lines have as many."""
    each, odd = divmod(len(quotes), len(starts))
    if each and not odd:
        before = np.arange(0, len(quotes), each)
        after = before + each
        if (quotes[before] >= starts).all() and (quotes[after - 1] < ends).all():
            return before, after
    return np.searchsorted(quotes, starts), np.searchsorted(quotes, ends)


def _same(text: PaddedBytes, places: Places) -> bytes | None:
    """What stands at all of the places, if it is the same."""
    size = int(places.end[0] - places.first[0])
    piece = text.joined[places.first[0] : places.end[0]]
    same = 0 < size <= BEYOND and (places.end - places.first == size).all() and text.stands(piece, places.first)
    return piece if same else None


def _strings(text: PaddedBytes, places: Places) -> list[str]:
    same = _same(text, places)
    if same is not None:
        return [same.decode()] * len(places.first)
    packed = text.packed(places)
    return [piece.decode() for piece in text.pieces(places)] if packed is None else as_list(packed)


def _decoded(decoder: Any, text: PaddedBytes, places: Places) -> list[Any]:
    """A value for each place, for none is empty and no piece has a line break inside; more where two values stand at
    one, and none where a place may be empty."""
    if not (text.bytes[places.first] > _SPACE).all() or (places.end <= places.first).any():
        return []
    same = _same(text, places)
    if same is not None:
        return [decoder.decode(same)] * len(places.first)
    values: list[Any] = decoder.decode_lines(b"\n".join(text.pieces(places)))
    return values
