"""Reads the records of other evaluation tools: one function per tool, from its record to the parts of a sample."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from karat.data.attributes import is_tag
from karat.data.gold import Gold
from karat.data.hits import Run
from karat.errors import InputError
from karat.files.decode_errors import DECODE_ERRORS
from karat.formats.base import ReadOptions, Source
from karat.formats.dataset import dataset_of
from karat.formats.field_map import FileKind, RecordMap
from karat.formats.mapped import MappedRun, Numbered, container, gold_of_records, mapped_list, plain_records
from karat.formats.records import is_json_lines, list_entries, read_document

_LITERAL = 1 << 20  # characters of a Python list in a table cell
# Names of fields in records whose shape the user chose, the likeliest first.
_QUERY = ("query", "question", "user_input", "input", "prompt", "request", "search", "text", "q")
_RETRIEVED_IDS = ("retrieved_context_ids", "retrieved_ids", "retrieved_doc_ids", "retrieved_document_ids")
_RETRIEVED = (
    *("topk", "retrieved_contexts", "retrieval_context", "retrieved_context", "contexts", "context", "retrieved"),
    *("documents", "source_documents", "docs", "sources", "chunks", "passages", "results", "hits"),
)
_RELEVANT_IDS = (
    *("gold", "reference_context_ids", "relevant_ids", "relevant_doc_ids", "relevant_document_ids", "expected_ids"),
    *("expected_doc_ids", "expected_document_ids", "gold_ids", "doc_ids", "document_ids"),
)
_RELEVANT = (
    *("expected_retrieved_context", "reference_contexts", "expected_contexts", "expected_context", "evidence"),
    *("contexts", "context", "documents"),
)
_ANSWER = (
    *("answer", "reference", "expected_response", "expected_answer", "ground_truth", "expected_output"),
    *("output", "response"),
)
_ID = ("chunk_id", "id", "_id", "doc_id", "docid", "document_id", "doc_uri", "uri", "source", "url", "name")
_DOC = ("doc_id", "document_id", "doc_uri")
_TEXT = ("text", "content", "page_content", "context", "body", "snippet")
_SCORE = ("score", "_score", "similarity", "relevance_score")
_SOURCED = re.compile(r"deepeval_source=(.*?),deepeval_context=(.*)", re.S)
_KEPT = ("karat", "query_id", "gold", "evidence", "negatives", "no_answer", "as_of", "conversation_id", "k", "tags")
_NOT_TAGS = {*_KEPT, "query", "answer", "topk"}

Parts = dict[str, Any]  # query_id, query, hits, gold, evidence, answer, system, latency_ms, error, tags …


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
        return {**_given(said), "topk": hits or []}

    def _gold(self, parts: Parts) -> dict[str, Any]:
        if isinstance(parts.get("karat"), Mapping):
            return dict(parts["karat"])  # written by `karat convert`
        entry = _given({name: parts.get(name) for name in (*_KEPT, "query", "answer")})
        if not {"gold", "evidence", "answer", "no_answer"} & entry.keys():
            entry["gold"] = []
        return entry


def _given(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None and value != {}}


def tool_run(source: Source, tool: str, options: ReadOptions) -> Run:
    fields = ToolRecords("run", tool)
    if is_json_lines(source) and container(source) == "lines":
        return MappedRun(source.label, source, options.system, options.hits, fields=fields)
    made = [fields.record_at(record, source.label, line) for line, record in entries(source, tool)]
    return mapped_list(made, RecordMap("run", {}), options, source.label)


def tool_gold(source: Source, tool: str, options: ReadOptions) -> Gold:
    fields = ToolRecords("gold", tool)
    return gold_of_records(_each_test_once(entries(source, tool)), fields, options, source.label, dataset_of(source))


def entries(source: Source, tool: str) -> Numbered:
    """The records of a file, with their lines."""
    if container(source) != "document":
        yield from ((line, _nested(record)) for line, record in plain_records(source))
        return
    value, lines = read_document(source)
    if tool == "promptfoo" and isinstance(value, dict):
        results = value.get("results")
        results = results.get("results") if isinstance(results, dict) else results
        value = _named_tests(value.get("tests"), source) if results is None else _with_systems(results)
    if tool == "deepeval" and isinstance(value, dict):
        value = next((value[name] for name in ("testCases", "test_cases") if name in value), value)
    yield from list_entries(value, lines, source.label)


def _each_test_once(records: Numbered) -> Numbered:
    """Results of promptfoo repeat a test for every provider and prompt."""
    seen: set[bytes | None] = set()
    for line, record in records:
        test = record.get("testCase")
        key = None if test is None else msgspec.json.encode(test)
        if key is None or key not in seen:
            yield line, record
        seen.add(key)


def _named_tests(tests: Any, source: Source) -> Any:
    names = [tests] if isinstance(tests, str) else tests if isinstance(tests, list) else []
    name = next((one for one in names if isinstance(one, str)), None)
    if name is not None:
        what, hint = "the tests are in another file", f"give that file: {name.removeprefix('file://')}"
        raise InputError(what, code="tests-elsewhere", file=source.label, field="tests", got=name, hint=hint)
    return tests


def _with_systems(results: Any) -> Any:
    """Results of promptfoo with the name of their system: the provider, and the prompt where there are several."""
    rows = [one for one in results if isinstance(one, dict)] if isinstance(results, list) else []
    prompts: dict[str, set[str]] = {}
    for row in rows:
        prompts.setdefault(_provider(row) or "", set()).add(_prompt(row))
    for row in rows:
        provider = _provider(row) or ""
        several = len(prompts[provider]) > 1
        row["system"] = f"{provider} · {_prompt(row)}" if several else provider or None
    return results


def _provider(row: Mapping[str, Any]) -> str | None:
    found = row.get("provider")
    name = first_of(("label", "id"), found) if isinstance(found, dict) else found
    return None if name is None else str(name)


def _prompt(row: Mapping[str, Any]) -> str:
    return str(first_of(("label", "raw"), row.get("prompt")) or "")


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


def cell(value: Any) -> Any:
    """A list or object in a cell, written as JSON or, by Python's csv module, as Python writes it."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return msgspec.json.decode(value)
    except DECODE_ERRORS:
        pass
    try:
        return ast.literal_eval(value.strip()) if len(value) <= _LITERAL else value
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value


