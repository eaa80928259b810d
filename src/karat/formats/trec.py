"""TREC run and qrels files. In a run the score decides."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from functools import cached_property
from math import isfinite
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from karat.data.audit import Audit
from karat.data.gold import BARE, Gold, GoldBuilder
from karat.data.hits import Hits, Run, Ungrouped
from karat.data.ids import Floats, Ints, Packed, PackedIds, Seen
from karat.data.native import native
from karat.errors import InputError
from karat.formats.base import Source, changed_while_read, source_parts
from karat.formats.dataset import dataset_of
from karat.formats.layout import grouped_rows, in_order, refuse_other_system
from karat.formats.records import line_starts, whole_lines
from karat.formats.trec_rows import TrecRows, read_float, read_rows

if TYPE_CHECKING:
    import polars as pl

# Below this a plain loop over lines is done before polars would be imported.
_SMALL = 16 << 20
_BLOCK = 8 << 20
_SMALL_BLOCK = 1 << 18
_PIECE = 1 << 17
_SPACE, _BREAK = b" \n"


def read_qrels(source: Source) -> Gold:
    rows, line = _Judgements(), 1
    for block in whole_lines(source, _SMALL_BLOCK):
        if not rows.add_block(block, line):
            rows.add_one_by_one(block, line, source.label)
        line += block.count(b"\n")
    return rows.gold(source)


class _Judgements:
    """Lines of qrels, block after block, with no Python text kept of an item."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}  # queries, each with its first line
        self._runs: list[str] = []  # queries as they come, and how many lines of each
        self._sizes, self._grades, self._items = array("q"), array("d"), PackedIds()

    def add_block(self, block: bytes, line: int) -> bool:
        """A block at once; False where it must be looked at line by line."""
        rows = read_rows(block, columns=4, exactly=True, number=3)
        if rows is None:
            return False
        for query, start in zip(rows.queries, (rows.lines + line).tolist(), strict=True):
            self._first.setdefault(query, start)
        self._runs += rows.queries
        self._sizes.extend(rows.counts.tolist())
        self._items.add_packed(rows.ids)
        self._grades.frombytes(rows.numbers.tobytes())
        return True

    def add_one_by_one(self, block: bytes, line: int, label: str) -> None:
        """Any white space, empty lines, and errors that name the line."""
        items: list[str] = []
        for number, raw in enumerate(block.split(b"\n"), line):
            parts = raw.split()
            if not parts:
                continue
            if len(parts) != 4:
                raise _columns(label, number, "4: query iteration document grade", len(parts))
            query = as_text(parts[0], label, number)
            if not self._runs or self._runs[-1] != query:
                self._first.setdefault(query, number)
                self._runs.append(query)
                self._sizes.append(0)
            self._sizes[-1] += 1
            items.append(as_text(parts[2], label, number))
            self._grades.append(as_number(parts[3], label, number, "grade"))
        self._items.add(items)

    def gold(self, source: Source) -> Gold:
        queries, offsets, order = grouped_rows(self._runs, np.array(self._sizes))
        grades = np.array(self._grades)
        builder = GoldBuilder(
            source.label,
            queries=queries,
            lines=list(self._first.values()),
            counts=np.diff(offsets),
            ids=in_order(self._items.ids, order),
            grades=grades if order is None else grades[order],
            kinds=np.full(len(grades), BARE, np.int8),
            k=np.zeros(len(queries), np.int64),
            no_answer=np.zeros(len(queries), np.int64),
        )
        return builder.build(dataset_of(source))


