"""Coroutines answered in one event loop, whichever thread asks: clients of async libraries belong to one loop."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable
from functools import cache
from typing import TYPE_CHECKING, Any

from karat.errors import KaratError

if TYPE_CHECKING:
    import asyncio


class TooSlow(KaratError):
    """Nobody waits any longer."""

    code = "too-slow"

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no answer within {timeout:g} s")


def settled(value: Any, timeout: float | None) -> Any:
    """The value itself, or what it comes to when it is awaited."""
    if not inspect.isawaitable(value):
        return value
    import asyncio  # slow to load, and most retrievers are no coroutines

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
