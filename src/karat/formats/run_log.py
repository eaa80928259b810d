"""Karat's run log: JSONL, one query a line, with ranked hits, timings and provenance (SPEC A1)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np

from karat.audit import Audit
from karat.errors import InputError, is_whole, meant, shorten
from karat.formats.base import DECODE_ERRORS, Format, Kind, Options, Source, refusal
from karat.formats.json_columns import Columns, ValueKind
from karat.formats.records import (
    ListField,
    RecordDecoder,
    column,
    decode_entries,
    extra_columns,
    no_gc,
    read_batches,
    read_column_batches,
)
from karat.hits import OPTIONAL_COLUMNS, Hits, Run
from karat.ids import Floats, Packed, as_list, compact

if TYPE_CHECKING:
    from karat.ids import Ids

_SLICE_HITS = 64_000
_NOTED = 100
# From here on vectorised hashing saves more than importing polars costs.
_LARGE = 32 << 20


class RankedId(msgspec.Struct, gc=False):
    """What every metric needs of a hit; the rest of it is skipped, not built, where nobody asks for it."""

    rank: int | None = None
    chunk_id: str | int | None = None
    score: float | None = None
    doc_id: str | int | None = None
    id: str | int | None = None


class Hit(RankedId, gc=False):
    """One hit. Only an id is needed; rank wins over score, score over the position in the list."""

    doc_version: str | int | float | None = None
    text: str | None = None
    source: str | None = None


class Usage(msgspec.Struct):
    """Tokens and calls of one stage of one query."""

    stage: str | None = None
    model: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 1


class RunRecord(msgspec.Struct, kw_only=True, gc=False):
    """One line of a run log: what one system returned for one query."""

    query_id: str | int | None = None
    topk: list[str | int | Hit]
    system: str | None = None
    k_raw: int | None = None
    latency_ms: dict[str, float | None] | None = None
    index_version: str | int | float | None = None
    chunker: dict[str, Any] | str | None = None
    raw: list[str | int | Hit] | None = None  # hits before reranking
    query: str | None = None
    rewritten_query: str | None = None
    topk_original: list[str | int | Hit] | None = None  # hits of the query before rewriting
    route: str | list[str] | None = None
    entities: list[Any] | None = None
    reranker: Any = None
    usage: list[Usage] | None = None
    error: Any = None


class SlimRecord(RunRecord, kw_only=True, gc=False):
    """A line of a run log read for ids, ranks and scores only."""

    topk: list[str | int | RankedId]  # type: ignore[assignment]
    raw: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]
    topk_original: msgspec.Raw = msgspec.Raw()  # type: ignore[assignment]


# Of hits that are all alike no object is made.
_RANKED: dict[str, ValueKind] = {"rank": "whole", "chunk_id": "text", "score": "number", "doc_id": "text", "id": "text"}
_TOPK = ListField("topk", _RANKED)

# One value a query, kept for later steps; the rest of the record is either hits or provenance.
_QUERY_FIELDS = ("query", "rewritten_query", "route", "entities", "error")
_PROVENANCE = ("k_raw", "index_version", "chunker", "reranker")


class RunLog(Run):
    """Records of a run log, from a file or from memory."""

    def __init__(self, label: str, records: Any, system: str | None = None, hits: str = "topk") -> None:
        self.label, self._records, self._system, self._hits = label, records, system, hits
        self._noted: dict[str, dict[str, list[Any]]] = {}

    def slices(self, columns: frozenset[str], audit: Audit) -> Iterator[Hits]:
        self._noted = {}
        large = isinstance(self._records, Source) and self._records.path.stat().st_size > _LARGE
        slices: dict[str, _Slice] = {}
        seen: dict[str, set[str]] = {}  # the queries of each system
        with no_gc():
            for part in self._parts(columns):
                self._note_provenance(part)
                if self._system not in (None, part.system):
                    continue
                current = slices.get(part.system)
                if current is None:
                    if not is_whole(part.system):
                        raise part.error(0, "half a character", field="system", expected="text", got=part.system)
                    current = slices[part.system] = _Slice(part.system, columns, large)
                self._refuse_repeats(part, seen.setdefault(part.system, set()))
                current.add(part)
                if current.size >= _SLICE_HITS:
                    yield slices.pop(part.system).hits()
        if self._system is not None and self._system not in self._noted:
            raise InputError(
                f"no system {self._system!r} in the run",
                file=self.label,
                hint="it has: " + ", ".join(sorted(s or "(unnamed)" for s in self._noted)),
            )
        for rest in slices.values():
            yield rest.hits()

    def provenance(self) -> dict[str, Any]:
        """Per system, the fields that are no hits: one value, or how many different ones there are."""
        return {
            system: {
                name: _writable(values[0] if len(values) == 1 else {"values": len(values), "first": values[0]})
                for name, values in sorted(fields.items())
                if values
            }
            for system, fields in self._noted.items()
        }

    def _parts(self, columns: frozenset[str]) -> Iterator[_Part]:
        if self._hits == "raw":
            yield from self._raw_parts()
            return
        if not isinstance(self._records, Source):
            decoder = RecordDecoder(RunRecord)
            for records, lines in decode_entries(enumerate(self._records, 1), decoder, self.label):
                yield from _Part(self.label, records, lines, decoder.extra_names).by_system()
            return
        decoder = RecordDecoder(RunRecord) if columns & OPTIONAL_COLUMNS else RecordDecoder(SlimRecord, lists=_TOPK)
        for records, lines, hits in read_column_batches(self._records, decoder):
            part = _Part(self.label, records, lines, decoder.extra_names)
            yield from (part if hits is None else part.with_columns(hits)).by_system()

    def _raw_parts(self) -> Iterator[_Part]:
        """The lists before reranking, in the place of the final ones."""
        decoder = RecordDecoder(RunRecord)
        from_file = isinstance(self._records, Source)
        entries = enumerate(() if from_file else self._records, 1)
        batches = read_batches(self._records, decoder) if from_file else decode_entries(entries, decoder, self.label)
        for records, lines in batches:
            part = _Part(self.label, records, lines, decoder.extra_names)
            for at, record in enumerate(records):
                if record.raw is None:
                    raise part.error(at, "the field is missing", field="raw", hint="this log has final lists only")
                record.topk = record.raw
            yield from part.by_system()

    def _refuse_repeats(self, part: _Part, seen: set[str]) -> None:
        before = len(seen)
        seen.update(part.queries)
        if len(seen) < before + len(part.queries):
            self._refuse_repeat(part.system)

    def _refuse_repeat(self, system: str) -> None:
        """A query stands twice: read again from the start to say which and where."""
        seen: dict[str, int | None] = {}
        for part in self._parts(frozenset()):
            if part.system != system:
                continue
            for query, line in zip(part.queries, part.lines, strict=True):
                if query in seen:
                    raise InputError(
                        f"system {shorten(system, 40)!r} has this query already (line {seen[query]})",
                        file=self.label,
                        line=line,
                        query=query,
                        hint="one line a query and system: remove one, or name the second run's system",
                    )
                seen[query] = line

    def _note_provenance(self, part: _Part) -> None:
        noted = self._noted.setdefault(part.system, {})
        try:
            for name, values in part.provenance():
                _note(noted.setdefault(name, []), values)
        except RecursionError as error:  # comparing goes as deep as the values do
            raise refusal(error, self.label, part.lines[0]) from error


def _writable(value: Any) -> Any:
    """What is kept is written one day: a thing that only memory can hold is kept as its text."""
    try:
        msgspec.json.encode(value)
    except (TypeError, *DECODE_ERRORS):
        return shorten(value)
    return value


def _note(noted: list[Any], values: Iterable[Any]) -> None:
    """Collect the different values of a field, at most a hundred."""
    for value in values:
        if value is not None and len(noted) < _NOTED and value not in noted:
            noted.append(value)


def _different(values: list[Any]) -> list[Any]:
    """The different values of a field in order of appearance; for objects and lists, at least of runs of equals."""
    if values.count(values[0]) == len(values):
        return values[:1]
    try:
        return list(dict.fromkeys(values))
    except TypeError:
        return [v for i, v in enumerate(values) if i == 0 or v != values[i - 1]]


@dataclass(frozen=True)
class _Part:
    """Some records of one system."""

    label: str
    records: list[RunRecord]
    lines: Sequence[int | None]
    extra_names: dict[str, str]

    def by_system(self) -> Iterator[_Part]:
        systems = [r.system for r in self.records]
        if systems.count(systems[0]) == len(systems):
            yield self
            return
        for system in dict.fromkeys(systems):
            yield self.pick([i for i, s in enumerate(systems) if s == system])

    def pick(self, at: list[int]) -> _Part:
        return replace(self, records=[self.records[i] for i in at], lines=[self.lines[i] for i in at])

    def with_columns(self, columns: Columns) -> _ColumnPart:
        return _ColumnPart(self.label, self.records, self.lines, self.extra_names, columns)

    @property
    def system(self) -> str:
        return self.records[0].system or ""

    @cached_property
    def queries(self) -> list[str]:
        queries: list[Any] = [r.query_id for r in self.records]
        if set(map(type, queries)) == {str}:
            return queries
        # A log without ids can still be matched: by the text of the query, as a single-target set is.
        queries = [r.query if q is None else q for q, r in zip(queries, self.records, strict=True)]
        if None in queries:
            hint = meant(["query_id"], self.extra_names.values())
            raise self.error(queries.index(None), "the field is missing", field="query_id", hint=hint)
        return [str(q) for q in queries]

    @cached_property
    def counts(self) -> list[int]:
        return [len(r.topk) for r in self.records]

    @cached_property
    def hits(self) -> list[Any]:
        hits: list[Any] = list(chain.from_iterable([r.topk for r in self.records]))
        if {str, int} & set(map(type, hits)):
            return [Hit(chunk_id=h) if isinstance(h, (str, int)) else h for h in hits]
        return hits

    def provenance(self) -> Iterator[tuple[str, list[Any]]]:
        for name in _PROVENANCE:
            yield name, _different(column(self.records, name))
        for name, values in extra_columns(self.records, self.extra_names).items():
            yield name, _different(values)

    def ids(self) -> list[str] | Packed:
        ids: list[Any] = [h.chunk_id for h in self.hits]
        kinds = set(map(type, ids))
        if kinds <= {str}:
            return ids
        if type(None) in kinds:
            ids = [h.chunk_id if h.chunk_id is not None else h.id if h.id is not None else h.doc_id for h in self.hits]
            if None in ids:
                raise self.hit_error(ids.index(None), "chunk_id", "the field is missing")
        return [str(i) for i in ids]

    def scores(self) -> Floats:
        values = [h.score for h in self.hits]
        scores = _numbers(values)
        odd = np.flatnonzero(~np.isfinite(scores))
        if len(odd) > values.count(None):
            at = next(i for i in odd.tolist() if values[i] is not None)
            raise self.hit_error(at, "score", "not usable", expected="a finite number", got=float(scores[at]))
        return scores

    def ranks(self) -> Floats:
        values = [h.rank for h in self.hits]
        try:
            return _numbers(values)
        except OverflowError:
            at = next(i for i, v in enumerate(values) if v is not None and abs(v) > 2**53)
            raise self.hit_error(at, "rank", "not usable", expected="a place in a list", got=values[at]) from None

    def docs(self) -> list[str] | None:
        """The document of each hit, "" where it is not said; None where no hit says it."""
        docs = [h.doc_id for h in self.hits]
        return None if docs.count(None) == len(docs) else ["" if d is None else str(d) for d in docs]

    def latency(self) -> dict[str, Floats]:
        logged = [r.latency_ms or {} for r in self.records]
        columns = {s: _numbers([t.get(s) for t in logged]) for s in dict.fromkeys(chain.from_iterable(logged))}
        for stage, ms in columns.items():
            impossible = np.flatnonzero((ms < 0) | np.isinf(ms))
            if len(impossible):
                at = int(impossible[0])
                raise self.error(
                    at,
                    "impossible latency",
                    field=f"latency_ms.{stage}",
                    query=self.queries[at],
                    expected="a number of milliseconds, 0 or more",
                    got=float(ms[at]),
                )
        return columns

    def error(self, at: int, what: str, **where: Any) -> InputError:
        return InputError(what, file=self.label, line=self.lines[at], **where)

    def hit_error(self, row: int, field: str, what: str, **more: Any) -> InputError:
        ends = np.cumsum(self.counts)
        at = int(np.searchsorted(ends, row, "right"))
        place = row - (int(ends[at]) - self.counts[at])
        return self.error(at, what, field=f"topk[{place}].{field}", query=self.queries[at], **more)


@dataclass(frozen=True)
class _ColumnPart(_Part):
    """Some records whose hits are columns already."""

    columns: Columns

    def pick(self, at: list[int]) -> _ColumnPart:
        return super().pick(at).with_columns(self.columns.of_lists(at))

    @cached_property
    def counts(self) -> list[int]:
        return list(self.columns.counts.tolist())

    def ids(self) -> list[str] | Packed:
        named = (self.columns.values.get(name) for name in ("chunk_id", "id", "doc_id"))
        ids: Packed | None = next((ids for ids in named if ids is not None), None)
        if ids is None:
            raise self.hit_error(0, "chunk_id", "the field is missing")
        return ids

    def scores(self) -> Floats:
        return self._numbers("score")

    def ranks(self) -> Floats:
        return self._numbers("rank")

    def _numbers(self, name: str) -> Floats:
        numbers: Floats | None = self.columns.values.get(name)
        return np.full(self.columns.counts.sum(), np.nan) if numbers is None else numbers

    def docs(self) -> list[str] | None:
        docs: Packed | None = self.columns.values.get("doc_id")
        return None if docs is None else as_list(docs)


class _Slice:
    """Columns of one system, filled part by part, so that the records themselves need not be kept."""

    def __init__(self, system: str, wanted: frozenset[str], large: bool) -> None:
        self.system, self.wanted, self.large = system, wanted, large
        self.queries: list[str] = []
        self.lines: list[int | None] = []
        self.counts: list[int] = []
        self.size = 0
        self.ids: list[list[str] | Packed] = []
        self.numbers: dict[str, list[Floats]] = {"score": [], "rank": []}
        self.docs: list[str] = []
        self.columns: dict[str, list[Any]] = {c: [] for c in wanted & OPTIONAL_COLUMNS}
        self.latency: list[tuple[int, dict[str, Floats]]] = []
        self.fields: dict[str, list[Any]] = {name: [] for name in _QUERY_FIELDS}

    def add(self, part: _Part) -> None:
        if "latency" in self.wanted:
            self.latency.append((len(self.queries), part.latency()))
        self.queries += part.queries
        self.lines += part.lines
        self.counts += part.counts
        self.ids.append(part.ids())
        self.numbers["score"].append(part.scores())
        self.numbers["rank"].append(part.ranks())
        docs = part.docs()
        if docs is not None:
            self.docs += [""] * (self.size - len(self.docs)) + docs
        for name, values in self.columns.items():
            values += [getattr(h, name) for h in part.hits]
        for name in _QUERY_FIELDS:
            self.fields[name] += column(part.records, name)
        self.size += sum(part.counts)

    def hits(self) -> Hits:
        offsets = np.zeros(len(self.counts) + 1, np.int64)
        np.cumsum(self.counts, out=offsets[1:])
        numbers = {name: np.concatenate(parts) for name, parts in self.numbers.items()}
        return Hits(
            system=self.system,
            queries=self.queries,
            offsets=offsets,
            ids=self._ids(),
            score=None if np.isnan(numbers["score"]).all() else numbers["score"],
            rank=None if np.isnan(numbers["rank"]).all() else numbers["rank"],
            docs=self.docs + [""] * (self.size - len(self.docs)) if self.docs else None,
            columns=self.columns,
            latency=self._latency(),
            fields={n: v for n, v in self.fields.items() if v.count(None) != len(v)},
            lines=np.array([line or 0 for line in self.lines], np.int64),
        )

    def _ids(self) -> Ids:
        if all(isinstance(ids, np.ndarray) for ids in self.ids):
            return np.concatenate(self.ids)
        listed = list(chain.from_iterable(map(as_list, self.ids)))
        return compact(listed) if self.large else listed

    def _latency(self) -> dict[str, Floats]:
        columns: dict[str, Floats] = {}
        for start, part in self.latency:
            for stage, ms in part.items():
                column = columns.setdefault(stage, np.full(len(self.queries), np.nan))
                column[start : start + len(ms)] = ms
        return columns


def _numbers(values: list[Any]) -> Floats:
    """NaN for None."""
    try:
        return np.frombuffer(array("d", values), np.float64)  # twice as fast as numpy's own conversion
    except TypeError:
        return np.array(values, np.float64)


class RunLogFormat(Format):
    """JSONL with `query_id` and `topk` on every line."""

    name = "run-log"
    kinds = frozenset({"run"})
    order = 10

    def recognises(self, source: Source, kind: Kind) -> bool:
        return "topk" in (source.first_object or {})

    def read_run(self, source: Source, options: Options) -> Run:
        return RunLog(source.label, source, options.system, options.hits)


class RunLogWriter:
    """Writes a run log from your own code, a whole line at a time.

    >>> import io
    >>> out = io.BytesIO()
    >>> log = RunLogWriter(out, system="bm25", index_version="v1")
    >>> log.write("q1", [("doc_1#p2", 7.5), "doc_3#p1"], latency_ms={"retrieve": 3.5})
    >>> out.getvalue().decode().count("doc_1#p2")
    1
    """

    def __init__(self, target: str | IO[bytes], *, system: str, **provenance: Any) -> None:
        self._stream: IO[bytes] = open(target, "wb") if isinstance(target, str) else target  # noqa: SIM115
        self._common = {"system": system, **provenance}

    def write(self, query_id: str, hits: Iterable[Any], **fields: Any) -> None:
        """`hits`: ids, (id, score) pairs or dicts, best first. Other fields go into the line as they are."""
        record = {"query_id": query_id, **self._common, "topk": ranked_hits(hits), **fields}
        self._stream.write(msgspec.json.encode(record) + b"\n")
        self._stream.flush()

    def __enter__(self) -> RunLogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


def ranked_hits(hits: Iterable[Any]) -> list[dict[str, Any]]:
    """Hits in any form that a person would give, as the objects of a run log, ranks from 1."""
    ranked = []
    for rank, hit in enumerate(hits, 1):
        if isinstance(hit, dict):
            ranked.append({"rank": rank, **hit})
        elif isinstance(hit, tuple):
            ranked.append({"rank": rank, "chunk_id": hit[0], "score": hit[1]})
        else:
            ranked.append({"rank": rank, "chunk_id": hit})
    return ranked
