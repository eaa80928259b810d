"""Lists of runs by any column, page by page. Runs with the same value, or without one, are listed newest first."""

from __future__ import annotations

import math
import re
from typing import Any, Literal

import msgspec

from karat.errors import ConfigError
from karat.history.rows import Filter
from karat.history.statements import Connection, conditions_of, is_storable

Direction = Literal["asc", "desc"]
SAVED = "saved"
_OUTCOME = "(SELECT outcome FROM verdicts WHERE run_id = runs.id ORDER BY judged_at DESC LIMIT 1)"
_TEXTS = {"system": "system", "branch": "branch", "dataset": "dataset", "author": "author", "gates": _OUTCOME}
_MEAN = "LEFT JOIN means ON means.run_id = runs.id AND metric = ?"
_CURSOR = re.compile(r"(?P<time>[0-9T:.Z-]{1,40})~(?P<id>[0-9a-f]{64})(?:~(?P<value>.+))?", re.DOTALL)
COLUMNS = (SAVED, *_TEXTS)  # anything else is a metric
# One value after the other in the index: to look at every row would take 20 times as long.
_METRICS = (
    "WITH RECURSIVE known(name) AS (SELECT min(metric) FROM means UNION ALL "
    "SELECT (SELECT min(metric) FROM means WHERE metric > name) FROM known WHERE name IS NOT NULL) "
    "SELECT name FROM known WHERE name IS NOT NULL"
)


class Sort(msgspec.Struct, frozen=True):
    """The order of a list: by a column or a metric. Without a direction, names go up; times and scores go down."""

    by: str = SAVED
    order: Direction | None = None

    @property
    def direction(self) -> Direction:
        return self.order or ("asc" if self.by in _TEXTS else "desc")


def select_sorted(
    connection: Connection, only: Filter, sort: Sort, limit: int, after: str | None
) -> tuple[list[Any], str | None]:
    """A page of rows (id, time, head), and the cursor of the next one.

    A cursor is the place of the last run, not a number of runs, so new runs do not shift pages."""
    conditions, values = conditions_of(only)
    join, key = ("", _TEXTS.get(sort.by)) if sort.by in COLUMNS else (_MEAN, "mean")
    down = sort.direction == "desc"
    if after is not None:
        condition, place = _after(after, key, down)
        conditions.append(condition)
        values += place
    if join:
        values = [sort.by, *values]
    if not all(is_storable(value) for value in values if isinstance(value, str)):
        return [], None
    if key is None:
        ordered = "saved_at DESC, runs.id DESC" if down else "saved_at, runs.id"
    else:
        ordered = f"{key} {'DESC' if down else 'ASC'} NULLS LAST, saved_at DESC, runs.id DESC"
    # Without the heads, which are long: most of these rows are only sorted.
    statement = f"SELECT runs.id, saved_at, {key or 'NULL'} FROM runs {join} WHERE {' AND '.join(conditions)}"
    found = connection.execute(f"{statement} ORDER BY {ordered} LIMIT ?", [*values, limit + 1]).fetchall()
    rows, heads = found[:limit], dict[str, str]()
    if rows:
        marks = ", ".join("?" * len(rows))
        heads = dict(
            connection.execute(f"SELECT id, head FROM runs WHERE id IN ({marks})", [r[0] for r in rows]).fetchall()
        )
    cursor = None
    if len(found) > limit:
        run_id, time, value = rows[-1]
        cursor = f"{time}~{run_id}" + ("" if key is None else f"~{msgspec.json.encode(value).decode()}")
    return [(run_id, time, heads[run_id]) for run_id, time, _ in rows], cursor


def _after(cursor: str, key: str | None, down: bool) -> tuple[str, list[Any]]:
    """The condition for runs that come after a cursor."""
    place = _CURSOR.fullmatch(cursor)
    if place is None or (place["value"] is None) != (key is None):
        raise _invalid(cursor)
    later, at = "(saved_at, runs.id) < (?, ?)", [place["time"], place["id"]]
    if key is None:
        return (later if down else "(saved_at, runs.id) > (?, ?)"), at
    value = _value(cursor, place["value"], float if key == "mean" else str)
    if value is None:
        return f"({key} IS NULL AND {later})", at
    return f"({key} {'<' if down else '>'} ? OR ({key} = ? AND {later}) OR {key} IS NULL)", [value, value, *at]


def _value(cursor: str, text: str, kind: type[float] | type[str]) -> float | str | None:
    try:
        value = msgspec.json.decode(text, type=kind | None)
    except (msgspec.MsgspecError, UnicodeEncodeError) as error:
        raise _invalid(cursor) from error
    if isinstance(value, float) and not math.isfinite(value):
        raise _invalid(cursor)
    return value  # type: ignore[no-any-return]


def _invalid(cursor: str) -> ConfigError:
    expected = "the cursor of an earlier page of the same list"
    return ConfigError("invalid cursor in a list of runs", code="bad-value", expected=expected, got=cursor)


def known_metrics(connection: Connection) -> list[str]:
    """All metrics of all runs, by name."""
    return [row[0] for row in connection.execute(_METRICS).fetchall()]


def count_runs(connection: Connection, only: Filter) -> int:
    conditions, values = conditions_of(only)
    if not all(is_storable(value) for value in values):
        return 0
    return int(
        connection.execute(f"SELECT count(*) FROM runs WHERE {' AND '.join(conditions)}", values).fetchall()[0][0]
    )
