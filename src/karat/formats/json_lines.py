"""Reads JSON lines field by field, and lists of objects as columns, without building objects.

The native reader locates every value and checks that everything is valid JSON. Ids and numbers of listed objects
become arrays; any other value is read by the decoder of its field, text only on access. On anything
unusual `LineReader` gives up, and the lines are decoded the usual way: this only affects speed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec
import numpy as np

from karat.data.ids import LONGEST, Bools, Floats, Hashes, Ints, first_equal
from karat.data.packed_ids import WORD, Packed, joined_pieces, packed_pieces, same_packed
from karat.files.decode_errors import DECODE_ERRORS
from karat.files.native import native

# Kinds of fields of a listed object, with a question mark where null is allowed. Objects with `other` are decoded.
# Of a field that is `noted`, only whether some object has it is told.
ValueKind: TypeAlias = Literal["text?", "number", "number?", "whole?", "other", "noted", "any?"]

_LARGEST = 1 << 30  # bytes of a block
_LOOKED_AT, _SPARE, _LEAST = 1 << 16, 1.25, 1 << 10  # for a guess how many lines and objects a block has
_KINDS = {"text?": 0, "number?": 1, "whole?": 2, "other": 3, "noted": 4, "any?": 5, "number": 1 | 16}
_VALUE, _SKIP, _LIST, _LIST_OR_NULL = range(4)
_PLAIN_TEXT, _DIFFERENT, _LACKING = 1, 16, 8
_UNKNOWN, _FULL, _WIDE, _MANY = -2, -3, -4, -5
_STAGES = 8  # names in an object of numbers, at most
_SAMPLE, _FEW = 128, 4  # texts are few if a field has fewer than one in four that are different


class ListField(NamedTuple):
    """A field with a list of objects, the fields to read of them, and other fields with lists of the same kind.

    Texts are ids: of several, the first one counts. `bare` is what an id without an object means.
    `values` are more fields of the objects, and the types of their values. `numbers` is a field with an object of
    numbers. Fields in `beside` that the struct leaves as JSON (`msgspec.Raw`)
    are skipped.
    """

    name: str
    fields: Mapping[str, ValueKind]
    bare: str
    beside: tuple[str, ...] = ()
    numbers: str | None = None
    values: Mapping[str, Any] = {}


class Columns(msgspec.Struct, frozen=True):
    """Values of all objects by name, and how many objects each list has."""

    counts: Ints
    values: Mapping[str, Any]  # Floats (NaN where an object lacks it), Packed (empty), or a list (None)
    there: Bools | None = None  # which lists are present; None = all
    hashed: Mapping[str, Hashes] = {}  # of the ids in `values`

    def of_lists(self, lists: Sequence[int]) -> Columns:
        rows = np.flatnonzero(np.repeat(np.isin(np.arange(len(self.counts)), lists), self.counts))
        there = None if self.there is None else self.there[lists]
        values = {
            name: [column[row] for row in rows.tolist()] if isinstance(column, list) else column[rows]
            for name, column in self.values.items()
        }
        return Columns(self.counts[lists], values, there)


class _Spans(NamedTuple):
    """Where the values of a field are; -1 where a line lacks it."""

    first: Ints
    end: Ints
    of_numbers: bool  # objects of numbers, else texts


class LineTable(msgspec.Struct, frozen=True):
    """Lines: one value per line for every field, and the objects of their lists as columns."""

    starts: Ints  # where each line begins
    columns: Mapping[str, Columns]  # field → the objects of its lists
    block: bytes
    spans: Mapping[str, _Spans]  # field → where its values are; read on access
    values: dict[str, list[Any]] = {}
    numbers: Mapping[str, Floats] | None = None  # of the field with an object of numbers: by name, NaN where missing
    decoder: Any = None  # of that field
    noted: bool = False  # whether an object has a field that is only noted
    skipped: frozenset[str] = frozenset()  # fields that some line has, and that were not read
    alike: frozenset[str] = frozenset()  # fields of `values` that every line has with the same bytes

    def __len__(self) -> int:
        return len(self.starts)

    def __contains__(self, name: str) -> bool:
        """Whether `column` has the field."""
        return name in self.spans or name in self.values

    def column(self, name: str) -> list[Any]:
        if name not in self.values:
            self.values[name] = self._read(*self.spans[name])
        return self.values[name]

    def has_texts(self, name: str, texts: list[str]) -> bool:
        """Whether these are the texts of a field, line by line; False where that is not known."""
        if name in self.values or name not in self.spans or self.spans[name].of_numbers or len(texts) != len(self):
            return False
        first, end, _ = self.spans[name]
        joined = "\n".join(texts)  # a text of this table has no line break
        return joined_pieces(self.block, first + 1, end - 1) == joined.encode("utf-8", "surrogatepass")

    def different(self, name: str) -> list[Any]:
        """The different values of a field, and perhaps some of them again."""
        if name in self.values or self.spans[name].of_numbers:
            return self.column(name)
        first, end, _ = self.spans[name]
        same = self._first_same(first, end)
        if same is None:
            return self.column(name)
        new = np.flatnonzero(same == np.arange(len(same)))
        return self._texts(first[new], end[new])

    def _read(self, first: Ints, end: Ints, of_numbers: bool) -> list[Any]:
        if of_numbers:
            return _decoded(self.decoder, self.block, first, end)
        return self._shared_texts(first, end) or self._texts(first, end)

    def _texts(self, first: Ints, end: Ints) -> list[str]:
        return joined_pieces(self.block, first + 1, end - 1).decode().split("\n")

    def _shared_texts(self, first: Ints, end: Ints) -> list[str] | None:
        """The same, if few texts are different: then one Python string serves all lines that have it."""
        looked_at = zip(first[:_SAMPLE].tolist(), end[:_SAMPLE].tolist(), strict=True)
        if len(first) < _SAMPLE or len({self.block[a:b] for a, b in looked_at}) * _FEW > _SAMPLE:
            return None
        same = self._first_same(first, end)
        if same is None:
            return None
        is_new = same == np.arange(len(same))
        new = np.flatnonzero(is_new)
        if len(new) * _FEW > len(same):
            return None
        texts = np.array(self._texts(first[new], end[new]), object)
        shared: list[str] = texts[(np.cumsum(is_new) - 1)[same]].tolist()
        return shared

    def _first_same(self, first: Ints, end: Ints) -> Ints | None:
        """For each text the first line with the same one, or with another one of the same hash, which is next to
        impossible, its own; None where a text is too long."""
        sizes = (end - first - 2).astype(np.uint32)
        longest = int(sizes.max(initial=0))
        if longest > LONGEST:
            return None
        packed, hashed = packed_pieces(self.block, (first + 1).astype(np.uint32), sizes, longest)
        same = first_equal(hashed)
        return np.where(same_packed(packed, packed[same]), same, np.arange(len(same)))

    def pick(self, at: Sequence[int]) -> LineTable:
        spans = {name: _Spans(s.first[at], s.end[at], s.of_numbers) for name, s in self.spans.items()}
        values = {name: [column[i] for i in at] for name, column in self.values.items()}
        columns = {name: lists.of_lists(at) for name, lists in self.columns.items()}
        # The names in the selected lines are unknown: their numbers are read from the text.
        return LineTable(self.starts[at], columns, self.block, spans, values, None, self.decoder, alike=self.alike)


def has_texts(records: object, name: str) -> bool:
    """Whether every record has a text in this field; False where that is not known."""
    return isinstance(records, LineTable) and name in records.spans and not records.spans[name].of_numbers


class _Asked(ctypes.Structure):
    """`lines_t` of json.c."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("names", "ends", "kinds")),
        ("fields", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("column_names", "column_ends", "column_kinds")),
        *((name, ctypes.c_int64) for name in ("columns", "bare", "line_room", "item_room", "odd_room")),
        *((name, ctypes.c_void_p) for name in ("starts", "firsts", "after", "counts", "found", "numbers")),
        *((name, ctypes.c_void_p) for name in ("item_firsts", "item_sizes", "widths", "packed", "hashes")),
        *((name, ctypes.c_void_p) for name in ("present", "longest", "items", "odd")),
        ("map", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("stages", "stage_names")),
        *((name, ctypes.c_int64) for name in ("stage_count", "odd_count", "stopped", "noted")),
    ]


