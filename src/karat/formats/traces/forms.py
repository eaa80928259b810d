"""The exports of each tool, reduced to one form of span."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal

import msgspec

from karat.data.prices import Usage
from karat.errors import shorten
from karat.formats.field_map import dig
from karat.formats.traces.content import (
    DocumentFields,
    count,
    documents_in,
    milliseconds,
    numbered,
    opened,
    question_in,
    with_ids,
)

Stage = Literal["retriever", "reranker", "llm", "embedding", "other"]
_KINDS: dict[str, Stage] = {
    "retriever": "retriever",
    "retrieval": "retriever",
    "reranker": "reranker",
    "rerank": "reranker",
    "llm": "llm",
    "chat": "llm",
    "chat_model": "llm",
    "generation": "llm",
    "text_completion": "llm",
    "generate_content": "llm",
    "embedding": "embedding",
    "embeddings": "embedding",
}
_KIND_NAMES = ("openinference.span.kind", "gen_ai.operation.name", "mlflow.spanType", "langfuse.observation.type")
_INPUTS = ("input.value", "mlflow.spanInputs", "langfuse.observation.input", "gen_ai.input.messages", "input")
_QUERIES = ("gen_ai.retrieval.query.text", "retrieval.query", *_INPUTS)
_OUTPUTS = ("output.value", "mlflow.spanOutputs", "langfuse.observation.output", "output")
_DOCUMENTS = ("gen_ai.retrieval.documents", "retrieval.documents")
_MODELS = (
    *("gen_ai.response.model", "gen_ai.request.model", "llm.model_name", "embedding.model_name", "reranker.model_name"),
    *("mlflow.llm.model", "langfuse.observation.model.name", "ls_model_name"),
)
_PROMPT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_COMPLETION = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_TOTALS = ("mlflow.chat.tokenUsage", "langfuse.observation.usage_details", "usage_details", "usage_metadata")
_IN, _OUT = ("input_tokens", "prompt_tokens", "input"), ("output_tokens", "completion_tokens", "output")
_METADATA = re.compile(r"(?:langfuse\.(?:trace|observation)\.)?metadata(?:\.(.+))?", re.S)
# Attributes with content, which is read by itself, and those that tools write for themselves.
_CONTENT = re.compile(
    r"(input|output|retrieval\.documents|reranker|llm|embedding|gen_ai\.(input|output|retrieval|usage)|mlflow\.\w+"
    r"|langfuse\.(observation\.(input|output|usage_details|type|model)|internal))(\.|$)|(metadata|usage_details)$"
)
_LONG = 300  # characters of an attribute that is kept
_MANY = 100  # attributes of a span that are kept
_HEX = re.compile(r"[0-9a-fA-F]+")
_UNNAMED = "unknown_service"  # how SDKs call a service without a name


class Span(msgspec.Struct):
    """What is kept of a span: the same for all tools, and small."""

    trace: str
    id: str
    parent: str | None
    name: str
    kind: Stage
    start: float | None  # milliseconds since 1970
    end: float | None
    line: int | None
    question: str | None = None
    documents: list[dict[str, Any]] | None = None  # of a retriever or reranker; None: not recorded
    given: list[dict[str, Any]] | None = None  # to a reranker
    usage: Usage | None = None
    error: str | None = None
    source: str | None = None  # that was searched
    service: str | None = None
    attributes: dict[str, Any] = {}  # short ones

    @property
    def ms(self) -> float:
        return max(0.0, self.end - self.start) if self.start is not None and self.end is not None else 0.0

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        texts = sum(200 + len(hit.get("text", "")) for hit in (*(self.documents or ()), *(self.given or ())))
        return 700 + texts + len(self.question or "") + 150 * len(self.attributes)


class NotSpans(Exception):
    """This is not an export of spans."""


class SpanReader:
    """Reads spans from the values of a file. `root`: whether the questions of all spans are needed."""

    def __init__(self, fields: DocumentFields, *, root: bool, kept: Iterable[str] = ()) -> None:
        """`kept`: attributes that are kept in any case."""
        self._fields, self._root, self._kept = fields, root, tuple(kept)

    def spans(self, value: Any, line: int | None) -> Iterator[Span]:
        """All spans in a line or document. Raises NotSpans."""
        if isinstance(value, list):
            for one in value:
                yield from self.spans(one, line)
        elif isinstance(value, dict) and (read := _form(value)) is not None:
            for found in read(self, value):
                found.line = line
                yield found
        else:
            raise NotSpans(shorten(", ".join(map(str, value)) if isinstance(value, dict) else value, 80))

    # Each form. Names of fields are those that the tools write.

    def otlp(self, value: Mapping[str, Any]) -> Iterator[Span]:
        for resource in _list(value, "resourceSpans", "resource_spans"):
            about = _attributes(_object(resource, "resource").get("attributes"))
            for scope in _list(resource, "scopeSpans", "scope_spans", "instrumentationLibrarySpans"):
                for span in _list(scope, "spans"):
                    yield self.plain(span, about)

    def nested(self, value: Mapping[str, Any]) -> Iterator[Span]:
        """Spans with a context: OpenInference (Phoenix), and the SDK of OpenTelemetry."""
        about = _attributes(_object(value, "resource").get("attributes"))
        yield self.plain({**value, **_object(value, "context")}, about)

    def framed(self, value: Mapping[str, Any]) -> Iterator[Span]:
        """A row of Phoenix's table of spans."""
        names = ("context.trace_id", "context.span_id")
        attributes = {name[11:]: one for name, one in value.items() if name.startswith("attributes.")}
        own = {name.removeprefix("context."): one for name, one in value.items() if name in names}
        yield self.plain({**value, **own, "attributes": attributes}, {})

    def bare(self, value: Mapping[str, Any]) -> Iterator[Span]:
        yield self.plain(value, {})

    def mlflow(self, value: Mapping[str, Any]) -> Iterator[Span]:
        info, data = _object(value, "info"), opened(value.get("data"))
        about = {**_scalars(_object(info, "tags")), **_scalars(_object(info, "trace_metadata"))}
        trace = info.get("trace_id", info.get("request_id"))
        for span in _list(data if isinstance(data, dict) else {}, "spans"):
            found = self.plain(
                {**span, "trace_id": trace or span.get("trace_id")} if isinstance(span, dict) else span, {}
            )
            found.attributes = {**about, **found.attributes} if found.parent is None else found.attributes
            yield found

    def mlflow_row(self, value: Mapping[str, Any]) -> Iterator[Span]:
        """A row of the table of `mlflow.search_traces`."""
        trace = opened(value["trace"])
        if isinstance(trace, dict) and "data" in trace:
            yield from self.mlflow(trace)

    def langsmith(self, value: Mapping[str, Any]) -> Iterator[Span]:
        runs = [value]
        for run in runs:
            runs += [child for child in _list(run, "child_runs") if isinstance(child, dict)]
            extra = _object(run, "extra")
            metadata = _object(extra, "metadata")
            tokens = {"input": run.get("prompt_tokens"), "output": run.get("completion_tokens")}
            outputs = run.get("outputs")
            usage = outputs.get("usage_metadata") if isinstance(outputs, dict) else None
            attributes = {
                **metadata,
                "query_id": metadata.get("query_id", run.get("reference_example_id")),
                "usage_details": tokens if tokens["input"] is not None else usage,
                "input": run.get("inputs"),
                "output": outputs,
            }
            own = {"trace_id": run.get("trace_id") or run.get("id"), "span_id": run.get("id")}
            status = {"message": run.get("error")} if run.get("error") else {}
            if status:
                status["code"] = "ERROR"
            times = {"start_time": run.get("start_time"), "end_time": run.get("end_time")}
            named = {"name": run.get("name"), "parent_id": run.get("parent_run_id"), "span_kind": run.get("run_type")}
            yield self.plain({**own, **named, **times, "attributes": attributes, "status": status}, {})

    def langfuse(self, value: Mapping[str, Any]) -> Iterator[Span]:
        """An observation of Langfuse's API (camel case) or of its export (snake case)."""

        def said(camel: str, snake: str) -> Any:
            return value.get(camel, value.get(snake))

        metadata = opened(value.get("metadata"))
        model = said("providedModelName", "provided_model_name") or value.get("model")
        attributes = {
            **(metadata if isinstance(metadata, dict) else {}),
            "usage_details": said("usageDetails", "usage_details") or value.get("usage"),
            "gen_ai.request.model": model,
            "input": value.get("input"),
            "output": value.get("output"),
        }
        message = said("statusMessage", "status_message")
        status = {"code": "ERROR", "message": message} if value.get("level") == "ERROR" else {}
        own = {"trace_id": said("traceId", "trace_id"), "span_id": value.get("id"), "name": value.get("name")}
        times = {"start_time": said("startTime", "start_time"), "end_time": said("endTime", "end_time")}
        parent = said("parentObservationId", "parent_observation_id")
        kind = {"parent_id": parent, "span_kind": value.get("type")}
        yield self.plain({**own, **times, **kind, "attributes": attributes, "status": status}, {})

    def langfuse_trace(self, value: Mapping[str, Any]) -> Iterator[Span]:
        """A trace of Langfuse with its observations."""
        trace = value.get("id")
        own = {"trace_id": trace, "span_id": f"trace {trace}", "name": value.get("name"), "input": value.get("input")}
        metadata = opened(value.get("metadata"))
        attributes = {**(metadata if isinstance(metadata, dict) else {}), "input": value.get("input")}
        yield self.plain({**own, "attributes": attributes}, {})
        for one in _list(value, "observations"):
            if isinstance(one, dict):
                for span in self.langfuse({**one, "traceId": trace}):
                    span.parent = span.parent or f"trace {trace}"
                    yield span

    def contained(self, value: Mapping[str, Any]) -> Iterator[Span]:
        """A page of an API, or a list under a name."""
        for name in _CONTAINERS:
            if isinstance(value.get(name), list):
                yield from self.spans(value[name], None)
                return

    def nothing(self, value: Mapping[str, Any]) -> Iterator[Span]:
        """Logs and metrics of OpenTelemetry."""
        return iter(())

    def plain(self, span: Any, about: Mapping[str, Any]) -> Span:
        """A span of any tool, under the names of OpenTelemetry. `about`: attributes of its resource."""
        if not isinstance(span, dict):
            raise NotSpans(shorten(span, 80))
        trace, own = (_id(_said(span, *names)) for names in (("traceId", "trace_id"), ("spanId", "span_id")))
        if trace is None or own is None:
            raise NotSpans("a span without a trace id or span id")
        attributes = _attributes(span.get("attributes"))
        kind = _kind(span, attributes)
        found = Span(
            trace=trace,
            id=own,
            parent=_id(_said(span, "parentSpanId", "parent_span_id", "parent_id")),
            name=str(span.get("name") or "")[:80],
            kind=kind,
            start=milliseconds(_said(span, "startTimeUnixNano", "start_time_unix_nano", "start_time")),
            end=milliseconds(_said(span, "endTimeUnixNano", "end_time_unix_nano", "end_time")),
            line=None,
            error=_error(span),
            attributes=self._short(attributes),
        )
        service = about.get("service.name")
        if isinstance(service, str) and not service.startswith(_UNNAMED):
            found.service = service
        if kind == "retriever":
            self._add_retrieval(found, attributes)
        elif kind == "reranker":
            self._add_reranking(found, attributes)
        elif self._root:
            found.question = next((q for name in _INPUTS if (q := question_in(attributes.get(name)))), None)
        if kind != "other":
            found.usage = _usage(attributes, kind)
        return found

    def _add_retrieval(self, span: Span, attributes: Mapping[str, Any]) -> None:
        span.question = next((q for name in _QUERIES if (q := question_in(attributes.get(name)))), None)
        source = attributes.get("gen_ai.data_source.id")
        span.source = source if isinstance(source, str) else None
        outputs = (documents_in(attributes[name], self._fields) for name in _OUTPUTS if name in attributes)
        output = next((found for found in outputs if found is not None), None)
        for name in _DOCUMENTS:
            if (listed := documents_in(numbered(attributes, name), self._fields)) is not None:
                span.documents = with_ids(listed, output)
                return
        span.documents = output

    def _add_reranking(self, span: Span, attributes: Mapping[str, Any]) -> None:
        question = question_in(attributes.get("reranker.query"))
        span.question = question or next((q for name in _INPUTS if (q := question_in(attributes.get(name)))), None)
        span.given = documents_in(numbered(attributes, "reranker.input_documents"), self._fields)
        span.documents = documents_in(numbered(attributes, "reranker.output_documents"), self._fields)
        if span.documents is None:
            outputs = (documents_in(attributes[name], self._fields) for name in _OUTPUTS if name in attributes)
            span.documents = next((found for found in outputs if found is not None), None)
        if span.given is None:
            inputs = (opened(attributes.get(name)) for name in _INPUTS)
            listed = (documents_in(value, self._fields) for value in inputs if isinstance(value, dict))
            span.given = next((found for found in listed if found is not None), None)

    def _short(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes that may say what the query is, with those in metadata."""
        found = _scalars(attributes)
        for name, value in attributes.items():
            if (inside := _METADATA.fullmatch(name)) is None:
                continue
            more = opened(value)
            more = {inside[1]: more} if inside[1] else more if isinstance(more, dict) else {}
            found = {**_scalars(more), **found}
        for name in self._kept:
            if name not in found and isinstance(value := dig(attributes, name), (str, int)):
                found[name] = value
        return found


_CONTAINERS = ("data", "spans", "runs", "traces", "items")
_Form = Callable[[SpanReader, Mapping[str, Any]], Iterator[Span]]


def _form(value: Mapping[str, Any]) -> _Form | None:
    """How to read an object; None if it is no export of spans."""
    if "resourceSpans" in value or "resource_spans" in value:
        return SpanReader.otlp
    if "info" in value and "data" in value:
        return SpanReader.mlflow
    if "trace" in value and ("trace_metadata" in value or "execution_duration" in value):
        return SpanReader.mlflow_row
    if "run_type" in value and "id" in value:
        return SpanReader.langsmith
    if "context.span_id" in value and "context.trace_id" in value:
        return SpanReader.framed
    if isinstance(context := value.get("context"), dict) and "span_id" in context:
        return SpanReader.nested
    if "observations" in value and "id" in value:
        return SpanReader.langfuse_trace
    traced = "traceId" in value or "trace_id" in value
    if traced and ("spanId" in value or "span_id" in value):
        return SpanReader.bare
    if traced and "type" in value and "id" in value:
        return SpanReader.langfuse
    if "resourceLogs" in value or "resourceMetrics" in value:
        return SpanReader.nothing
    if any(isinstance(value.get(name), list) for name in _CONTAINERS):
        return SpanReader.contained
    return None


def is_span(value: Mapping[str, Any]) -> bool:
    """Whether an object looks like an export of spans, by its names alone."""
    read = _form(value)
    return read is not None and read not in (SpanReader.contained, SpanReader.nothing, SpanReader.langfuse_trace)


def _said(value: Mapping[str, Any], *names: str) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _list(value: Any, *names: str) -> list[Any]:
    found = _said(value, *names) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _object(value: Any, name: str) -> Mapping[str, Any]:
    found = opened(value.get(name)) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _scalars(values: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        is_short = len(value) <= _LONG if isinstance(value, str) else isinstance(value, (int, float))
        if is_short and not _CONTENT.match(name):
            found[name] = value
            if len(found) == _MANY:
                break
    return found


def _attributes(value: Any) -> dict[str, Any]:
    """Attributes as a mapping: OTLP lists them as keys and typed values."""
    value = opened(value)
    if isinstance(value, dict):
        return {str(name): one for name, one in value.items()}
    if not isinstance(value, list):
        return {}
    pairs = (one for one in value if isinstance(one, dict) and isinstance(one.get("key"), str))
    return {pair["key"]: _value(pair.get("value")) for pair in pairs}


def _value(value: Any, depth: int = 8) -> Any:
    """A typed value of OTLP."""
    if not isinstance(value, dict) or len(value) != 1 or depth < 0:
        return None
    [(kind, one)] = value.items()
    if kind in ("stringValue", "boolValue", "doubleValue", "bytesValue", "string_value", "bool_value", "double_value"):
        return one
    if kind in ("intValue", "int_value"):
        return count(one) if count(one) is not None else one
    if kind in ("arrayValue", "array_value"):
        return [_value(each, depth - 1) for each in _list(one, "values")]
    if kind in ("kvlistValue", "kvlist_value"):
        pairs = (p for p in _list(one, "values") if isinstance(p, dict) and isinstance(p.get("key"), str))
        return {pair["key"]: _value(pair.get("value"), depth - 1) for pair in pairs}
    return None


def _id(value: Any) -> str | None:
    """An id in hexadecimal, whether it was written so or in base64; None for an empty one."""
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    text = str(value).strip().removeprefix("0x")
    if len(text) in (12, 24) and text.endswith("="):
        with suppress(binascii.Error, ValueError):
            text = base64.b64decode(text, validate=True).hex()
    return (text.lower() if _HEX.fullmatch(text) else text) if text.strip("0") else None


def _kind(span: Mapping[str, Any], attributes: Mapping[str, Any]) -> Stage:
    for value in (*(attributes.get(name) for name in _KIND_NAMES), span.get("span_kind")):
        if isinstance(named := opened(value), str) and named.lower() in _KINDS:
            return _KINDS[named.lower()]
    return "other"


def _error(span: Mapping[str, Any]) -> str | None:
    status = span.get("status")
    about = status if isinstance(status, dict) else {}
    code = str(about.get("code", about.get("status_code", span.get("status_code"))))
    if "ERROR" not in code.upper() and code != "2":
        return None
    return shorten(about.get("message") or about.get("description") or span.get("status_message") or "failed", 200)


def _usage(attributes: Mapping[str, Any], kind: Stage) -> Usage | None:
    prompt = next((n for name in _PROMPT if (n := count(attributes.get(name))) is not None), None)
    completion = next((n for name in _COMPLETION if (n := count(attributes.get(name))) is not None), None)
    for name in _TOTALS if prompt is None and completion is None else ():
        if isinstance(totals := opened(attributes.get(name)), dict):
            prompt = next((n for key in _IN if (n := count(totals.get(key))) is not None), None)
            completion = next((n for key in _OUT if (n := count(totals.get(key))) is not None), None)
    model = next((opened(m) for name in _MODELS if isinstance(m := attributes.get(name), str) and m), None)
    if prompt is None and completion is None and (model is None or kind == "retriever"):
        return None
    stages = {"llm": "generate", "embedding": "embed", "reranker": "rerank", "retriever": "retrieve"}
    return Usage(stages[kind], model if isinstance(model, str) else None, prompt, completion)
