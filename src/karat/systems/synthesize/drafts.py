"""What the model made up, and what it says when it is asked, read with suspicion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from karat.errors import printable, shorten
from karat.llm.client import UnusableReply
from karat.llm.texts import is_quote, objects_in
from karat.matching.cover import normalise

_LONGEST = 400  # letters of a query
_POINTS_AT_IT = re.compile(
    r"\b(this|the|that|above|given|provided) (passage|excerpt|paragraph|snippet|text above|context)\b", re.I
)
_UNSPACED = "\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # each letter counts as a word
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_COPIED = 12  # words in a row


class Draft(NamedTuple):
    """A query with the answer and the words that show it; without them where there is no answer."""

    query: str
    answer: str | None = None
    quote: str | None = None


class Tried(NamedTuple):
    """What came of answering a query from passages."""

    answerable: bool
    answer: str
    quote: str


def read_draft(answer: str, passage: str, *, has_answer: bool) -> Draft | None:
    """None where the model found no such query."""
    said = _only(answer, "query")
    if said["query"] is None:
        return None
    query = _line(said, "query")
    if not 3 <= len(query) <= _LONGEST:
        raise UnusableReply(f"a query has 3 to {_LONGEST} characters")
    if _POINTS_AT_IT.search(query):
        raise UnusableReply("the query speaks of the passage, which nobody has who asks it")
    if _is_copied(query, passage):
        raise UnusableReply("the query is copied from the passage")
    if not has_answer:
        return Draft(query)
    reply, quote = _line(said, "answer"), _line(said, "quote")
    if not reply:
        raise UnusableReply("the answer is missing")
    if not is_quote(quote, passage):
        raise UnusableReply("the quote does not stand in the passage word for word")
    return Draft(query, shorten(reply, 2_000), shorten(quote, 2_000))


def read_tried(answer: str, passages: Sequence[str]) -> Tried:
    said = _only(answer, "answerable")
    if not isinstance(said["answerable"], bool):
        raise UnusableReply("answerable is neither true nor false")
    tried = Tried(said["answerable"], _line(said, "answer"), _line(said, "quote"))
    if tried.answerable and not any(is_quote(tried.quote, passage) for passage in passages):
        raise UnusableReply("the quote does not stand in a passage word for word")
    return tried


def agree(draft: Draft, tried: Tried) -> bool:
    """Whether both found the same: in the same words of the passage, or with the same answer."""
    pairs = ((draft.quote, tried.quote), (draft.answer, tried.answer))
    return any(_shared(one or "", other) >= 0.5 for one, other in pairs)


def _shared(one: str, other: str) -> float:
    """The share of the shorter text's words that stand in the longer."""
    first, second = sorted((_words(one), _words(other)), key=len)
    return len(first & second) / len(first) if first else 0.0


def _words(text: str) -> set[str]:
    return set(_WORD.findall(normalise(text)))


def _only(answer: str, name: str) -> dict[str, Any]:
    found = [thing for thing in objects_in(answer) if name in thing]
    if not found:
        raise UnusableReply(f"there is no JSON object with {name}")
    if any(thing != found[0] for thing in found):
        raise UnusableReply("there are several JSON objects, and they contradict each other")
    return found[0]


def _line(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    return printable(" ".join(value.split())) if isinstance(value, str) else ""


def _is_copied(query: str, passage: str) -> bool:
    return len(query.split()) >= _COPIED and normalise(query).rstrip("?!. ") in normalise(passage)