class _Names:
    """Names and kinds in the form of the native reader."""

    def __init__(self, kinds: Mapping[str, int]) -> None:
        encoded = [name.encode("utf-8", "surrogatepass") for name in kinds]
        self.joined = np.frombuffer(b"".join(encoded) + b"\0", np.uint8)
        self.ends = np.cumsum([len(name) for name in encoded], dtype=np.int32)
        self.kinds = np.array(list(kinds.values()), np.int8)


class _Packing:
    """Room for the ids of a block that the native reader packs: those of columns that earlier blocks had. Of others it
    notes where they are."""

    def __init__(self, lists: int, columns: int) -> None:
        self.widths = np.zeros((lists, columns), np.int64)  # bytes of an id; 0: not packed

    def make(self, items: int) -> None:
        """New arrays: those of the last block are in use."""
        self.arrays: dict[tuple[int, int], tuple[Packed, Hashes]] = {}
        self.packed, self.hashes = np.zeros(self.widths.shape, np.uintp), np.zeros(self.widths.shape, np.uintp)
        for number, column in np.argwhere(self.widths).tolist():
            ids, hashed = np.empty(items, f"S{self.widths[number, column]}"), np.empty(items, np.uint64)
            self.arrays[number, column] = ids, hashed
            self.packed[number, column], self.hashes[number, column] = ids.ctypes.data, hashed.ctypes.data

    def widen(self, longest: Ints) -> None:
        """After a block with a longer id."""
        wider = (self.widths > 0) & (longest > self.widths)
        self.widths[wider] = np.where(longest[wider] > LONGEST, 0, _whole_words(longest[wider]))


