"""TREC run files. The score decides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from io import BytesIO
from math import isfinite
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.hits import Hits, Run, Ungrouped
from karat.data.ids import Floats, Ids, Ints, Seen, as_list, joined_ids, size_of, take
from karat.data.packed_ids import LONGEST, WORD, pack_joined
from karat.errors import InputError
from karat.files.limits import largest_line, line_too_long
from karat.files.native import native
from karat.formats.base import Begun, Source, changed_while_read, source_parts
from karat.formats.blocks import PartsAhead, cut_blocks, has_two_cores, line_starts, read_ahead
from karat.formats.layout import grouped_rows, refuse_other_system
from karat.formats.trec_rows import (
    CUT_OFF,
    TrecRows,
    as_number,
    as_text,
    has_moved,
    is_cut,
    last_query,
    read_float,
    read_rows,
    wrong_columns,
)

if TYPE_CHECKING:
    import polars as pl

# Below this size, a plain loop over lines is faster than importing polars.
_SMALL = 16 << 20
# And below this one, a thread takes longer than it saves.
_LITTLE = 1 << 18
_BLOCK = 6 << 20
_PIECE = 1 << 17
_SPACE, _BREAK = b" \n"
_COLUMNS = "6: query Q0 document rank score tag"
_MOVED = "remove the white space in the id, or in the tag"


class TrecRun(Run):
    """A TREC run file, read in blocks so that memory does not grow with it."""

    threaded = True

    def __init__(self, source: Source, system: str | None = None) -> None:
        self.label: str = source.label
        self._source = source
        self._system = system
        self._scattered: list[list[int]] = []  # offsets of each stretch, for queries with scattered lines
        self._ahead: PartsAhead[_Block, Hits] | None = None  # parts that are read in advance
        self._read: PartsAhead[TrecRun, Hits | None] | None = None  # or all of a small file
        self._begun: Begun[Hits] | None = None  # what was read before it turned out that queries are scattered
        self._width = WORD  # bytes of an id, as far as is known

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        refuse_other_system(self._system, [self._tag], self.label)
        small = self._source.path.stat().st_size < _SMALL
        if native() is None and (small or self._separator() is None):
            yield self._read_lines()
        elif small and self._source.begin is not None:
            read, self._read = self._read, None
            whole = self._read_whole() if read is None else next(read.in_order())
            yield whole or self._read_lines()
        else:
            yield from self._read_blocks()

    @contextmanager
    def reading_ahead(self) -> Iterator[None]:
        if native() is None or self._source.begin is None or not has_two_cores():
            yield
            return
        ahead: PartsAhead[Any, Any]
        if self._source.reads_ahead:
            ahead = self._ahead = PartsAhead(self._placed_blocks(), self._of_block)
        elif _LITTLE <= self._source.path.stat().st_size < _SMALL:
            ahead = self._read = PartsAhead(iter([self]), TrecRun._read_whole)
        else:
            yield
            return
        try:
            ahead.begin()
            yield
        finally:
            ahead.stop()
            self._ahead = self._read = None

    @property
    def can_look(self) -> bool:
        return self._source.begin is not None

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        if places is None or not self.can_look or -int(places.min(initial=0)) > len(self._scattered):
            yield from super().look(system, queries, places, columns)
            return
        if system != self._tag:
            return
        rows = _Rows(self._columns)
        stretches = [[place] if place >= 0 else self._scattered[-1 - place] for place in places.tolist()]
        order = sorted(range(len(queries)), key=stretches.__getitem__)
        with self._source.path.open("rb") as stream:
            for at in order:
                try:
                    for begin in stretches[at]:
                        self._source.note_parsed(rows.add_stretch(queries[at], begin, stream))
                except (ValueError, IndexError):
                    raise changed_while_read(self.label) from None
        if order:
            score = np.array(rows.scores)
            yield self._made(rows.queries, rows.counts, rows.ids, score, places[order], rows.more_columns)

    def parts(self, least: int) -> list[Run] | None:
        parts = source_parts(self._source, least, lambda line: line.split(maxsplit=1)[0] if line.strip() else b"")
        return None if parts is None else [TrecRun(part, self._system) for part in parts]

    def grouped(self) -> Run:
        begun, self._begun = self._begun, None
        return _WholeTrecRun(self._source, self._system, begun)

    @cached_property
    def _tag(self) -> str:
        """The system's name: that of the first line, since trec_eval does not separate systems in one file."""
        parts = self._source.first_line.split(maxsplit=6)
        return parts[5].decode("utf-8", "replace") if len(parts) > 5 else ""

    @property
    def _columns(self) -> int:
        """How many columns a line has at least: five if the first has no tag. A shorter line is cut off."""
        return 6 if self._tag else 5

    def _separator(self) -> bytes | None:
        """The one character that separates all columns, or None where white space is mixed."""
        lines = self._source.head.split(b"\n")[:-1]
        for separator in (b"\t", b" "):
            if lines and all(len(line.rstrip(b"\r").split(separator)) == 6 for line in lines):
                return separator
        return None

    def _read_whole(self) -> Hits | None:
        """Read a small file at once; None where it must be read line by line."""
        size = self._source.size
        with self._source.open() as stream:
            text = stream.read()
        self._source.refuse_shorter(size, len(text))
        self._source.note_parsed(len(text))
        rows = read_rows(text, columns=self._columns, number=4)
        return None if rows is None else self._together([self._of_rows(rows, self._source.begin or 0)])

    def _read_lines(self) -> Hits:
        """Read the whole file line by line: allows any white space, and errors name the line."""
        begin = self._source.begin or 0
        with self._source.open() as stream:
            hits, size = self._by_line(stream, begin)
        self._source.note_parsed(size)
        return self._together([hits])

    def _by_line(self, lines: Iterable[bytes], begin: int) -> tuple[Hits, int]:
        """Lines from an offset on, and their size in bytes."""
        rows, query, line, place = _Rows(self._columns), None, 0, begin
        try:
            for raw in lines:
                line += 1
                parts = raw.split(maxsplit=6)  # only ASCII white space separates columns
                if parts:
                    if parts[0] != query:
                        query = parts[0]
                        rows.begin(query.decode(), place)
                    rows.add(parts, raw)
                place += len(raw)
        except (ValueError, IndexError):
            raise self._line_error(raw, line) from None
        score, places = np.array(rows.scores), np.array(rows.places, np.int64)
        return self._made(rows.queries, rows.counts, rows.ids, score, places, rows.more_columns), place - begin

    def _together(self, found: list[Hits]) -> Hits:
        """Slices with consecutive lines of a query → one slice with all of them."""
        stretches = [query for hits in found for query in hits.queries]
        counts = np.concatenate([hits.counts for hits in found])
        ids = found[0].ids if len(found) == 1 else _joined([hits.ids for hits in found])
        score = np.concatenate([hits.score for hits in found if hits.score is not None])
        queries, offsets, order = grouped_rows(stretches, counts)
        places = np.concatenate([hits.places for hits in found if hits.places is not None] or [np.zeros(0, np.int64)])
        if order is not None:
            ids, score = take(ids, order), score[order]
        if len(queries) < len(stretches) and len(places):
            of_query: dict[str, list[int]] = {}
            for query, place in zip(stretches, places.tolist(), strict=True):
                of_query.setdefault(query, []).append(place)
            places = self._places(list(of_query.values()))
        more = sum(Audit.of(hits.counted)["more_columns"] for hits in found)
        return self._made(queries, np.diff(offsets), ids, score, places, more)

    def _places(self, stretches: list[list[int]]) -> Ints:
        """Offset of each query's lines; negative for scattered queries: an index into `_scattered`."""
        self._scattered = [begins for begins in stretches if len(begins) > 1]
        numbers = iter(range(-1, -1 - len(self._scattered), -1))
        return np.array([begins[0] if len(begins) == 1 else next(numbers) for begins in stretches], np.int64)

    def _made(
        self,
        queries: list[str],
        counts: Any,
        ids: Ids,
        score: Floats,
        places: Ints | None = None,
        more_columns: int = 0,
    ) -> Hits:
        """`more_columns`: how many lines have more than six."""
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        places = places if self.can_look else None
        made = Hits(system=self._tag, queries=queries, offsets=offsets, ids=ids, score=score, places=places)
        if not more_columns:
            return made
        audit = Audit()
        audit.count("more_columns", more_columns)
        return replace(made, counted=tuple(audit))

    def _line_error(self, raw: bytes, line: int) -> InputError:
        if len(raw) > largest_line():
            return line_too_long(self.label, line)
        as_text(raw, self.label, line)
        found, hint = raw.split(), None
        if len(found) > self._columns and has_moved(found, raw):
            hint = "lines must end with a line feed" if is_cut(raw) else _MOVED
        elif len(found) > 4:
            as_number(found[4], self.label, line, "score")
        if len(found) < self._columns and not raw.endswith(b"\n"):
            hint = CUT_OFF
        return wrong_columns(self.label, line, _COLUMNS, len(found), hint)

    def _read_blocks(self) -> Iterator[Hits]:
        done, begun = Seen(), Begun(self._blocks())
        for hits in begun.rest:
            begun.keep(replace(hits, written=None), 8 * len(hits.ids) + size_of(hits.ids))
            if done.add_texts(hits.queries):
                self._begun = begun
                raise Ungrouped
            yield hits

    def _blocks(self) -> Iterator[Hits]:
        """Read block by block; consecutive lines of a query are in one block."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            return ahead.in_order()
        blocks = self._placed_blocks()
        return read_ahead(blocks, self._of_block) if self._source.reads_ahead else map(self._of_block, blocks)

    def _placed_blocks(self) -> Iterator[_Block]:
        """Blocks with their size and the place where they begin."""
        begin = self._source.begin or 0
        for block, size in cut_blocks(self._source, _BLOCK, last_query):
            blocks = [_Block(block, size, begin)]
            del block  # only the caller holds it
            yield blocks.pop()
            begin += size

    def _of_block(self, block: _Block) -> Hits:
        rows = read_rows(block.text, columns=self._columns, number=4, size=block.size, width=self._width)
        if rows is None:
            return self._framed(block.text[: block.size], block.begin)
        self._width = rows.ids.itemsize
        return self._of_rows(rows, block.begin)

    def _of_rows(self, rows: TrecRows, begin: int) -> Hits:
        made = self._made(rows.queries, rows.counts, rows.ids, rows.numbers, rows.starts + begin, rows.more_columns)
        return made.with_hashes(rows.hashed)

    def _framed(self, block: bytes, begin: int) -> Hits:
        """The same with polars, or line by line."""
        separator = self._separator()
        frame = None if separator is None else _frame(block, separator)
        if frame is None or frame["tag"].null_count() or not np.isfinite(frame["score"].to_numpy()).all():
            try:
                return self._by_line(BytesIO(block), begin)[0]
            except InputError as error:
                error.line = self._lines_before(begin) + (error.line or 0)
                raise
        queries, offsets = _groups(frame)
        places = line_starts(block)[offsets[:-1]] + begin
        made = self._made(queries, np.diff(offsets), _ids(frame["id"]), frame["score"].to_numpy(), places)
        return replace(made, written=block)

    def _lines_before(self, place: int) -> int:
        """How many lines end before a place."""
        lines, left = 0, place - (self._source.begin or 0)
        with self._source.open() as stream:
            while left and (block := stream.read(min(left, _BLOCK))):
                lines, left = lines + block.count(b"\n"), left - len(block)
        return lines


class _Block(msgspec.Struct, frozen=True):
    """Lines of whole queries."""

    text: bytes
    size: int  # how many bytes of the text count
    begin: int  # where it begins in the file


class _Rows:
    """Hits of some queries, line by line."""

    def __init__(self, least: int) -> None:
        """`least`: how many columns a line has at least."""
        self.least = least
        self.queries: list[str] = []
        self.counts: list[int] = []
        self.ids: list[str] = []
        self.scores: list[float] = []
        self.places: list[int] = []
        self.more_columns = 0  # lines with more than six

    def begin(self, query: str, place: int) -> None:
        self.queries.append(query)
        self.counts.append(0)
        self.places.append(place)

    def add(self, parts: list[bytes], raw: bytes) -> None:
        self.ids.append(parts[2].decode())
        score = read_float(parts[4])
        if len(parts) < self.least or not isfinite(score):
            raise ValueError
        self.scores.append(score)
        self.counts[-1] += 1
        if len(parts) > self.least and has_moved(parts, raw):
            raise ValueError
        self.more_columns += len(parts) > 6

    def add_stretch(self, query: str, place: int, stream: IO[bytes]) -> int:
        """Add the consecutive lines of a query from a place on, and return the number of bytes read."""
        name, size = query.encode(), 0
        if not self.queries or self.queries[-1] != query:
            self.begin(query, place)
        before = len(self.ids)
        stream.seek(place)
        for raw in stream:
            size += len(raw)
            parts = raw.split(maxsplit=6)
            if parts and parts[0] != name:
                break
            if parts:
                self.add(parts, raw)
        if len(self.ids) == before:
            raise ValueError
        return size


def _is_regular(block: bytes, separator: bytes) -> bool:
    """Whether all white space in a block is one separator between columns, or one line break, and lines have six
    columns on average."""
    text = np.frombuffer(block, np.uint8)
    between = breaks = 0
    for at in range(0, len(text), _PIECE):
        piece = text[at : at + _PIECE + 1]  # they overlap by a byte
        white = piece <= _SPACE
        if (white[1:] & white[:-1]).any():
            return False
        piece, white = piece[:_PIECE], white[:_PIECE]
        found = int(np.count_nonzero(piece == ord(separator))), int(np.count_nonzero(piece == _BREAK))
        if np.count_nonzero(white) != sum(found):
            return False
        between, breaks = between + found[0], breaks + found[1]
    return block[0] > _SPACE and between == 5 * (breaks + (text[-1] != _BREAK))


def _frame(block: bytes, separator: bytes) -> pl.DataFrame | None:
    """Query, id and score of each line; None where something is unusual."""
    import polars as pl

    if not _is_regular(block, separator):
        block = block.replace(b"\r\n", b"\n")
        if not _is_regular(block, separator):
            return None
    names = ("query", "q0", "id", "rank", "score", "tag")
    schema: dict[str, Any] = {n: pl.Float64 if n == "score" else pl.String for n in names}
    try:
        lines = pl.scan_csv(block, separator=separator.decode(), has_header=False, schema=schema, quote_char=None)
        return lines.select("query", "id", "score", "tag").collect()
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        return None


class _WholeTrecRun(TrecRun):
    """For files with scattered queries: everything in memory, grouped."""

    def __init__(self, source: Source, system: str | None, begun: Begun[Hits] | None) -> None:
        super().__init__(source, system)
        self._begun = begun

    def parts(self, least: int) -> list[Run] | None:
        return None

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        begun, self._begun = self._begun, None
        found = begun if begun is not None and begun.is_whole else Begun(self._blocks())
        yield self._together([replace(hits, written=None) for hits in found])


def _joined(parts: list[Ids]) -> Ids:
    if any(isinstance(part, (list, np.ndarray)) for part in parts):
        return joined_ids([part if isinstance(part, np.ndarray) else as_list(part) for part in parts])
    import polars as pl

    return pl.concat(parts)  # type: ignore[type-var]


def _ids(column: pl.Series) -> Ids:
    """Ids in an array; as they are where one is too long for it."""
    packed = pack_joined(column.str.join("\0").item(), len(column), LONGEST)
    return column if packed is None else packed


def _groups(frame: pl.DataFrame) -> tuple[list[str], Ints]:
    """Queries with consecutive lines, and where those of each begin and end."""
    runs = frame["query"].rle().struct.unnest()
    ends = np.cumsum(runs["len"].to_numpy(), dtype=np.int64)
    return runs["value"].to_list(), np.append(0, ends)
