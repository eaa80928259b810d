"""What tables of hits and of judgements share: columns by what they are for, and rows by query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from karat.data.ids import Floats, Ints, Packed, Seen, take_list
from karat.errors import InputError
from karat.formats.base import Source
from karat.formats.layout import NAMES, find_column
from karat.formats.table_file import ParquetColumns, records_of

if TYPE_CHECKING:
    import polars as pl

Runs: TypeAlias = tuple[list[str], Ints]  # names in a row, and how many rows each of them has
Groups: TypeAlias = tuple[list[str], Ints, "Ints | None"]  # names, where their rows begin, and the order of the rows


class CheckedTable:
    """Columns by what they are for, checked; errors name the column and the row."""

    def __init__(self, frame: pl.DataFrame | ParquetColumns, label: str, source: Source | None, first: int = 0) -> None:
        self.frame, self.label, self.source, self._first = frame, label, source, first
        if not frame.height:
            raise InputError("the table has no rows", code="no-rows", file=label)

    def find(self, role: str, *, taken: str | None = None) -> str | None:
        return find_column((c for c in self.frame.columns if c != taken), role)

    def require(self, role: str) -> str:
        found = self.find(role)
        if found is None:
            raise InputError(
                f"no column for {role}",
                code="missing-column",
                file=self.label,
                expected="one of " + ", ".join(NAMES[role]),
                got=", ".join(self.frame.columns),
                hint="rename the column",
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

    def numbers(self, column: str | None, *, required: bool = False) -> Floats | None:
        """The column as finite numbers, NaN where it is empty; None if all of it is."""
        import polars as pl

        if column is None:
            return None
        values = self.frame[column]
        if values.dtype in (pl.String, pl.Categorical, pl.Enum):
            values = values.cast(pl.String).str.strip_chars().replace("", None)
        elif not (values.dtype.is_numeric() or values.dtype == pl.Null):
            raise self._wrong_type(column, "numbers")
        numbers = values.cast(pl.Float64, strict=False)
        bad = (values.is_not_null() & ~numbers.is_finite().fill_null(value=False)).arg_true()
        if len(bad):
            row = int(bad[0])
            raise self.error(
                row, column, "not usable", code="bad-value", expected="a finite number", got=str(values[row])
            )
        if required:
            self._refuse_empty(values, column)
        return None if numbers.null_count() == len(numbers) else numbers.to_numpy().astype(np.float64)

    def wholes(self, column: str | None) -> list[int | None]:
        """The column as whole numbers from 0 on, None where it is empty."""
        numbers = self.numbers(column)
        if numbers is None or column is None:
            return [None] * self.frame.height
        bad = np.flatnonzero((numbers < 0) | (numbers != np.floor(numbers)) & ~np.isnan(numbers))
        if len(bad):
            got = float(numbers[bad[0]])
            raise self.error(
                int(bad[0]),
                column,
                "bad offset",
                code="bad-value",
                expected="a whole number, 0 or more",
                got=f"{got:g}",
            )
        return [None if n != n else int(n) for n in numbers.tolist()]  # only NaN differs from itself

    def _refuse_empty(self, values: pl.Series, column: str) -> None:
        if values.null_count():
            raise self.error(int(values.is_null().arg_true()[0]), column, "the field is empty", code="missing-value")

    def _wrong_type(self, column: str, expected: str) -> InputError:
        got = str(self.frame[column].dtype)
        return InputError(
            "wrong type of column", code="wrong-type", file=self.label, field=column, expected=expected, got=got
        )

    def error(self, row: int, column: str, what: str, **more: Any) -> InputError:
        return InputError(what, file=self.label, line=self._line(row), field=column, **more)

    def _line(self, row: int) -> int | None:
        """The line of a row in its file; without lines to count, the number of the row."""
        if self.source is None or self.source.head[:4] == b"PAR1":
            return self._first + row + 1
        return next((line for at, (line, _) in enumerate(records_of(self.source)) if at == row + 1), None)


def plain_title(title: str) -> str:
    return title.strip().strip('"').lower()


def has_role(role: str, header: list[str]) -> bool:
    return not set(NAMES[role]).isdisjoint(header)


def is_gold(header: list[str]) -> bool:
    """Grades, and nothing that puts hits in order."""
    return has_role("grade", header) and not has_role("score", header) and not has_role("rank", header)


def is_run(header: list[str]) -> bool:
    """Ranks and scores, and no grades: `score` alone may be either."""
    graded = has_role("grade", [name for name in header if name != "score"])
    return has_role("rank", header) and has_role("score", header) and not graded


def refuse_other_system(wanted: str | None, there: Iterable[str], label: str) -> None:
    """Whoever asks for one system by name must not be given another."""
    names = set(there)
    if wanted is not None and wanted not in names:
        raise InputError(
            f"no system {wanted!r} in the run",
            code="unknown-system",
            file=label,
            hint="it has: " + ", ".join(sorted(name or "(unnamed)" for name in names)),
        )


def runs_of(names: pl.Series) -> Runs:
    runs = names.rle().struct.unnest()
    return runs["value"].to_list(), runs["len"].to_numpy().astype(np.int64)


def grouped_rows(found: list[str], sizes: Ints) -> Groups:
    """Names in the order in which they first appear, where the rows of each begin once they stand together, and the
    order that brings them together: None where they stand so already."""
    if not Seen().add(found):
        return found, np.append(0, np.cumsum(sizes)), None
    first: dict[str, int] = {}
    of_run = np.fromiter((first.setdefault(n, len(first)) for n in found), np.int64, len(found))
    codes = np.repeat(of_run, sizes)
    counts = np.bincount(codes)
    scattered = (codes[1:] < codes[:-1]).any()
    return list(first), np.append(0, np.cumsum(counts)), np.argsort(codes, kind="stable") if scattered else None


def in_order(ids: list[str] | Packed, order: Ints | None) -> list[str] | Packed:
    return ids if order is None else ids[order] if isinstance(ids, np.ndarray) else take_list(ids, order)
