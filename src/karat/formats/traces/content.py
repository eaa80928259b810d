"""Finds questions, documents and token counts in the values of a span, whatever tool wrote them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import msgspec

from karat.files.decode_errors import DECODE_ERRORS
from karat.formats.field_map import dig, is_text

_QUESTION = ("query", "question", "input", "query_str", "text", "user_query", "search_query", "prompt", "q", "messages")
_WRAPPED = ("args", "kwargs", "inputs", "input", "parts", "content", "request")
_LISTS = ("documents", "results", "docs", "nodes", "source_nodes", "hits", "matches", "output", "result", "retrieved")
_IDS = ("chunk_id", "id", "_id", "id_", "node_id", "document_id", "doc_id")
_DOCS = ("doc_id", "document_id", "parent_doc_id")
_SCORES = ("score", "relevance_score", "_score", "similarity")
_TEXTS = ("content", "page_content", "text", "body", "chunk")
_FLAT = "document."
_PEOPLE = ("user", "human")
_DEEP = 6  # how far values are searched
_MOST = 10_000  # documents of one list
_HIDDEN = "__REDACTED__"  # what OpenInference writes instead of text that it was told to hide


def opened(value: Any) -> Any:
    """A value, decoded if it is JSON in a string."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            return msgspec.json.decode(value)
        except DECODE_ERRORS:
            return value
    return value


def question_in(value: Any, depth: int = _DEEP) -> str | None:
    """The question in the input of a span: a text, a field such as `query`, or the last message of a user.

    >>> question_in('{"question": "how long?"}'), question_in([{"role": "user", "content": "why?"}]), question_in({})
    ('how long?', 'why?', None)
    """
    value = opened(value)
    if depth < 0 or value is None or isinstance(value, (bool, int, float)):
        return None
    if isinstance(value, str):
        return value if value.strip() and value != _HIDDEN else None
    if isinstance(value, list):
        return _of_messages(value, depth)
    if not isinstance(value, dict):
        return None
    fields = value.get("kwargs") if value.get("type") == "constructor" else None
    if isinstance(fields, dict):  # how LangChain writes objects
        return question_in(fields.get("content"), depth - 1)
    for name in (*_QUESTION, *_WRAPPED):
        if name in value and (found := question_in(value[name], depth - 1)) is not None:
            return found
    return None


def _of_messages(values: list[Any], depth: int) -> str | None:
    flat = [one for value in values[:_MOST] for one in (value if isinstance(value, list) else [value])]
    asked = [one for one in flat if isinstance(one, dict) and _role(one) in _PEOPLE]
    for one in reversed(asked):
        if (found := question_in(one.get("content", one.get("parts", one)), depth - 1)) is not None:
            return found
    return next((found for one in flat[:_DEEP] if (found := question_in(one, depth - 1)) is not None), None)


def _role(message: Mapping[str, Any]) -> str:
    kind = message.get("id")
    named = "human" if isinstance(kind, list) and "HumanMessage" in kind else message.get("role", message.get("type"))
    return str(named).lower()


class DocumentFields(msgspec.Struct, frozen=True):
    """Where the fields of a document are, if the user says so: field of a hit → path in a document or its metadata."""

    paths: Mapping[str, str] = {}

    def of(self, document: Any) -> dict[str, Any] | None:
        """A hit; None if this is no document. It may lack an id."""
        document = opened(document)
        if isinstance(document, (list, tuple)) and len(document) == 2 and isinstance(document[1], (int, float)):
            found = self.of(document[0])  # a document and its score
            return None if found is None else {"score": _number(document[1]), **found}
        if isinstance(document, (str, int)) and not isinstance(document, bool):
            text = str(document)
            return ({"text": text} if is_text(text) else {"chunk_id": text}) if text.strip() else None
        if not isinstance(document, dict):
            return None
        for inner in ("document", "node", "kwargs"):  # OpenInference, LlamaIndex, LangChain
            if isinstance(document.get(inner), dict):
                document = {**document, "id": None, **document[inner]}
        if any(name.startswith(_FLAT) for name in document):  # a row of Phoenix's table of spans
            document = {name.removeprefix(_FLAT): value for name, value in document.items()}
        metadata = opened(document.get("metadata"))
        places = [document, metadata] if isinstance(metadata, dict) else [document]
        if not self.paths:
            chunk, doc = _first(_IDS, places, _id), _first(_DOCS, places, _id)
            return _hit(chunk, doc, _first(_SCORES, places, _number), _first(_TEXTS, places[:1], _text))
        said = {name: _dug(places, path) for name, path in self.paths.items()}
        return _hit(
            _id(said.get("chunk_id")) or _first(_IDS, places, _id),
            _id(said.get("doc_id")) or _first(_DOCS, places, _id),
            _number(said.get("score")) if said.get("score") is not None else _first(_SCORES, places, _number),
            _text(said.get("text")) or _first(_TEXTS, places[:1], _text),
        )


