"""Lists of runs by any column, page by page. Runs with the same value, or without one, are listed newest first."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from karat.errors import ConfigError
from karat.history.rows import Filter
from karat.history.statements import DESCRIBED, Connection, among, conditions_of, is_storable

Direction = Literal["asc", "desc"]
SAVED = "saved"
_GATES = "gates"
_TEXTS = ("system", "branch", "dataset", "author")
_MEANS = "JOIN means ON means.run_id = runs.id AND metric = ?"
_OUTCOMES = (
    "JOIN (SELECT run_id, outcome, row_number() OVER (PARTITION BY run_id ORDER BY judged_at DESC) AS place "
    "FROM verdicts) AS told ON told.run_id = runs.id AND place = 1"
)
_NEWEST, _LATER, _EARLIER = (
    "saved_at DESC, runs.id DESC",
    "(saved_at, runs.id) < (?, ?)",
    "(saved_at, runs.id) > (?, ?)",
)
_CURSOR = re.compile(r"(?P<time>[0-9T:.Z-]{1,40})~(?P<id>[0-9a-f]{64})(?:~(?P<value>.+))?", re.DOTALL)
COLUMNS = (SAVED, *_TEXTS, _GATES)  # anything else is a metric


class Sort(msgspec.Struct, frozen=True):
    """The order of a list: by a column or a metric. Without a direction, names go up; times and scores go down."""

    by: str = SAVED
    order: Direction | None = None

    @property
    def direction(self) -> Direction:
        return self.order or ("asc" if self.by in (*_TEXTS, _GATES) else "desc")


def select_sorted(
    connection: Connection, only: Filter, sort: Sort, limit: int, after: str | None
) -> tuple[list[Any], str | None]:
    """A page of rows (`DESCRIBED`), and the cursor of the next one.

    A cursor is the place of the last run, not a number of runs, so new runs do not shift pages."""
    conditions, values = conditions_of(only)
    key = _Key.of(sort.by)
    place = None if after is None else _place(after, key)
    if not all(is_storable(value) for value in (*key.values, *values) if isinstance(value, str)):
        return [], None
    found: list[Any] = []
    for part in key.parts(sort.direction, place):
        if len(found) <= limit:
            where = " AND ".join([*conditions, *part.conditions])
            # Without the heads, which are long: many of these rows are only sorted.
            statement = f"SELECT runs.id, saved_at, {part.value} FROM runs {part.join} WHERE {where}"
            given = [*key.values, *values, *part.values, limit + 1 - len(found)]
            found += connection.execute(f"{statement} ORDER BY {part.order} LIMIT ?", given).fetchall()
    rows, told = found[:limit], dict[str, Any]()
    if rows:
        which, ids = among(connection, [row[0] for row in rows])
        told = {
            row[0]: row for row in connection.execute(f"SELECT {DESCRIBED} FROM runs WHERE id {which}", ids).fetchall()
        }
    cursor = None
    if len(found) > limit:
        run_id, time, value = rows[-1]
        cursor = f"{time}~{run_id}" + ("" if key.column is None else f"~{msgspec.json.encode(value).decode()}")
    return [told[row[0]] for row in rows], cursor


class _Place(NamedTuple):
    """Where a page ends."""

    at: tuple[str, str]  # time and id
    value: float | str | None


class _Part(NamedTuple):
    """One of the statements that make a list."""

    value: str
    join: str
    conditions: list[str]
    values: list[Any]
    order: str


class _Key(NamedTuple):
    """What a list is sorted by; None: the time alone."""

    column: str | None
    join: str = ""
    values: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str) -> _Key:
        if name == SAVED:
            return cls(None)
        if name == _GATES:
            return cls("outcome", _OUTCOMES)
        return cls(name) if name in _TEXTS else cls("mean", _MEANS, (name,))

    def parts(self, direction: Direction, place: _Place | None) -> list[_Part]:
        """Runs with a value, from the index of the values; then those without."""
        key, down = self.column, direction == "desc"
        at = [] if place is None else [*place.at]
        later = [] if place is None else [_LATER]
        if key is None:
            order = _NEWEST if down else "saved_at, runs.id"
            return [_Part("NULL", "", later if down else [_EARLIER] * len(later), at, order)]
        found = []
        if place is None or place.value is not None:
            conditions, values = [f"{key} IS NOT NULL"], list[Any]()
            if place is not None:
                sign = "<" if down else ">"
                conditions.append(f"{key} {sign}= ? AND ({key} {sign} ? OR {_LATER})")  # the first is for the index
                values = [place.value, place.value, *at]
            order = f"{key} {'DESC' if down else 'ASC'}, {_NEWEST}"
            found.append(_Part(key, self.join, conditions, values, order))
            at, later = [], []
        return [
            *found,
            _Part("NULL", f"LEFT {self.join}" if self.join else "", [f"{key} IS NULL", *later], at, _NEWEST),
        ]


def _place(cursor: str, key: _Key) -> _Place:
    read = _CURSOR.fullmatch(cursor)
    if read is None or (read["value"] is None) != (key.column is None):
        raise _invalid(cursor)
    kind = float if key.column == "mean" else str
    value = None if key.column is None else _value(cursor, read["value"], kind)
    return _Place((read["time"], read["id"]), value)


def _value(cursor: str, text: str, kind: type[float] | type[str]) -> float | str | None:
    try:
        value = msgspec.json.decode(text, type=kind | None)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise _invalid(cursor) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise _invalid(cursor)
    return value


def _invalid(cursor: str) -> ConfigError:
    expected = "the cursor of an earlier page of the same list"
    return ConfigError("invalid cursor in a list of runs", code="bad-value", expected=expected, got=cursor)


def distinct(connection: Connection, columns: Sequence[tuple[str, str, str]]) -> list[list[str]]:
    """All values of some columns (column, table, condition), in order, in one statement. Reads one value after the
    other from an index: to look at every row would take 20 times as long."""
    known, told = [], []
    for i, (column, table, condition) in enumerate(columns):
        least = f"SELECT min({column}) FROM {table} WHERE {condition}"
        known.append(
            f"known{i}(name) AS ({least} UNION ALL "
            f"SELECT ({least} AND {column} > name) FROM known{i} WHERE name IS NOT NULL)"
        )
        told.append(f"SELECT {i}, name FROM known{i} WHERE name IS NOT NULL")
    statement = f"WITH RECURSIVE {', '.join(known)} {' UNION ALL '.join(told)} ORDER BY 1, 2"
    found: list[list[str]] = [[] for _ in columns]
    for i, name in connection.execute(statement).fetchall():
        found[i].append(name)
    return found


def count_runs(connection: Connection, only: Filter) -> int:
    conditions, values = conditions_of(only)
    if not all(is_storable(value) for value in values):
        return 0
    return int(
        connection.execute(f"SELECT count(*) FROM runs WHERE {' AND '.join(conditions)}", values).fetchall()[0][0]
    )
