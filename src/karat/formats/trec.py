"""TREC run and qrels files. In a run the score decides, compared as float32, as trec_eval does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from karat.audit import Audit
from karat.errors import InputError
from karat.formats.base import Format, Kind, Options, Source
from karat.formats.gold_file import dataset_of
from karat.formats.records import whole_lines
from karat.gold import Gold, GoldBuilder
from karat.hits import Hits, Run, Ungrouped

if TYPE_CHECKING:
    import polars as pl

# Below this a plain loop over lines is done before polars would be imported.
_SMALL = 16 << 20
_BLOCK = 8 << 20


class TrecRunFormat(Format):
    """Lines of `query Q0 document rank score tag`; what follows on a line is passed over, as trec_eval does."""

    name = "trec-run"
    kinds = frozenset({"run"})
    order = 60

    def recognises(self, source: Source, kind: Kind) -> bool:
        parts = source.first_line.split()
        return len(parts) >= 5 and not source.looks_like_json and b"," not in parts[0] and _is_number(parts[4])

    def read_run(self, source: Source, options: Options) -> Run:
        return TrecRun(source)


class QrelsFormat(Format):
    """Lines of `query iteration document grade`."""

    name = "trec-qrels"
    kinds = frozenset({"gold"})
    order = 60

    def recognises(self, source: Source, kind: Kind) -> bool:
        parts = source.first_line.split()
        return len(parts) == 4 and not source.looks_like_json and _is_number(parts[3])

    def read_gold(self, source: Source, options: Options) -> Gold:
        items: dict[str, tuple[list[str], list[float]]] = {}
        first: dict[str, int] = {}
        with source.open() as stream:
            for line, raw in enumerate(stream, 1):
                parts = raw.split()
                if not parts:
                    continue
                if len(parts) != 4:
                    raise _columns(source.label, line, "4: query iteration document grade", len(parts))
                query, item = _text(parts[0], source.label, line), _text(parts[2], source.label, line)
                ids, grades = items.setdefault(query, ([], []))
                first.setdefault(query, line)
                ids.append(item)
                grades.append(_number(parts[3], source.label, line, "grade"))
        builder = GoldBuilder(source.label)
        for query, (ids, grades) in items.items():
            builder.add(query, ids, grades, line=first[query])
        return builder.build(dataset_of(source))


class TrecRun(Run):
    """A TREC run file, read in blocks so that memory does not grow with it."""

    def __init__(self, source: Source) -> None:
        self.label, self._source = source.label, source
        self._tag = ""

    def slices(self, columns: frozenset[str], audit: Audit) -> Iterator[Hits]:
        if self._source.path.stat().st_size < _SMALL or self._separator() is None:
            yield self._read_lines()
            return
        yield from self._read_blocks()

    def grouped(self) -> Run:
        return _WholeTrecRun(self._source)

    def _separator(self) -> str | None:
        """The one character that parts all columns, or None where white space is mixed."""
        lines = self._source.head.split(b"\n")[:-1]
        for separator in ("\t", " "):
            if lines and all(len(line.rstrip(b"\r").split(separator.encode())) == 6 for line in lines):
                return separator
        return None

    def _read_lines(self) -> Hits:
        """Any white space, any order of lines, and errors that name the line."""
        rows: dict[bytes, tuple[list[str], list[float]]] = {}
        parts: list[bytes] = []
        with self._source.open() as stream:
            line = 0
            try:
                for raw in stream:
                    line += 1
                    parts = raw.split()  # only ASCII white space parts columns
                    if not parts:
                        continue
                    ids, scores = rows[parts[0]] if parts[0] in rows else rows.setdefault(parts[0], ([], []))
                    ids.append(parts[2].decode())
                    scores.append(float(parts[4]))
            except (ValueError, IndexError) as error:
                raise self._line_error(raw, line) from error
        queries = [_text(query, self.label, None) for query in rows]
        if len(parts) > 5:
            self._tag = parts[5].decode("utf-8", "replace")
        score = np.array([s for _, scores in rows.values() for s in scores], np.float32).astype(np.float64)
        counts = [len(ids) for ids, _ in rows.values()]
        self._refuse_infinite(score, queries, counts)
        return Hits(
            system=self._tag,
            queries=queries,
            offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts, dtype=np.int64)]),
            ids=[i for ids, _ in rows.values() for i in ids],
            score=score,
        )

    def _line_error(self, raw: bytes, line: int) -> InputError:
        _text(raw, self.label, line)
        found = raw.split()
        if len(found) > 4:
            _number(found[4], self.label, line, "score")
        return _columns(self.label, line, "6: query Q0 document rank score tag", len(found))

    def _refuse_infinite(self, score: Any, queries: list[str], counts: list[int]) -> None:
        bad = np.flatnonzero(~np.isfinite(score))
        if len(bad):
            query = queries[int(np.searchsorted(np.cumsum(counts), bad[0], "right"))]
            raise InputError(
                "the score is not finite",
                file=self.label,
                line=_find_infinite(self._source),
                field="score",
                query=query,
                expected="a finite number",
                got=float(score[bad[0]]),
            )

    def _read_blocks(self) -> Iterator[Hits]:
        import polars as pl

        done: set[str] = set()
        rest: pl.DataFrame | None = None
        for frame in self._frames():
            if rest is not None:
                frame = pl.concat([rest, frame], rechunk=True)
            groups = _groups(frame)
            last = groups.starts[-1]
            rest = frame[last:]
            if len(groups.queries) > 1:
                yield self._hits(frame[:last], groups.without_last(), done)
        if rest is not None:
            yield self._hits(rest, _groups(rest), done)

    def _frames(self) -> Iterator[pl.DataFrame]:
        """Blocks of whole lines; anything unusual in one sends the file to the careful reader for its error."""
        import polars as pl

        names = ("query", "q0", "id", "rank", "score", "tag")
        schema: dict[str, Any] = {n: pl.Float64 if n == "score" else pl.String for n in names}
        separator = self._separator() or " "
        for block in whole_lines(self._source, _BLOCK):
            try:
                frame = (
                    pl.scan_csv(block, separator=separator, has_header=False, schema=schema, quote_char=None)
                    .select("query", "id", "score")
                    .collect()
                )
            except (pl.exceptions.PolarsError, UnicodeDecodeError):
                self._read_lines()  # raises with the line, or copes
                raise Ungrouped from None
            if not self._tag:
                self._tag = block[: block.find(b"\n")].split()[-1].decode("utf-8", "replace")
            yield frame

    def _hits(self, frame: pl.DataFrame, groups: _Groups, done: set[str]) -> Hits:
        if not done.isdisjoint(groups.queries) or len(set(groups.queries)) < len(groups.queries):
            raise Ungrouped
        done.update(groups.queries)
        return self._columns_to_hits(frame, groups)

    def _columns_to_hits(self, frame: pl.DataFrame, groups: _Groups) -> Hits:
        score = frame["score"].to_numpy()
        if frame["id"].null_count() or not np.isfinite(score).all():
            self._read_lines()  # a blank field or line, NaN or infinity: the careful reader says where, or copes
            raise Ungrouped
        return Hits(
            system=self._tag,
            queries=groups.queries,
            offsets=groups.offsets,
            ids=frame["id"],
            score=score.astype(np.float32).astype(np.float64),
        )


class _WholeTrecRun(TrecRun):
    """For files whose queries are scattered: everything in memory, grouped."""

    def slices(self, columns: frozenset[str], audit: Audit) -> Iterator[Hits]:
        yield self._read_lines()


@dataclass(frozen=True)
class _Groups:
    """Runs of rows with the same query."""

    queries: list[str]
    starts: list[int]
    size: int

    @property
    def offsets(self) -> Any:
        return np.array([*self.starts, self.size], np.int64)

    def without_last(self) -> _Groups:
        return _Groups(self.queries[:-1], self.starts[:-1], self.starts[-1])


def _groups(frame: pl.DataFrame) -> _Groups:
    runs = frame["query"].rle().struct.unnest()
    lengths = runs["len"].to_numpy().astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    return _Groups([str(q) for q in runs["value"].to_list()], starts.tolist(), frame.height)


def _text(raw: bytes, label: str, line: int | None) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InputError("the line is not UTF-8 text", file=label, line=line, hint="save the file as UTF-8") from error


def _number(text: bytes, label: str, line: int, field: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        found = text.decode("utf-8", "replace")
        raise InputError("not usable", file=label, line=line, field=field, expected="a finite number", got=found)
    return value


def _columns(label: str, line: int, expected: str, got: int) -> InputError:
    return InputError("wrong number of columns", file=label, line=line, expected=expected, got=f"{got} columns")


def _is_number(text: bytes) -> bool:
    return re.fullmatch(rb"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|[-+]?(nan|inf(inity)?)", text, re.I) is not None


def _find_infinite(source: Source) -> int | None:
    with source.open() as stream:
        for line, raw in enumerate(stream, 1):
            parts = raw.split()
            if len(parts) > 4 and not np.isfinite(np.float32(float(parts[4]))):
                return line
    return None