def first_of(names: tuple[str, ...], *places: Any) -> Any:
    """The first of these fields that one of the objects has."""
    found = (place[name] for place in places if isinstance(place, Mapping) for name in names if name in place)
    return next((value for value in found if value is not None and value != ""), None)


def _as_query(value: Any) -> str | None:
    """A question: text, or the last message of the user."""
    if isinstance(value, list):
        said = [m for m in value if isinstance(m, dict) and first_of(("role", "type"), m) in ("user", "human", None)]
        value = first_of(("content",), said[-1]) if said else None
    return value if isinstance(value, str) and value.strip() else None


def _query_in(place: Any) -> str | None:
    """The question in an object of the user's own shape: by its name, or as the only text."""
    if not isinstance(place, Mapping):
        return _as_query(place)
    found = _as_query(first_of(_QUERY, place)) or _as_query(place.get("messages"))
    texts = [value for value in place.values() if isinstance(value, str)]
    return found or (_as_query(texts[0]) if len(texts) == 1 else None)


def _listed(value: Any) -> list[Any] | None:
    value = cell(value)
    if value is None or value == "":
        return None
    return value if isinstance(value, list) else [value]


def hit_of(entry: Any, place: int = 0) -> dict[str, Any]:
    """One retrieved document in any form."""
    if isinstance(entry, str):
        sourced = _SOURCED.fullmatch(entry)
        return {"chunk_id": sourced[1], "text": sourced[2]} if sourced else {"chunk_id": entry, "text": entry}
    if isinstance(entry, Mapping):
        places = (entry, entry.get("document"), entry.get("metadata"))
        text = first_of(_TEXT, *places)
        found = first_of(_ID, *places)
        found = text if found is None else found
        if isinstance(found, (str, int)) and not isinstance(found, bool):
            score, doc = first_of(_SCORE, *places), first_of(_DOC, *places)
            doc = doc if isinstance(doc, (str, int)) else None
            return {"chunk_id": found, **_given({"score": score, "doc_id": doc, "text": text})}
    elif isinstance(entry, int) and not isinstance(entry, bool):
        return {"chunk_id": entry}
    expected = "a text, an id, or an object with an id or a text"
    raise InputError("not a document", code="wrong-type", field=f"retrieved[{place}]", expected=expected, got=entry)


def _hits(ids: Any, documents: Any) -> list[dict[str, Any]] | None:
    """Retrieved documents, with ids from a parallel list where there is one."""
    names, listed = _listed(ids), _listed(documents)
    if not names:
        return None if listed is None else [hit_of(one, at) for at, one in enumerate(listed)]
    if listed and len(listed) != len(names):
        what = f"the number of ids ({len(names)}) is not that of the retrieved documents ({len(listed)})"
        raise InputError(what, code="contradiction", field="retrieved_context_ids", hint="give one id per document")
    texts = [hit_of(one, at) for at, one in enumerate(listed)] if listed else [{}] * len(names)
    return [{**text, "chunk_id": name} for name, text in zip(names, texts, strict=True)]


