"""Traces as runs. The exports in `traces/` were made with the real SDKs (`tests/support/trace_exports.py`)."""

from __future__ import annotations

import base64
import json
import re
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from refusals import refused
from trace_exports import AFTER, AGENT, DOCUMENTS, MODEL, RERANKED, SINGLE, STEPS

import karat
from karat.data.audit import Audit
from karat.errors import InputError, KaratError
from karat.formats.base import Source
from karat.formats.read import find_format
from karat.formats.traces.assemble import TraceOptions, TraceRecord, trace_records
from karat.formats.traces.redact import Redaction
from karat.formats.traces.run import TraceRun

EXPORTS = Path(__file__).parent / "traces"
Call = Callable[..., tuple[int, str, str]]
GOLD = [
    {"query_id": "single", "query": "  how long does a REFUND take?", "gold": ["refunds#1"]},
    {"query_id": "agent", "query": AGENT, "gold": ["returns#1", "shipping#1"]},
    {"query_id": "step", "query": STEPS[0][0], "gold": ["returns#1", "shipping#1"]},
    {"query_id": "reranked", "query": RERANKED[0], "gold": ["refunds#2"]},
]
ALL = sorted(path.name for path in EXPORTS.iterdir())


def read(path: Path, **options: Any) -> list[TraceRecord]:
    return list(trace_records(Source(path), TraceOptions(**options), Audit()))


def by_query(path: Path, **options: Any) -> dict[str, dict[str, Any]]:
    return {one.record["query"]: one.record for one in read(path, **options)}


def ids(hits: list[dict[str, Any]]) -> list[str]:
    return [hit["chunk_id"] for hit in hits]


def span(
    number: int, parent: int | None = None, *, trace: str = "a1", kind: str = "CHAIN", **more: Any
) -> dict[str, Any]:
    """A span as Phoenix's API has it."""
    return {
        "context": {"trace_id": trace, "span_id": f"{number:x}"},
        "parent_id": None if parent is None else f"{parent:x}",
        "span_kind": kind,
        "name": kind.lower(),
        "start_time": f"2026-01-01T00:00:{number % 60:02}Z",
        "end_time": f"2026-01-01T00:00:{number % 60:02}.5Z",
        "attributes": more,
    }


def search(number: int, parent: int | None, query: str, *found: str, trace: str = "a1", **more: Any) -> dict[str, Any]:
    documents = {f"retrieval.documents.{at}.document.id": item for at, item in enumerate(found)}
    output = {"output.value": "[]"} if not found else {}
    return span(number, parent, trace=trace, kind="RETRIEVER", **{"input.value": query, **documents, **output, **more})


def lines(path: Path, *values: Any) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return lines(tmp_path / "gold.jsonl", *GOLD)


@pytest.mark.parametrize("name", ALL)
def test_every_export_is_recognised_and_gives_the_same_records(name: str) -> None:
    path = EXPORTS / name
    assert find_format(Source(path), "run").name == "traces"
    found = by_query(path)
    single = found[SINGLE[0]]
    assert [(hit["rank"], hit["chunk_id"], hit["score"]) for hit in single["topk"]] == [
        (rank, *hit) for rank, hit in enumerate(SINGLE[1], 1)
    ]
    if name != "gen_ai.jsonl":  # the conventions have no texts of documents
        assert [hit["text"] for hit in single["topk"]] == [DOCUMENTS[item] for item, _ in SINGLE[1]]
    assert "steps" not in single
    assert single["latency_ms"]["total"] >= single["latency_ms"]["retrieve"] > 0
    agent = found[STEPS[0][0]]
    assert [step["query"] for step in agent["steps"]] == [text for text, _ in STEPS]
    assert [ids(step["topk"]) for step in agent["steps"]] == [[item for item, _ in hits] for _, hits in STEPS]
    assert ids(agent["topk"]) == ["returns#1", "refunds#1", "shipping#1"]
    assert sum(step["latency_ms"] for step in agent["steps"]) == pytest.approx(
        agent["latency_ms"]["retrieve"], abs=0.001
    )


