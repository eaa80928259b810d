"""Rows of a Parquet file by the native reader: a query, an item and numbers, in pieces of whole queries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from karat.data.bulk import Bulk
from karat.data.ids import Floats, Hashes, Ints, Packed
from karat.data.packed_ids import WORD
from karat.files.parquet_file import Budget, PageColumn, ParquetTable, Unusual

ROWS = 125_000  # at a time


class QueryRows(Bulk, frozen=True):
    """Rows of whole queries. Consecutive rows of a query are a stretch."""

    queries: list[str]  # by stretch
    counts: Ints
    ids: Packed  # by row
    hashed: Hashes  # of the ids
    numbers: list[Floats]
    system: str = ""

    def cut(self, at: int) -> tuple[QueryRows, QueryRows]:
        """The stretches before and from `at` on."""
        row = int(self.counts[:at].sum())
        return self._part(slice(None, at), slice(None, row)), self._part(slice(at, None), slice(row, None))

    def _part(self, stretches: slice, rows: slice) -> QueryRows:
        numbers = [values[rows] for values in self.numbers]
        ids, hashed = self.ids[rows], self.hashed[rows]
        return QueryRows(self.queries[stretches], self.counts[stretches], ids, hashed, numbers, self.system)


def query_rows(
    table: ParquetTable,
    query: str,
    item: str,
    numbers: Sequence[str] = (),
    *,
    system: str | None = None,
    start: int = 0,
    stop: int | None = None,
    rows: int = ROWS,
) -> Iterator[QueryRows]:
    """Pieces of whole queries. Raises `Unusual` where polars must go on, after the last piece.

    `system`: a column that must have the same value everywhere."""
    stop = table.height if stop is None else stop
    group, at = table.group_of(start)
    budget = Budget(table.size)
    with open(table.path, "rb", buffering=0) as stream:
        made = (PageColumn(table, name, stream, group, budget) for name in (query, item, *numbers))
        named = None if system is None else PageColumn(table, system, stream, group, budget)
        columns = _Columns(*made, system=named)
        columns.read(_nothing(len(numbers)), start - at)
        at, begun = start, _nothing(len(numbers))
        while at < stop:
            count = min(rows, stop - at)
            queries, counts = columns.queries(begun, count)
            at += count
            whole = len(queries) if at == stop else len(queries) - 1
            found, begun = columns.rows(begun, count, queries, counts).cut(whole)
            if whole:
                yield found
            del found  # before the next is read


def joined_rows(parts: list[QueryRows]) -> QueryRows:
    """All pieces as one."""
    numbers = [np.concatenate(values) for values in zip(*(part.numbers for part in parts), strict=True)]
    counts, hashed = (np.concatenate([getattr(part, name) for part in parts]) for name in ("counts", "hashed"))
    queries = [query for part in parts for query in part.queries]
    return QueryRows(queries, counts, np.concatenate([part.ids for part in parts]), hashed, numbers, parts[0].system)


class _Columns:
    """The columns that are read together."""

    def __init__(self, query: PageColumn, item: PageColumn, *numbers: PageColumn, system: PageColumn | None) -> None:
        self._query, self._item, self._numbers, self._system = query, item, numbers, system
        self._named = ""

    def read(self, begun: QueryRows, count: int) -> QueryRows:
        return self.rows(begun, count, *self.queries(begun, count))

    def queries(self, begun: QueryRows, count: int) -> tuple[list[str], Ints]:
        """The queries of the next rows, after those of a query that may continue."""
        return self._query.stretches(count, begun.queries[0] if begun.queries else "", len(begun.ids))

    def rows(self, begun: QueryRows, count: int, queries: list[str], counts: Ints) -> QueryRows:
        """The next rows, after those of the query that may continue."""
        before = len(begun.ids)
        ids: Packed = np.empty(before + count, begun.ids.dtype)
        hashed, numbers = np.empty(len(ids), np.uint64), [np.empty(len(ids)) for _ in self._numbers]
        ids[:before], hashed[:before] = begun.ids, begun.hashed
        ids = self._item.texts(count, ids, hashed, before)
        for column, values, old in zip(self._numbers, numbers, begun.numbers, strict=True):
            values[:before] = old
            column.numbers(count, values, before)
        return QueryRows(queries, counts, ids, hashed, numbers, self._system_of(count))

    def _system_of(self, count: int) -> str:
        """The system of the next rows, which must be that of the rows before."""
        if self._system is not None and count:
            names = self._system.stretches(count)[0]
            self._named = self._named or names[0]
            if names != [self._named]:
                raise Unusual
        return self._named


def _nothing(numbers: int) -> QueryRows:
    none = np.zeros(0)
    return QueryRows([], none.astype(np.int64), np.zeros(0, f"S{2 * WORD}"), none.astype(np.uint64), [none] * numbers)
