"""Reads the records of other evaluation tools: one function per tool, from its record to the parts of a sample."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.errors import InputError
from karat.formats.base import ReadOptions, Source
from karat.formats.dataset import dataset_of
from karat.formats.field_map import FileKind, RecordMap
from karat.formats.mapped import MappedRun, Numbered, container, gold_of_records, mapped_list, plain_records
from karat.formats.promptfoo import each_test_once, promptfoo, promptfoo_records
from karat.formats.records import is_json_lines, list_entries, read_document
from karat.formats.tool_parts import (
    ANSWER,
    KEPT,
    RELEVANT,
    RELEVANT_IDS,
    RETRIEVED,
    RETRIEVED_IDS,
    Parts,
    as_query,
    cell,
    first_of,
    given,
    hits_of,
    kept_in,
    listed_in,
    query_in,
    relevant_of,
    tags_in,
    text_of,
)

# How a JSON document of results or tests begins, where it is written in one line.
_ONE_DOCUMENT = re.compile(rb'\s*\{\s*"(?:evalId|version|results|tests|testCases|test_cases)"\s*:')


class ToolRecords(RecordMap):
    """The records of a tool as records of a run log, or as entries of a gold set."""

    def __init__(self, kind: FileKind, tool: str) -> None:
        super().__init__(kind, {})
        self._tool, self._parts = tool, TOOLS[tool]

    def record_at(self, record: Mapping[str, Any], label: str, line: int | None) -> dict[str, Any]:
        try:
            return self.record(record)
        except InputError as error:
            error.file, error.line = label, line
            raise

    def record(self, record: Mapping[str, Any]) -> dict[str, Any]:
        parts = self._parts(record)
        if parts.get("query") is None and parts.get("query_id") is None:
            expected, got = f"the question of a {self._tool} record, as text", ", ".join(map(str, record)) or "nothing"
            raise InputError("no question", code="missing-field", field="query", expected=expected, got=got)
        return self._run(parts, record) if self.kind == "run" else self._gold(parts)

    def _run(self, parts: Parts, record: Mapping[str, Any]) -> dict[str, Any]:
        hits = parts.get("hits")
        if hits is None and parts.get("error") is None:
            raise InputError(
                "nothing was retrieved",
                code="missing-field",
                field=_RETRIEVED_FIELD[self._tool],
                expected="a list of passages, ids or documents",
                got=", ".join(map(str, record)),
            )
        said = {name: parts.get(name) for name in ("query_id", "query", "system", "latency_ms", "error")}
        return {**given(said), "topk": hits or []}

    def _gold(self, parts: Parts) -> dict[str, Any]:
        if isinstance(parts.get("karat"), Mapping):
            return dict(parts["karat"])  # written by `karat convert`
        entry = given({name: parts.get(name) for name in (*KEPT, "query", "answer")})
        if not {"gold", "evidence", "answer", "no_answer"} & entry.keys():
            entry["gold"] = []
        return entry


def tool_run(source: Source, tool: str, options: ReadOptions) -> Run:
    fields = ToolRecords("run", tool)
    if is_json_lines(source) and _container(source) == "lines":
        return MappedRun(source.label, source, options.system, options.hits, fields=fields)
    made = [fields.record_at(record, source.label, line) for line, record in entries(source, tool)]
    return mapped_list(made, RecordMap("run", {}), options, source.label)


def tool_gold(source: Source, tool: str, options: ReadOptions) -> Gold:
    fields = ToolRecords("gold", tool)
    return gold_of_records(each_test_once(entries(source, tool)), fields, options, source.label, dataset_of(source))


def _container(source: Source) -> str | None:
    return "document" if _ONE_DOCUMENT.match(source.head) else container(source)


def entries(source: Source, tool: str) -> Numbered:
    """The records of a file, with their lines."""
    if _container(source) != "document":
        yield from ((line, _nested(record)) for line, record in plain_records(source))
        return
    value, lines = read_document(source)
    if tool == "promptfoo" and isinstance(value, dict):
        value = promptfoo_records(value, source)
    if tool == "deepeval" and isinstance(value, dict):
        value = next((value[name] for name in ("testCases", "test_cases") if name in value), value)
    yield from list_entries(value, lines, source.label)


def _nested(record: dict[str, Any]) -> dict[str, Any]:
    """Cells of a table: `inputs.question` and `input_question` are fields of `inputs`, and JSON in cells is read."""
    made: dict[str, Any] = {}
    for name, value in record.items():
        value = cell(value)
        if value is None or value == "":
            continue
        found = re.fullmatch(r"(input|output|reference|expectation)s?[._](?!context)(.+)", name)
        if found is None:
            made[name] = value
        elif isinstance(made.setdefault(group := {"reference": "reference"}.get(found[1], f"{found[1]}s"), {}), dict):
            made[group][found[2]] = value
    return made


def ragas(record: Mapping[str, Any]) -> Parts:
    asked = record.get("user_input", record.get("question"))
    if isinstance(asked, list):
        what, hint = "a conversation, which has no retrieved contexts", "give single-turn samples"
        raise InputError(what, code="multi-turn", field="user_input", hint=hint)
    answers = listed_in(first_of(("reference", "ground_truth", "ground_truths"), record))
    return {
        **relevant_of(record.get("reference_context_ids"), record.get("reference_contexts")),
        **kept_in({"query_id": record.get("query_id")}),
        "query": as_query(asked),
        "hits": hits_of(record.get("retrieved_context_ids"), first_of(("retrieved_contexts", "contexts"), record)),
        "answer": text_of(answers[0]) if answers else None,
        "tags": tags_in(
            {n: record.get(n) for n in ("persona_name", "query_style", "query_length", "synthesizer_name")}
        ),
    }


def deepeval(record: Mapping[str, Any]) -> Parts:
    metadata = cell(first_of(("additional_metadata", "metadata", "additionalMetadata"), record))
    seconds = first_of(("completion_time", "completionTime"), record)
    return {
        **relevant_of(first_of(RELEVANT_IDS, metadata), _split(record.get("context"))),
        **kept_in(metadata),
        "query": as_query(record.get("input")),
        "hits": hits_of(
            first_of(RETRIEVED_IDS, metadata), _split(first_of(("retrieval_context", "retrievalContext"), record))
        ),
        "answer": text_of(first_of(("expected_output", "expectedOutput"), record)),
        "latency_ms": 1000 * seconds if isinstance(seconds, (int, float)) else None,
        "tags": {**tags_in(metadata), **kept_in(metadata).get("tags", {})},
    }


def _split(value: Any) -> Any:
    """Contexts in CSV and JSONL of deepeval, which are separated by `|`."""
    return value.split("|") if isinstance(value, str) and value and not value.startswith("[") else value


def mlflow(record: Mapping[str, Any]) -> Parts:
    inputs = cell(record.get("inputs", record.get("request")))
    expected, outputs = cell(record.get("expectations", record)), cell(record.get("outputs"))
    tags = cell(record.get("tags"))
    retrieved = first_of(RETRIEVED, outputs) if isinstance(outputs, Mapping) else None
    retrieved = outputs if retrieved is None and isinstance(outputs, list) else retrieved
    named = first_of(("query_id",), inputs, tags, expected) or first_of(("dataset_record_id", "request_id"), record)
    return {
        **relevant_of(first_of(RELEVANT_IDS, expected), first_of(RELEVANT[:5], expected)),
        **kept_in(expected, tags),
        **given({"query_id": named}),
        "query": query_in(inputs),
        "hits": hits_of(
            first_of(RETRIEVED_IDS, outputs), record.get("retrieved_context") if retrieved is None else retrieved
        ),
        "answer": text_of(first_of(("expected_response", "expected_answer", "answer"), expected)),
        "tags": tags_in(tags),
    }


def langsmith(record: Mapping[str, Any]) -> Parts:
    inputs, outputs = cell(record.get("inputs")), cell(record.get("outputs"))
    reference = cell(first_of(("reference", "reference_outputs"), record))
    expected = outputs if reference is None else reference
    seconds = record.get("execution_time")
    answer = expected if isinstance(expected, str) else first_of(ANSWER, expected)
    metadata = cell(record.get("metadata"))
    named = first_of(("query_id",), inputs, metadata) or first_of(("example_id", "reference_example_id", "id"), record)
    return {
        **relevant_of(first_of(RELEVANT_IDS, expected), first_of(RELEVANT, expected)),
        **kept_in(expected, metadata),
        **given({"query_id": named}),
        "query": query_in(inputs),
        "hits": hits_of(first_of(RETRIEVED_IDS, outputs), first_of(RETRIEVED, outputs)),
        "answer": text_of(answer),
        "latency_ms": 1000 * seconds if isinstance(seconds, (int, float)) else None,
        "error": text_of(record.get("error")),
        "tags": tags_in(metadata),
    }


TOOLS: dict[str, Callable[[Mapping[str, Any]], Parts]] = {
    "ragas": ragas,
    "deepeval": deepeval,
    "mlflow": mlflow,
    "langsmith": langsmith,
    "promptfoo": promptfoo,
}
_RETRIEVED_FIELD = {
    "ragas": "retrieved_contexts",
    "deepeval": "retrieval_context",
    "mlflow": "outputs",
    "langsmith": "outputs",
    "promptfoo": "response.output",
}