def phoenix_rows() -> list[dict[str, Any]]:
    """Spans as Phoenix's `get_spans_dataframe` has them: one column per attribute, documents as a list."""
    made = []
    for at, (query, *found) in enumerate([("who?", "a", "b"), ("how?", "c")], 1):
        documents = [{"document.id": item, "document.score": 0.5, "document.content": "A text."} for item in found]
        times = {"start_time": datetime(2026, 1, at, tzinfo=UTC), "end_time": datetime(2026, 1, at, 1, tzinfo=UTC)}
        own = {"context.trace_id": f"t{at}", "context.span_id": f"s{at}", "parent_id": None, "name": "retrieve"}
        told = {"attributes.input.value": query, "attributes.retrieval.documents": documents}
        made.append({**own, **times, "span_kind": "RETRIEVER", "attributes.llm.model_name": None, **told})
    return made


def mlflow_rows() -> list[dict[str, Any]]:
    """Traces as `mlflow.search_traces` has them: JSON in the column `trace`."""
    traces = (EXPORTS / "mlflow.jsonl").read_text().splitlines()
    return [{"trace_id": f"tr-{at}", "trace": one, "trace_metadata": {"a": "b"}} for at, one in enumerate(traces)]


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "json", "polars", "pandas", "list"])
def test_tables_of_spans_are_traces(kind: str, tmp_path: Path, karat_command: Call) -> None:
    pandas = pytest.importorskip("pandas")
    rows, path = phoenix_rows(), tmp_path / f"spans.{kind}"
    frame = pandas.DataFrame(rows)
    gold = [{"query_id": "1", "query": "WHO?", "gold": ["b"]}, {"query_id": "2", "query": "how?", "gold": ["c"]}]
    if kind in ("polars", "pandas", "list"):
        run: Any = {"polars": pl.DataFrame(rows), "pandas": frame, "list": rows}[kind]
        result = karat.evaluate(run, gold, ["mrr", "latency_p50"])
        assert (result["mrr"].mean, result["latency_p50"].mean) == (0.75, 3_600_000)
        return
    if kind == "parquet":
        pl.DataFrame(rows).write_parquet(path)
    elif kind == "csv":
        frame.to_csv(path)  # documents as Python writes them
    else:
        frame.to_json(path, orient="records", lines=kind == "jsonl", date_format="iso")
    code, out, _ = karat_command("eval", str(path), "--gold", str(lines(tmp_path / "gold.jsonl", *gold)), "--json")
    assert code == 0
    assert {one["metric"]: one["mean"] for one in json.loads(out)["summary"]}["mrr"] == 0.75


@pytest.mark.parametrize("name", ["traces.parquet", "traces.csv"])
def test_tables_of_mlflow_are_read_like_its_traces(name: str, tmp_path: Path) -> None:
    frame = pl.DataFrame(mlflow_rows())
    if name.endswith(".csv"):
        frame.drop("trace_metadata").with_columns(trace_metadata=pl.lit("{'a': 'b'}")).write_csv(tmp_path / name)
    else:
        frame.write_parquet(tmp_path / name)
    assert find_format(Source(tmp_path / name), "run").name == "traces"
    assert by_query(tmp_path / name).keys() == by_query(EXPORTS / "mlflow.jsonl").keys()


def test_spans_of_the_console_exporter_are_read(tmp_path: Path) -> None:
    """It writes indented objects one after the other, which is neither one document nor lines."""
    path = tmp_path / "console.json"
    written = "".join(json.dumps(one, indent=4) + "\n" for one in (search(2, 1, "who?", "a"), span(1)))
    path.write_text(written)
    assert ids(by_query(path)["who?"]["topk"]) == ["a"]
    path.write_text(written + "{ broken")
    with refused("not-json") as caught:
        read(path)
    assert caught.value.line == written.count("\n") + 1


def test_objects_of_tools_are_traces() -> None:
    class Written:
        def __init__(self, value: Any) -> None:
            self._value = value

        def to_json(self) -> str:
            return json.dumps(self._value)

    given = [Written(search(2, 1, "who?", "a")), Written(span(1))]
    for run in (given, tuple(given)):
        assert karat.evaluate(run, [{"query_id": "1", "query": "who?", "gold": ["a"]}])["mrr"].mean == 1.0


