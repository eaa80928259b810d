"""Layout of a table: columns by role, under usual or custom names, and rows by query."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from karat.data.hits import METADATA, OPTIONAL_COLUMNS
from karat.data.ids import Bools, Floats, Ints, Packed, Seen, take_list
from karat.errors import ConfigError, InputError, did_you_mean, shorten
from karat.formats.base import Source

if TYPE_CHECKING:
    import polars as pl

    from karat.formats.table_file import ParquetColumns

Runs: TypeAlias = tuple[list[str], Ints]  # names in a row, and how many rows each of them has
Groups: TypeAlias = tuple[list[str], Ints, "Ints | None"]  # names, where their rows begin, and the order of the rows

# Names that a column may have. The first that is present wins.
NAMES: dict[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid", "query-id", "q_id", "topic", "topic_id", "query"),
    "chunk_id": ("chunk_id", "item_id", "corpus-id", "corpus_id", "docno", "docid", "id", "passage_id"),
    "doc_id": ("doc_id", "document_id", "doc"),
    "grade": ("grade", "relevance", "rel", "label", "rating", "gain", "score"),
    "score": ("score", "sim", "similarity", "_score", "relevance_score", "rerank_score", "distance", "dist"),
    "rank": ("rank", "position"),
    "system": ("system", "run", "tag", "run_id"),
}
_TRUE, _FALSE = ("true", "1", "1.0", "yes"), ("false", "0", "0.0", "no", "", "nan")
_DECIMAL_COMMA = r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?"
LISTS = "topk"
LATENCY = "latency_ms"
_OF_HIT = ("chunk_id", "doc_id", "score", "rank", *sorted(OPTIONAL_COLUMNS))
_ROLES = ("query_id", "system", LISTS, LATENCY, *_OF_HIT)
_KEPT = {name for role, names in NAMES.items() if role != "grade" for name in names} | {LISTS, LATENCY}


class Layout:
    """Role → column, from a user's file; roles that it leaves out use the usual names."""

    roles = _ROLES

    def __init__(self, columns: Mapping[str, str] | None = None, label: str | None = None) -> None:
        self.columns: dict[str, str] = dict(columns or {})
        self._said = f", as {label} says" if label else ""
        for role, name in self.columns.items():
            if role not in _ROLES:
                hint = did_you_mean(str(role), _ROLES) or f"known columns: {', '.join(_ROLES)}"
                raise ConfigError(f"unknown column {shorten(role, 40)!r}", code="unknown-column", file=label, hint=hint)
            if not isinstance(name, str) or not name:
                raise ConfigError(
                    "not a column name", code="wrong-type", file=label, field=role, expected="text", got=name
                )

    def picked(self, schema: Mapping[str, pl.DataType], columns: frozenset[str], label: str) -> dict[str, str]:
        """The columns to read, and their names from here on: by role where the user names them."""
        from karat.formats.field_map import spelled_as
        from karat.formats.timestamps import TIMES

        named = {role: spelled_as(name, [schema]) for role, name in self.columns.items()}
        absent = {role: name for role, name in named.items() if role not in _OF_HIT and name not in schema}
        found = {name: role for role, name in named.items() if name in schema}
        nested = _nested(schema, self.columns.get(LISTS, LISTS))
        if nested is None:
            absent |= {role: name for role, name in named.items() if name not in schema}
        for role, name in absent.items():
            what, hint = f"no column {name!r} for {role}{self._said}", did_you_mean(name, schema)
            raise InputError(what, code="missing-column", file=label, got=", ".join(schema), hint=hint)
        taken, said = set(found.values()), _KEPT | (columns & OPTIONAL_COLUMNS)
        if nested is not None and "latency" in columns:
            said |= set(TIMES)
        for name in schema:
            usual = name.strip().lower()
            if name not in found and usual in said and usual not in taken and not self._renamed(usual):
                found[name] = name
                taken.add(usual)
        if METADATA in columns and METADATA not in taken and nested is None:  # then all columns are metadata
            found |= {name: name for name in schema if name not in found and name not in taken}
        return found

    def may_say(self, schema: Mapping[str, pl.DataType], column: str) -> bool:
        """Whether hits have this column: in the table, or in the objects of its lists."""
        inner = _nested(schema, self.columns.get(LISTS, LISTS))
        names = schema if inner is None else [field.name for field in getattr(inner, "fields", ())]
        return self.columns.get(column, column) in names

    def _renamed(self, usual: str) -> bool:
        """Whether a column of this name would be mistaken for one that the user has under another name."""
        return any(usual in NAMES.get(role, (role,)) for role in self.columns)

    def exploded(self, frame: pl.DataFrame, label: str) -> tuple[pl.DataFrame, Any] | None:
        """For a table with a list per query: one row per hit, and the hits of each query. None for one row per hit."""
        import polars as pl

        inner = _nested(frame.schema, LISTS)
        if inner is None:
            return None
        counts = frame[LISTS].list.len().fill_null(0)
        hits = frame.filter(counts > 0).select(LISTS).explode(LISTS)
        if not isinstance(inner, pl.Struct):
            return hits.rename({LISTS: "chunk_id"}), counts
        fields = {f.name: f.name for f in inner.fields}
        for role in set(_OF_HIT) & set(self.columns):
            name = self.columns[role]
            if name not in fields:
                what, hint = f"no field {name!r} for {role} in the hits", f"a hit has: {', '.join(fields)}"
                raise InputError(what, code="missing-field", file=label, field=LISTS, hint=hint)
            fields[name] = role
        clashes = {name for name, role in fields.items() if name == role} & set(self.columns)
        hits = hits.unnest(LISTS).drop(name for name in clashes if self.columns.get(name) != name)
        return hits.rename({name: role for name, role in fields.items() if name in hits.columns}), counts


