"""What is said to a model, what it says, and how it fails."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec

from karat.errors import KaratError

Messages: TypeAlias = list[dict[str, str]]


class Request(NamedTuple):
    """One conversation, and how long the answer may be."""

    messages: Messages
    max_tokens: int

    def answered(self, said: str, then: str, *, longer: bool) -> Request:
        """The conversation goes on: what the model said, and what it is told about that."""
        more = [{"role": "assistant", "content": said}, {"role": "user", "content": then}]
        return Request([*self.messages, *more], self.max_tokens * 2 if longer else self.max_tokens)


class Reply(msgspec.Struct, omit_defaults=True):
    """What a model said. `text` is None where it said nothing; `refusal` is what it said instead."""

    text: str | None
    prompt_tokens: int
    completion_tokens: int
    time: str  # ISO 8601
    refusal: str | None = None
    is_cut: bool = False  # it had more to say
    estimated: bool = False  # the server did not count the tokens


class NoReply(KaratError):
    """This one request failed, whatever was tried. `lost`: nobody answered, or nobody had time to."""

    code = "no-reply"

    def __init__(self, what: str, *, lost: bool = False) -> None:
        super().__init__(what)
        self.lost = lost


class Halt(KaratError):
    """No request will do better: the key, the address or the model is wrong, or the money is spent."""

    code = "halted"