@pytest.mark.parametrize("name", ["open_inference.jsonl", "phoenix.json", "mlflow.jsonl"])
def test_a_reranker_gives_the_final_list_and_its_input_the_raw_one(name: str) -> None:
    record = by_query(EXPORTS / name)[RERANKED[0]]
    assert ids(record["topk"]) == [item for item, _ in AFTER]
    assert ids(record["raw"]) == [item for item, _ in RERANKED[1]]
    assert record["latency_ms"].keys() == {"retrieve", "rerank", "generate", "total"}
    used = {"stage": "generate", "model": MODEL, "prompt_tokens": 80, "completion_tokens": 20, "calls": 1}
    assert record["usage"] == [used]


@pytest.mark.parametrize("name", ALL)
def test_the_question_may_be_that_of_the_root(name: str) -> None:
    found = by_query(EXPORTS / name, query_from="root")
    assert {SINGLE[0], AGENT} <= found.keys()
    assert "steps" in found[AGENT]


def test_the_example_on_the_page_is_read_as_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "formats.md").read_text().partition("## Traces")[2]
    (tmp_path / "t.jsonl").write_text(re.findall(r"```json title=\"traces.jsonl\"\n(.*?)```", page, re.S)[0])
    [record] = [one.record for one in read(tmp_path / "t.jsonl")]
    assert ids(record["topk"]) == ["returns#1", "shipping#1"]
    assert len(record["steps"]) == 2
    assert record["latency_ms"] == {"retrieve": 100.0, "total": 2000.0}


def test_traces_are_written_as_a_run_log_that_scores_the_same(tmp_path: Path, gold: Path) -> None:
    run = karat.read_run(EXPORTS / "phoenix.json")
    assert isinstance(run, TraceRun)
    log = lines(tmp_path / "run.jsonl", *(record for _, record in run.records()))
    texts = lines(
        tmp_path / "texts.jsonl", *({n: v for n, v in r.items() if n != "query_id"} for _, r in run.records())
    )
    scores = [karat.evaluate(one, gold, ["recall@5", "mrr"]).scores for one in (EXPORTS / "phoenix.json", texts)]
    assert scores[0].equals(scores[1])
    assert len(karat.evaluate(log, {SINGLE[0].lower(): ["refunds#1"]}, ["recall@5"]).scores) == 1


def test_a_search_that_failed_is_an_error_of_its_query() -> None:
    record = by_query(EXPORTS / "gen_ai.jsonl")["broken"]
    assert record["topk"] == []
    assert record["error"] == "index is offline"
    assert by_query(EXPORTS / "gen_ai.jsonl")[SINGLE[0]]["route"] == "kb"


def test_traces_are_matched_with_the_gold_set_by_text(gold: Path) -> None:
    result = karat.evaluate(EXPORTS / "open_inference.jsonl", gold, ["recall@5"])
    assert result["recall@5"].mean == 0.75
    assert result.audit["matched_by_text"] == 3
    assert result.audit["missing_queries"] == 1
    assert result.system == "helpdesk"
    root = karat.evaluate(EXPORTS / "open_inference.jsonl", gold, ["recall@5"], query_from="root")
    assert root.scores.filter(root.scores["query_id"] == "agent")["recall@5"].to_list() == [1.0]


def test_an_attribute_names_the_query(tmp_path: Path) -> None:
    gold = lines(tmp_path / "gold.jsonl", {"query_id": "q1", "gold": ["refunds#1"]}, {"query_id": "q2", "gold": ["x"]})
    result = karat.evaluate(EXPORTS / "gen_ai.jsonl", gold, ["recall@5"], columns="query_id=app.question")
    assert result["recall@5"].mean == 0.5
    assert result.audit["unknown_queries"] == 1  # the trace without it
    with pytest.raises(InputError) as error:
        karat.evaluate(EXPORTS / "gen_ai.jsonl", gold, ["recall@5"], columns="query_id=app.typo")
    assert error.value.code == "unmapped-field"
    assert "app.question" in str(error.value)


