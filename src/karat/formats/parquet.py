"""Parquet and Delta tables of hits, read some rows at a time so that memory does not grow with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karat.data.audit import Audit
from karat.data.hits import Hits, Run, Ungrouped
from karat.data.ids import Seen
from karat.errors import InputError, MissingExtra
from karat.formats.base import PARSED, Format, Kind, ReadOptions, Source
from karat.formats.layout import LISTS, Layout, find_column
from karat.formats.table import TableFormat
from karat.formats.table_run import FrameRun
from karat.formats.tabular import refuse_other_system

if TYPE_CHECKING:
    import polars as pl

ROWS = 125_000  # of hits at a time
_LISTS = 125  # the same of lists, as long as nobody knows how long they are
_LOOKED = 10_000
# In memory, about; by these a table is cut into parts.
_BYTES_A_HIT, _BYTES_A_LIST = 40, 4_000


class ParquetFormat(Format):
    """A Parquet file with a row a hit, or a row a query with the list of its hits in `topk`."""

    name = "parquet"
    kinds = frozenset({"run"})
    order = 65

    def recognises(self, source: Source, kind: Kind) -> bool:
        return source.head[:4] == b"PAR1" and TableFormat().recognises(source, kind)

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        return ParquetRun(source.label, [Scan(str(source.path))], options.system, options.layout)


@dataclass(frozen=True)
class Scan:
    """One Parquet file, with what its folder's name says (`system=bm25/`), or one Delta table; or some of its rows."""

    path: str
    constants: dict[str, str] = field(default_factory=dict)
    delta: bool = False
    start: int = 0
    stop: int | None = None

    def lazy(self) -> pl.LazyFrame:
        import polars as pl

        if self.delta:
            try:
                import deltalake  # noqa: F401
            except ImportError:
                raise MissingExtra("reading a Delta table", "deltalake", "delta") from None
            return pl.scan_delta(self.path)
        frame = pl.scan_parquet(self.path, hive_partitioning=False, glob=False)
        return frame.with_columns(pl.lit(value).alias(name) for name, value in self.constants.items())

    def schema(self) -> pl.Schema:
        schema: pl.Schema = self._read(lambda frame: frame.collect_schema())
        return schema

    def height(self) -> int:
        import polars as pl

        if self.stop is not None:
            return self.stop
        return int(self._read(lambda frame: frame.select(pl.len()).collect().item()))

    def note_parsed(self, rows: int, share: float = 1.0) -> None:
        """Count rows that were read; `share`: the share of columns."""
        PARSED.add(round(rows * share * self._bytes_per_row))

    @cached_property
    def _bytes_per_row(self) -> float:
        files = Path(self.path).rglob("*.parquet") if self.delta else [Path(self.path)]
        return sum(file.stat().st_size for file in files) / max(replace(self, stop=None).height(), 1)

    def frames(self, names: dict[str, str], rows: int = 0) -> Iterator[pl.DataFrame]:
        """The columns `names`, so many rows at a time; 0: as many as hold about ROWS hits."""
        at, stop = self.start, self.height()
        size = rows or (_LISTS if LISTS in names.values() else ROWS)
        while at < stop:
            frame = self.rows(names, at, min(size, stop - at))
            self.note_parsed(frame.height)
            at, size = at + size, rows or _next_size(frame)
            yield frame
            del frame  # before the next is read

    def rows(self, names: dict[str, str], at: int, size: int) -> pl.DataFrame:
        """Some rows of the columns `names`, under their new names."""
        frame: pl.DataFrame = self._read(lambda frame: frame.select(list(names)).slice(at, size).collect())
        return frame.rename(names)

    def _read(self, look: Any) -> Any:
        import polars as pl

        try:
            return look(self.lazy())
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise InputError(f"not a readable table: {reason}", code="unreadable-table", file=self.path) from error
        except Exception as error:
            if self.delta and type(error).__module__.partition(".")[0] in ("deltalake", "_internal"):
                raise InputError(
                    f"not a readable Delta table: {error}", code="unreadable-table", file=self.path
                ) from error
            raise


