"""A model with a cache: each reply is saved before the next request."""

from __future__ import annotations

import hashlib
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from karat.data.prices import Prices, Usage, estimate_tokens
from karat.errors import ConfigError, KaratError, shorten
from karat.llm.chat import Chat, Halt, NoReply, Reply, Request
from karat.llm.options import ModelOptions
from karat.net.timeouts import Workers

CACHE = Path(".karat") / "llm-cache.sqlite"
# `sent`: requests without a reply yet. If the process was killed, they may have been charged.
_TABLES = (
    """create table if not exists replies (
        key text primary key, model text not null, time text not null, reply blob not null
    ) without rowid""",
    "create table if not exists sent (key text primary key) without rowid",
)
_ASKED_AGAIN = 2  # times, if a reply cannot be used
_ECHO = 2_000  # characters of a bad reply that are sent back to the model
T = TypeVar("T")
J = TypeVar("J")
R = TypeVar("R")
_IN_A_ROW = 20
Progress = Callable[[str, int], AbstractContextManager[Callable[[], None]]]  # such as `progress.counting`


class Model(Protocol):
    """Anything that replies to requests, such as `Chat`."""

    model: str
    url: str

    def ask(self, request: Request) -> Reply: ...


class Spending(msgspec.Struct):
    """Calls and tokens of this run, and of earlier runs whose replies were reused."""

    now: Usage
    earlier: Usage
    estimated_calls: int = 0  # calls whose tokens the server did not count
    repeated: int = 0  # requests sent again after a lost reply, perhaps charged twice
    cost: float | None = None  # of this run; None without a price
    currency: str | None = None


class CostEstimate(msgspec.Struct):
    """The remaining requests and their approximate cost."""

    calls: int
    there_already: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None = None
    currency: str | None = None


class Client:
    """`fresh`: ignore and replace cached replies."""

    def __init__(self, model: Model, cache: Path, *, fresh: bool = False) -> None:
        self.model = model
        self._cache = ReplyCache(cache)
        self._fresh = fresh
        self._now, self._earlier = _usage(model.model), _usage(model.model)
        self._estimated = self._repeated = 0
        self._lock = threading.Lock()

    def ask(self, request: Request) -> Reply:
        key = key_of(self.model, request)
        found = self._known(key)
        if found is not None:
            self._count(self._earlier, found)
            return found
        is_new = self._cache.note_sent(key)
        try:
            reply = self.model.ask(request._replace(fresh=uuid.uuid4().hex) if self._fresh else request)
        except (NoReply, Halt) as error:
            if not (isinstance(error, NoReply) and error.lost):
                self._cache.note_refused(key)
            raise
        self._cache.put(key, self.model.model, reply)
        with self._lock:
            self._repeated += reply.lost + (not is_new)
        self._count(self._now, reply)
        return reply

    def estimate(self, requests: Iterable[Request], said: int, prices: Prices | None) -> CostEstimate:
        """Estimate the cost; `said`: tokens of a usual reply."""
        calls = tokens = there = 0
        for request in requests:
            if self._known(key_of(self.model, request)) is not None:
                there += 1
            else:
                calls += 1
                tokens += sum(estimate_tokens(message["content"]) for message in request.messages)
        used = Usage(model=self.model.model, prompt_tokens=tokens, completion_tokens=calls * said, calls=calls)
        return CostEstimate(calls, there, tokens, calls * said, *cost_of(used, prices))

    def spending(self, prices: Prices | None) -> Spending:
        with self._lock:
            cost, currency = cost_of(self._now, prices)
            return Spending(self._now, self._earlier, self._estimated, self._repeated, cost, currency)

    def close(self) -> None:
        self._cache.close()

    def _known(self, key: str) -> Reply | None:
        return None if self._fresh else self._cache.get(key)

    def _count(self, usage: Usage, reply: Reply) -> None:
        with self._lock:
            usage.calls += 1
            usage.prompt_tokens = (usage.prompt_tokens or 0) + reply.prompt_tokens
            usage.completion_tokens = (usage.completion_tokens or 0) + reply.completion_tokens
            self._estimated += reply.estimated and usage is self._now


def chat_of(model: str, options: ModelOptions) -> Chat:
    return Chat(model, options.base_url, timeout=options.timeout, retries=options.retries)


def client_of(model: Model, options: ModelOptions) -> Client:
    return Client(model, Path(options.cache or CACHE), fresh=options.fresh)


def _usage(model: str) -> Usage:
    return Usage(model=model, prompt_tokens=0, completion_tokens=0, calls=0)