def test_the_trace_id_may_be_the_id_of_the_query(tmp_path: Path) -> None:
    trace = read(EXPORTS / "langsmith.jsonl")[0].trace
    gold = lines(tmp_path / "gold.jsonl", {"query_id": trace, "query": "something else", "gold": ["refunds#1"]})
    assert karat.evaluate(EXPORTS / "langsmith.jsonl", gold, ["recall@5"])["recall@5"].mean == 1.0


def test_ambiguous_matches_are_counted_and_named(tmp_path: Path) -> None:
    gold = [
        {"query_id": name, "query": text, "gold": ["a"]} for name, text in [("q1", "One"), ("q2", "two"), ("q3", "TWO")]
    ]
    traces = lines(
        tmp_path / "t.jsonl",
        *(search(at, None, text, "a", trace=f"b{at}") for at, text in enumerate(["one", "ONE ", "two", "three"], 1)),
    )
    result = karat.evaluate(traces, lines(tmp_path / "g.jsonl", *gold), ["hit@1"])
    audit = {entry.code: entry for entry in result.audit}
    assert audit["repeated_traces"].count == 1
    assert audit["repeated_traces"].examples == ("q1",)
    assert audit["ambiguous_texts"].count == 1
    assert "q2, q3" in audit["ambiguous_texts"].examples[0]
    assert audit["unknown_queries"].count == 1
    assert result["hit@1"].mean == pytest.approx(1 / 3)


def test_documents_without_ids_are_found_in_the_corpus_by_text(tmp_path: Path) -> None:
    texts = {
        f"retrieval.documents.{at}.document.content": text for at, text in enumerate(["Five  days.", "Same.", "New."])
    }
    traces = lines(tmp_path / "t.jsonl", span(1, kind="RETRIEVER", **{"input.value": "how long?", **texts}))
    entry = {"query_id": "q1", "query": "How long?", "gold": ["c1"], "evidence": ["five days"]}
    gold = lines(tmp_path / "g.jsonl", entry)
    chunks = [("c1", "five days."), ("c2", "Same."), ("c3", "same.")]
    corpus = lines(tmp_path / "c.jsonl", *({"chunk_id": item, "text": text} for item, text in chunks))
    without = karat.evaluate(traces, gold, ["recall@5", "evidence_recall@5"])
    assert without["recall@5"].mean == 0.0
    assert without["evidence_recall@5"].mean == 1.0
    assert without.audit["text_ids"] == 3
    matched = karat.evaluate(traces, gold, ["recall@5"], corpus=corpus)
    assert matched["recall@5"].mean == 1.0
    assert (matched.audit["ids_by_text"], matched.audit["texts_unknown"], matched.audit["text_ids"]) == (1, 2, 0)


def test_document_ids_may_be_in_the_metadata(tmp_path: Path) -> None:
    documents = [{"page_content": "A text.", "metadata": {"source": "a.md", "score": 0.5}}]
    traces = lines(
        tmp_path / "t.jsonl", span(1, kind="RETRIEVER", **{"input.value": "q", "output.value": json.dumps(documents)})
    )
    gold = {"q": ["a.md"]}
    assert karat.evaluate(traces, gold, ["recall@5"], columns="chunk_id=source")["recall@5"].mean == 1.0


def test_a_retriever_inside_another_is_a_part_of_it(tmp_path: Path) -> None:
    traces = lines(
        tmp_path / "t.jsonl",
        search(3, 2, "rewritten", "x", "y"),
        search(2, 1, "asked", "y"),
        span(4, 3, kind="EMBEDDING", **{"embedding.model_name": "e"}),
        span(1),
    )
    [record] = [one.record for one in read(traces)]
    assert ids(record["topk"]) == ["y"]
    assert "steps" not in record
    assert record["latency_ms"] == {"retrieve": 0.0, "embed": 500.0, "total": 500.0}
    assert record["usage"] == [{"stage": "embed", "model": "e", "calls": 1}]


