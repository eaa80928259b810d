"""Asking until the answer can be used, or it is plain that it will not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from karat.errors import KaratError, shorten
from karat.llm.base import Reply, Request
from karat.llm.client import Client

T = TypeVar("T")
_ASKED_AGAIN = 2  # times, where an answer cannot be used
_ECHO = 2_000  # letters of a bad answer that the model is shown again


class UnusableReply(Exception):
    """What is wrong with an answer, as one would say it to the model."""


class NoModelAnswer(KaratError):
    """The model was asked and asked again. `kind` is one of a few, so that they can be counted; `time`: of the last."""

    code = "no-model-answer"

    def __init__(self, kind: str, about: str, time: str) -> None:
        super().__init__(f"{kind}: {about}" if about else kind)
        self.kind, self.about, self.time = kind, about, time


def converse(client: Client, request: Request, read: Callable[[str], T], again: str) -> tuple[T, Reply]:
    """What `read` makes of the answer; it raises Unusable where that is nothing. `again` says what was wanted."""
    wrong, reply = "", None
    for _ in range(_ASKED_AGAIN + 1):
        reply = client.ask(request)
        if reply.refusal is not None:
            raise NoModelAnswer("refusal", reply.refusal, reply.time)
        try:
            return read(reply.text or ""), reply
        except UnusableReply as error:
            wrong = str(error)
        said = (reply.text or "")[:_ECHO] or "(nothing)"
        request = request.answered(said, f"That cannot be used: {wrong}. {again}", longer=reply.is_cut)
    assert reply is not None
    raise NoModelAnswer("no usable answer", f"{wrong}; it said {shorten(reply.text or 'nothing', 80)!r}", reply.time)