def _relevant(ids: Any, documents: Any) -> Parts:
    """Gold and evidence of documents that should be retrieved."""
    ids = cell(ids)
    if isinstance(ids, Mapping) or (isinstance(ids, list) and any(isinstance(one, Mapping) for one in ids)):
        gold: Any = ids  # as in Karat's own files
    else:
        gold = _listed(ids)
    found = [(one, hit_of(one, at)) for at, one in enumerate(_listed(documents) or [])]
    named = [hit for one, hit in found if isinstance(one, Mapping) and hit["chunk_id"] != hit.get("text")]
    if gold is None and named:
        # Bare ids match chunks and documents: what a tool calls a document is often one chunk.
        gold = [{"id": item} for item in dict.fromkeys(hit.get("doc_id", hit["chunk_id"]) for hit in named)]
    texts = [hit["text"] for _, hit in found if isinstance(hit.get("text"), str)]
    return {"gold": gold or None, "evidence": texts or None}


def _own(*places: Any) -> Parts:
    """What Karat keeps in the metadata of a tool."""
    found = {name: first_of((name,), *places) for name in _KEPT}
    return _given({name: cell(value) if name != "query_id" else value for name, value in found.items()})


def _tags(*places: Any) -> dict[str, Any]:
    found = {name: value for place in places if isinstance(place, Mapping) for name, value in place.items()}
    return {name: value for name, value in found.items() if name not in _NOT_TAGS and is_tag(name, value)}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def ragas(record: Mapping[str, Any]) -> Parts:
    asked = record.get("user_input", record.get("question"))
    if isinstance(asked, list):
        what, hint = "a conversation, which has no retrieved contexts", "give single-turn samples"
        raise InputError(what, code="multi-turn", field="user_input", hint=hint)
    answers = _listed(first_of(("reference", "ground_truth", "ground_truths"), record))
    return {
        **_relevant(record.get("reference_context_ids"), record.get("reference_contexts")),
        **_own({"query_id": record.get("query_id")}),
        "query": _as_query(asked),
        "hits": _hits(record.get("retrieved_context_ids"), first_of(("retrieved_contexts", "contexts"), record)),
        "answer": _text(answers[0]) if answers else None,
        "tags": _tags({n: record.get(n) for n in ("persona_name", "query_style", "query_length", "synthesizer_name")}),
    }


def deepeval(record: Mapping[str, Any]) -> Parts:
    metadata = cell(first_of(("additional_metadata", "metadata", "additionalMetadata"), record))
    seconds = first_of(("completion_time", "completionTime"), record)
    return {
        **_relevant(first_of(_RELEVANT_IDS, metadata), _split(record.get("context"))),
        **_own(metadata),
        "query": _as_query(record.get("input")),
        "hits": _hits(
            first_of(_RETRIEVED_IDS, metadata), _split(first_of(("retrieval_context", "retrievalContext"), record))
        ),
        "answer": _text(first_of(("expected_output", "expectedOutput"), record)),
        "latency_ms": 1000 * seconds if isinstance(seconds, (int, float)) else None,
        "tags": {**_tags(metadata), **_own(metadata).get("tags", {})},
    }


def _split(value: Any) -> Any:
    """Contexts in CSV and JSONL of deepeval, which are separated by `|`."""
    return value.split("|") if isinstance(value, str) and value and not value.startswith("[") else value


def mlflow(record: Mapping[str, Any]) -> Parts:
    inputs = cell(record.get("inputs", record.get("request")))
    expected, outputs = cell(record.get("expectations", record)), cell(record.get("outputs"))
    tags = cell(record.get("tags"))
    retrieved = first_of(_RETRIEVED, outputs) if isinstance(outputs, Mapping) else None
    retrieved = outputs if retrieved is None and isinstance(outputs, list) else retrieved
    named = first_of(("query_id",), inputs, tags, expected) or first_of(("dataset_record_id", "request_id"), record)
    return {
        **_relevant(first_of(_RELEVANT_IDS, expected), first_of(_RELEVANT[:5], expected)),
        **_own(expected, tags),
        **_given({"query_id": named}),
        "query": _query_in(inputs),
        "hits": _hits(
            first_of(_RETRIEVED_IDS, outputs), record.get("retrieved_context") if retrieved is None else retrieved
        ),
        "answer": _text(first_of(("expected_response", "expected_answer", "answer"), expected)),
        "tags": _tags(tags),
    }