def test_each_of_several_rerankers_belongs_to_the_search_before_it(tmp_path: Path) -> None:
    def rerank(number: int, *found: str) -> dict[str, Any]:
        made = {f"reranker.output_documents.{at}.document.id": item for at, item in enumerate(found)}
        return span(number, 1, kind="RERANKER", **made)

    traces = lines(
        tmp_path / "t.jsonl",
        span(1),
        search(2, 1, "q", "a", "b"),
        rerank(3, "b"),
        search(4, 1, "r", "c"),
        rerank(5, "c", "b"),
    )
    [record] = [one.record for one in read(traces)]
    assert [ids(step["topk"]) for step in record["steps"]] == [["b"], ["c", "b"]]
    assert ids(record["topk"]) == ["b", "c"]


def test_a_trace_may_have_several_roots(tmp_path: Path) -> None:
    traces = lines(tmp_path / "t.jsonl", span(1), search(2, 1, "one", "a"), span(3), search(4, 3, "two", "b"))
    assert by_query(traces).keys() == {"one", "two"}


def test_spans_may_lack_their_parents_or_be_their_own_ancestors(tmp_path: Path) -> None:
    orphans = lines(tmp_path / "o.jsonl", search(2, 77, "one", "a"), search(3, 78, "two", "b"))
    [record] = [one.record for one in read(orphans)]
    assert [step["query"] for step in record["steps"]] == ["one", "two"]
    cyclic = lines(tmp_path / "c.jsonl", search(1, 2, "one", "a"), span(2, 1), span(3, 3), search(4, None, "two", "b"))
    assert {one.record["query"] for one in read(cyclic)} == {"one"}
    circle = lines(tmp_path / "r.jsonl", search(1, 2, "one", "a"), search(2, 1, "two", "b"))
    with refused("no-retrievals"):  # none is the outermost
        read(circle)


def test_ids_may_be_written_in_two_ways(tmp_path: Path) -> None:
    def encoded(name: str) -> str:
        return base64.b64encode(bytes.fromhex(name)).decode()

    trace, root, child = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", "00f067aa0ba902b7"
    values = {"input.value": "q", "retrieval.documents.0.document.id": "a", "openinference.span.kind": "RETRIEVER"}
    listed = [{"key": name, "value": {"stringValue": value}} for name, value in values.items()]
    one = {"traceId": encoded(trace), "spanId": encoded(child), "parentSpanId": root.upper(), "attributes": listed}
    other = {"traceId": trace, "spanId": encoded(root), "parentSpanId": "", "attributes": [], "name": "root"}
    requests = [{"resourceSpans": [{"scopeSpans": [{"spans": [each]}]}]} for each in (one, other)]
    [found] = read(lines(tmp_path / "t.jsonl", *requests, {"resourceLogs": []}))
    assert found.trace == trace


def test_typed_values_of_otlp_may_be_nested(tmp_path: Path) -> None:
    document = {
        "kvlistValue": {
            "values": [{"key": "id", "value": {"intValue": "7"}}, {"key": "score", "value": {"doubleValue": 0.5}}]
        }
    }
    attributes = [
        {"key": "gen_ai.operation.name", "value": {"stringValue": "retrieval"}},
        {"key": "gen_ai.retrieval.query.text", "value": {"stringValue": "q"}},
        {"key": "gen_ai.retrieval.documents", "value": {"arrayValue": {"values": [document]}}},
    ]
    traces = lines(
        tmp_path / "t.jsonl",
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "a", "spanId": "b", "attributes": attributes}]}]}]},
    )
    assert read(traces)[0].record["topk"] == [{"rank": 1, "chunk_id": "7", "score": 0.5}]


