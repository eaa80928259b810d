"""Questions, documents and answers in the records of evaluation tools, whatever their fields are called."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from karat.data.attributes import is_tag
from karat.errors import InputError
from karat.files.decode_errors import DECODE_ERRORS

_LITERAL = 1 << 20  # characters of a Python list in a table cell
# Names of fields in records whose shape the user chose, the likeliest first.
QUERY = ("query", "question", "user_input", "input", "prompt", "request", "search", "text", "q")
RETRIEVED_IDS = ("retrieved_context_ids", "retrieved_ids", "retrieved_doc_ids", "retrieved_document_ids")
RETRIEVED = (
    *("topk", "retrieved_contexts", "retrieval_context", "retrieved_context", "contexts", "context", "retrieved"),
    *("documents", "source_documents", "docs", "sources", "chunks", "passages", "results", "hits"),
)
RELEVANT_IDS = (
    *("gold", "reference_context_ids", "relevant_ids", "relevant_doc_ids", "relevant_document_ids", "expected_ids"),
    *("expected_doc_ids", "expected_document_ids", "gold_ids", "doc_ids", "document_ids"),
)
RELEVANT = (
    *("expected_retrieved_context", "reference_contexts", "expected_contexts", "expected_context", "evidence"),
    *("contexts", "context", "documents"),
)
ANSWER = (
    *("answer", "reference", "expected_response", "expected_answer", "ground_truth", "expected_output"),
    *("output", "response"),
)
_ID = ("chunk_id", "id", "_id", "doc_id", "docid", "document_id", "doc_uri", "uri", "source", "url", "name")
_DOC = ("doc_id", "document_id", "doc_uri")
_TEXT = ("text", "content", "page_content", "context", "body", "snippet")
_SCORE = ("score", "_score", "similarity", "relevance_score")
_SOURCED = re.compile(r"deepeval_source=(.*?),deepeval_context=(.*)", re.S)
KEPT = ("karat", "query_id", "gold", "evidence", "negatives", "no_answer", "as_of", "conversation_id", "k", "tags")
_NOT_TAGS = {*KEPT, "query", "answer", "topk"}

Parts = dict[str, Any]  # query_id, query, hits, gold, evidence, answer, system, latency_ms, error, tags …


def given(said: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None and value != {}}


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


def as_query(value: Any) -> str | None:
    """A question: text, or the last message of the user."""
    if isinstance(value, list):
        said = [m for m in value if isinstance(m, dict) and first_of(("role", "type"), m) in ("user", "human", None)]
        value = first_of(("content",), said[-1]) if said else None
    return value if isinstance(value, str) and value.strip() else None


def query_in(place: Any) -> str | None:
    """The question in an object of the user's own shape: by its name, or as the only text."""
    if not isinstance(place, Mapping):
        return as_query(place)
    found = as_query(first_of(QUERY, place)) or as_query(place.get("messages"))
    texts = [value for value in place.values() if isinstance(value, str)]
    return found or (as_query(texts[0]) if len(texts) == 1 else None)


def listed_in(value: Any) -> list[Any] | None:
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
            return {"chunk_id": found, **given({"score": score, "doc_id": doc, "text": text})}
    elif isinstance(entry, int) and not isinstance(entry, bool):
        return {"chunk_id": entry}
    expected = "a text, an id, or an object with an id or a text"
    raise InputError("not a document", code="wrong-type", field=f"retrieved[{place}]", expected=expected, got=entry)


def hits_of(ids: Any, documents: Any) -> list[dict[str, Any]] | None:
    """Retrieved documents, with ids from a parallel list where there is one."""
    names, listed = listed_in(ids), listed_in(documents)
    if not names:
        return None if listed is None else [hit_of(one, at) for at, one in enumerate(listed)]
    if listed and len(listed) != len(names):
        what = f"the number of ids ({len(names)}) is not that of the retrieved documents ({len(listed)})"
        raise InputError(what, code="contradiction", field="retrieved_context_ids", hint="give one id per document")
    texts = [hit_of(one, at) for at, one in enumerate(listed)] if listed else [{}] * len(names)
    return [{**text, "chunk_id": name} for name, text in zip(names, texts, strict=True)]


def relevant_of(ids: Any, documents: Any) -> Parts:
    """Gold and evidence of documents that should be retrieved."""
    ids = cell(ids)
    if isinstance(ids, Mapping) or (isinstance(ids, list) and any(isinstance(one, Mapping) for one in ids)):
        gold: Any = ids  # as in Karat's own files
    else:
        gold = listed_in(ids)
    found = [(one, hit_of(one, at)) for at, one in enumerate(listed_in(documents) or [])]
    named = [hit for one, hit in found if isinstance(one, Mapping) and hit["chunk_id"] != hit.get("text")]
    if gold is None and named:
        # Bare ids match chunks and documents: what a tool calls a document is often one chunk.
        gold = [{"id": item} for item in dict.fromkeys(hit.get("doc_id", hit["chunk_id"]) for hit in named)]
    texts = [hit["text"] for _, hit in found if isinstance(hit.get("text"), str)]
    return {"gold": gold or None, "evidence": texts or None}


def kept_in(*places: Any) -> Parts:
    """What Karat keeps in the metadata of a tool."""
    found = {name: first_of((name,), *places) for name in KEPT}
    return given({name: cell(value) if name != "query_id" else value for name, value in found.items()})


def tags_in(*places: Any) -> dict[str, Any]:
    found = {name: value for place in places if isinstance(place, Mapping) for name, value in place.items()}
    return {name: value for name, value in found.items() if name not in _NOT_TAGS and is_tag(name, value)}


def text_of(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