class TrecRun(Run):
    """A TREC run file, read in blocks so that memory does not grow with it."""

    threaded = True

    def __init__(self, source: Source, system: str | None = None) -> None:
        self.label, self._source, self._system = source.label, source, system
        self._scattered: list[list[int]] = []  # offsets of each stretch, for queries with scattered lines

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        refuse_other_system(self._system, [self._tag], self.label)
        small = self._source.path.stat().st_size < _SMALL
        if native() is None and (small or self._separator() is None):
            yield self._read_lines()
        elif small and self._source.begin is not None:
            yield self._read_whole() or self._read_lines()
        else:
            yield from self._read_blocks()

    @property
    def can_look(self) -> bool:
        return self._source.begin is not None

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        if places is None or not self.can_look or -int(places.min(initial=0)) > len(self._scattered):
            yield from super().look(system, queries, places, columns)
            return
        if system != self._tag:
            return
        rows = _Rows()
        stretches = [[place] if place >= 0 else self._scattered[-1 - place] for place in places.tolist()]
        order = sorted(range(len(queries)), key=stretches.__getitem__)
        with self._source.path.open("rb") as stream:
            for number, at in enumerate(order, 1):
                try:
                    for begin in stretches[at]:
                        stream.seek(begin)
                        self._source.note_parsed(rows.add_stretch(queries[at], stream))
                except (ValueError, IndexError):
                    raise self._changed() from None
                if len(rows.queries) != number:
                    raise self._changed()
        if order:
            yield self._made(rows.queries, rows.counts, rows.ids, np.array(rows.scores), places[order])

    def _changed(self) -> InputError:
        return changed_while_read(self.label)

    def parts(self, least: int) -> list[Run] | None:
        parts = source_parts(self._source, least, lambda line: line.split(maxsplit=1)[0] if line.strip() else b"")
        return None if parts is None else [TrecRun(part, self._system) for part in parts]

    def grouped(self) -> Run:
        return _WholeTrecRun(self._source, self._system)

    @cached_property
    def _tag(self) -> str:
        """The system's name: that of the first line, as files of two systems are not told apart by trec_eval."""
        parts = self._source.first_line.split(maxsplit=6)
        return parts[5].decode("utf-8", "replace") if len(parts) > 5 else ""

    def _separator(self) -> bytes | None:
        """The one character that parts all columns, or None where white space is mixed."""
        lines = self._source.head.split(b"\n")[:-1]
        for separator in (b"\t", b" "):
            if lines and all(len(line.rstrip(b"\r").split(separator)) == 6 for line in lines):
                return separator
        return None

    def _read_whole(self) -> Hits | None:
        """A small file at once, if the lines of a query are together; None for all else."""
        size = self._source.size
        with self._source.open() as stream:
            text = stream.read()
        self._source.refuse_shorter(size, len(text))
        rows = read_rows(text, columns=5, number=4)
        if rows is None or len(set(rows.queries)) < len(rows.queries):
            return None
        self._source.note_parsed(len(text))
        return self._made(rows.queries, rows.counts, rows.ids, rows.numbers, rows.starts + (self._source.begin or 0))

    def _read_lines(self) -> Hits:
        """Any white space, any order of lines, and errors that name the line."""
        rows: dict[bytes, tuple[str, list[str], list[float], list[int]]] = {}
        with self._source.open() as stream:
            line, last = 0, None
            begin = first = self._source.begin or 0
            try:
                for raw in stream:
                    line += 1
                    parts = raw.split(maxsplit=6)  # only ASCII white space parts columns
                    if parts:
                        row = rows.get(parts[0])
                        if row is None:
                            row = rows[parts[0]] = (parts[0].decode(), [], [], [])
                        row[1].append(parts[2].decode())
                        row[2].append(read_float(parts[4]))
                        if row is not last:
                            row[3].append(begin)
                            last = row
                    begin += len(raw)
            except (ValueError, IndexError):
                raise self._line_error(raw, line) from None
            self._source.note_parsed(begin - first)
        score = np.array([s for _, _, scores, _ in rows.values() for s in scores])
        if not np.isfinite(score).all():
            raise self._infinite()
        queries, counts = [row[0] for row in rows.values()], [len(row[1]) for row in rows.values()]
        places = self._places([row[3] for row in rows.values()])
        return self._made(queries, counts, [i for row in rows.values() for i in row[1]], score, places)

    def _places(self, stretches: list[list[int]]) -> Ints:
        """Offset of each query's lines; negative for scattered queries: an index into `_scattered`."""
        self._scattered = [begins for begins in stretches if len(begins) > 1]
        numbers = iter(range(-1, -1 - len(self._scattered), -1))
        return np.array([begins[0] if len(begins) == 1 else next(numbers) for begins in stretches], np.int64)

    def _made(
        self, queries: list[str], counts: Any, ids: list[str] | Packed, score: Floats, places: Ints | None = None
    ) -> Hits:
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        places = places if self.can_look else None
        return Hits(system=self._tag, queries=queries, offsets=offsets, ids=ids, score=score, places=places)

    def _line_error(self, raw: bytes, line: int) -> InputError:
        as_text(raw, self.label, line)
        found = raw.split()
        if len(found) > 4:
            as_number(found[4], self.label, line, "score")
        return _columns(self.label, line, "6: query Q0 document rank score tag", len(found))

    def _infinite(self) -> InputError:
        """All scores are numbers, and one is not finite: which?"""
        with self._source.open() as stream:
            found = ((line, raw.split(maxsplit=6)) for line, raw in enumerate(stream, 1) if not raw.isspace())
            line, parts = next((n, p) for n, p in found if not isfinite(float(p[4])))
        return _not_usable(parts[4], self.label, line, "score", "a finite number")

    def _read_blocks(self) -> Iterator[Hits]:
        done, begin = Seen(), self._source.begin
        for block in _whole_queries(self._source):
            rows = read_rows(block, columns=5, number=4)
            hits = self._framed(block) if rows is None else self._of_rows(block, rows)
            if done.add(hits.queries):
                raise Ungrouped
            if begin is None or hits.places is None:
                yield replace(hits, places=None)
                continue
            yield replace(hits, places=hits.places + begin)
            begin += len(block)

    def _of_rows(self, block: bytes, rows: TrecRows) -> Hits:
        made = self._made(rows.queries, rows.counts, rows.ids, rows.numbers)
        return replace(made, written=block, places=rows.starts)

    def _framed(self, block: bytes) -> Hits:
        """The same by polars."""
        separator = self._separator()
        if separator is None:
            raise Ungrouped
        frame = _frame(block, separator)
        queries, offsets = _groups(frame)
        score = frame["score"].to_numpy()
        if frame["id"].null_count() or not np.isfinite(score).all():
            raise Ungrouped  # a line that is too short, NaN or infinity
        places = line_starts(block)[offsets[:-1]]
        return Hits(self._tag, queries, offsets, frame["id"], score, written=block, places=places)