def test_other_forms_of_the_same_tools(tmp_path: Path) -> None:
    [first, *_] = (EXPORTS / "mlflow.jsonl").read_text().splitlines()
    row = {"trace_id": "t", "trace": first, "trace_metadata": {}, "spans": []}
    assert by_query(lines(tmp_path / "search.jsonl", row)).keys() == {SINGLE[0]}
    observations = [json.loads(line) for line in (EXPORTS / "langfuse_export.jsonl").read_text().splitlines()]
    camel = {
        "trace_id": "traceId",
        "start_time": "startTime",
        "end_time": "endTime",
        "parent_observation_id": "parentObservationId",
    }
    page = {"data": [{camel.get(name, name): v for name, v in one.items()} for one in observations], "meta": {}}
    (tmp_path / "api.json").write_text(json.dumps(page))
    assert STEPS[0][0] in by_query(tmp_path / "api.json")
    whole = {"id": "t", "name": "x", "input": {"question": "the root"}, "observations": observations[:1]}
    assert by_query(lines(tmp_path / "whole.jsonl", whole), query_from="root").keys() == {"the root"}
    spans = json.loads((EXPORTS / "phoenix.json").read_text())["data"]
    frame = [
        {
            **{f"context.{n}": v for n, v in one["context"].items()},
            "parent_id": one["parent_id"],
            "span_kind": one["span_kind"],
        }
        | {f"attributes.{n}": v for n, v in one["attributes"].items()}
        for one in spans
    ]
    assert by_query(lines(tmp_path / "frame.jsonl", *frame)).keys() == {SINGLE[0], STEPS[0][0], RERANKED[0]}
    runs = [json.loads(line) for line in (EXPORTS / "langsmith.jsonl").read_text().splitlines()]
    tree = {**runs[0], "child_runs": [runs[1]]}
    assert by_query(lines(tmp_path / "tree.jsonl", tree)).keys() == {SINGLE[0]}


