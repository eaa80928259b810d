"""Tables as frames: read from CSV, TSV, Parquet and Delta, or taken from polars, pandas and Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.errors import InputError, MissingExtra
from karat.files.parquet_file import ParquetTable, table_of
from karat.files.safe_parquet import ParquetSource, UnreadableParquet
from karat.formats.base import PARSED, Source
from karat.formats.parquet_rows import QueryRows, query_rows

if TYPE_CHECKING:
    import polars as pl

_ROWS = 1 << 14  # judgements at a time


def as_frame(value: Any) -> pl.DataFrame | None:
    """`value` as a polars frame if it is a table of a known library; imports none of them."""
    module = type(value).__module__.partition(".")[0]
    if module not in ("polars", "pandas", "pyarrow"):
        return None
    import polars as pl

    try:
        if module == "pyarrow":
            return pl.DataFrame(pl.from_arrow(value))
        if module == "pandas":
            return _from_pandas(value) if hasattr(value, "columns") else None
        value = value.collect() if isinstance(value, pl.LazyFrame) else value
        return value if isinstance(value, pl.DataFrame) else None
    except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError, OSError) as error:
        raise _unreadable(error, None) from error


def _from_pandas(value: Any) -> pl.DataFrame:
    """Convert column by column through Python objects: needs no pyarrow, and keeps ids as they were."""
    import polars as pl

    columns: dict[str, pl.Series] = {}
    for at, name in enumerate(map(str, value.columns)):
        if name in columns:
            raise InputError(
                "two columns have this name", code="duplicate-column", field=name, hint="rename or remove one of them"
            )
        column = value.iloc[:, at]
        if not isinstance(column.dtype, np.dtype) or column.dtype.kind == "O":  # None, NaN and NA are missing values
            column = column.astype(object).where(column.notna(), None)
        columns[name] = pl.Series(name, column.tolist(), strict=False)
    return pl.DataFrame(columns)


class Scan(msgspec.Struct, frozen=True, dict=True):
    """One Parquet file, with the columns of its folder names (`system=bm25/`), or one Delta table; or some rows."""

    path: str
    constants: dict[str, str] = {}
    delta: bool = False
    start: int = 0
    stop: int | None = None

    @cached_property
    def table(self) -> ParquetTable | None:
        """What the footer says of a file with one value per row and column; None for any other."""
        found = None if self.delta else table_of(self.path)
        return None if found is None or found.nested else found

    def schema(self) -> pl.Schema:
        import polars as pl

        schema: pl.Schema = self._read(lambda table: table.schema())
        return pl.Schema({**schema, **dict.fromkeys(self.constants, pl.String())})

    def names(self) -> Mapping[str, Any]:
        """The columns; the types of those with lists or objects."""
        return self.schema() if self.table is None else dict.fromkeys([*self.table.fields, *self.constants])

    def height(self) -> int:
        if self.stop is not None:
            return self.stop
        return int(self._read(lambda table: table.height())) if self.table is None else self.table.height

    def note_parsed(self, rows: int, share: float = 1.0) -> None:
        """Count rows that were read; `share`: the share of columns."""
        PARSED.add(round(rows * share * self._bytes_per_row))

    @cached_property
    def _bytes_per_row(self) -> float:
        files = Path(self.path).rglob("*.parquet") if self.delta else [Path(self.path)]
        return sum(file.stat().st_size for file in files) / max(replace(self, stop=None).height(), 1)

    def rows(self, names: dict[str, str], at: int, size: int) -> pl.DataFrame:
        """Some rows of the columns `names`, under their new names."""
        import polars as pl

        # Without columns, polars would report no rows.
        stored = [name for name in names if name not in self.constants] or [*self.schema()][:1]
        frame: pl.DataFrame = self._read(lambda table: table.rows(stored, at, size))
        said = [pl.lit(self.constants[name]).alias(name) for name in names if name in self.constants]
        return frame.with_columns(said).select(list(names)).rename(names)

    def _read(self, look: Callable[[ParquetSource], Any]) -> Any:
        if self.delta:
            try:
                import deltalake  # noqa: F401
            except ImportError:
                raise MissingExtra("reading a Delta table", "deltalake", "delta") from None
        try:
            return look(ParquetSource(self.path, delta=self.delta))
        except UnreadableParquet as error:
            if self.delta and error.module.partition(".")[0] in ("deltalake", "_internal"):
                what = "cannot read the Delta table:"
            else:
                what = "cannot read the table:"
            raise error.as_error(what, code="unreadable-table", label=self.path) from error


class ParquetColumns:
    """A Parquet file, with some rows or one column in memory at a time."""

    def __init__(self, source: Source) -> None:
        self._scan = Scan(source.label)
        self.height: int = self._scan.height()
        self.columns: list[str] = list(self._scan.names())

    def __getitem__(self, name: str) -> pl.Series:
        return self._scan.rows({name: name}, 0, self.height)[name]

    def query_rows(self, query: str, item: str, numbers: list[str]) -> Iterator[QueryRows] | None:
        """The rows of two columns of texts, and of numbers, by the native reader; None where polars must read."""
        table = self._scan.table
        if table is None or not all(table.reads(name, "text") for name in (query, item)):
            return None
        return query_rows(table, query, item, numbers) if all(table.reads(n, "number") for n in numbers) else None

    def pieces(self, names: list[str]) -> Iterator[tuple[int, pl.DataFrame]]:
        """Rows of some columns, each piece with the number of its first row. Numeric ids are checked over all rows."""
        schema = self._scan.schema()
        numbered = any(schema[name].is_float() for name in names)
        size = self.height if numbered else _ROWS
        for at in range(0, self.height, max(size, 1)):
            yield at, self._scan.rows({name: name for name in names}, at, size)


def read_table(source: Source) -> pl.DataFrame:
    import polars as pl

    try:
        if source.is_parquet:
            source.note_parsed(source.path.stat().st_size)
            return ParquetSource(source.path).rows()
        with source.open() as stream:
            text = stream.read().lstrip(b"\r\n")
        source.note_parsed(len(text))
        frame = pl.read_csv(text, separator=separator_of(source), infer_schema_length=0, truncate_ragged_lines=False)
        frame.columns = trimmed(frame.columns)
        return frame.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines
    except UnreadableParquet as error:
        raise error.as_error("cannot read the table:", code="unreadable-table", label=source.label) from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError, OSError) as error:
        raise _bad_line(source) or _unreadable(error, source.label) from error


def _unreadable(error: BaseException, label: str | None) -> InputError:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return InputError(f"cannot read the table: {reason}", code="unreadable-table", file=label)


def separator_of(source: Source) -> str:
    return max("\t,;", key=source.first_line.decode("utf-8", "replace").count)


def records_of(source: Source) -> Iterator[tuple[int, bytes]]:
    """(line, text) of the header and of every row that is not blank; a row ends where no quote is open."""
    blank = separator_of(source).encode()
    first, record, quotes = 1, [b""], 0
    with source.open() as stream:
        for line, raw in enumerate(stream, 1):
            record.append(raw)
            quotes += raw.count(b'"')
            if quotes % 2 == 0:
                text = b"".join(record).strip(b"\r\n")
                if text.strip(blank):
                    yield first, text
                first, record, quotes = line + 1, [], 0
    if record:
        yield first, b"".join(record)


def rows_of(source: Source) -> Iterator[tuple[int, dict[str, str]]]:
    """(line, fields by column) of every row of a small text table."""
    import csv

    separator, header = separator_of(source), list[str]()
    for line, record in records_of(source):
        try:
            fields = next(csv.reader([record.decode()], delimiter=separator))
        except (UnicodeDecodeError, csv.Error) as error:
            raise _bad_line(source) or _unreadable(error, source.label) from error
        if header and len(fields) > len(header):
            what = f"invalid table row: {len(fields)} fields, the header has {len(header)}"
            raise InputError(what, code="bad-row", file=source.label, line=line)
        if header:
            yield line, dict(zip(header, fields, strict=False))
        header = header or trimmed(fields)


def trimmed(header: list[str]) -> list[str]:
    """Names of columns without the white space around them; as written where two would be the same.

    >>> trimmed(["id", " question "]), trimmed(["id", " id"])
    (['id', 'question'], ['id', ' id'])
    """
    names = [name.strip() for name in header]
    return names if len(set(names)) == len(names) else header


_NOT_UTF8 = "the line is not UTF-8 text"


def _bad_line(source: Source) -> InputError | None:
    """The first line of a text table that is not a valid row; polars only says that there is one."""
    if source.is_parquet:
        return None
    columns = 0
    for line, record in records_of(source):
        fields = re.sub(rb'("[^"]*")+', b'""', record).split(separator_of(source).encode())
        columns = columns or len(fields)
        reason = _why_bad(record, fields, columns)
        if reason:
            hint = "save the file as UTF-8" if reason == _NOT_UTF8 else None
            return InputError(f"invalid table row: {reason}", code="bad-row", file=source.label, line=line, hint=hint)
    return None


def _why_bad(record: bytes, fields: list[bytes], columns: int) -> str | None:
    """`fields`: those of the record, where \"\" replaces everything in quotes."""
    try:
        record.decode()
    except UnicodeDecodeError:
        return _NOT_UTF8
    if record.count(b'"') % 2:
        return "a quote is never closed"
    if any(field.startswith(b'""') and field != b'""' for field in fields):
        return "text after a closing quote"
    return f"{len(fields)} fields, the header has {columns}" if len(fields) > columns else None
