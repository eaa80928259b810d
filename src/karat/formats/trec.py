"""TREC run and qrels files. In a run the score decides, compared as float32, as trec_eval does."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.data.audit import Audit
from karat.data.gold import BARE, Gold, GoldBuilder
from karat.data.hits import Hits, Run, Ungrouped
from karat.data.ids import Floats, Ints, Packed, PackedIds, Seen, as_list
from karat.errors import InputError
from karat.formats.base import Format, Kind, Options, Source, source_parts
from karat.formats.dataset import dataset_of
from karat.formats.records import whole_lines
from karat.formats.tabular import grouped_rows, in_order, refuse_other_system
from karat.formats.trec_cells import cells, is_regular

if TYPE_CHECKING:
    import polars as pl

# Below this a plain loop over lines is done before polars would be imported.
_SMALL = 16 << 20
_BLOCK = 8 << 20
_SMALL_BLOCK = 1 << 18


class TrecRunFormat(Format):
    """Lines of `query Q0 document rank score tag`; what follows on a line is passed over, as trec_eval does."""

    name = "trec-run"
    kinds = frozenset({"run"})
    order = 60

    def recognises(self, source: Source, kind: Kind) -> bool:
        parts = source.first_line.split()
        return len(parts) >= 5 and not source.looks_like_json and b"," not in parts[0] and is_number(parts[4])

    def read_run(self, source: Source, options: Options) -> Run:
        return TrecRun(source, options.system)


class QrelsFormat(Format):
    """Lines of `query iteration document grade`."""

    name = "trec-qrels"
    kinds = frozenset({"gold"})
    order = 60

    def recognises(self, source: Source, kind: Kind) -> bool:
        parts = source.first_line.split()
        return len(parts) == 4 and not source.looks_like_json and is_number(parts[3])

    def read_gold(self, source: Source, options: Options) -> Gold:
        rows, line = _Judgements(), 1
        for block in whole_lines(source, _SMALL_BLOCK):
            if not rows.add_alike(block, line):
                rows.add_one_by_one(block, line, source.label)
            line += block.count(b"\n")
        return rows.gold(source)


def _alike(block: bytes, *, columns: int, number: int) -> tuple[Packed, Packed, Floats] | None:
    """Queries, items and grades or scores of lines that are all alike; None for all else."""
    row = cells(block, columns)
    if row is None:
        return None
    queries, items, numbers = row.packed(0), row.packed(2), row.numbers(number)
    return None if queries is None or items is None or numbers is None else (queries, items, numbers)


class _Judgements:
    """Lines of qrels, block after block, with no Python text kept of an item."""

    def __init__(self) -> None:
        self._first: dict[str, int] = {}  # queries, each with its first line
        self._runs: list[str] = []  # queries as they come, and how many lines of each
        self._sizes, self._grades, self._items = array("q"), array("d"), PackedIds()

    def add_alike(self, block: bytes, line: int) -> bool:
        """Lines that are all alike, at once; False for all else."""
        read = _alike(block, columns=4, number=3)
        if read is None:
            return False
        queries, items, grades = read
        names, counts = _runs(queries)
        ends = np.cumsum(counts)
        for query, start in zip(names, (line + ends - counts).tolist(), strict=True):
            self._first.setdefault(query, start)
        self._runs += names
        self._sizes.extend(counts.tolist())
        self._items.add_packed(items)
        self._grades.frombytes(grades.tobytes())
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

    def slices(self, columns: frozenset[str], audit: Audit) -> Iterator[Hits]:
        refuse_other_system(self._system, [self._tag], self.label)
        if self._source.path.stat().st_size < _SMALL or self._separator() is None:
            yield self._read_cells() or self._read_lines()
            return
        yield from self._read_blocks()

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

    def _read_cells(self) -> Hits | None:
        """Lines that are all alike, and those of a query together; None for all else."""
        parts: list[tuple[Packed, Packed, Floats]] = []
        for block in whole_lines(self._source, _SMALL_BLOCK):
            read = _alike(block, columns=6, number=4)
            if read is None:
                return None
            parts.append(read)
        if not parts:  # an empty file
            return None
        asked, ids, scores = map(np.concatenate, zip(*parts, strict=True))
        names, counts = _runs(asked)
        score = _as_floats32(scores)
        if len(set(names)) < len(names) or not np.isfinite(score).all():
            return None
        return self._made(names, counts, ids, score)

    def _read_lines(self) -> Hits:
        """Any white space, any order of lines, and errors that name the line."""
        rows: dict[bytes, tuple[str, list[str], list[float]]] = {}
        with self._source.open() as stream:
            line = 0
            try:
                for raw in stream:
                    line += 1
                    parts = raw.split(maxsplit=6)  # only ASCII white space parts columns
                    if not parts:
                        continue
                    row = rows.get(parts[0])
                    if row is None:
                        row = rows[parts[0]] = (parts[0].decode(), [], [])
                    row[1].append(parts[2].decode())
                    row[2].append(_float(parts[4]))
            except (ValueError, IndexError):
                raise self._line_error(raw, line) from None
        score = _as_floats32([s for _, _, scores in rows.values() for s in scores])
        if not np.isfinite(score).all():
            raise self._infinite()
        queries, counts = [query for query, _, _ in rows.values()], [len(ids) for _, ids, _ in rows.values()]
        return self._made(queries, counts, [i for _, ids, _ in rows.values() for i in ids], score)

    def _made(self, queries: list[str], counts: Any, ids: list[str] | Packed, score: Floats) -> Hits:
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)])
        return Hits(system=self._tag, queries=queries, offsets=offsets, ids=ids, score=score)

    def _line_error(self, raw: bytes, line: int) -> InputError:
        as_text(raw, self.label, line)
        found = raw.split()
        if len(found) > 4:
            as_number(found[4], self.label, line, "score")
        return _columns(self.label, line, "6: query Q0 document rank score tag", len(found))

    def _infinite(self) -> InputError:
        """All scores are numbers, and one is not finite, or too large for float32: which?"""
        with self._source.open() as stream, np.errstate(over="ignore"):
            found = ((line, raw.split(maxsplit=6)) for line, raw in enumerate(stream, 1) if not raw.isspace())
            line, parts = next((n, p) for n, p in found if not np.isfinite(np.float32(float(p[4]))))
        return _not_usable(parts[4], self.label, line, "score", "a finite number that fits into 32 bits")

    def _read_blocks(self) -> Iterator[Hits]:
        done, separator = Seen(), self._separator() or b" "
        for block in _whole_queries(self._source, separator):
            frame = _frame(block, separator)
            queries, offsets = _groups(frame)
            if done.add(queries):
                raise Ungrouped
            score = _as_floats32(frame["score"].to_numpy())
            if frame["id"].null_count() or not np.isfinite(score).all():
                raise Ungrouped  # a line that is too short, NaN or infinity
            yield Hits(self._tag, queries, offsets, frame["id"], score, written=block)


def _whole_queries(source: Source, separator: bytes) -> Iterator[bytes]:
    """The file in blocks of whole lines that part no query from itself."""
    with source.open() as stream:
        line = b""  # the first of the next block
        while block := stream.read(_BLOCK):
            parts = [line, block, stream.readline()]
            last = block[block.rfind(b"\n") + 1 :] + parts[-1]
            query = last.partition(separator)[0] + separator
            while (line := stream.readline()).startswith(query):
                parts.append(line)
            yield b"".join(parts)
        if line:
            yield line


def _frame(block: bytes, separator: bytes) -> pl.DataFrame:
    """Query, id and score of each line; anything unusual sends the file to the reader that copes or refuses."""
    import polars as pl

    if not is_regular(block, separator):
        block = block.replace(b"\r\n", b"\n")
        if not is_regular(block, separator):
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

    def slices(self, columns: frozenset[str], audit: Audit) -> Iterator[Hits]:
        yield self._read_lines()


def _groups(frame: pl.DataFrame) -> tuple[list[str], Ints]:
    """Queries whose lines follow each other, and where those of each begin and end."""
    runs = frame["query"].rle().struct.unnest()
    ends = np.cumsum(runs["len"].to_numpy(), dtype=np.int64)
    return runs["value"].to_list(), np.append(0, ends)


def _as_floats32(scores: Any) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(scores, np.float64).astype(np.float32).astype(np.float64)


def as_text(raw: bytes, label: str, line: int) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            "the line is not UTF-8 text", code="not-utf8", file=label, line=line, hint="save the file as UTF-8"
        ) from error


def as_number(text: bytes, label: str, line: int, field: str) -> float:
    try:
        value = _float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise _not_usable(text, label, line, field, "a finite number")
    return value


def _runs(names: Packed) -> tuple[list[str], Ints]:
    """Names that follow each other, and how often each is repeated."""
    ends = np.append(np.flatnonzero(names[1:] != names[:-1]) + 1, len(names))
    return as_list(names[ends - 1]), np.diff(ends, prepend=0)


def _float(text: bytes) -> float:
    if b"_" in text:  # 1_0 is a number for Python only
        raise ValueError
    return float(text)


def _not_usable(text: bytes, label: str, line: int, field: str, expected: str) -> InputError:
    found = text.decode("utf-8", "replace")
    return InputError("not usable", code="bad-value", file=label, line=line, field=field, expected=expected, got=found)


def _columns(label: str, line: int, expected: str, got: int) -> InputError:
    return InputError(
        "wrong number of columns", code="bad-row", file=label, line=line, expected=expected, got=f"{got} columns"
    )


def is_number(text: bytes) -> bool:
    return re.fullmatch(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf(inity)?)", text, re.I) is not None