BAD: dict[str, tuple[str, str]] = {
    "cut off": ('{"resourceSpans": [{"scopeSpans": [{"spa', "cut-off"),
    "not a span": ('{"resourceSpans": [{"scopeSpans": [{"spans": [7]}]}]}\n', "not-a-span"),
    "no ids": ('{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "x"}]}]}]}\n', "not-a-span"),
    "another object": ('{"run_type": "chain", "id": "a", "trace_id": "a"}\n{"x": 1}\n', "not-a-span"),
    "wrong types": ('{"resourceSpans": {"a": 1}}\n', "no-retrievals"),
    "no retriever": (
        '{"run_type": "llm", "id": "a", "trace_id": "a", "inputs": 7, "outputs": [[]], "extra": 3}\n',
        "no-retrievals",
    ),
    "documents not recorded": (
        '{"run_type": "retriever", "id": "a", "trace_id": "a", "inputs": {"query": "q"}}\n',
        "no-retrievals",
    ),
    "no question": (
        '{"run_type": "retriever", "id": "a", "trace_id": "a", "outputs": {"documents": []}}\n',
        "no-retrievals",
    ),
    "nested": (
        '{"run_type": "retriever", "id": "a", "inputs": ' + "[" * 5000 + "]" * 5000 + "}\n",
        "nested-too-deeply",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_exports_are_refused_with_a_reason(name: str, tmp_path: Path, karat_command: Call) -> None:
    content, code = BAD[name]
    path = tmp_path / "traces.jsonl"
    path.write_text(content)
    with pytest.raises(KaratError) as error:
        karat.evaluate(path, {"q": ["a"]}, ["recall@5"])
    assert error.value.code == code
    assert karat_command("check", str(path))[0] == 2


@pytest.mark.parametrize("seed", range(40))
def test_any_value_anywhere_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    """Values of an export replaced by others: never a traceback."""
    import random

    rng = random.Random(seed)
    odd: list[Any] = [
        None,
        True,
        -1,
        1e400,
        "",
        "{",
        "[[",
        [],
        {},
        [[]],
        {"a": {}},
        "x" * 5000,
        10**30,
        "\ud800",
        ["user"],
    ]

    def spoilt(value: Any) -> Any:
        if rng.random() < 0.04:
            return rng.choice(odd)
        if isinstance(value, dict):
            return {name: spoilt(one) for name, one in value.items()}
        return [spoilt(one) for one in value] if isinstance(value, list) else value

    name = rng.choice([one for one in ALL if one.endswith("l")])
    values = [json.loads(line) for line in (EXPORTS / name).read_text().splitlines()]
    text = "".join(json.dumps(spoilt(value)).replace("Infinity", "1e400") + "\n" for value in values)
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with suppress(KaratError):
        karat.evaluate(karat.read_run(path, format="traces"), {"q": ["a"], SINGLE[0]: ["refunds#1"]}, ["recall@5"])


def test_traces_given_as_gold_are_refused(tmp_path: Path) -> None:
    with refused("swapped"):
        karat.read_gold(EXPORTS / "gen_ai.jsonl")


def test_a_run_log_that_mentions_spans_stays_a_run_log(tmp_path: Path) -> None:
    path = lines(tmp_path / "r.jsonl", {"query_id": "q", "trace_id": "t", "span_kind": "RETRIEVER", "topk": ["a"]})
    assert find_format(Source(path), "run").name == "run-log"
    assert karat.evaluate(path, {"q": ["a"]}, ["recall@5"])["recall@5"].mean == 1.0


def _many(count: int, *, apart: int) -> list[dict[str, Any]]:
    """Traces of two spans, the second of which comes `apart` traces later."""
    found = []
    for at in range(count + apart):
        if at < count:
            found.append(search(1, 2, f"question {at}", "a", trace=f"c{at}"))
        if at >= apart:
            found.append(span(2, trace=f"c{at - apart}", **{"input.value": f"root {at - apart}"}))
    return found


def test_many_spans_are_read_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.formats.traces.assemble._BLOCK", 1 << 14)
    monkeypatch.setattr("karat.formats.traces.assemble._REMEMBERED", 100)

    def peak(count: int) -> int:
        path = lines(tmp_path / f"{count}.jsonl", *_many(count, apart=20))
        tracemalloc.start()
        audit = Audit()
        found = sum(1 for _ in trace_records(Source(path), TraceOptions(held=120_000), audit))
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (found, audit["split_traces"]) == (count, 0)
        return size

    peak(10)  # what is loaded on first use
    assert peak(1000) < 1.5 * peak(200)


def test_a_trace_in_two_pieces_is_two_traces_and_counted(tmp_path: Path) -> None:
    path = lines(tmp_path / "t.jsonl", *_many(100, apart=60))
    audit = Audit()
    found = list(trace_records(Source(path), TraceOptions("root", held=20_000), audit))
    assert audit["split_traces"] > 0
    assert len(found) + audit["unrecorded_queries"] == 100  # pieces without a root have no question
    whole = list(trace_records(Source(path), TraceOptions("root"), Audit()))
    assert {one.record["query"] for one in whole} == {f"root {at}" for at in range(100)}


def test_redaction_reaches_every_text_but_no_id(tmp_path: Path) -> None:
    hidden = "call +49 151 23456789 or ann@example.com"
    path = lines(
        tmp_path / "t.jsonl",
        span(1, **{"input.value": hidden, "user.email": "ann@example.com"}),
        search(2, 1, hidden, "doc-1234567890", **{"retrieval.documents.0.document.content": hidden}),
        search(3, 1, hidden, "b"),
    )
    [found] = read(path, query_from="root", redaction=Redaction(["email", "phone", "word=call"]))
    text = json.dumps([found.record, found.attributes])
    assert "ann@" not in text
    assert "2345678" not in text.replace("doc-1234567890", "")
    assert "doc-1234567890" in text
    assert found.record["query"] == "[word] [phone] or [email]"


def test_built_in_patterns() -> None:
    hide = Redaction(["card", "iban", "ip", "email", "phone"]).text
    assert hide("4111 1111 1111 1111, DE89 3704 0044 0532 0130 00, 10.0.0.1") == "[card], [iban], [ip]"
    assert hide("in 2024 we sold 1,200 of version 3.11.2") == "in 2024 we sold 1,200 of version 3.11.2"
    with pytest.raises(KaratError):
        Redaction(["("])
    with pytest.raises(KaratError):
        Redaction(["x*"])
