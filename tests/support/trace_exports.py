"""Exports of traces, made with the real SDKs: `python tests/support/trace_exports.py FOLDER` writes one file per tool.

The same small help desk is traced with every tool: a question with one search, one with a reranker, one that an agent
answers with two searches, and one whose search fails. `tests/formats/traces/` has the files. `tests/engines/` makes
them again with the installed versions and compares what is read.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

DOCUMENTS = {
    "refunds#1": "Refunds are paid within five days of the return.",
    "refunds#2": "A refund needs the number of the order.",
    "shipping#1": "Shipping to the islands takes two weeks.",
    "returns#1": "Returns are free for thirty days after delivery.",
}
# Question → the ids that each search returns, with scores. A question with several searches is answered by an agent.
SINGLE = ("How long does a refund take?", [("refunds#1", 0.9), ("shipping#1", 0.4)])
RERANKED = ("What do I need for a refund?", [("refunds#1", 0.8), ("refunds#2", 0.7), ("shipping#1", 0.3)])
AFTER = [("refunds#2", 0.95), ("refunds#1", 0.5)]
AGENT = "Can I return a parcel from the islands?"
STEPS = [
    ("return period", [("returns#1", 0.8), ("refunds#1", 0.6)]),
    ("shipping islands", [("shipping#1", 0.9), ("returns#1", 0.2)]),
]
MODEL = "small-model"
_CLIENTS = count()


def _provider() -> tuple[Any, Any]:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "helpdesk"}))
    provider.add_span_processor(SimpleSpanProcessor(memory))
    return provider, memory


def _otlp_lines(spans: Any, *, hexadecimal: bool = False, size: int = 3) -> Iterator[str]:
    """Export requests as the encoder of OTLP makes them, one per line. Collectors write ids in hexadecimal."""
    import base64

    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    for at in range(0, len(spans), size):
        request = MessageToDict(encode_spans(spans[at : at + size]))
        for resource in request["resourceSpans"] if hexadecimal else ():
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    for name in {"traceId", "spanId", "parentSpanId"} & span.keys():
                        span[name] = base64.b64decode(span[name]).hex()
        yield json.dumps(request)


def gen_ai(*, hexadecimal: bool = True) -> Iterator[str]:
    """OpenTelemetry's conventions for generative AI, in OTLP JSON."""
    provider, memory = _provider()
    tracer = provider.get_tracer("helpdesk")

    def search(text: str, found: list[tuple[str, float]]) -> None:
        with tracer.start_as_current_span("retrieval kb") as span:
            documents = [{"id": item, "score": score} for item, score in found]
            span.set_attributes(
                {
                    "gen_ai.operation.name": "retrieval",
                    "gen_ai.retrieval.query.text": text,
                    "gen_ai.retrieval.documents": json.dumps(documents),
                    "gen_ai.data_source.id": "kb",
                }
            )

    def answer() -> None:
        with tracer.start_as_current_span("chat") as span:
            span.set_attributes(
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": MODEL,
                    "gen_ai.usage.input_tokens": 120,
                    "gen_ai.usage.output_tokens": 30,
                }
            )

    for number, (question, searches) in enumerate([(SINGLE[0], [SINGLE]), (AGENT, STEPS)], 1):
        with tracer.start_as_current_span("invoke_agent helpdesk") as root:
            message = [{"role": "user", "parts": [{"type": "text", "content": question}]}]
            root.set_attributes(
                {"gen_ai.input.messages": json.dumps(message), "app.question": f"q{number}", "app.language": "en"}
            )
            for text, found in searches:
                search(text, found)
            answer()
    with tracer.start_as_current_span("retrieval kb") as span:
        span.set_attributes({"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "broken"})
        from opentelemetry.trace import Status, StatusCode

        span.set_status(Status(StatusCode.ERROR, "index is offline"))
    yield from _otlp_lines(memory.get_finished_spans(), hexadecimal=hexadecimal)


def _documents(found: list[tuple[str, float]]) -> list[Any]:
    from langchain_core.documents import Document

    return [Document(id=item, page_content=DOCUMENTS[item], metadata={"score": score}) for item, score in found]


def _langchain(callbacks: list[Any]) -> None:
    """A chain with one search, and an agent with two. Their retrievers are real ones of LangChain."""
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnableLambda

    class Search(BaseRetriever):
        found: Any

        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return _documents(self.found)

    for question, searches in [(SINGLE[0], [SINGLE]), (AGENT, STEPS)]:

        def answer(asked: dict[str, str], config: Any = None, searches: Any = searches) -> str:
            for text, found in searches:
                Search(found=found).invoke(text, config=config)
            return "done"

        config: Any = {"callbacks": callbacks} if callbacks else {}
        RunnableLambda(answer, name="helpdesk").invoke({"question": question}, config=config)


def _reranked(tracer: Any) -> None:
    """A retriever and a reranker with OpenInference's attributes."""
    with tracer.start_as_current_span("rag") as root:
        root.set_attributes({"openinference.span.kind": "CHAIN", "input.value": RERANKED[0], "session.id": "s1"})
        with tracer.start_as_current_span("search") as span:
            span.set_attributes({"openinference.span.kind": "RETRIEVER", "input.value": RERANKED[0]})
            _set_documents(span, "retrieval.documents", RERANKED[1])
        with tracer.start_as_current_span("rerank") as span:
            span.set_attributes({"openinference.span.kind": "RERANKER", "reranker.query": RERANKED[0]})
            _set_documents(span, "reranker.input_documents", RERANKED[1])
            _set_documents(span, "reranker.output_documents", AFTER)
        with tracer.start_as_current_span("llm") as span:
            counts = {"llm.token_count.prompt": 80, "llm.token_count.completion": 20, "llm.model_name": MODEL}
            span.set_attributes({"openinference.span.kind": "LLM", **counts})


def _set_documents(span: Any, name: str, found: list[tuple[str, float]]) -> None:
    for at, (item, score) in enumerate(found):
        start = f"{name}.{at}.document"
        span.set_attributes({f"{start}.id": item, f"{start}.score": score, f"{start}.content": DOCUMENTS[item]})


def _open_inference_spans() -> Any:
    from openinference.instrumentation.langchain import LangChainInstrumentor

    provider, memory = _provider()
    instrumentor = LangChainInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    try:
        _langchain([])
    finally:
        instrumentor.uninstrument()
    _reranked(provider.get_tracer("helpdesk"))
    return memory.get_finished_spans()


def open_inference() -> Iterator[str]:
    """OpenInference's instrumentation of LangChain, as OTLP JSON with ids in base64."""
    yield from _otlp_lines(_open_inference_spans())


def phoenix() -> Iterator[str]:
    """The same spans as a page of Phoenix's REST API: flat attributes, and the kind beside them."""
    spans = []
    for span in _open_inference_spans():
        attributes = dict(span.attributes)
        made = json.loads(span.to_json())
        context = {name: made["context"][name].removeprefix("0x") for name in ("trace_id", "span_id")}
        parent = made["parent_id"]
        spans.append(
            {
                "id": f"U3Bhbjo{len(spans)}",
                "name": made["name"],
                "context": context,
                "span_kind": attributes.pop("openinference.span.kind"),
                "parent_id": parent and parent.removeprefix("0x"),
                "start_time": made["start_time"],
                "end_time": made["end_time"],
                "status_code": made["status"]["status_code"],
                "status_message": "",
                "attributes": attributes,
                "events": [],
            }
        )
    yield json.dumps({"data": spans, "next_cursor": None}, indent=1)


def mlflow(folder: Path | None = None) -> Iterator[str]:
    """`trace.to_json()` of MLflow's autologging of LangChain, one per line, and a traced function with tokens."""
    import tempfile

    import mlflow as ml
    from mlflow.entities import Document

    ml.set_tracking_uri(f"sqlite:///{folder or tempfile.mkdtemp()}/traces.db")
    ml.langchain.autolog()
    _langchain([])
    ml.langchain.autolog(disable=True)

    @ml.trace(span_type="RETRIEVER")
    def search(query: str) -> list[Any]:
        return [Document(page_content=DOCUMENTS[i], metadata={"score": s}, id=i) for i, s in RERANKED[1]]

    @ml.trace(span_type="RERANKER")
    def rerank(query: str, documents: list[Any]) -> list[Any]:
        return [Document(page_content=DOCUMENTS[i], metadata={"score": s}, id=i) for i, s in AFTER]

    @ml.trace(span_type="AGENT")
    def helpdesk(question: str) -> int:
        found = search(question)
        with ml.start_span("chat", span_type="CHAT_MODEL") as span:
            span.set_attribute("mlflow.chat.tokenUsage", {"input_tokens": 80, "output_tokens": 20, "total_tokens": 100})
            span.set_attribute("mlflow.llm.model", MODEL)
        ml.update_current_trace(tags={"query_id": "q-reranked"})
        return len(rerank(question, found))

    helpdesk(RERANKED[0])
    ml.flush_trace_async_logging()
    for trace in reversed(ml.search_traces(return_type="list")):
        made = json.loads(trace.to_json())
        made["info"]["tags"].pop("mlflow.artifactLocation", None)
        kept = {
            k: v
            for k, v in made["info"]["trace_metadata"].items()
            if not k.startswith(("mlflow.source", "mlflow.user"))
        }
        made["info"]["trace_metadata"] = kept
        yield json.dumps(made)


def langsmith() -> Iterator[str]:
    """Runs as LangSmith's client has them: what its tracer sends, in the form of `client.list_runs`."""
    from langchain_core.tracers.langchain import LangChainTracer
    from langsmith import Client, schemas

    class Offline(Client):
        """Keeps runs instead of sending them."""

        runs: dict[str, dict[str, Any]] = {}

        def create_run(self, *args: Any, **fields: Any) -> None:
            self.runs[str(fields["id"])] = fields

        def update_run(self, run_id: Any, **fields: Any) -> None:
            self.runs[str(run_id)] |= {name: value for name, value in fields.items() if value is not None}

    client = Offline(api_key="none", api_url="http://127.0.0.1:9", auto_batch_tracing=False)
    client.runs = {}
    tracer = LangChainTracer(client=client)
    _langchain([tracer])
    tracer.wait_for_futures()
    for run in client.runs.values():
        fields = {name: value for name, value in run.items() if name in schemas.Run.model_fields}
        fields["outputs"] = json.loads(json.dumps(run.get("outputs"), default=_as_sent))
        fields |= {"extra": {"metadata": run["extra"].get("metadata", {})}, "events": [], "attachments": {}}
        yield schemas.Run(**fields, status="success", session_id=run["trace_id"]).model_dump_json(exclude_none=True)


def _as_sent(value: Any) -> Any:
    """Documents as the client writes them."""
    return {"id": value.id, "metadata": value.metadata, "page_content": value.page_content, "type": "Document"}


def langfuse() -> Iterator[str]:
    """Observations of Langfuse's SDK, as OTLP JSON."""
    yield from _otlp_lines(_langfuse_spans(), hexadecimal=True)


def _langfuse_spans() -> Any:
    from langfuse import Langfuse
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    memory = InMemorySpanExporter()
    client = Langfuse(
        public_key=f"public {next(_CLIENTS)}",  # a client is kept by its key
        secret_key="none",
        base_url="http://127.0.0.1:9",
        span_exporter=memory,
        tracer_provider=TracerProvider(),
    )
    for question, searches in [(SINGLE[0], [SINGLE]), (AGENT, STEPS)]:
        asked = {"question": question}
        with client.start_as_current_observation(
            name="helpdesk", as_type="agent", input=asked, metadata={"language": "en"}
        ):
            for text, found in searches:
                with client.start_as_current_observation(
                    name="search", as_type="retriever", input={"query": text}
                ) as one:
                    one.update(output=[{"id": i, "score": s, "content": DOCUMENTS[i]} for i, s in found])
            with client.start_as_current_observation(
                name="answer", as_type="generation", model=MODEL, usage_details={"input": 120, "output": 30}
            ):
                pass
    client.flush()
    return memory.get_finished_spans()


def langfuse_export() -> Iterator[str]:
    """The same as rows of Langfuse's export of observations."""
    for span in _langfuse_spans():
        made, attributes = json.loads(span.to_json()), dict(span.attributes)
        start = "langfuse.observation."
        parent = made["parent_id"]
        usage = attributes.get(start + "usage_details")
        metadata = {
            name.removeprefix(start + "metadata."): json.loads(value) if value[:1] in '"{[' else value
            for name, value in attributes.items()
            if name.startswith(start + "metadata.")
        }
        row = {
            "id": made["context"]["span_id"].removeprefix("0x"),
            "trace_id": made["context"]["trace_id"].removeprefix("0x"),
            "start_time": made["start_time"].replace("T", " ").rstrip("Z"),
            "end_time": made["end_time"].replace("T", " ").rstrip("Z"),
            "parent_observation_id": parent and parent.removeprefix("0x"),
            "type": attributes[start + "type"].upper(),
            "name": made["name"],
            "level": "DEFAULT",
            "input": attributes.get(start + "input"),
            "output": attributes.get(start + "output"),
            "metadata": metadata,
            "provided_model_name": attributes.get(start + "model.name"),
            "usage_details": json.loads(usage) if usage else {},
        }
        yield json.dumps(row)


EXPORTS: dict[str, Callable[[], Iterator[str]]] = {
    "gen_ai.jsonl": gen_ai,
    "open_inference.jsonl": open_inference,
    "phoenix.json": phoenix,
    "mlflow.jsonl": mlflow,
    "langsmith.jsonl": langsmith,
    "langfuse.jsonl": langfuse,
    "langfuse_export.jsonl": langfuse_export,
}


def write(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_text("\n".join(EXPORTS[name]()) + "\n")
    return path


if __name__ == "__main__":
    for name in sys.argv[2:] or EXPORTS:
        write(name, Path(sys.argv[1]))
