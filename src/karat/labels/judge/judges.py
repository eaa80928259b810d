"""Who judges, a chat model or a function of one's own, and how a verdict is read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import msgspec

from karat.errors import ConfigError, KaratError, shorten
from karat.labels.judge.prompt import Prompt
from karat.llm.chat import NoReply, Reply, Request
from karat.llm.client import Client, NoModelAnswer, UnusableReply, converse
from karat.llm.texts import is_quote, objects_in
from karat.net.timeouts import settled
from karat.registry import load_callable, title_of
from karat.retrievers.function import code_hash

_AGAIN = (
    "Judge again, and answer with one JSON object only, with intent, match, quote (copied letter by letter) and grade."
)
GRADES = (0, 1, 2)
_NOTE = 300


class TimedVerdict(NamedTuple):
    """A verdict, and when it was given."""

    verdict: JudgeVerdict
    time: str


class Judge(Protocol):
    """Grades one passage for one query."""

    client: Client
    version: str | None  # of what it was told

    def request(self, query: str, passage: str) -> Request: ...
    def judge(self, query: str, passage: str) -> TimedVerdict: ...


class ModelJudge:
    """A chat model. What it says is read with suspicion, and asked for again where it is no verdict."""

    def __init__(self, client: Client, prompt: Prompt) -> None:
        self.client, self._prompt = client, prompt
        self.version: str | None = prompt.version

    def request(self, query: str, passage: str) -> Request:
        return self._prompt.request(query, passage)

    def judge(self, query: str, passage: str) -> TimedVerdict:
        def read(answer: str) -> JudgeVerdict:
            return read_verdict(answer, passage, needs_quote=True)

        try:
            verdict, reply = converse(self.client, self.request(query, passage), read, _AGAIN)
        except NoModelAnswer as error:
            return TimedVerdict(missing(error.kind, error.about), error.time)
        return TimedVerdict(verdict, reply.time)


class FunctionJudge:
    """A function (query, passage) → grade, or a dict with grade, quote, note; None where it cannot tell."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.version: str | None = None

    def request(self, query: str, passage: str) -> Request:
        return Request([{"role": "query", "content": query}, {"role": "passage", "content": passage}], 0)

    def judge(self, query: str, passage: str) -> TimedVerdict:
        reply = self.client.ask(self.request(query, passage))
        try:
            return TimedVerdict(read_verdict(reply.text or "", passage, needs_quote=False), reply.time)
        except UnusableReply as error:
            said = shorten(reply.text or "nothing", 80)
            return TimedVerdict(missing("no usable answer", f"{error}; it returned {said}"), reply.time)


class FunctionModel:
    """A function in the place of a model: its answers are kept like those of one, as long as its file is the same."""

    def __init__(self, target: str | Callable[..., Any], timeout: float) -> None:
        found = load_callable(target)
        if isinstance(found, type) or not callable(found):
            raise ConfigError(
                f"{target!r} is no judge", code="bad-callable", expected="a function (query, passage) → 0, 1 or 2"
            )
        self.model = title_of(target)
        self.url = f"code {code_hash(found)}"
        self._function, self._timeout = found, timeout
        _refuse_other_arguments(found, self.model)

    def ask(self, request: Request) -> Reply:
        query, passage = (message["content"] for message in request.messages)
        try:
            said = settled(self._function(query, passage), self._timeout)
            text = _as_text(said)
        except KaratError as error:
            raise NoReply(str(error)) from None
        except Exception as error:  # whatever their code does: it belongs to this pair
            raise NoReply(f"{type(error).__name__}: {error}") from None
        return Reply(text, 0, 0, datetime.now(UTC).isoformat(timespec="seconds"))


def _as_text(said: Any) -> str | None:
    if said is None:
        return None
    value = said if isinstance(said, dict) else {"grade": said.item() if hasattr(said, "item") else said}
    return msgspec.json.encode(value).decode()


def _refuse_other_arguments(function: Callable[..., Any], name: str) -> None:
    try:
        inspect.signature(function).bind("query", "passage")
    except TypeError as error:
        what = f"{name} cannot be called with a query and a passage: {error}"
        raise ConfigError(what, code="bad-callable", expected="a function (query, passage) → 0, 1 or 2") from None
    except ValueError:
        return  # some built-in functions tell nothing of themselves


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
