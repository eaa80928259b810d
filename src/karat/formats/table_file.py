"""Tables as frames: read from CSV, TSV and Parquet files, or taken from polars, pandas and Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.errors import InputError
from karat.formats.base import Source

if TYPE_CHECKING:
    import polars as pl

_ROWS = 1 << 14  # of judgements at a time


def as_frame(value: Any) -> pl.DataFrame | None:
    """`value` as a polars frame if it is a table of a known library, without importing any of them."""
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
    """Column by column through Python objects: needs no pyarrow, and keeps ids as they were."""
    import polars as pl

    columns: dict[str, pl.Series] = {}
    for at, name in enumerate(map(str, value.columns)):
        if name in columns:
            raise InputError(
                "two columns have this name", code="duplicate-column", field=name, hint="rename or remove one of them"
            )
        column = value.iloc[:, at]
        if not isinstance(column.dtype, np.dtype) or column.dtype.kind == "O":  # None, NaN and NA: it is missing
            column = column.astype(object).where(column.notna(), None)
        columns[name] = pl.Series(name, column.tolist(), strict=False)
    return pl.DataFrame(columns)


class ParquetColumns:
    """A Parquet file of which some rows, or one column, are in memory at a time."""

    def __init__(self, source: Source) -> None:
        import polars as pl

        self._source = source
        self._lazy = pl.scan_parquet(source.path, hive_partitioning=False, glob=False)
        schema: pl.Schema = self._look(self._lazy.collect_schema)
        self.columns, self._schema = schema.names(), schema
        self.height: int = self._look(lambda: self._lazy.select(pl.len()).collect().item())

    def __getitem__(self, name: str) -> pl.Series:
        column: pl.Series = self._look(lambda: self._lazy.select(name).collect().to_series())
        return column

    def pieces(self, names: list[str]) -> Iterator[tuple[int, pl.DataFrame]]:
        """Rows of some columns, each piece with the number of its first. Numbers that are ids are seen as a whole."""
        numbered = any(self._schema[name].is_float() for name in names)
        size = self.height if numbered else _ROWS
        for at in range(0, self.height, max(size, 1)):
            yield at, self._piece(names, at, size)

    def _piece(self, names: list[str], at: int, size: int) -> pl.DataFrame:
        piece: pl.DataFrame = self._look(lambda: self._lazy.select(names).slice(at, size).collect())
        return piece

    def _look(self, look: Callable[[], Any]) -> Any:
        import polars as pl

        try:
            return look()
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise _unreadable(error, self._source.label) from error


def read_table(source: Source) -> pl.DataFrame:
    import polars as pl

    try:
        if source.head[:4] == b"PAR1":
            source.note_parsed(source.path.stat().st_size)
            return pl.read_parquet(source.path)
        with source.open() as stream:
            text = stream.read().lstrip(b"\r\n")
        source.note_parsed(len(text))
        frame = pl.read_csv(text, separator=_separator(source), infer_schema_length=0, truncate_ragged_lines=False)
        return frame.filter(~pl.all_horizontal(pl.all().is_null()))  # blank lines
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, UnicodeDecodeError, OSError) as error:
        raise _bad_line(source) or _unreadable(error, source.label) from error


def _unreadable(error: BaseException, label: str | None) -> InputError:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return InputError(f"not a readable table: {reason}", code="unreadable-table", file=label)


def _separator(source: Source) -> str:
    return max("\t,;", key=source.first_line.decode("utf-8", "replace").count)


def records_of(source: Source) -> Iterator[tuple[int, bytes]]:
    """(line, text) of the header and of every row that is not blank; a row ends where no quote is open."""
    blank = _separator(source).encode()
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


def _bad_line(source: Source) -> InputError | None:
    """The first line of a text table that is no row of it; polars says only that there is one."""
    if source.head[:4] == b"PAR1":
        return None
    columns = 0
    for line, record in records_of(source):
        fields = re.sub(rb'("[^"]*")+', b'""', record).split(_separator(source).encode())
        columns = columns or len(fields)
        reason = _why_bad(record, fields, columns)
        if reason:
            return InputError(f"not a row of a table: {reason}", code="bad-row", file=source.label, line=line)
    return None


def _why_bad(record: bytes, fields: list[bytes], columns: int) -> str | None:
    """`fields`: those of the record, where \"\" stands for all that was in quotes."""
    try:
        record.decode()
    except UnicodeDecodeError:
        return "the line is not UTF-8 text"
    if record.count(b'"') % 2:
        return "a quote is never closed"
    if any(field.startswith(b'""') and field != b'""' for field in fields):
        return "something follows a closing quote"
    return f"{len(fields)} fields, the header has {columns}" if len(fields) > columns else None