class _Rows:
    """Hits of some queries, line by line."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.counts: list[int] = []
        self.ids: list[str] = []
        self.scores: list[float] = []

    def add_stretch(self, query: str, stream: IO[bytes]) -> int:
        """Add consecutive lines of a query and return the number of bytes read."""
        name, before, size = query.encode(), len(self.ids), 0
        for raw in stream:
            size += len(raw)
            parts = raw.split(maxsplit=6)
            if parts and parts[0] != name:
                break
            if parts:
                self.ids.append(parts[2].decode())
                self.scores.append(read_float(parts[4]))
        found = len(self.ids) - before
        if self.queries and self.queries[-1] == query:
            self.counts[-1] += found
        elif found:
            self.queries.append(query)
            self.counts.append(found)
        return size


def _whole_queries(source: Source) -> Iterator[bytes]:
    """The file in blocks of whole lines that part no query from itself."""
    whole, read = source.size, 0
    with source.open() as stream:
        line = b""  # the first of the next block
        while block := stream.read(_BLOCK):
            parts = [line, block, stream.readline()]
            last = block[block.rfind(b"\n") + 1 :] + parts[-1]
            query = last.split(maxsplit=1)[:1]
            while (line := stream.readline()) and line.split(maxsplit=1)[:1] in ([], query):
                parts.append(line)
            joined = b"".join(parts)
            read += len(joined)
            source.note_parsed(len(joined))
            yield joined
        if line:
            read += len(line)
            source.note_parsed(len(line))
            yield line
    source.refuse_shorter(whole, read)


def _is_regular(block: bytes, separator: bytes) -> bool:
    """Whether every piece of white space in a block is one separator between two columns, or one line break."""
    text = np.frombuffer(block, np.uint8)
    pieces = (text[at : at + _PIECE + 1] for at in range(0, len(text), _PIECE))  # they overlap by a byte
    return block[0] > _SPACE and all(_is_regular_piece(piece, ord(separator)) for piece in pieces)


def _is_regular_piece(piece: NDArray[np.uint8], separator: int) -> bool:
    white = piece <= _SPACE
    if (white[1:] & white[:-1]).any():
        return False
    usual = np.count_nonzero(piece == separator) + np.count_nonzero(piece == _BREAK)
    return bool(np.count_nonzero(white) == usual)


def _frame(block: bytes, separator: bytes) -> pl.DataFrame:
    """Query, id and score of each line; anything unusual sends the file to the reader that copes or refuses."""
    import polars as pl

    if not _is_regular(block, separator):
        block = block.replace(b"\r\n", b"\n")
        if not _is_regular(block, separator):
            raise Ungrouped
    names = ("query", "q0", "id", "rank", "score", "tag")
    schema: dict[str, Any] = {n: pl.Float64 if n == "score" else pl.String for n in names}
    try:
        lines = pl.scan_csv(block, separator=separator.decode(), has_header=False, schema=schema, quote_char=None)
        return lines.select("query", "id", "score").collect()
    except (pl.exceptions.PolarsError, UnicodeDecodeError):
        raise Ungrouped from None


class _WholeTrecRun(TrecRun):
    """For files whose queries are scattered: everything in memory, grouped."""

    def parts(self, least: int) -> list[Run] | None:
        return None

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        yield self._read_lines()


def _groups(frame: pl.DataFrame) -> tuple[list[str], Ints]:
    """Queries whose lines follow each other, and where those of each begin and end."""
    runs = frame["query"].rle().struct.unnest()
    ends = np.cumsum(runs["len"].to_numpy(), dtype=np.int64)
    return runs["value"].to_list(), np.append(0, ends)


def as_text(raw: bytes, label: str, line: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "the line is not UTF-8 text", code="not-utf8", file=label, line=line, hint="save the file as UTF-8"
        ) from error


def as_number(text: bytes, label: str, line: int, field: str) -> float:
    try:
        value = read_float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise _not_usable(text, label, line, field, "a finite number")
    return value


def _not_usable(text: bytes, label: str, line: int, field: str, expected: str) -> InputError:
    found = text.decode("utf-8", "replace")
    return InputError("not usable", code="bad-value", file=label, line=line, field=field, expected=expected, got=found)


def _columns(label: str, line: int, expected: str, got: int) -> InputError:
    return InputError(
        "wrong number of columns", code="bad-row", file=label, line=line, expected=expected, got=f"{got} columns"
    )