def _next_size(frame: pl.DataFrame) -> int:
    """Rows that hold about ROWS hits, if lists go on as they are."""
    import polars as pl

    if LISTS not in frame.columns or not isinstance(frame.schema[LISTS], pl.List):
        return ROWS
    return max(1, ROWS * frame.height // max(int(frame[LISTS].list.len().sum()), frame.height))


class ParquetRun(Run):
    """Tables one after the other, as if they were one."""

    threaded = True

    def __init__(
        self, label: str, scans: list[Scan], system: str | None = None, layout: Layout | None = None, *, rows: int = 0
    ) -> None:
        self.label, self.scans, self._system, self._layout = label, scans, system, layout or Layout()
        self._rows = rows

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        pieces = whole_queries(self._frames(columns), self.label)
        return streamed(pieces, columns, audit, self.label, self._system, self._layout)

    def parts(self, least: int) -> list[Run] | None:
        """`least`: bytes that a part should have."""
        names = self._layout.picked(self.scans[0].schema(), frozenset(), self.scans[0].path)
        rows = least // _BYTES_A_HIT if LISTS not in names.values() else least // _BYTES_A_LIST
        ranges = [part for scan in self.scans for part in self._cut(scan, rows)]
        return [type(self)(self.label, [part], None, self._layout) for part in ranges] if len(ranges) > 1 else None

    def _cut(self, scan: Scan, rows: int) -> Iterator[Scan]:
        """Ranges of rows that begin where a query does. One that goes on in the next file is found out later."""
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
        return _Whole(self.label, self.scans, self._system, self._layout)

    def _frames(self, columns: frozenset[str]) -> Iterator[pl.DataFrame]:
        for scan in self.scans:
            schema = scan.schema()
            yield from scan.frames(self._layout.picked(schema, columns, scan.path), self._rows)


class _Whole(ParquetRun):
    """For tables whose queries are scattered: the columns that count in memory, grouped."""

    def parts(self, least: int) -> list[Run] | None:
        return None

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        whole = joined(list(self._frames(columns)), self.label)
        for hits in FrameRun(whole, self.label, self._system, layout=self._layout, named=True).slices(columns, audit):
            yield replace(hits, places=None)  # the frame does not outlive the pass


def streamed(
    pieces: Iterable[tuple[int, pl.DataFrame]],
    columns: frozenset[str],
    audit: Audit,
    label: str,
    system: str | None = None,
    layout: Layout | None = None,
) -> Iterator[Hits]:
    """Pieces of whole queries, each with the number of its first row → slices; their columns have their roles' names.
    Raises Ungrouped where a query comes back."""
    done: dict[str, Seen] = {}
    for first, piece in pieces:
        for hits in FrameRun(piece, label, layout=layout, named=True, first=first).slices(columns, audit):
            if done.setdefault(hits.system, Seen()).add(hits.queries):
                raise Ungrouped
            if system in (None, hits.system):
                yield replace(hits, places=None)
    if not done:
        raise InputError("the table has no rows", code="no-rows", file=label)
    refuse_other_system(system, done, label)


def whole_queries(frames: Iterable[pl.DataFrame], label: str) -> Iterator[tuple[int, pl.DataFrame]]:
    """The same rows, cut where a query ends, with the number of the first row of each piece."""
    begun: list[pl.DataFrame] = []  # rows of one query, which may go on
    first = 0
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
        raise InputError(
            "the files of this table do not have the same columns",
            code="mixed-columns",
            file=label,
            expected=shapes[0],
            got=shapes[-1],
            hint="give the files that belong together, or write them anew with one schema",
        ) from error


def _other_query(begun: list[pl.DataFrame], frame: pl.DataFrame) -> bool:
    """Whether a frame of one query is of another one than those before it."""
    column = find_column(frame.columns, "query_id")
    return bool(begun) and column is not None and begun[-1][column][-1] != frame[column][0]


def _last_query(frame: pl.DataFrame) -> int:
    """Where the rows of the last query begin; 0 where there is but one, or no column that tells."""
    column = find_column(frame.columns, "query_id")
    if column is None:
        return frame.height
    query = frame[column]
    others = query.ne_missing(query[-1])
    last = others.arg_true()
    return int(last[-1]) + 1 if len(last) else 0