def _whole_words(sizes: Any) -> Any:
    return np.maximum(-(-sizes // WORD), 1) * WORD


class _Room:
    """Arrays that the native reader fills, reused for the next block."""

    size: tuple[int, ...] = ()

    def make(self, fields: int, lists: int, columns: int, lines: int, items: int) -> None:
        if self.size == (fields, lists, columns, lines, items):
            return
        self.size = (fields, lists, columns, lines, items)
        self.starts = np.empty(lines, np.int64)
        self.firsts, self.after = np.empty((fields, lines), np.int64), np.empty((fields, lines), np.int64)
        self.counts = np.empty((lists, lines), np.int64)
        self.found = np.empty(fields, np.uint8)
        self.item_firsts = np.empty((lists, columns, items), np.uint32)
        self.item_sizes = np.empty((lists, columns, items), np.uint32)
        self.present, self.longest = np.empty((lists, columns), np.int64), np.empty((lists, columns), np.int64)
        self.items = np.empty(lists, np.int64)
        self.odd = np.empty((items, 5), np.int64)
        self.stages, self.stage_names = np.empty((_STAGES, lines), np.float64), np.empty((_STAGES, 2), np.int64)

    def arrays(self) -> Iterator[tuple[str, Any]]:
        return ((name, made) for name, made in self.__dict__.items() if isinstance(made, np.ndarray))


class LineReader:
    """Reads lines with given fields, with a decoder for each, and lists of objects."""

    def __init__(self, lists: ListField, decoders: Mapping[str, Any]) -> None:
        kinds = {name: self._kind(name, lists, decoder) for name, decoder in decoders.items()}
        self._decoders, self._kinds, self._names = decoders, list(kinds.values()), list(kinds)
        self._lists = [name for name, kind in kinds.items() if kind >= _LIST]
        self._columns: dict[str, ValueKind] = {**lists.fields, **dict.fromkeys(lists.values, "any?")}
        self._item_decoders = {name: msgspec.json.Decoder(kind) for name, kind in lists.values.items()}
        self._fields, self._items = _Names(kinds), _Names({n: _KINDS[k] for n, k in self._columns.items()})
        self._bare = list(self._columns).index(lists.bare)
        self._map = self._names.index(lists.numbers) if lists.numbers in kinds else -1
        self._takes_text = {name: _takes_text(decoder) for name, decoder in decoders.items()}
        self._room = _Room()
        self._packing = _Packing(len(self._lists), len(self._columns))
        self._line_room = self._item_room = 0

    @staticmethod
    def _kind(name: str, lists: ListField, decoder: Any) -> int:
        if decoder.type is msgspec.Raw:
            return _SKIP
        return _LIST if name == lists.name else _LIST_OR_NULL if name in lists.beside else _VALUE

    def read(self, block: bytes, size: int) -> LineTable | int | None:
        """The lines in the first `size` bytes; the start of a line with an unknown field; None for anything else."""
        if native() is None or size > _LARGEST:
            return None
        lines, asked = self._call(block, size)
        if lines == _UNKNOWN:
            return int(asked.stopped)
        return None if lines <= 0 else self._table(block, lines, asked)

    def _call(self, block: bytes, size: int) -> tuple[int, _Asked]:
        """Number of lines, or a code for why they were not read."""
        if not self._line_room:
            self._guess_room(block, size)
        while True:
            asked = self._asked()
            lines = native().karat_lines(block, size, ctypes.byref(asked))
            if lines == _FULL:
                self._item_room *= 2  # this ends: an object takes more than a byte, and so does a line
            elif lines == _MANY:
                self._line_room *= 2
            elif lines == _WIDE:
                self._packing.widen(self._room.longest)  # this ends too: an id that is too long is not packed
            else:
                return lines, asked

    def _guess_room(self, block: bytes, size: int) -> None:
        """Room for as many lines and objects as the first ones suggest: memory that is not needed may be used all the
        same, where the system hands out large pages."""
        looked_at = min(size, _LOOKED_AT)
        times = _SPARE * size / max(looked_at, 1)
        self._line_room = int(times * block.count(b"\n", 0, looked_at)) + _LEAST
        self._item_room = int(times * block.count(b"{", 0, looked_at)) + _LEAST

    def _asked(self) -> _Asked:
        room, fields, items, packing = self._room, self._fields, self._items, self._packing
        room.make(len(self._names), len(self._lists), len(self._columns), self._line_room, self._item_room)
        packing.make(self._item_room)
        self._item_numbers = np.empty((len(self._lists), len(self._columns), self._item_room), np.float64)
        return _Asked(
            names=fields.joined.ctypes.data,
            ends=fields.ends.ctypes.data,
            kinds=fields.kinds.ctypes.data,
            fields=len(self._names),
            column_names=items.joined.ctypes.data,
            column_ends=items.ends.ctypes.data,
            column_kinds=items.kinds.ctypes.data,
            columns=len(self._columns),
            bare=self._bare,
            map=self._map,
            line_room=self._line_room,
            item_room=self._item_room,
            odd_room=self._item_room,
            numbers=self._item_numbers.ctypes.data,
            widths=packing.widths.ctypes.data,
            packed=packing.packed.ctypes.data,
            hashes=packing.hashes.ctypes.data,
            **{name: array.ctypes.data for name, array in room.arrays()},
        )

    def _table(self, block: bytes, lines: int, asked: _Asked) -> LineTable | None:
        room = self._room
        columns: dict[str, Columns] = {}
        for number, name in enumerate(self._lists):
            counts = room.counts[number, :lines].copy()
            there = counts >= 0
            hashed: dict[str, Hashes] = {}
            read = self._values(block, number, room.odd[: asked.odd_count], hashed)
            if read is None:
                return None
            counts[~there] = 0
            columns[name] = Columns(counts, read, None if there.all() else there, hashed)
        spans: dict[str, _Spans] = {}
        values: dict[str, list[Any]] = {}
        alike: list[str] = []
        numbers = self._numbers(block, lines, asked.stage_count)
        try:
            for at, name in enumerate(self._names):
                found = int(room.found[at])
                if self._kinds[at] != _VALUE or found == _LACKING:
                    continue
                first, end = room.firsts[at, :lines], room.after[at, :lines]
                of_numbers = at == self._map and numbers is not None
                if of_numbers or (found == _PLAIN_TEXT | _DIFFERENT and self._takes_text[name]):
                    spans[name] = _Spans(first.copy(), end.copy(), of_numbers)
                elif not found & (_DIFFERENT | _LACKING):
                    values[name] = [self._decoders[name].decode(block[first[0] : end[0]])] * lines
                    alike.append(name)
                else:
                    values[name] = _decoded(self._decoders[name], block, first, end)
        except DECODE_ERRORS:
            return None
        decoder = self._decoders[self._names[self._map]]
        seen = zip(self._names, self._kinds, room.found.tolist(), strict=True)
        skipped = frozenset(name for name, kind, found in seen if kind == _SKIP and found)
        starts, noted = room.starts[:lines].copy(), bool(asked.noted)
        return LineTable(starts, columns, block, spans, values, numbers, decoder, noted, skipped, frozenset(alike))

    def _numbers(self, block: bytes, lines: int, count: int) -> dict[str, Floats] | None:
        """The field with an object of numbers; None where some line has something else."""
        if self._map < 0 or count < 0:
            return None
        names = [block[first:end].decode() for first, end in self._room.stage_names[:count].tolist()]
        return {name: self._room.stages[at, :lines].copy() for at, name in enumerate(names)}

    def _values(self, block: bytes, number: int, odd: Ints, hashed: dict[str, Hashes]) -> dict[str, Any] | None:
        """The columns of one of the lists, and hashes of its ids; None where only some objects have an id, one is too
        long, or a value has another type."""
        room, size = self._room, int(self._room.items[number])
        values: dict[str, Any] = {}
        named = False
        for at, (name, kind) in enumerate(self._columns.items()):
            present = int(room.present[number, at])
            if not present:
                continue
            if kind == "any?":
                first, sizes = (
                    spans[number, at, :size].astype(np.int64) for spans in (room.item_firsts, room.item_sizes)
                )
                try:
                    values[name] = _decoded(self._item_decoders[name], block, np.where(sizes, first, -1), first + sizes)
                except DECODE_ERRORS:
                    return None
                continue
            if kind != "text?":
                values[name] = self._item_numbers[number, at, :size]
                if not _read_odd(values[name], block, odd[(odd[:, 0] == number) & (odd[:, 1] == at)]):
                    return None
                continue
            if (present < size and not named) or room.longest[number, at] > LONGEST:
                return None
            named = True
            if (number, at) in self._packing.arrays:
                packed, hashes = self._packing.arrays[number, at]
                values[name], hashed[name] = packed[:size], hashes[:size]
                continue
            spans = room.item_firsts[number, at, :size], room.item_sizes[number, at, :size]
            values[name], hashed[name] = packed_pieces(block, *spans, int(room.longest[number, at]))
            self._packing.widths[number, at] = values[name].itemsize
        return values


def _read_odd(numbers: Floats, block: bytes, odd: Ints) -> bool:
    """Read the numbers that need more than one exact step; False where one is not a number."""
    if not len(odd):
        return True
    pieces = [block[first : first + size] for first, size in odd[:, 3:].tolist()]
    try:
        numbers[odd[:, 2]] = msgspec.json.decode(b"[%b]" % b",".join(pieces), type=list[float])
    except DECODE_ERRORS:
        return False
    return True


def _takes_text(decoder: Any) -> bool:
    try:
        decoder.decode(b'""')
    except DECODE_ERRORS:
        return False
    return True


def _decoded(decoder: Any, block: bytes, first: Ints, end: Ints) -> list[Any]:
    """A value for each line; None where it is missing."""
    there = np.flatnonzero(first >= 0)
    found: list[Any] = decoder.decode_lines(joined_pieces(block, first[there], end[there]))
    if len(there) == len(first):
        return found
    values: list[Any] = [None] * len(first)
    for at, value in zip(there.tolist(), found, strict=True):
        values[at] = value
    return values