def find_column(columns: Iterable[str], role: str) -> str | None:
    """The column for a role, by its usual names."""
    there = {c.strip().lower(): c for c in columns}
    return next((there[n] for n in NAMES[role] if n in there), None)


def _nested(schema: Mapping[str, pl.DataType], name: str) -> Any:
    """The type of a column's list elements; None where it has no lists."""
    return getattr(schema.get(name), "inner", None)


def read_layout(columns: Any) -> Layout:
    """A mapping role → column, or a YAML file that holds one."""
    if columns is None or isinstance(columns, Layout):
        return columns or Layout()
    label, said = None, columns
    if isinstance(columns, (str, PathLike)):
        from karat.files.yaml import load_yaml

        label = str(columns)
        try:
            said, _ = load_yaml(Path(columns).read_bytes(), label)
        except OSError as error:
            raise ConfigError(f"cannot read the file: {error.strerror}", code="unreadable", file=label) from error
    if isinstance(said, Mapping):
        return Layout(said, label)
    expected = "a mapping such as `query_id: request_id`"
    raise ConfigError("not a mapping of columns", code="wrong-type", file=label, expected=expected, got=said)


class CheckedTable:
    """Columns by role, checked; errors name the column and the row."""

    def __init__(self, frame: pl.DataFrame | ParquetColumns, label: str, source: Source | None, first: int = 0) -> None:
        self.frame = frame
        self.label = label
        self.source = source
        self._first = first
        if not frame.height:
            raise InputError("the table has no rows", code="no-rows", file=label)

    def find(self, role: str, *, taken: str | None = None) -> str | None:
        return find_column((c for c in self.frame.columns if c != taken), role)

    def require(self, role: str, kind: Literal["run", "gold"] = "run") -> str:
        """The column for a role; where there is none, the error names the likeliest."""
        found = self.find(role)
        if found is None:
            from shlex import quote

            from karat.formats.map_guess import suggested_map

            # One column at a time, since a Parquet file is columnar.
            fields = suggested_map(kind, {name: self.frame[name][0] for name in self.frame.columns})
            raise InputError(
                f"no column for {role}",
                code="missing-column",
                file=self.label,
                expected="one of " + ", ".join(NAMES[role]),
                got=", ".join(self.frame.columns),
                hint=f"name it: --map {quote(fields) if fields else f'{role}=COLUMN'}",
            )
        return found

    def ids(self, column: str) -> pl.Series:
        values = self.texts(column)
        self._refuse_empty(values, column)
        return values

    def texts(self, column: str) -> pl.Series:
        """The column as text, null where it is empty."""
        import polars as pl

        values = self.frame[column]
        kind = values.dtype
        if not (kind.is_numeric() or kind in (pl.String, pl.Categorical, pl.Enum, pl.Null, pl.Date, pl.Datetime)):
            raise self._wrong_type(column, "text or numbers")
        if kind.is_float():
            values = values.fill_nan(None)
            whole = values.cast(pl.Int64, strict=False)
            if values.eq_missing(whole.cast(kind)).all():  # pandas turns whole-number ids into floats
                values = whole
        return values.cast(pl.String)

    def numbers(self, column: str | None, *, required: bool = False, with_nan: bool = False) -> Floats | None:
        """The column as finite numbers, NaN where it is empty; None if all of it is. `with_nan`: a NaN is empty, as
        pandas writes it."""
        if column is None:
            return None
        import polars as pl

        values = self.frame[column]
        if values.dtype in (pl.String, pl.Categorical, pl.Enum):
            values = values.cast(pl.String).str.strip_chars().replace("", None)
        elif not (values.dtype.is_numeric() or values.dtype == pl.Null):
            raise self._wrong_type(column, "numbers")
        elif with_nan and values.dtype.is_float():
            values = values.fill_nan(None)
        numbers = values.cast(pl.Float64, strict=False)
        bad = (values.is_not_null() & ~numbers.is_finite().fill_null(value=False)).arg_true()
        if len(bad) and (pointed := _with_points(values)) is not None:
            numbers, bad = pointed.cast(pl.Float64), bad.clear()
        if len(bad):
            row = next((at for at in bad if not re.fullmatch(_DECIMAL_COMMA, str(values[at]))), bad[0])
            got = str(values[row])
            clear = f"write {got.replace(',', '.')} or {got.replace(',', '')}: the comma may mean either"
            hint = clear if re.fullmatch(_DECIMAL_COMMA, got) else None
            raise self.error(
                row, column, "invalid value", code="bad-value", expected="a finite number", got=got, hint=hint
            )
        if required:
            self._refuse_empty(values, column)
        return None if numbers.null_count() == len(numbers) else numbers.to_numpy().astype(np.float64)

    def wholes(self, column: str | None) -> list[int | None]:
        """The column as whole numbers from 0 on, None where it is empty."""
        numbers = self.numbers(column, with_nan=True)
        if numbers is None or column is None:
            return [None] * self.frame.height
        bad = np.flatnonzero((numbers < 0) | (numbers != np.floor(numbers)) & ~np.isnan(numbers))
        if len(bad):
            row, expected = int(bad[0]), "a whole number, 0 or more"
            got = f"{float(numbers[row]):g}"
            raise self.error(row, column, "invalid offset", code="bad-value", expected=expected, got=got)
        return [None if n != n else int(n) for n in numbers.tolist()]  # only NaN differs from itself

    def truths(self, column: str) -> Bools:
        """The column as booleans: true, 1, yes, and false, 0, no or nothing, in any case."""
        import polars as pl

        values = self.frame[column]
        if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.String, pl.Null)):
            raise self._wrong_type(column, "true and false")
        texts = values.cast(pl.String).str.strip_chars().str.to_lowercase().fill_null("")
        bad = (~texts.is_in([*_TRUE, *_FALSE])).arg_true()
        if len(bad):
            row = int(bad[0])
            raise self.error(
                row, column, "invalid value", code="bad-value", expected="true or false", got=str(values[row])
            )
        found: Bools = texts.is_in(list(_TRUE)).to_numpy()
        return found

    def _refuse_empty(self, values: pl.Series, column: str) -> None:
        if values.null_count():
            raise self.error(int(values.is_null().arg_true()[0]), column, "the field is empty", code="missing-value")

    def _wrong_type(self, column: str, expected: str) -> InputError:
        got = str(self.frame[column].dtype)
        return InputError(
            "wrong type of column", code="wrong-type", file=self.label, field=column, expected=expected, got=got
        )

    def error(self, row: int, column: str, what: str, **more: Any) -> InputError:
        return InputError(what, file=self.label, line=self.line(row), field=column, **more)

    def line(self, row: int) -> int | None:
        """The line of a row in its file; without lines, the number of the row."""
        if self.source is None or self.source.is_parquet:
            return self._first + row + 1
        from karat.formats.table_file import records_of

        return next((line for at, (line, _) in enumerate(records_of(self.source)) if at == row + 1), None)