def langsmith(record: Mapping[str, Any]) -> Parts:
    inputs, outputs = cell(record.get("inputs")), cell(record.get("outputs"))
    reference = cell(first_of(("reference", "reference_outputs"), record))
    expected = outputs if reference is None else reference
    seconds = record.get("execution_time")
    answer = expected if isinstance(expected, str) else first_of(_ANSWER, expected)
    metadata = cell(record.get("metadata"))
    named = first_of(("query_id",), inputs, metadata) or first_of(("example_id", "reference_example_id", "id"), record)
    return {
        **_relevant(first_of(_RELEVANT_IDS, expected), first_of(_RELEVANT, expected)),
        **_own(expected, metadata),
        **_given({"query_id": named}),
        "query": _query_in(inputs),
        "hits": _hits(first_of(_RETRIEVED_IDS, outputs), first_of(_RETRIEVED, outputs)),
        "answer": _text(answer),
        "latency_ms": 1000 * seconds if isinstance(seconds, (int, float)) else None,
        "error": _text(record.get("error")),
        "tags": _tags(metadata),
    }


def promptfoo(record: Mapping[str, Any]) -> Parts:
    test = record.get("testCase") if isinstance(record.get("testCase"), dict) else record
    assert isinstance(test, Mapping)
    rows = {name: value for name, value in record.items() if isinstance(name, str)}
    if "vars" not in rows and "testCase" not in rows:  # a row of a table
        test = _test_of_row(rows)
    variables = first_of(("vars",), record, test) or {}
    metadata, response = test.get("metadata"), record.get("response")
    output = cell(first_of(("output",), response))
    places = (output, first_of(("metadata",), response), record.get("metadata"), variables)
    retrieved = output if isinstance(output, list) else first_of(_RETRIEVED, *places)
    asserted = _asserted(test.get("assert"))
    return {
        **_relevant(first_of(_RELEVANT_IDS, metadata, variables), asserted.get("evidence")),
        **_own(metadata, variables),
        "query": _query_in(variables),
        "hits": _hits(first_of(_RETRIEVED_IDS, *places), retrieved) if response is not None else None,
        "answer": _text(first_of(("answer", "expected_answer"), metadata, variables)) or asserted.get("answer"),
        "system": record.get("system") or _provider(record),
        "latency_ms": record.get("latencyMs"),
        "error": _text(record.get("error")) if response is None or retrieved is None else None,
        "tags": {**_tags(metadata), **(_own(metadata).get("tags") or {})},
    }


_FOUND = re.compile(r"(?:context-)?i?contains(?:-all|-any)?")
_ANSWERED = ("context-recall", "factuality", "equals", "similar", "answer-relevance")


def _asserted(tests: Any) -> Parts:
    """The texts that a promptfoo test looks for: in what was retrieved, and as the answer."""
    evidence: list[str] = []
    answer: str | None = None
    for one in tests if isinstance(tests, list) else []:
        kind, value = (one.get("type"), one.get("value")) if isinstance(one, dict) else (None, None)
        if isinstance(kind, str) and _FOUND.fullmatch(kind):
            evidence += [text for text in _listed(value) or [] if isinstance(text, str)]
        elif kind in _ANSWERED and answer is None:
            answer = _text(value)
    return {"evidence": evidence or None, "answer": answer}


def _test_of_row(row: Mapping[str, Any]) -> Parts:
    """A row of a CSV file of tests: variables, and columns that begin with two underscores."""
    variables, metadata, asserted = Parts(), Parts(), list[Parts]()
    for name, value in row.items():
        if name.startswith("__expected") and isinstance(value, str):
            kind, _, text = value.partition(":")
            kind = re.sub(r"\(.*\)$", "", kind.strip())
            if not re.fullmatch(r"[a-z][a-z-]+", kind) or not text:
                asserted.append({"type": "equals", "value": value.strip()})
            else:
                several = kind.endswith(("-all", "-any"))
                texts = next(csv.reader([text], skipinitialspace=True), []) if several else text.strip()
                asserted.append({"type": kind, "value": texts})
        elif name.startswith("__metadata:"):
            key = name.removeprefix("__metadata:")
            metadata[key.removesuffix("[]")] = re.split(r"(?<!\\),\s*", value) if key.endswith("[]") else value
        elif not name.startswith("__"):
            variables[name] = value
    return {"vars": variables, "metadata": metadata, "assert": asserted}


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
