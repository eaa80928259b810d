"""A model that is asked once for everything: answers come from the disk where they are there already."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from karat.data.prices import Prices, Usage
from karat.data.tokens import estimate_tokens
from karat.llm.base import Reply, Request
from karat.llm.cache import ReplyCache, key_of
from karat.llm.chat import Chat
from karat.llm.options import ModelOptions

CACHE = Path(".karat") / "llm-cache.sqlite"


class Model(Protocol):
    """Whatever answers; `Chat` is one."""

    model: str
    url: str

    def ask(self, request: Request) -> Reply: ...


class Spending(msgspec.Struct):
    """Calls and tokens: of this time, and of earlier times whose answers were used again."""

    now: Usage
    earlier: Usage
    estimated_calls: int = 0  # whose tokens the server did not count
    cost: float | None = None  # of this time; None where no price is known
    currency: str | None = None


class CostEstimate(msgspec.Struct):
    """What is still to be asked, and about what that costs."""

    calls: int
    there_already: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None = None
    currency: str | None = None


class Client:
    """`fresh`: answers of earlier times are not used, and replaced by new ones."""

    def __init__(self, model: Model, cache: Path, *, fresh: bool = False) -> None:
        self.model, self._cache, self._fresh = model, ReplyCache(cache), fresh
        self._now, self._earlier = _usage(model.model), _usage(model.model)
        self._estimated = 0
        self._lock = threading.Lock()

    def ask(self, request: Request) -> Reply:
        key = self._key(request)
        found = None if self._fresh else self._cache.get(key)
        if found is not None:
            self._count(self._earlier, found)
            return found
        reply = self.model.ask(request)
        self._cache.put(key, self.model.model, reply)
        self._count(self._now, reply)
        return reply

    def has(self, request: Request) -> bool:
        return not self._fresh and self._cache.get(self._key(request)) is not None

    def estimate(self, requests: Iterable[Request], said: int, prices: Prices | None) -> CostEstimate:
        """`said`: tokens of a usual answer."""
        calls = tokens = there = 0
        for request in requests:
            if self.has(request):
                there += 1
            else:
                calls += 1
                tokens += sum(estimate_tokens(message["content"]) for message in request.messages)
        used = Usage(model=self.model.model, prompt_tokens=tokens, completion_tokens=calls * said, calls=calls)
        return CostEstimate(calls, there, tokens, calls * said, *cost_of(used, prices))

    def spending(self, prices: Prices | None) -> Spending:
        with self._lock:
            return Spending(self._now, self._earlier, self._estimated, *cost_of(self._now, prices))

    def close(self) -> None:
        self._cache.close()

    def _key(self, request: Request) -> str:
        return key_of(self.model.url, self.model.model, request.messages)

    def _count(self, usage: Usage, reply: Reply) -> None:
        with self._lock:
            usage.calls += 1
            usage.prompt_tokens = (usage.prompt_tokens or 0) + reply.prompt_tokens
            usage.completion_tokens = (usage.completion_tokens or 0) + reply.completion_tokens
            self._estimated += reply.estimated and usage is self._now


def chat_of(model: str, options: ModelOptions) -> Chat:
    return Chat(model, options["base_url"], timeout=options["timeout"], retries=options["retries"])


def client_of(model: Model, options: ModelOptions) -> Client:
    return Client(model, Path(options["cache"] or CACHE), fresh=options["fresh"])


def _usage(model: str) -> Usage:
    return Usage(model=model, prompt_tokens=0, completion_tokens=0, calls=0)


def cost_of(used: Usage, prices: Prices | None) -> tuple[float | None, str | None]:
    """What it cost, and in which money; nothing where that is not known."""
    cost = None if prices is None else prices.cost(used)
    return (None, None) if prices is None or cost is None else (cost, prices.currency)
