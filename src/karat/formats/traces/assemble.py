"""Spans → one record of a run log per root, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from karat.data.audit import Audit
from karat.data.prices import Usage
from karat.errors import InputError, shorten
from karat.files.decode_errors import DECODE_ERRORS, refusal
from karat.formats.base import Source, SourcePlace
from karat.formats.run_records import ranked_hits, union_of
from karat.formats.traces.content import DocumentFields
from karat.formats.traces.forms import NotSpans, Span, SpanReader
from karat.formats.traces.redact import Redaction
from karat.formats.traces.values import HeldSpans, span_values

QueryFrom = Literal["retriever", "root"]
_HELD = 32 << 20  # bytes of spans, until those of a trace may be complete
_REMEMBERED = 100_000  # traces that were closed before the end of the file
_BLOCK = 1 << 20
_OF_TRACE = ("query_id", "system")  # fields of a record that are attributes of a trace
_SHOWN = 20  # attributes in a message
_STAGES = {"retriever": "retrieve", "reranker": "rerank", "embedding": "embed", "llm": "generate"}
_EXPECTED = "spans of OpenTelemetry (OTLP JSON), OpenInference, MLflow, LangSmith or Langfuse"
_RECORDED = "turn on the recording of documents in the instrumentation; docs/formats.md#traces shows what is read"


class TraceOptions(msgspec.Struct, frozen=True):
    """How traces become records."""

    query_from: QueryFrom = "retriever"
    fields: Mapping[str, str] = {}  # field of a record or hit → attribute, or field of documents
    needs_fields: bool = False  # whether an attribute that no trace has is an error
    redaction: Redaction | None = None
    attributes: tuple[str, ...] = ()  # that are needed in any case
    held: int = _HELD

    @property
    def documents(self) -> DocumentFields:
        paths = {name: path for name, path in self.fields.items() if name in ("chunk_id", "doc_id", "score", "text")}
        return DocumentFields(paths)


class TraceRecord(msgspec.Struct):
    """One query of production: a record of a run log, and what else its trace says."""

    record: dict[str, Any]
    trace: str
    line: int | None
    attributes: dict[str, Any]
    day: str | None = None


def trace_records(source: Source | HeldSpans, options: TraceOptions, audit: Audit) -> Iterator[TraceRecord]:
    """Every query in the traces of a file, as a record of a run log. What was left out is counted.

    A record has `query_id` only if an attribute gives it, and hits without an id have only a text.
    """
    found = unrecorded = 0
    named = {name: path for name, path in options.fields.items() if name in _OF_TRACE}
    attributes: dict[str, None] = {}
    for trace in _traces(source, options, audit):
        for spans in _by_root(trace):
            made = _record(spans, options)
            if isinstance(made, TraceRecord):
                found += 1
                named = {name: path for name, path in named.items() if path not in made.attributes}
                attributes |= dict.fromkeys(made.attributes) if named and len(attributes) < _SHOWN else {}
                yield made if options.redaction is None else _redacted(made, options.redaction)
            elif made is not None:
                unrecorded += 1
                audit.count(made, 1, [trace[0].trace])
    if not found:
        what, hint = "no retriever span in the traces", "export all spans, not only those of the model"
        if unrecorded:
            what, hint = "no retriever span has both a question and documents", _RECORDED
        raise InputError(what, code="no-retrievals", file=source.label, hint=hint)
    for name, path in named.items() if options.needs_fields else ():
        known = ", ".join(sorted(attributes)[:_SHOWN]) or "none"
        raise InputError(
            f"no trace has the attribute {path!r} for {name}",
            code="unmapped-field",
            file=source.label,
            field="map",
            hint=shorten(f"attributes of the traces: {known}", 300),
        )


def _traces(source: Source | HeldSpans, options: TraceOptions, audit: Audit) -> Iterator[list[Span]]:
    """The spans of each trace. Traces are closed early if too many are open."""
    held: OrderedDict[str, list[Span]] = OrderedDict()
    closed: OrderedDict[int, None] = OrderedDict()
    split: set[str] = set()
    size = 0
    for span in _spans(source, options):
        if span.trace not in held and hash(span.trace) in closed:
            split.add(span.trace)
            closed.pop(hash(span.trace))
        held.setdefault(span.trace, []).append(span)
        held.move_to_end(span.trace)
        size += span.size
        while size > options.held and len(held) > 1:
            name, spans = held.popitem(last=False)
            size -= sum(one.size for one in spans)
            closed[hash(name)] = None
            if len(closed) > _REMEMBERED:
                closed.popitem(last=False)
            yield spans
        if len(split) == 1000:
            audit.count("split_traces", len(split), sorted(split))
            split.clear()
    audit.count("split_traces", len(split), sorted(split))
    while held:
        yield held.popitem(last=False)[1]


def _spans(source: Source | HeldSpans, options: TraceOptions) -> Iterator[Span]:
    kept = [*(path for name, path in options.fields.items() if name in _OF_TRACE), *options.attributes]
    reader = SpanReader(options.documents, root=options.query_from == "root", kept=kept)
    for line, value in span_values(source):
        try:
            yield from reader.spans(value, line)
        except NotSpans as error:
            raise SourcePlace(source.label, line).error(
                "this is not a span", code="not-a-span", expected=_EXPECTED, got=str(error)
            ) from error
        except DECODE_ERRORS as error:  # such as nested too deeply
            raise refusal(error, source.label, line) from error


def _by_root(spans: list[Span]) -> Iterator[list[Span]]:
    """The spans under each root, if they include a retriever. Spans whose root is unknown belong to the only root, or
    together."""
    by_id = {span.id: span for span in spans}
    roots: dict[str | None, list[Span]] = {}
    for span in by_id.values():
        roots.setdefault(_root(span, by_id), []).append(span)
    lost = roots.pop(None, [])
    if lost and len(roots) == 1:
        next(iter(roots.values())).extend(lost)
    elif lost:
        roots[None] = lost
    for found in roots.values():
        if any(span.kind in ("retriever", "reranker") for span in found):
            yield found


def _root(span: Span, by_id: Mapping[str, Span]) -> str | None:
    """The id of the topmost span; None if a parent is missing, or spans are their own ancestors."""
    seen = set()
    while span.parent is not None:
        if span.id in seen or span.parent not in by_id:
            return None
        seen.add(span.id)
        span = by_id[span.parent]
    return span.id


def _within(span: Span, by_id: Mapping[str, Span], kinds: tuple[str, ...]) -> Span | None:
    """The outermost ancestor of these kinds."""
    found, seen = None, {span.id}
    while span.parent is not None and span.parent in by_id and span.parent not in seen:
        span = by_id[span.parent]
        seen.add(span.id)
        found = span if span.kind in kinds else found
    return found


def _nearest(span: Span, by_id: Mapping[str, Span]) -> Span | None:
    """The innermost ancestor that is a stage."""
    seen = {span.id}
    while span.parent is not None and span.parent in by_id and span.parent not in seen:
        span = by_id[span.parent]
        seen.add(span.id)
        if span.kind in _STAGES:
            return span
    return None


def _record(spans: list[Span], options: TraceOptions) -> TraceRecord | str | None:
    """The record of one root; the code of the audit if it cannot be used."""
    by_id = {span.id: span for span in spans}
    spans = sorted(spans, key=lambda span: (span.start is None, span.start or 0.0, span.line or 0))
    outer = [span for span in spans if span.kind == "retriever" and _within(span, by_id, ("retriever",)) is None]
    rerankers = [span for span in spans if span.kind == "reranker"]
    searches = [span for span in outer if span.documents is not None or span.error is not None]
    if not searches and not any(span.documents is not None for span in rerankers):
        return "unrecorded_documents"
    root = next((span for span in spans if span.parent is None), None)
    root = root or next((span for span in spans if span.parent not in by_id), spans[0])
    asked = [span.question for span in (*searches, *outer, *rerankers) if span.question]
    query = root.question if options.query_from == "root" else next(iter(asked), None)
    named = next((a for name in _names(options) if (a := _attribute(spans, root, name)) is not None), None)
    if query is None and named is None:
        return "unrecorded_queries"
    steps = [_step(span) for span in searches]
    record: dict[str, Any] = {"query_id": named, "query": query, "trace_id": root.trace}
    record |= _lists(steps, searches, rerankers, by_id)
    if options.query_from == "root" and len(steps) == 1 and asked and asked[0] != query:
        record["rewritten_query"] = asked[0]
    record["latency_ms"] = _latency(spans, by_id, root)
    record["usage"] = _usage(spans, by_id)
    sources = list(dict.fromkeys(span.source for span in searches if span.source))
    record["route"] = sources[0] if len(sources) == 1 else sources or None
    failed = [span.error for span in searches if span.error is not None]
    record["error"] = failed[0] if failed and not record["topk"] else None
    system = _attribute(spans, root, options.fields["system"]) if "system" in options.fields else None
    record["system"] = system or next((span.service for span in searches if span.service), None)
    attributes: dict[str, Any] = {}
    for span in (root, *searches, *spans):
        attributes = {**span.attributes, **attributes}
    lines = [span.line for span in spans if span.line is not None]
    kept = {name: value for name, value in record.items() if value is not None}
    return TraceRecord(kept, root.trace, min(lines, default=None), attributes, _day(root, spans))


def _names(options: TraceOptions) -> tuple[str, ...]:
    """Attributes that may name the query."""
    return (options.fields["query_id"], "query_id") if "query_id" in options.fields else ("query_id",)


def _step(span: Span) -> dict[str, Any]:
    made = {
        "name": span.name or None,
        "query": span.question,
        "topk": ranked_hits(span.documents or ()),
        "latency_ms": span.ms if span.end is not None else None,
        "usage": None if span.usage is None else [_plain(span.usage)],
    }
    return {name: value for name, value in made.items() if value is not None}


def _lists(
    steps: list[dict[str, Any]], searches: list[Span], rerankers: list[Span], by_id: Mapping[str, Span]
) -> dict[str, Any]:
    """The final list, the list before reranking, and the steps if there are several."""
    after: list[Span] = []
    raw = None
    for span in rerankers:
        inside = _within(span, by_id, ("retriever",))
        if inside is not None:  # the outer retriever returned what it made
            raw = span.given if len(steps) == 1 else raw
        elif span.documents is not None:
            after.append(span)
    final: list[dict[str, Any]] | None = None
    if len(after) == 1:
        final, raw = _named_by(after[0].documents or [], after[0].given, searches), after[0].given
        raw = raw if raw is not None else [hit for step in steps for hit in step["topk"]]
    for span in after if len(after) > 1 else ():  # each reranked the results of the search before it
        before = [at for at, one in enumerate(searches) if (one.start or 0.0) <= (span.start or 0.0)]
        if before:
            at = before[-1]
            steps[at]["topk"] = ranked_hits(_named_by(span.documents or [], span.given, searches))
    if final is None:
        final = steps[0]["topk"] if len(steps) == 1 else union_of(steps)
    made: dict[str, Any] = {"topk": ranked_hits(final)}
    if raw is not None:
        made["raw"] = ranked_hits(raw)
    return made | ({"steps": steps} if len(steps) > 1 else {})


def _named_by(
    documents: list[dict[str, Any]], given: list[dict[str, Any]] | None, searches: Iterable[Span]
) -> list[dict[str, Any]]:
    """Documents of a reranker, with ids of the same texts among those that it was given."""
    if all("chunk_id" in hit for hit in documents):
        return documents
    known: dict[str, dict[str, Any]] = {}
    for hit in (*(given or ()), *(hit for span in searches for hit in span.documents or ())):
        if "chunk_id" in hit and "text" in hit:
            known.setdefault(hit["text"], hit)
    ids = ({name: v for name, v in known.get(hit.get("text", ""), {}).items() if name != "score"} for hit in documents)
    return [{**other, **hit} for hit, other in zip(documents, ids, strict=True)]


def _latency(spans: list[Span], by_id: Mapping[str, Span], root: Span) -> dict[str, float] | None:
    """Time of each stage, without the stages inside of it; and of the root."""
    times: dict[str, float] = {}
    for span in spans:
        stage = _STAGES.get(span.kind)
        if stage is None or span.start is None or span.end is None:
            continue
        if _within(span, by_id, (span.kind,)) is not None:
            continue  # a model inside a model: counted with the outer one
        times[stage] = times.get(stage, 0.0) + span.ms
        around = _nearest(span, by_id)
        if around is not None and around.start is not None and around.end is not None:
            outer = _STAGES[around.kind]
            times[outer] = times.get(outer, 0.0) - span.ms
    times = {stage: max(0.0, ms) for stage, ms in times.items()}
    if root.kind == "other" and root.start is not None and root.end is not None:
        times["total"] = root.ms
    return {stage: round(ms, 6) for stage, ms in times.items()} or None


def _usage(spans: list[Span], by_id: Mapping[str, Span]) -> list[dict[str, Any]] | None:
    """Tokens by stage and model."""
    found: dict[tuple[str | None, str | None], Usage] = {}
    for span in spans:
        used = span.usage
        if used is None or _within(span, by_id, (span.kind,)) is not None:
            continue
        known = found.get((used.stage, used.model))
        if known is None:
            found[used.stage, used.model] = Usage(used.stage, used.model, used.prompt_tokens, used.completion_tokens)
        else:
            known.calls += 1
            known.prompt_tokens = _sum(known.prompt_tokens, used.prompt_tokens)
            known.completion_tokens = _sum(known.completion_tokens, used.completion_tokens)
    return [_plain(used) for used in found.values()] or None


def _plain(usage: Usage) -> dict[str, Any]:
    return {name: value for name in usage.__struct_fields__ if (value := getattr(usage, name)) is not None}


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else one + other


def _attribute(spans: list[Span], root: Span, name: str) -> str | None:
    """An attribute of the root, else of any of its spans."""
    for span in (root, *spans):
        value = span.attributes.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return str(value)
    return None


def _day(root: Span, spans: list[Span]) -> str | None:
    start = root.start if root.start is not None else next((s.start for s in spans if s.start is not None), None)
    try:
        return None if start is None else datetime.fromtimestamp(start / 1000, UTC).date().isoformat()
    except (ValueError, OverflowError, OSError):
        return None


def _redacted(made: TraceRecord, redaction: Redaction) -> TraceRecord:
    return TraceRecord(redaction.of(made.record), made.trace, made.line, redaction.of(made.attributes), made.day)
