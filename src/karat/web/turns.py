"""Limits concurrent requests, and serves waiting clients in turn."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Message, Receive, Scope, Send

UPLOAD = ("POST", "/api/v1/runs")
# Concurrent requests per kind. Where responses are quick there are more slots than cores: a slot is only passed on when
# the event loop comes round, which takes 30 ms if a hundred readers ask for cached pages.
_LIGHT_READS, _READS, _READS_APART, _WRITES, _HEAVY, _UPLOADS, _LOG_INS, _DOWNLOADS, _ASKED = 8, 3, 16, 4, 2, 2, 2, 2, 4
_LIGHT = re.compile(r"/api/v1/(runs|pins|choices|trend|runs/[^/]+(/judgements|/segments)?)|/static/.*|/pins")
_FILES = re.compile(r"/runs\.csv|/compare\.csv|/runs/[^/]+/queries\.csv")  # sent while they are made
_HEAVY_PATHS = ("/compare", "/desk/new", "/api/v1/desk/pools")
_LIVE = ("/try", "/api/v1/try")  # retrievers may be slow, and nothing else should wait for them
_HEAVY_ENDS = ("/export", "/result", "/agreement", "/calibration")


class Gone(Exception):
    """The client disconnected while it waited."""


class Turns:
    """A fair queue with `at_once` slots: a client with many requests does not delay the others."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, client: str, leaves: Callable[[], Awaitable[None]] | None = None) -> AsyncIterator[None]:
        """Waits for a slot. `leaves`: ends when the client disconnects; Gone is raised if that happens first."""
        if self._free:
            self._free -= 1
        else:
            await self._wait(client, leaves)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, client: str, leaves: Callable[[], Awaitable[None]] | None) -> None:
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(mine)
        left = None if leaves is None else asyncio.ensure_future(leaves())
        try:
            await asyncio.wait([mine] if left is None else [mine, left], return_when=asyncio.FIRST_COMPLETED)
            if not mine.done():
                raise Gone
        except BaseException:
            if mine.done():
                self._pass_on()  # it got a slot at the same moment
            mine.cancel()
            raise
        finally:
            if left is not None:
                left.cancel()

    def _pass_on(self) -> None:
        while self._waiting:
            client = next(iter(self._waiting))
            queue = self._waiting.pop(client)
            following = queue.popleft()
            if queue:
                self._waiting[client] = queue  # goes to the end of the line
            if not following.done():
                following.set_result(None)
                return
        self._free += 1


class Lanes:
    """Middleware with separate queues, so that reads do not wait for slow requests.

    A small body is read before the turn begins, and the response is sent after it, so slow clients do not block
    others. Only tables as files are sent during their turn, since they may be large."""

    def __init__(self, app: ASGIApp, apart: bool = False) -> None:
        """`apart`: pages are made by other processes, which should not wait for the next request."""
        self._app = app
        self._light, self._reads, self._writes, self._heavy = (
            Turns(n) for n in (_LIGHT_READS, _READS_APART if apart else _READS, _WRITES, _HEAVY)
        )
        self._uploads, self._log_ins, self._downloads = Turns(_UPLOADS), Turns(_LOG_INS), Turns(_DOWNLOADS)
        self._asked = Turns(_ASKED)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if is_upload(scope):  # its body may be large, so it is read during its turn
            body, leaves = receive, None
        else:
            body, leaves = _replayed(await _whole(receive), receive), lambda: _left(receive)
        said: list[Message] = []

        async def keep(message: Message) -> None:
            said.append(message)

        turns = self._turns(scope)
        try:
            async with turns.turn(_client(scope), leaves):
                await self._app(scope, body, send if turns is self._downloads else keep)
        except Gone:
            return
        for message in said:
            await send(message)

    def _turns(self, scope: Scope) -> Turns:
        method, path = scope["method"], scope["path"]
        if is_upload(scope):
            return self._uploads
        if method == "POST" and path == "/login":
            return self._log_ins
        if path in _LIVE:
            return self._asked
        if path in _HEAVY_PATHS:
            return self._heavy
        if method not in ("GET", "HEAD"):
            return self._writes
        if _FILES.fullmatch(path):
            return self._downloads
        if path.endswith(_HEAVY_ENDS):
            return self._heavy
        return self._light if _LIGHT.fullmatch(path) else self._reads


def is_upload(scope: Scope) -> bool:
    return (scope["method"], scope["path"]) == UPLOAD


def _client(scope: Scope) -> str:
    return str(scope["client"][0]) if scope.get("client") else ""


async def _whole(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()  # which says when the client disconnects

    return replay


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
