"""What a judge said, read with suspicion."""

from __future__ import annotations

from typing import Any

import msgspec

from karat.errors import shorten
from karat.llm.answers import objects_in
from karat.llm.conversation import UnusableReply
from karat.llm.marks import is_quote

GRADES = (0, 1, 2)
_NOTE = 300


class JudgeVerdict(msgspec.Struct, frozen=True):
    """A grade with what shows it; or no grade, and why."""

    grade: int | None
    quote: str | None = None
    note: str | None = None
    reason: str | None = None


def read_verdict(answer: str, passage: str, *, needs_quote: bool) -> JudgeVerdict:
    """A verdict whose grade is on the scale and whose quote stands in the passage."""
    found = [thing for thing in objects_in(answer) if "grade" in thing]
    if not found:
        raise UnusableReply("there is no JSON object with a grade")
    grades = [_grade(thing["grade"]) for thing in found]
    if len(set(grades)) > 1:
        raise UnusableReply("there are several grades, and they contradict each other")
    said, grade = found[-1], grades[-1]
    quote = said.get("quote")
    quote = " ".join(quote.split()) if isinstance(quote, str) else ""
    if grade and (quote or needs_quote) and not is_quote(quote, passage):
        raise UnusableReply("the quote does not stand in the passage word for word")
    note = next((said[name] for name in ("match", "note") if isinstance(said.get(name), str)), None)
    return JudgeVerdict(grade, shorten(quote, 2_000) if grade and quote else None, note and shorten(_line(note), _NOTE))


def _grade(value: Any) -> int:
    number = value.strip() if isinstance(value, str) else value
    for grade in GRADES:
        if number == str(grade) or (not isinstance(number, (str, bool)) and number == grade):
            return grade
    raise UnusableReply("the grade is none of 0, 1, 2")


def missing(why: str, about: str = "") -> JudgeVerdict:
    """No grade: never the same as irrelevant. `why` is one of a few, so that they can be counted."""
    return JudgeVerdict(None, reason=shorten(_line(f"{why}: {about}" if about else why), _NOTE))


def _line(text: str) -> str:
    return " ".join(text.split())
