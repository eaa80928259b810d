"""Every list of records in a result as a table with full precision, for CSV and Parquet."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from karat.errors import ConfigError, UnknownName
from karat.errors.redaction import redact
from karat.files.atomic_write import write_whole

if TYPE_CHECKING:
    import polars as pl

    from karat.results.result import Result

Record: TypeAlias = dict[str, Any]
ENDINGS = (".csv", ".parquet")
_APART = "; "  # separates plain values in a cell
_NAME = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*")  # of a table; anything else before = is part of a path
_FORMULA = re.compile(r"^\s*[=+\-@\t\r\uFF1D\uFF0B\uFF0D\uFF20]")  # including full-width forms
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")


def tables_of(found: object) -> dict[str, list[Record]]:
    """Path → records, such as `pairs.segments.differences` of a comparison. Records start with the plain values of
    their parents; single records inside them are flattened with a dot (`recall.mean`). `about` has the plain values of
    the whole object; the records of a list are its `rows`."""
    into: dict[str, list[Record]] = {}
    plain = msgspec.to_builtins(found)
    named = {"rows": plain} if isinstance(plain, list) else plain
    if about := {name: value for name, value in named.items() if not isinstance(value, Mapping | list)}:
        into["about"] = [about]
    for name, value in named.items():
        records = [value] if isinstance(value, Mapping) else value
        if isinstance(records, list) and all(isinstance(record, Mapping) for record in records):
            _add_records(name, records, {}, into)
    return into


def _add_records(path: str, records: Sequence[Record], above: Record, into: dict[str, list[Record]]) -> None:
    rows = into.setdefault(path, [])
    for record in records:
        own, lists = _flat(record)
        rows.append(above | own)
        name = path.rpartition(".")[2]
        below = above | {f"{name}.{key}": value for key, value in own.items() if value is not None}
        for inner, more in lists.items():
            _add_records(f"{path}.{inner}", more, below, into)


def _flat(record: Mapping[str, Any], prefix: str = "") -> tuple[Record, dict[str, list[Record]]]:
    """The plain values of a record, and the lists of records in it."""
    own: Record = {}
    lists: dict[str, list[Record]] = {}
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            inner, more = _flat(value, f"{name}.")
            own |= inner
            lists |= more
        elif isinstance(value, list) and all(isinstance(part, Mapping) for part in value):
            lists[name] = value  # an empty list may hold plain values elsewhere: a table without rows
        elif isinstance(value, list):
            own[name] = _APART.join(map(str, value))
        else:
            own[name] = value
    return own, lists


def joined_tables(found: Sequence[object]) -> dict[str, list[Record]]:
    """The tables of one object, or of several systems, concatenated."""
    into: dict[str, list[Record]] = {}
    for one in found:
        system = {"system": getattr(one, "system", None)} if len(found) > 1 else {}
        for path, records in tables_of(one).items():
            into.setdefault(path, []).extend(system | record for record in records)
    return into


def audit_records(results: Sequence[Result]) -> dict[str, list[Record]]:
    """The audits of several results as one table."""
    rows = [
        {"system": result.system or result.run, "code": e.code, "count": e.count, "found": e.found, "done": e.done}
        | {"examples": _APART.join(e.examples)}
        for result in results
        for e in result.audited
    ]
    return {"audit": rows} if results else {}


def table_target(output: str) -> tuple[str, Path] | None:
    """`differences=out.csv` → name of the table and path; None if the output is not a table file."""
    name, equals, path = output.partition("=")
    if not output.lower().endswith(ENDINGS):
        return None
    if not equals:
        raise ConfigError(
            f"no table named for {output!r}",
            code="unnamed-table",
            expected="the name of a table before the file name",
            hint=f"-o NAME={output}; an unknown name lists all tables",
        )
    return name, Path(path)


def table_name(output: str) -> str | None:
    """The name before `=`; None if it is part of a path."""
    name, equals, _ = output.partition("=")
    return name if equals and _NAME.fullmatch(name) else None


def write_table(tables: Mapping[str, list[Record]], name: str, path: Path) -> None:
    write_whole(path, table_file(frame_of(find_table(tables, name)), path.suffix.lower()))


def table_file(frame: pl.DataFrame, ending: str) -> bytes:
    """The table as CSV or Parquet, with secrets redacted; ids are not changed."""
    import polars as pl

    texts = [name for name, kind in frame.schema.items() if kind == pl.String and not name.endswith("id")]
    shown = frame.with_columns(pl.Series(name, [text and redact(text) for text in frame[name]]) for name in texts)
    if ending == ".csv":
        return csv_text(shown)
    buffer = io.BytesIO()
    shown.write_parquet(buffer)
    return buffer.getvalue()


def csv_text(frame: pl.DataFrame) -> bytes:
    """A table as CSV, safe for spreadsheets, which run texts that begin with = + - @ as formulas. Such texts get a
    leading '; numbers stay numbers, even in a text column. Parquet and JSON hold every text unchanged.

    >>> import polars as pl
    >>> print(csv_text(pl.DataFrame({"id": ["=1+1", "-0.5", "a"], "n": [-1, 2, 3]})).decode())
    id,n
    '=1+1,-1
    -0.5,2
    a,3
    <BLANKLINE>
    """
    import polars as pl

    hidden = frame.with_columns(pl.Series(n, map(_no_formula, frame[n]), pl.String) for n in _texts_of(frame))
    return hidden.rename({name: _no_formula(name) or "" for name in frame.columns}).write_csv().encode()


def csv_lines(rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV, as safe for spreadsheets as `csv_text`; None is an empty cell.

    >>> print(csv_lines([["id", "mean"], ["=1+1", 0.5], ["a, b", None]]), end="")
    id,mean
    '=1+1,0.5
    "a, b",
    """
    text = io.StringIO()
    safe = ([_no_formula(value) if isinstance(value, str) else value for value in row] for row in rows)
    csv.writer(text, lineterminator="\n").writerows(safe)
    return text.getvalue()


def _texts_of(frame: pl.DataFrame) -> list[str]:
    """Text columns that contain a possible formula."""
    import polars as pl

    texts = [name for name, kind in frame.schema.items() if kind == pl.String]
    return [name for name in texts if frame[name].str.contains(_FORMULA.pattern).any()]


def _no_formula(text: str | None) -> str | None:
    return f"'{text}" if text and _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def find_table(tables: Mapping[str, list[Record]], name: str, others: Iterable[str] = ()) -> list[Record]:
    """The table with this path, or with the shortest path that ends with it. `others`: tables that are made elsewhere,
    for the message about an unknown one."""
    ends = sorted((path for path in tables if path == name or path.endswith(f".{name}")), key=len)
    if not ends:
        there = [*others, *(path for path, records in tables.items() if records)]
        raise UnknownName("table", name, there, hint="available: " + ", ".join(there))
    return tables[ends[0]]


def frame_of(records: Sequence[Record]) -> pl.DataFrame:
    """One row per record; a column of numbers and texts becomes text."""
    import polars as pl

    names = dict.fromkeys(name for record in records for name in record)
    return pl.DataFrame([_series(name, [record.get(name) for record in records]) for name in names])


def _series(name: str, values: list[Any]) -> pl.Series:
    import polars as pl

    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool} and kinds:
        return pl.Series(name, values, pl.Boolean)
    if kinds <= {int} and kinds:
        return pl.Series(name, values, pl.Int64)
    if kinds <= {int, float} and kinds:
        return pl.Series(name, values, pl.Float64)
    return pl.Series(name, [None if value is None else str(value) for value in values], pl.String)
