"""Exports of the installed SDKs are read like those in `tests/formats/traces/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from trace_exports import EXPORTS, SINGLE, gen_ai, write

import karat
from karat.data.audit import Audit
from karat.formats.base import Source
from karat.formats.traces.assemble import TraceOptions, trace_records

KEPT = Path(__file__).parents[1] / "formats" / "traces"


def read(path: Path, **options: Any) -> list[dict[str, Any]]:
    """Records without ids of traces and times, which differ from export to export."""
    found = trace_records(Source(path), TraceOptions(**options), Audit())
    return [_without_times(one.record) for one in sorted(found, key=lambda one: one.record["query"])]


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: sorted(one) if name == "latency_ms" and isinstance(one, dict) else _without_times(one)
            for name, one in value.items()
            if name != "trace_id" and not (name == "latency_ms" and isinstance(one, float))
        }
    return [_without_times(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("query_from", ["retriever", "root"])
def test_a_new_export_is_read_like_the_one_that_is_kept(
    name: str, query_from: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _made(name, tmp_path_factory, monkeypatch)
    assert read(made, query_from=query_from) == read(KEPT / name, query_from=query_from)


_MADE: dict[str, Path] = {}


def _made(name: str, folders: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    if name not in _MADE:
        folder = folders.mktemp("traces")
        monkeypatch.chdir(folder)  # some SDKs write beside their exports
        _MADE[name] = write(name, folder)
    return _MADE[name]


def test_ids_in_base64_and_in_hexadecimal_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text("\n".join(gen_ai(hexadecimal=False)))
    assert read(path) == read(KEPT / "gen_ai.jsonl")
    result = karat.evaluate(path, {SINGLE[0]: ["refunds#1"]}, ["recall@1"])
    assert result["recall@1"].mean == 1.0


def test_rows_of_mlflow_search_traces_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import mlflow

    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/traces.db")

    @mlflow.trace(span_type="RETRIEVER")
    def search(query: str) -> list[dict[str, Any]]:
        return [{"page_content": "A text.", "metadata": {"page": 1}, "id": "a"}]

    search("how?")
    mlflow.flush_trace_async_logging()
    frame = mlflow.search_traces(return_type="pandas")
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in json.loads(frame.to_json(orient="records"))))
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    listed = mlflow.search_traces(return_type="list")
    for run in (path, tmp_path / "rows.parquet", tmp_path / "rows.csv", frame, listed):
        assert karat.evaluate(run, {"how?": ["a"]}, ["recall@1"])["recall@1"].mean == 1.0


def test_finished_spans_and_the_console_exporter(tmp_path: Path) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept, provider, path = InMemorySpanExporter(), TracerProvider(), tmp_path / "console.json"
    with path.open("w") as stream:
        for exporter in (kept, ConsoleSpanExporter(out=stream)):
            provider.add_span_processor(SimpleSpanProcessor(exporter))
        for query in ("how?", "who?"):
            with provider.get_tracer("app").start_as_current_span("search") as span:
                span.set_attribute("openinference.span.kind", "RETRIEVER")
                span.set_attribute("input.value", query)
                span.set_attribute("retrieval.documents.0.document.id", "a")
    for run in (path, kept.get_finished_spans()):
        assert karat.evaluate(run, {"how?": ["a"], "who?": ["b"]}, ["recall@1"])["recall@1"].mean == 0.5
