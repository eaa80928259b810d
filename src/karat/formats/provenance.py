"""What a report says of a run log's other fields: settings as they are, everything else only by count."""

from __future__ import annotations

from typing import Any

import msgspec

from karat.errors import shorten
from karat.files.decode_errors import DECODE_ERRORS

# Fields that Karat itself defines or writes: always settings.
SETTINGS = frozenset(
    {
        "k",
        "k_raw",
        "index_version",
        "retriever",
        "reranker",
        "rewriter",
        "rerank_depth",
        "min_score",
        "corpus",
        "chunker",
    }
)
_WORDS = 5  # texts with so many are written by people: questions, passages
_SIZE = 1000  # bytes of JSON


def shown(name: str, values: list[Any]) -> Any:
    """One value of a setting, or how many different values there are. Texts that may be of single requests are not
    shown, because reports are passed on.

    >>> shown("RAG_TOP_K", [10]), shown("seed", [1, 2]), shown("tenant", ["a", "b"])
    (10, {'values': 2, 'first': 1}, {'values': 2})
    >>> shown("request", [{"text": "When does the notice period end?"}])
    {'values': 1}
    """
    first = _writable(values[0])
    if len(values) == 1:
        return first if name in SETTINGS or _is_setting(first) else {"values": 1}
    if name in SETTINGS or isinstance(first, (int, float)):
        return {"values": len(values), "first": first}
    return {"values": len(values)}


def _is_setting(value: Any) -> bool:
    try:
        return len(msgspec.json.encode(value)) <= _SIZE and not _has_text(value)
    except RecursionError:
        return False


def _has_text(value: Any) -> bool:
    if isinstance(value, str):
        return len(value.split(maxsplit=_WORDS)) >= _WORDS
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(map(_has_text, inner))


def _writable(value: Any) -> Any:
    """A value that can be written: objects that only exist in memory are kept as text."""
    try:
        msgspec.json.encode(value)
    except (TypeError, *DECODE_ERRORS):
        return shorten(value)
    return value