def _with_points(values: pl.Series) -> pl.Series | None:
    """Numbers with a decimal comma, written with a point; None if they are not, or if `1,234` may mean a thousand."""
    import polars as pl

    if values.dtype != pl.String:
        return None
    commas = values.filter(values.str.contains(",", literal=True).fill_null(value=False))
    others = values.filter(~values.str.contains(",", literal=True).fill_null(value=True))
    if not commas.str.contains(f"^{_DECIMAL_COMMA}$").all() or others.str.contains(r"[^\d+-]").any():
        return None
    if commas.str.contains(r"^[-+]?[1-9]\d{0,2},\d{3}$").all():
        return None
    return values.str.replace(",", ".", literal=True)


def plain_title(title: str) -> str:
    return title.strip().strip('"').lower()


def has_role(role: str, header: list[str]) -> bool:
    return not set(NAMES[role]).isdisjoint(header)


def is_gold(header: list[str]) -> bool:
    """Whether there are grades and nothing that orders hits."""
    return has_role("grade", header) and not has_role("score", header) and not has_role("rank", header)


def is_run(header: list[str]) -> bool:
    """Whether there are ranks and scores, and no grades: `score` alone may be either."""
    graded = has_role("grade", [name for name in header if name != "score"])
    return has_role("rank", header) and has_role("score", header) and not graded


