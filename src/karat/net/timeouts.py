"""Time limits for coroutines in one event loop, and for jobs in several threads."""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cache
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from karat.errors import ConfigError, KaratError

if TYPE_CHECKING:
    import asyncio

J = TypeVar("J")
R = TypeVar("R")
_LOOK = 0.05  # seconds between two checks for late jobs
_GRACE = 0.25  # seconds for jobs with their own time limit, whose errors are better
_GIVEN_UP = 64  # threads that hang are never released


class TooSlow(KaratError):
    """The time limit has passed. For retries it counts as a lost connection."""

    code = "too-slow"
    status: int | None = None
    wait: float | None = None
    lost: bool = True

    def __init__(self, timeout: float, where: str = "") -> None:
        super().__init__(f"{where}: no answer within {timeout:g} s".removeprefix(": "))


def settled(value: Any, timeout: float | None) -> Any:
    """Return the value, awaited if it is a coroutine."""
    if not inspect.isawaitable(value):
        return value
    import asyncio  # slow to load, and most retrievers are not coroutines

    future = asyncio.run_coroutine_threadsafe(_awaited(value), _loop())
    try:
        return future.result(timeout)
    except TimeoutError:
        if future.done() or timeout is None:  # the retriever's own
            raise
        future.cancel()
        raise TooSlow(timeout) from None


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


@cache
def _loop() -> asyncio.AbstractEventLoop:
    import asyncio

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="karat-async", daemon=True).start()
    return loop


class Workers(Generic[J, R]):
    """Runs jobs in threads with a time limit. `work` must not raise. A job that takes too long is abandoned with its
    thread, since Python cannot end threads; a new thread replaces it, and its result is discarded."""

    def __init__(self, work: Callable[[J], R], count: int, timeout: float | None = None) -> None:
        self._work, self._count, self._timeout = work, count, timeout
        self._jobs: SimpleQueue[tuple[int, J]] = SimpleQueue()
        self._done: SimpleQueue[tuple[int, R]] = SimpleQueue()
        self._started: dict[int, float] = {}
        self._given_up: set[int] = set()
        self._over = threading.Event()

    def each(self, jobs: Sequence[J]) -> Iterator[tuple[J, R | None]]:
        """Yield every job with its result; None if it took too long."""
        for number, job in enumerate(jobs):
            self._jobs.put((number, job))
        for _ in range(min(self._count, len(jobs))):
            self._hire()
        try:
            left, looked = len(jobs), time.monotonic()
            while left:
                done = self._next()
                if done is not None and done[0] not in self._given_up:
                    left -= 1
                    yield jobs[done[0]], done[1]
                if self._timeout is not None and time.monotonic() - looked >= _LOOK:
                    looked = time.monotonic()
                    for late in self._late(looked - self._timeout - _GRACE):
                        left -= 1
                        yield jobs[late], None
        finally:
            self._over.set()

    def _next(self) -> tuple[int, R] | None:
        try:
            return self._done.get(timeout=_LOOK)
        except Empty:
            return None

    def _late(self, before: float) -> list[int]:
        late = [n for n, started in list(self._started.items()) if started < before and n not in self._given_up]
        for number in late:
            self._given_up.add(number)
            self._hire()
        if len(self._given_up) > _GIVEN_UP:
            raise ConfigError(
                f"{len(self._given_up)} queries had no answer within {self._timeout:g} s",
                code="too-slow",
                hint="does the retriever hang? To continue, run the same command, if needed with a longer --timeout",
            )
        return late

    def _hire(self) -> None:
        threading.Thread(target=self._labour, name="karat-worker", daemon=True).start()

    def _labour(self) -> None:
        while not self._over.is_set():
            try:
                number, job = self._jobs.get_nowait()
            except Empty:
                return
            self._started[number] = time.monotonic()
            result = self._work(job)
            self._started.pop(number, None)
            self._done.put((number, result))
            if number in self._given_up:
                return