def _dug(places: Iterable[Any], path: str) -> Any:
    return next((found for at in places if (found := dig(at, path)) is not None), None)


def _hit(chunk: str | None, doc: str | None, score: float | None, text: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {} if chunk is None else {"chunk_id": chunk}
    if doc is not None and doc != chunk:
        found["doc_id"] = doc
    if score is not None:
        found["score"] = score
    if text is not None:
        found["text"] = text
    return found


def _first(names: Iterable[str], places: Iterable[Mapping[str, Any]], read: Callable[[Any], Any]) -> Any:
    for at in places:
        for name in names:
            if name in at and (found := read(at[name])) is not None:
                return found
    return None


def _id(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        return None
    return str(value) if str(value).strip() else None


def _number(value: Any) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip() and value != _HIDDEN else None


def documents_in(value: Any, fields: DocumentFields, depth: int = _DEEP) -> list[dict[str, Any]] | None:
    """The hits in the output of a span; None if it has no list of documents.

    >>> documents_in('[{"id": "a", "page_content": "A text.", "metadata": {"score": 0.5}}]', DocumentFields())
    [{'chunk_id': 'a', 'score': 0.5, 'text': 'A text.'}]
    """
    value = opened(value)
    if depth < 0:
        return None
    if isinstance(value, list):
        found = [hit for one in value[:_MOST] if (hit := fields.of(one)) is not None]
        return found if found or not value else None
    if isinstance(value, dict):
        for name in _LISTS:
            if name in value and (listed := documents_in(value[name], fields, depth - 1)) is not None:
                return listed
    return None


def numbered(attributes: Mapping[str, Any], prefix: str) -> list[Any] | None:
    """The entries of a list that is written as flat attributes, `prefix.0.document.id`, or as itself."""
    start = prefix + "."
    flat = [name for name in attributes if name.startswith(start)]
    if not flat:
        listed = opened(dig(attributes, prefix))
        return listed if isinstance(listed, list) else None
    found: dict[int, dict[str, Any]] = {}
    for name in flat:
        number, _, rest = name[len(start) :].partition(".")
        if rest and number.isascii() and number.isdecimal() and len(number) < 7:
            found.setdefault(int(number), {})[rest.removeprefix("document.")] = attributes[name]
    return [found[at] for at in sorted(found)] if found else None


def with_ids(documents: list[dict[str, Any]], other: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    """Documents with data from another list of the same documents, where they have none."""
    if other is None or len(other) != len(documents):
        return documents
    return [{**more, **own} for own, more in zip(documents, other, strict=True)]


def milliseconds(value: Any) -> float | None:
    """A time since 1970. Numbers are seconds, milliseconds, microseconds or nanoseconds, by their size.

    >>> milliseconds("1700000000000000000") == milliseconds(1700000000) == milliseconds("2023-11-14T22:13:20Z")
    True
    """
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() * 1000
    number = _number(value)
    if number is not None:
        if number <= 0:
            return None
        for scale in (1e17, 1e14, 1e11):
            if number >= scale:
                return number / (scale / 1e11)
        return number * 1000
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000
    except (ValueError, OverflowError):
        return None


def count(value: Any) -> int | None:
    """A number of tokens."""
    found = _number(value)
    return int(found) if found is not None and 0 <= found < 2**53 else None
