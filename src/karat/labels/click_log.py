"""Reads click logs: which items were shown for a query, in which order, and which of them were clicked."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from karat.data.bulk import Bulk
from karat.data.gold import Gold
from karat.data.ids import Bools, Ints
from karat.errors import InputError
from karat.files.decode_errors import DECODE_ERRORS
from karat.formats.base import Source, SourcePlace, no_gc
from karat.formats.records import RecordDecoder, is_json_lines, read_records
from karat.formats.table_file import read_table
from karat.labels.by_hand import is_table
from karat.labels.files import Key
from karat.statistics.position_bias import Clicks, Showings, sums_of

DEEPEST = 100  # positions below are left out: they are rarely seen, and each position costs memory
# Field of a click log → other names that are accepted for it.
NAMES: dict[str, tuple[str, ...]] = {
    "query_id": ("qid", "query-id", "question_id"),
    "query": ("question", "query_text"),
    "shown": ("results", "items", "ids", "list"),
    "clicked": ("clicks", "click", "is_click"),
    "clicked_positions": (),
    "chunk_id": ("item", "id", "passage_id"),
    "doc_id": ("doc", "docid", "document_id"),
    "position": ("rank", "pos"),
    "session": ("session_id", "user", "user_id"),
    "list_id": ("impression", "impression_id", "request_id"),
}
LISTED = '{"query_id": "q1", "shown": ["doc_7#p2", "doc_3#p1"], "clicked": ["doc_3#p1"], "session": "s1"}'
COLUMNS = "query_id (or query), chunk_id or doc_id, position (from 1) and clicked (0 or 1); session is optional"
_HINT = f"a line is one list, such as {LISTED}, or one shown item with {COLUMNS}"
_POSITIONS = array("h", range(1, DEEPEST + 1))
_BEFORE = 1 << 62  # lists without an id have negative numbers, in the order of the lines
_YES, _NO = ("1", "true", "yes", "t", "y"), ("", "0", "false", "no", "f", "n")

Id = str | int


class ShownItem(msgspec.Struct):
    """An item of a list, where it is more than an id."""

    chunk_id: Id | None = None
    doc_id: Id | None = None
    id: Id | None = None
    position: int | None = None
    clicked: bool = False


class ClickRecord(msgspec.Struct, kw_only=True):
    """A line: a list (`shown`), or one item of a list (`chunk_id` or `doc_id`, and `position`)."""

    query_id: Id | None = None
    query: str | None = None
    shown: list[Id | ShownItem] | None = None
    clicked: list[Id] | bool | Id | None = None
    clicked_positions: list[int] | None = None
    chunk_id: Id | None = None
    doc_id: Id | None = None
    position: int | None = None
    session: Id | None = None
    list_id: Id | None = None


class LogCounts(msgspec.Struct):
    """What a log has, and what was left out of it."""

    lines: int = 0
    empty_lists: int = 0
    clicks_not_shown: int = 0  # clicks on items that the list does not have
    repeated_items: int = 0  # items that a list has again, further down
    repeated_showings: int = 0  # the same item at the same position in the same session, which count once
    too_deep: int = 0  # items below position 100
    unknown_queries: int = 0  # lines of queries that the gold set does not have


class ClickLog(Bulk, frozen=True):
    """A log, counted by pair and position."""

    file: str
    pairs: list[Key]
    positions: Ints  # the positions that occur, ascending
    showings: Showings
    clicks: Clicks
    counts: LogCounts
    sessions: int
    has_sessions: bool


def read_click_log(path: str | PathLike[str], gold: Gold | None = None, *, documents: bool = False) -> ClickLog:
    """Read a click log: JSONL with one list or one shown item per line, or a table with one shown item per row.

    `gold`: finds the ids of queries that are only given as text, and only its queries are read. `documents`: ids
    without a field name are document ids.
    """
    source = Source(Path(path))
    source.refuse_nonsense()
    reading = _Reading(source.label, gold, documents)
    if source.is_parquet or is_table(source):
        reading.read_table(source)
    else:
        with no_gc():
            for record, place in read_records(source, RecordDecoder(_record_type(source))):
                reading.add(record, place)
    return reading.log()


def _record_type(source: Source) -> type[ClickRecord]:
    """`ClickRecord` with the names that the first line uses."""
    if not is_json_lines(source):
        return ClickRecord
    try:
        first = msgspec.json.decode(source.first_line, type=dict[str, Any])
    except DECODE_ERRORS:
        return ClickRecord
    names = _renamed(first)
    if not names:
        return ClickRecord
    return msgspec.defstruct(  # type: ignore[return-value]
        "ClickRecord",
        [(f.name, f.type, None) for f in msgspec.structs.fields(ClickRecord)],
        bases=(ClickRecord,),
        rename=names,
        kw_only=True,
    )


def _renamed(fields: Iterable[str]) -> dict[str, str]:
    """Field of a record → its name in this file, where that differs."""
    there = set(fields)
    found = {field: next((name for name in names if name in there), None) for field, names in NAMES.items()}
    return {field: name for field, name in found.items() if name is not None and field not in there}


class _Reading:
    """Collects showings, one number each, so that memory does not grow with the texts of a log."""

    def __init__(self, file: str, gold: Gold | None, documents: bool) -> None:
        self.file, self._gold, self._documents = file, gold, documents
        self._by_text = {} if gold is None else _by_text(gold)
        self._pairs: list[Key] = []
        self._numbers: dict[
            tuple[str, bool], dict[str, int]
        ] = {}  # query, whether documents → item → number of the pair
        self._units: dict[tuple[str, Id], int] = {}
        self._has_sessions = False
        self._lists: dict[Id, int] = {}
        self._pair, self._position, self._clicked = array("q"), array("h"), array("b")  # of each shown item
        self._unit, self._list, self._length = array("q"), array("q"), array("q")  # of each list
        self.counts = LogCounts()

    def add(self, record: ClickRecord, place: SourcePlace) -> None:
        self.counts.lines += 1
        query = self._query(record.query_id, record.query, place)
        if query is None:
            self.counts.unknown_queries += 1
        elif record.shown is None:
            self._add_item(record, query, place)
        elif not record.shown:
            self.counts.empty_lists += 1
        else:
            self._add_list(record, record.shown, query, place)

    def _query(self, given: Id | None, text: str | None, place: SourcePlace) -> str | None:
        """The id of a query; None if the gold set does not have it."""
        if given is not None:
            return str(given) if self._gold is None or str(given) in self._gold.index else None
        if text is None:
            raise place.error("the field is missing", code="missing-field", field="query_id", hint=_HINT)
        if self._gold is None:
            hint = "give the gold set with --gold: its queries are found by their text"
            raise place.error("the query has no id", code="missing-field", field="query_id", hint=hint)
        return self._by_text.get(_plain(text))

    def _unit_of(self, record: ClickRecord) -> int:
        """The number of what is independent of the rest: a session, else a list."""
        if record.session is not None:
            self._has_sessions = True
            return self._units.setdefault(("session", record.session), len(self._units))
        name: Id = self.counts.lines if record.list_id is None else str(record.list_id)
        return self._units.setdefault(("list", name), len(self._units))

    def _add_item(self, record: ClickRecord, query: str, place: SourcePlace) -> None:
        item = record.chunk_id if record.chunk_id is not None else record.doc_id
        if item is None:
            raise place.error("the field is missing", code="missing-field", field="shown", hint=_HINT)
        if record.position is None:
            raise place.error("the field is missing", code="missing-field", field="position", hint=_HINT)
        is_document = record.chunk_id is None or self._documents
        clicked = _yes(record.clicked, place)
        listed = -1 if record.list_id is None else self._lists.setdefault(record.list_id, len(self._lists))
        at = _position(record.position, place)
        number = self._number(Key(query, str(item), is_document))
        self._show({number: at}, {number} if clicked else set(), self._unit_of(record), listed)

    def _add_list(self, record: ClickRecord, shown: list[Id | ShownItem], query: str, place: SourcePlace) -> None:
        if set(map(type, shown)) == {str}:
            index = self._index(query, self._documents)
            names: list[str] = shown  # type: ignore[assignment]
            try:
                numbers = [index[name] for name in names]
            except KeyError:
                numbers = [self._number(Key(query, name, self._documents)) for name in names]
            if len(set(numbers)) == len(numbers) <= DEEPEST and not record.clicked_positions:
                self._show_plain(numbers, index, record, place)
                return
        first, clicked = self._items(shown, query, place)
        clicked |= self._clicked_items(record, query, first, place)
        self._show(first, clicked & first.keys(), self._unit_of(record), self.counts.lines - _BEFORE)
        self.counts.clicks_not_shown += len(clicked - first.keys())

    def _show_plain(self, numbers: list[int], index: dict[str, int], record: ClickRecord, place: SourcePlace) -> None:
        """The same for a list of different ids, which most are, without a dict for each."""
        start = len(self._pair)
        self._pair.extend(numbers)
        self._position.extend(_POSITIONS[: len(numbers)])
        self._clicked.frombytes(bytes(len(numbers)))
        for item in _clicked_ids(record, place):
            number = index.get(str(item))
            if number is None or number not in numbers:
                self.counts.clicks_not_shown += 1
            else:
                self._clicked[start + numbers.index(number)] = 1
        self._unit.append(self._unit_of(record))
        self._list.append(self.counts.lines - _BEFORE)
        self._length.append(len(numbers))

    def _items(self, shown: list[Id | ShownItem], query: str, place: SourcePlace) -> tuple[dict[int, int], set[int]]:
        """The pairs of a list with their first positions, and the pairs marked as clicked."""
        first: dict[int, int] = {}
        clicked: set[int] = set()
        for at, item in enumerate(shown, 1):
            one = item if isinstance(item, ShownItem) else ShownItem(id=item)
            name = next((x for x in (one.chunk_id, one.id, one.doc_id) if x is not None), None)
            if name is None:
                hint = "an item is an id, or an object with chunk_id or doc_id"
                raise place.error("an item has no id", code="missing-field", field="shown", hint=hint)
            is_document = self._documents or (one.chunk_id is None and one.id is None)
            number = self._number(Key(query, str(name), is_document))
            first.setdefault(number, at if one.position is None else _position(one.position, place))
            if one.clicked:
                clicked.add(number)
        self.counts.repeated_items += len(shown) - len(first)
        if len(set(first.values())) < len(first):
            twice = next(a for a, b in pairwise(sorted(first.values())) if a == b)
            raise place.error("two items have the same position", code="bad-value", field="position", got=twice)
        return first, clicked

    def _clicked_items(self, record: ClickRecord, query: str, shown: dict[int, int], place: SourcePlace) -> set[int]:
        found = set()
        if record.clicked_positions:
            by_position = {at: number for number, at in shown.items()}
            for at in record.clicked_positions:
                if _position(at, place) in by_position:
                    found.add(by_position[at])
                else:
                    self.counts.clicks_not_shown += 1
        for item in _clicked_ids(record, place):
            number = next((n for n in (self._find(query, str(item), d) for d in (False, True)) if n in shown), None)
            if number is None:
                self.counts.clicks_not_shown += 1
            else:
                found.add(number)
        return found

    def _find(self, query: str, item: str, is_document: bool) -> int | None:
        return self._index(query, is_document).get(item)

    def _index(self, query: str, is_document: bool) -> dict[str, int]:
        return self._numbers.setdefault((query, is_document), {})

    def _number(self, key: Key) -> int:
        index = self._index(key.query, key.is_document)
        number = index.get(key.item)
        if number is None:
            number = index[key.item] = len(self._pairs)
            self._pairs.append(key)
        return number

    def _show(self, shown: dict[int, int], clicked: set[int], unit: int, listed: int) -> None:
        """Add a list: its pairs with their positions, and those that were clicked."""
        if max(shown.values()) > DEEPEST:
            count = len(shown)
            shown = {number: at for number, at in shown.items() if at <= DEEPEST}
            self.counts.too_deep += count - len(shown)
        self._pair.extend(shown)
        self._position.extend(shown.values())
        self._clicked.extend([number in clicked for number in shown] if clicked else bytes(len(shown)))
        self._unit.append(unit)
        self._list.append(listed)
        self._length.append(len(shown))

    def read_table(self, source: Source) -> None:
        """A table has one shown item per row."""
        frame = read_table(source)
        lowered = {name: name.strip().lower() for name in frame.columns}
        if len(set(lowered.values())) == len(lowered):
            frame = frame.rename(lowered)
        frame = frame.rename({name: field for field, name in _renamed(frame.columns).items()})
        names = [name for name in NAMES if name in frame.columns and name not in ("shown", "clicked_positions")]
        if "shown" in frame.columns:
            raise InputError("a list in a table", code="wrong-type", file=source.label, field="shown", hint=_HINT)
        for number, row in enumerate(frame.select(names).iter_rows(), 2):
            place = SourcePlace(source.label, number)
            self.add(_from_row(dict(zip(names, row, strict=True)), place), place)

    def log(self) -> ClickLog:
        pair, position = np.array(self._pair, np.int64), np.array(self._position, np.int64)
        clicked = np.array(self._clicked, np.bool_)
        unit, listed = (np.repeat(np.array(x, np.int64), np.array(self._length)) for x in (self._unit, self._list))
        if not len(pair):
            raise InputError("the log shows no items", code="empty-file", file=self.file, hint=_HINT)
        if not clicked.any():
            hint = "are the clicked ids those of the shown items?" if self.counts.clicks_not_shown else _HINT
            raise InputError("the log has no clicks on shown items", code="no-clicks", file=self.file, hint=hint)
        self._refuse_shared(pair, position, listed)
        return self._counted(pair, position, clicked, unit, listed)

    def _refuse_shared(self, pair: Ints, position: Ints, listed: Ints) -> None:
        """Raise if two items of one list have the same position."""
        named = listed >= 0
        rows = np.unique(np.column_stack([listed[named], position[named], pair[named]]), axis=0)
        same = np.flatnonzero((rows[1:, :2] == rows[:-1, :2]).all(axis=1))
        if len(same):
            name = list(self._lists)[int(rows[same[0], 0])]
            what, got = f"two items of the list {name} have the same position", int(rows[same[0], 1])
            raise InputError(what, code="bad-value", file=self.file, field="position", got=got)

    def _counted(self, pair: Ints, position: Ints, clicked: Bools, unit: Ints, listed: Ints) -> ClickLog:
        # In a session, the same item at the same position counts once: the first time. Several rows may be about one
        # showing, such as one for each click.
        place = pair * (DEEPEST + 1) + position
        order = np.argsort(unit * (len(self._pairs) * (DEEPEST + 1)) + place, kind="stable")
        same = (unit[order[1:]] == unit[order[:-1]]) & (place[order[1:]] == place[order[:-1]])
        starts = np.flatnonzero(np.append(True, ~same))
        of_first = np.repeat(listed[order[starts]], np.diff(np.append(starts, len(order)))) == listed[order]
        clicked = np.logical_or.reduceat(clicked[order] & of_first, starts)
        self.counts.repeated_showings = len(order) - len(starts)
        pair, position, unit = (values[order[starts]] for values in (pair, position, unit))
        used, at = np.unique(position, return_inverse=True)
        cells = len(self._pairs) * len(used)
        if cells <= 4 * len(pair):  # then counting is faster than sorting
            shown = np.bincount(pair * len(used) + at, minlength=cells)
            cell = np.flatnonzero(shown)
            shown, where = shown[cell], (np.cumsum(shown > 0) - 1)[pair * len(used) + at]
        else:
            cell, where, shown = np.unique(pair * len(used) + at, return_inverse=True, return_counts=True)
        counts = shown.astype(np.float64), sums_of(where, clicked.astype(np.float64), len(cell))
        showings = Showings(cell // len(used), cell % len(used), *counts, len(self._pairs), len(used))
        return ClickLog(
            self.file,
            self._pairs,
            used,
            showings,
            Clicks(pair[clicked], at[clicked], unit[clicked]),
            self.counts,
            len(np.unique(unit)),
            self._has_sessions,
        )


def _from_row(row: Mapping[str, Any], place: SourcePlace) -> ClickRecord:
    """A row of a table, in which every value may be text."""
    values = {name: value for name, value in row.items() if value is not None and value != ""}
    try:
        if "position" in values:
            values["position"] = int(str(values["position"]).strip())
    except ValueError:
        expected = "a whole number from 1"
        raise place.error(
            "not a position", code="bad-value", field="position", expected=expected, got=values["position"]
        ) from None
    ids = ("query_id", "chunk_id", "doc_id", "session", "list_id", "query")
    fields: dict[str, Any] = {name: str(value) if name in ids else value for name, value in values.items()}
    return ClickRecord(**fields)


def _position(given: int, place: SourcePlace) -> int:
    if given < 1:
        hint = "positions start at 1: add 1 to all of them" if given == 0 else None
        expected = "a whole number from 1"
        raise place.error("not a position", code="bad-value", field="position", expected=expected, got=given, hint=hint)
    return given


def _clicked_ids(record: ClickRecord, place: SourcePlace) -> list[Id]:
    """The ids that a list names as clicked, each once."""
    given = record.clicked
    if given is None or given is False or given == "":
        return []
    if given is True:
        expected = "the ids that were clicked"
        raise place.error("a list with `clicked: true`", code="wrong-type", field="clicked", expected=expected)
    return list(dict.fromkeys(given)) if isinstance(given, list) else [given]


def _yes(given: Any, place: SourcePlace) -> bool:
    """Whether an item was clicked, as people write it in tables."""
    said = "" if given is None else str(given).strip().lower()
    said = said.removesuffix(".0")
    if said.isdecimal() and int(said) > 1:  # a number of clicks
        return True
    if said not in (*_YES, *_NO):
        raise place.error("not yes or no", code="bad-value", field="clicked", expected="0 or 1", got=given)
    return said in _YES


def _by_text(gold: Gold) -> dict[str, str]:
    """Text of a query → its id; texts of several queries are left out."""
    found: dict[str, str | None] = {}
    for row, query in enumerate(gold.queries):
        text = gold.text(row)
        if text:
            found[_plain(text)] = None if _plain(text) in found else query
    return {text: query for text, query in found.items() if query is not None}


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