def cost_of(used: Usage, prices: Prices | None) -> tuple[float | None, str | None]:
    """Return the cost and its currency, if known."""
    cost = None if prices is None else prices.cost(used)
    return (None, None) if prices is None or cost is None else (cost, prices.currency)


def key_of(model: Model, request: Request) -> str:
    """Return the cache key of a request: model, address and messages."""
    return hashlib.sha256(msgspec.json.encode((model.url, model.model, request.messages))).hexdigest()


_REPLY = msgspec.json.Decoder(Reply)  # made before threads start: msgspec must not inspect a struct in two at once


class ReplyCache:
    """A cache file that threads and processes can share. Commits survive a crash of the process; after a power failure
    the last ones may be missing and are requested again."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open = sqlite3.connect(path, timeout=30.0, isolation_level=None, check_same_thread=False)
            self._open.execute("pragma journal_mode = wal")
            self._open.execute("pragma synchronous = normal")
            for table in _TABLES:
                self._open.execute(table)
        except (sqlite3.Error, OSError) as error:
            raise self._refusal(error) from None

    def get(self, key: str) -> Reply | None:
        row = self._execute("select reply from replies where key = ?", key)
        try:
            return None if row is None else _REPLY.decode(row[0])
        except msgspec.MsgspecError as error:
            raise self._refusal(error) from None

    def put(self, key: str, model: str, reply: Reply) -> None:
        row = (key, model, reply.time, msgspec.json.encode(msgspec.structs.replace(reply, lost=0)))
        self._execute("insert or replace into replies values (?, ?, ?, ?)", *row)
        self.note_refused(key)

    def note_sent(self, key: str) -> bool:
        """Return whether this is the first attempt; if not, an earlier one got no reply."""
        statement = "insert into sent values (?) on conflict do nothing returning key"
        return self._execute(statement, key) is not None

    def note_refused(self, key: str) -> None:
        """Mark the request as done."""
        self._execute("delete from sent where key = ?", key)

    def _execute(self, command: str, *values: str | bytes) -> Any:
        try:
            with self._lock:
                return next(iter(self._open.execute(command, values).fetchall()), None)
        except sqlite3.Error as error:
            raise self._refusal(error) from None

    def close(self) -> None:
        with self._lock:
            self._open.close()

    def _refusal(self, error: Exception) -> ConfigError:
        hint = "use another file with --cache, or remove this one"
        what = f"this cache cannot be used: {error}"
        return ConfigError(what, code="unusable-cache", file=str(self._path), hint=hint)


class UnusableReply(Exception):
    """What is wrong with a reply, in words for the model."""


class NoModelAnswer(KaratError):
    """No usable reply after all attempts. `kind` is one of a few, for counting; `time`: of the last reply."""

    code = "no-model-answer"

    def __init__(self, kind: str, about: str, time: str) -> None:
        super().__init__(f"{kind}: {about}" if about else kind)
        self.kind = kind
        self.about = about
        self.time = time


def converse(client: Client, request: Request, read: Callable[[str], T], again: str) -> tuple[T, Reply]:
    """Return what `read` makes of the reply; it raises Unusable for a bad one. `again` repeats what is expected."""
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


def each(jobs: Sequence[J], work: Callable[[J], R], workers: int) -> Iterator[tuple[J, R | NoReply]]:
    """Yield every job with its result, or with the reason why there is none, as they finish.

    The first runs alone, so that a wrong key, address or model is reported once.
    """
    if not jobs:
        return

    def tried(job: J) -> R | Exception:
        try:
            return work(job)
        except Exception as error:  # raised below, not in the thread
            return error

    first = _unless_halted(tried(jobs[0]))
    if isinstance(first, NoReply) and first.lost:
        raise Halt(first.what, hint="check the address, and that the server is running")
    yield jobs[0], first
    in_a_row = 0
    for job, done in Workers(tried, workers).each(jobs[1:]):
        assert done is not None  # no time limit here: the model has its own
        result = _unless_halted(done)
        in_a_row = in_a_row + 1 if isinstance(result, NoReply) else 0
        if in_a_row == _IN_A_ROW and isinstance(result, NoReply):
            what = f"{_IN_A_ROW} requests in a row failed, the last with: {result.what}"
            raise Halt(what, hint="fix the cause, then run the same command to continue")
        yield job, result


def _unless_halted(result: R | Exception) -> R | NoReply:
    if isinstance(result, Exception) and not isinstance(result, NoReply):
        raise result
    return result
