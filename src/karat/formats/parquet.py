"""Parquet and Delta tables of hits, read some rows at a time so that memory does not grow with them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.hits import METADATA, OPTIONAL_COLUMNS, Hits, Run, Ungrouped
from karat.data.ids import Seen, size_of
from karat.errors import InputError
from karat.files.native import native
from karat.files.parquet_file import Unusual
from karat.formats.base import LARGE, Begun
from karat.formats.blocks import read_ahead
from karat.formats.layout import (
    LATENCY,
    LISTS,
    Layout,
    find_column,
    grouped_rows,
    is_gold,
    plain_title,
    refuse_other_system,
)
from karat.formats.parquet_rows import ROWS, QueryRows, joined_rows, query_rows
from karat.formats.table_file import Scan
from karat.formats.table_run import FrameRun

if TYPE_CHECKING:
    import polars as pl

_LISTS = 125  # the same for lists, until their length is known
_LOOKED = 10_000
# Approximate sizes in memory, used to split a table.
_BYTES_A_HIT, _BYTES_A_LIST = 40, 4_000


class _Columns(NamedTuple):
    """The columns that the native reader reads."""

    query: str
    item: str
    system: str | None
    numbers: dict[str, str]  # by role


class ParquetRun(Run):
    """Several tables, read as if they were one."""

    threaded = True

    def __init__(
        self, label: str, scans: list[Scan], system: str | None = None, layout: Layout | None = None, *, rows: int = 0
    ) -> None:
        self.label = label
        self.scans = scans
        self._system = system
        self._layout = layout or Layout()
        self._rows = rows
        # Read before a query came back: by polars, or by the native reader.
        self._begun: tuple[frozenset[str], Begun[pl.DataFrame]] | None = None
        self._begun_rows: tuple[frozenset[str], Begun[QueryRows]] | None = None

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        done: dict[str, Seen] = {}
        start = yield from self._native_slices(columns, done)
        begun = Begun(self._frames(columns, start))
        pieces = whole_queries(_kept(begun), self.label, start)
        try:
            yield from streamed(pieces, columns, audit, self.label, self._system, self._layout, done)
        except Ungrouped:
            self._begun = (columns, begun) if start == self.scans[0].start else None
            raise

    def _native_slices(self, columns: frozenset[str], done: dict[str, Seen]) -> Generator[Hits, None, int]:
        """Slices by the native reader; returns the first row that is left for polars. `done`: queries by system."""
        at, wanted = self.scans[0].start, self._native_columns(columns)
        if wanted is None:
            return at
        begun = Begun(self._native_rows(wanted))
        try:
            for piece in begun.rest:
                begun.keep(piece, size_of(piece.ids) + 16 * len(piece.ids))
                if done.setdefault(piece.system, Seen()).add_texts(piece.queries):
                    self._begun_rows = columns, begun
                    raise Ungrouped
                at += len(piece.ids)
                if self._system in (None, piece.system):
                    yield self._hits(piece, wanted.numbers)
                del piece  # before the next is read
        except Unusual:
            pass
        return at

    def _native_rows(self, wanted: _Columns) -> Iterator[QueryRows]:
        scan, numbers = self.scans[0], list(wanted.numbers.values())
        assert scan.table is not None
        rows = query_rows(
            scan.table, wanted.query, wanted.item, numbers, system=wanted.system, start=scan.start, stop=scan.stop
        )
        for piece in read_ahead(rows, lambda piece: piece) if scan.stop is None and scan.table.size >= LARGE else rows:
            scan.note_parsed(len(piece.ids))
            yield piece
            del piece  # before the next is read

    def _hits(self, rows: QueryRows, numbers: dict[str, str]) -> Hits:
        values = dict(zip(numbers, rows.numbers, strict=True))
        queries, offsets, order = grouped_rows(rows.queries, rows.counts)
        hits = Hits(
            system=rows.system,
            queries=queries,
            offsets=offsets,
            ids=rows.ids,
            score=values.get("score"),
            rank=values.get("rank"),
            rowwise=True,
            scattered=order is not None and bool((np.diff(order) < 0).any()),
            score_field=numbers.get("score"),
        )
        return hits.with_hashes(rows.hashed) if order is None else hits.select_rows(order, np.diff(offsets))

    def _native_columns(self, columns: frozenset[str]) -> _Columns | None:
        """None where polars must read."""
        scan = self.scans[0]
        table = scan.table
        if len(self.scans) > 1 or scan.constants or table is None or native() is None:
            return None
        names = self._layout.picked(scan.names(), columns, scan.path)
        stored = {role: name for name, role in names.items()}
        roles = ("query_id", "chunk_id", "doc_id", "system", "score", "rank")
        said = {role: stored[found] for role in roles if (found := find_column(stored, role)) is not None}
        query, item = said.get("query_id"), said.get("chunk_id") or said.get("doc_id")
        both = "chunk_id" in said and "doc_id" in said
        others = METADATA in columns or {LATENCY, *OPTIONAL_COLUMNS} & set(stored)
        if query is None or item is None or both or others or is_gold([plain_title(name) for name in stored]):
            return None
        numbers: dict[str, str] = {role: said[role] for role in ("score", "rank") if role in said}
        texts = [name for name in (query, item, said.get("system")) if name is not None]
        readable = all(table.reads(name, "text") for name in texts)
        readable = readable and all(table.reads(name, "number") for name in numbers.values())
        return _Columns(query, item, said.get("system"), numbers) if readable else None

    def may_say(self, column: str) -> bool:
        return any(self._layout.may_say(scan.names(), column) for scan in self.scans)

    def parts(self, least: int) -> list[Run] | None:
        """`least`: minimum bytes of a part."""
        names = self._layout.picked(self.scans[0].schema(), frozenset(), self.scans[0].path)
        rows = least // _BYTES_A_HIT if LISTS not in names.values() else least // _BYTES_A_LIST
        ranges = [part for scan in self.scans for part in self._cut(scan, rows)]
        return [type(self)(self.label, [part], None, self._layout) for part in ranges] if len(ranges) > 1 else None

    def _cut(self, scan: Scan, rows: int) -> Iterator[Scan]:
        """Ranges of rows that begin with a query. A query that continues in the next file is detected later."""
        stop, start = scan.height(), scan.start
        while start < stop:
            end = self._query_start(scan, start + rows, stop)
            yield replace(scan, start=start, stop=end)
            start = end

    def _query_start(self, scan: Scan, at: int, stop: int) -> int:
        names = self._layout.picked(scan.schema(), frozenset(), scan.path)
        column = find_column(names.values(), "query_id")
        if at >= stop or column is None:
            return stop
        if LISTS in names.values():
            return at
        only = {name: role for name, role in names.items() if role == column}
        while at < stop:
            query = scan.rows(only, at - 1, _LOOKED)[column]
            scan.note_parsed(len(query), 1 / len(names))
            changes = query.ne_missing(query[0]).arg_true()
            if len(changes):
                return at - 1 + int(changes[0])
            at += _LOOKED - 1
        return stop

    def grouped(self) -> Run:
        whole = _Whole(self.label, self.scans, self._system, self._layout)
        whole._begun, self._begun = self._begun, None
        whole._begun_rows, self._begun_rows = self._begun_rows, None
        return whole

    def _frames(self, columns: frozenset[str], start: int | None = None) -> Iterator[pl.DataFrame]:
        """Some rows at a time, about ROWS hits, with columns renamed to their roles. `start`: of the first table."""
        for scan in self.scans:
            at, stop, start = scan.start if start is None else start, scan.height(), None
            if at >= stop > 0:
                continue
            names = self._layout.picked(scan.schema(), columns, scan.path)
            size = self._rows or (_LISTS if LISTS in names.values() else ROWS)
            while at < stop:
                frame = scan.rows(names, at, min(size, stop - at))
                scan.note_parsed(frame.height)
                at, size = at + size, self._rows or _next_size(frame)
                yield frame
                del frame  # before the next is read


def _kept(begun: Begun[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    for frame in begun.rest:
        begun.keep(frame, int(frame.estimated_size()))
        yield frame
        del frame  # before the next is read


def _next_size(frame: pl.DataFrame) -> int:
    """Rows that hold about ROWS hits, if lists keep their length."""
    import polars as pl

    if LISTS not in frame.columns or not isinstance(frame.schema[LISTS], pl.List):
        return ROWS
    return max(1, ROWS * frame.height // max(int(frame[LISTS].list.len().sum()), frame.height))


class _Whole(ParquetRun):
    """For tables with scattered queries: the needed columns in memory, grouped."""

    def parts(self, least: int) -> list[Run] | None:
        return None

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        found = self._native_hits(columns)
        if found is not None:
            refuse_other_system(self._system, [found.system], self.label)
            yield found
            return
        (read, begun), self._begun = self._begun or (columns, None), None
        whole = joined(
            list(begun if begun and begun.is_whole and read == columns else self._frames(columns)), self.label
        )
        for hits in FrameRun(whole, self.label, self._system, layout=self._layout, named=True).slices(columns, audit):
            yield replace(hits, places=None)  # the frame is dropped after the pass

    def _native_hits(self, columns: frozenset[str]) -> Hits | None:
        """All of it by the native reader, from what was read already and the rest; None where polars must read."""
        (read, begun), self._begun_rows = self._begun_rows or (columns, None), None
        wanted = self._native_columns(columns)
        if wanted is None or begun is None:
            return None
        try:
            rows = list(begun if begun.is_whole and read == columns else self._native_rows(wanted))
        except Unusual:
            return None
        return self._hits(joined_rows(rows), wanted.numbers)


def streamed(
    pieces: Iterable[tuple[int, pl.DataFrame]],
    columns: frozenset[str],
    audit: Audit,
    label: str,
    system: str | None = None,
    layout: Layout | None = None,
    done: dict[str, Seen] | None = None,
) -> Iterator[Hits]:
    """Pieces of whole queries, each with the number of its first row → slices; columns are named by role.
    Raises Ungrouped where a query comes back. `done`: queries that were read before, by system."""
    done = {} if done is None else done
    for first, piece in pieces:
        for hits in FrameRun(piece, label, layout=layout, named=True, first=first).slices(columns, audit):
            if done.setdefault(hits.system, Seen()).add_texts(hits.queries):
                raise Ungrouped
            if system in (None, hits.system):
                yield replace(hits, places=None)
    if not done:
        raise InputError("the table has no rows", code="no-rows", file=label)
    refuse_other_system(system, done, label)


def whole_queries(frames: Iterable[pl.DataFrame], label: str, first: int = 0) -> Iterator[tuple[int, pl.DataFrame]]:
    """The same rows, cut where a query ends, with the number of the first row of each piece."""
    begun: list[pl.DataFrame] = []  # rows of one query, which may continue
    for frame in frames:
        if not frame.height:
            continue
        ends = LISTS in frame.columns or _last_query(frame) > 0 or _other_query(begun, frame)
        begun.append(frame)
        if not ends:
            continue
        frame = joined(begun, label) if len(begun) > 1 else frame
        cut = frame.height if LISTS in frame.columns else _last_query(frame)
        begun = [frame[cut:]] if cut < frame.height else []
        yield first, frame[:cut]
        first += cut
    if begun:
        yield first, joined(begun, label)


def joined(frames: list[pl.DataFrame], label: str) -> pl.DataFrame:
    import polars as pl

    try:
        return pl.concat(frames, how="vertical_relaxed", rechunk=True)
    except pl.exceptions.PolarsError as error:
        shapes = list(dict.fromkeys(", ".join(f"{n}: {t}" for n, t in frame.schema.items()) for frame in frames))
        what = "the files of this table do not have the same columns"
        hint = "give the files that belong together, or rewrite them with one schema"
        raise InputError(
            what, code="mixed-columns", file=label, expected=shapes[0], got=shapes[-1], hint=hint
        ) from error


def _other_query(begun: list[pl.DataFrame], frame: pl.DataFrame) -> bool:
    """Whether a frame of one query belongs to another query than those before it."""
    column = find_column(frame.columns, "query_id")
    return bool(begun) and column is not None and begun[-1][column][-1] != frame[column][0]


def _last_query(frame: pl.DataFrame) -> int:
    """Where the rows of the last query begin; 0 where there is only one, or no query column."""
    column = find_column(frame.columns, "query_id")
    if column is None:
        return frame.height
    query = frame[column]
    others = query.ne_missing(query[-1])
    last = others.arg_true()
    return int(last[-1]) + 1 if len(last) else 0