def refuse_other_system(wanted: str | None, there: Iterable[str], label: str) -> None:
    """Raise if the requested system is not in the run."""
    names = set(there)
    if wanted is not None and wanted not in names:
        hint = "it has: " + ", ".join(sorted(name or "(unnamed)" for name in names))
        raise InputError(f"no system {wanted!r} in the run", code="unknown-system", file=label, hint=hint)


def runs_of(names: pl.Series) -> Runs:
    runs = names.rle().struct.unnest()
    return runs["value"].to_list(), runs["len"].to_numpy().astype(np.int64)


def grouped_rows(found: list[str], sizes: Ints) -> Groups:
    """Names in the order of first appearance, where the rows of each begin once they are together, and the
    order that brings them together: None where they are together already."""
    if not Seen().add_texts(found):
        return found, np.append(0, np.cumsum(sizes)), None
    first: dict[str, int] = {}
    of_run = np.fromiter((first.setdefault(n, len(first)) for n in found), np.int64, len(found))
    codes = np.repeat(of_run, sizes)
    counts = np.bincount(codes)
    scattered = (codes[1:] < codes[:-1]).any()
    return list(first), np.append(0, np.cumsum(counts)), np.argsort(codes, kind="stable") if scattered else None


def in_order(ids: list[str] | Packed, order: Ints | None) -> list[str] | Packed:
    return ids if order is None else ids[order] if isinstance(ids, np.ndarray) else take_list(ids, order)


# Columns of tables of spans: Phoenix, MLflow, LangSmith, Langfuse.
_SPANS = (
    {"context.trace_id", "context.span_id"},
    {"trace_id", "trace", "trace_metadata"},
    {"id", "run_type", "parent_run_id"},
    {"id", "traceId", "type", "parentObservationId"},
    {"id", "trace_id", "type", "parent_observation_id"},
)


def is_span_table(columns: Iterable[str]) -> bool:
    names = set(columns)
    return any(table <= names for table in _SPANS)
