"""Karat's run log: JSONL, one query a line, with ranked hits, timings and provenance (SPEC A1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any

import msgspec
import numpy as np

from karat.audit import Audit
from karat.errors import InputError
from karat.formats.base import Format, Kind, Options, Source
from karat.formats.records import RecordDecoder, decode_record, no_gc, read_objects
from karat.hits import OPTIONAL_COLUMNS, Hits, Run
from karat.ids import Floats

_SLICE_HITS = 250_000
_MISSING_LATENCY = float("nan")


class Hit(msgspec.Struct, gc=False):
    """One hit. Only an id is needed; rank wins over score, score over the position in the list."""

    chunk_id: str | int | None = None
    rank: int | None = None
    score: float | None = None
    doc_version: str | int | float | None = None
    doc_id: str | int | None = None
    text: str | None = None
    source: str | None = None
    id: str | int | None = None


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
    raw: msgspec.Raw | None = None  # hits before reranking, shaped like topk
    query: str | None = None
    rewritten_query: str | None = None
    topk_original: msgspec.Raw | None = None  # hits of the query before rewriting
    route: str | list[str] | None = None
    entities: list[Any] | None = None
    reranker: Any = None
    usage: list[Usage] | None = None
    error: Any = None


# One value a query, kept for later steps; the rest of the record is either hits or provenance.
_QUERY_FIELDS = ("query", "rewritten_query", "route", "entities", "error")
_PROVENANCE = ("k_raw", "index_version", "chunker", "reranker")
_HIT_FIELDS = {"text": "text", "doc_version": "doc_version", "source": "source"}


class RunLog(Run):
    """Records of a run log, from a file or from memory."""

    def __init__(self, label: str, records: Any, system: str | None = None) -> None:
        self.label, self._records, self._system = label, records, system
        self._seen: dict[str, dict[str, list[Any]]] = {}

    def slices(self, columns: frozenset[str], audit: Audit) -> Iterator[Hits]:
        decoder = RecordDecoder(RunRecord)
        open_slices: dict[str, _Slice] = {}
        first_line: dict[tuple[str, str], int | None] = {}
        self._seen = {}
        self._found_systems: set[str] = set()
        wanted = columns & OPTIONAL_COLUMNS
        with no_gc():
            for line, entry in self._entries():
                record = decode_record(decoder, entry, self.label, line)
                query, system = self._query_id(record, line), record.system or ""
                self._found_systems.add(system)
                if self._system is not None and system != self._system:
                    continue
                self._refuse_repeat(first_line, system, query, line)
                self._note_provenance(system, record, decoder)
                current = open_slices.get(system)
                if current is None:
                    current = open_slices[system] = _Slice(self.label, system, wanted)
                current.add(query, record, line)
                if len(current.hits) >= _SLICE_HITS:
                    yield open_slices.pop(system).finish()
        self._refuse_unknown_system()
        for rest in open_slices.values():
            yield rest.finish()

    def provenance(self) -> dict[str, Any]:
        """Per system, the fields that are no hits: one value, or how many different ones there are."""
        return {
            system: {
                name: values[0] if len(values) == 1 else {"values": len(values), "first": values[0]}
                for name, values in sorted(fields.items())
            }
            for system, fields in self._seen.items()
        }

    def _entries(self) -> Iterator[tuple[int | None, bytes | dict[str, Any]]]:
        if isinstance(self._records, Source):
            return read_objects(self._records)
        return ((i, r) for i, r in enumerate(self._records, 1))

    def _query_id(self, record: RunRecord, line: int | None) -> str:
        # A log without ids can still be matched: by the text of the query, as a single-target set is.
        found = record.query if record.query_id is None else record.query_id
        if found is None:
            raise InputError("the field is missing", file=self.label, line=line, field="query_id")
        return str(found)

    def _refuse_repeat(self, seen: dict[tuple[str, str], int | None], system: str, query: str, line: int | None) -> None:
        earlier = seen.setdefault((system, query), line)
        if earlier is not line and earlier != line:
            raise InputError(
                f"system {system!r} has this query already (line {earlier})",
                file=self.label,
                line=line,
                query=query,
                hint="one line a query and system: remove one, or give the second run another system name",
            )

    def _refuse_unknown_system(self) -> None:
        if self._system is not None and self._system not in self._found_systems:
            raise InputError(
                f"no system {self._system!r} in the run",
                file=self.label,
                hint="it has: " + ", ".join(sorted(s or "(unnamed)" for s in self._found_systems)),
            )

    def _note_provenance(self, system: str, record: RunRecord, decoder: RecordDecoder[RunRecord]) -> None:
        seen = self._seen.setdefault(system, {})
        for name in _PROVENANCE:
            _note(seen, name, getattr(record, name))
        if decoder.extra_names:
            for name, value in decoder.extras(record).items():
                _note(seen, name, value)


def _note(seen: dict[str, list[Any]], name: str, value: Any) -> None:
    """Collect different values of a field, at most a hundred."""
    if value is None:
        return
    values = seen.get(name)
    if values is None:
        seen[name] = [value]
    elif value != values[-1] and len(values) < 100 and value not in values:
        values.append(value)


class _Slice:
    """Records of one system that become one slice of hits."""

    def __init__(self, label: str, system: str, wanted: frozenset[str]) -> None:
        self.label, self.system, self.wanted = label, system, wanted
        self.queries: list[str] = []
        self.records: list[RunRecord] = []
        self.lines: list[int] = []
        self.counts: list[int] = []
        self.hits: list[Any] = []

    def add(self, query: str, record: RunRecord, line: int | None) -> None:
        self.queries.append(query)
        self.records.append(record)
        self.lines.append(line or 0)
        self.counts.append(len(record.topk))
        self.hits += record.topk

    def finish(self) -> Hits:
        hits = self.hits
        if set(map(type, hits)) - {Hit}:
            hits = [h if isinstance(h, Hit) else Hit(chunk_id=h) for h in hits]
        offsets = np.zeros(len(self.counts) + 1, np.int64)
        np.cumsum(self.counts, out=offsets[1:])
        docs = [h.doc_id for h in hits]
        return Hits(
            system=self.system,
            queries=self.queries,
            offsets=offsets,
            ids=self._ids(hits),
            score=self._scores(hits, offsets),
            rank=_numbers([h.rank for h in hits]),
            docs=None if docs.count(None) == len(docs) else ["" if d is None else str(d) for d in docs],
            columns={c: self._column(hits, _HIT_FIELDS[c]) for c in self.wanted},
            latency=self._latency(),
            fields=self._fields(),
            lines=np.array(self.lines, np.int64),
        )

    def _column(self, hits: list[Hit], name: str) -> list[Any]:
        return [getattr(h, name) for h in hits]

    def _ids(self, hits: list[Hit]) -> list[str]:
        ids: list[Any] = [h.chunk_id for h in hits]
        kinds = set(map(type, ids))
        if type(None) in kinds:
            ids = [h.chunk_id if h.chunk_id is not None else h.id if h.id is not None else h.doc_id for h in hits]
            if None in ids:
                raise self._hit_error(ids.index(None), "chunk_id", "the field is missing")
        elif kinds <= {str}:
            return ids
        return [str(i) for i in ids]

    def _scores(self, hits: list[Hit], offsets: Any) -> Floats | None:
        scores = _numbers([h.score for h in hits])
        if scores is not None and np.isinf(scores).any():
            at = int(np.flatnonzero(np.isinf(scores))[0])
            raise self._hit_error(at, "score", "the score is not finite")
        return scores

    def _hit_error(self, row: int, field: str, what: str) -> InputError:
        query = int(np.searchsorted(np.cumsum(self.counts), row, "right"))
        place = row - sum(self.counts[:query])
        return InputError(
            what, file=self.label, line=self.lines[query] or None, field=f"topk[{place}].{field}", query=self.queries[query]
        )

    def _latency(self) -> dict[str, Floats]:
        stages: dict[str, Floats] = {}
        for i, record in enumerate(self.records):
            for stage, ms in (record.latency_ms or {}).items():
                if ms is None:
                    continue
                if not 0 <= ms < float("inf"):
                    raise InputError(
                        "impossible latency",
                        file=self.label,
                        line=self.lines[i] or None,
                        field=f"latency_ms.{stage}",
                        query=self.queries[i],
                        expected="a number of milliseconds, 0 or more",
                        got=ms,
                    )
                column = stages.get(stage)
                if column is None:
                    column = stages[stage] = np.full(len(self.records), np.nan)
                column[i] = ms
        return stages

    def _fields(self) -> dict[str, list[Any]]:
        fields = {}
        for name in _QUERY_FIELDS:
            values = [getattr(r, name) for r in self.records]
            if values.count(None) != len(values):
                fields[name] = values
        return fields


def _numbers(values: list[Any]) -> Floats | None:
    return None if values.count(None) == len(values) else np.array(values, np.float64)


class RunLogFormat(Format):
    """JSONL with `query_id` and `topk` on every line."""

    name = "run-log"
    kinds = frozenset({"run"})
    order = 10

    def recognises(self, source: Source, kind: Kind) -> bool:
        return "topk" in (source.first_object or {})

    def read_run(self, source: Source, options: Options) -> Run:
        return RunLog(source.label, source, options.system)


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
