"""A cache of responses, valid as long as the history does not change.

When the history has changed, pages about one run stay valid if nothing was written about that run; everything else is
made again."""

from __future__ import annotations

import asyncio
import secrets
import zlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from markupsafe import escape
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from karat.errors import KaratError
from karat.history.store import Store
from karat.web.access import ROLE, VISITOR, Role
from karat.web.page_workers import MADE_FROM

_T = TypeVar("_T")
# Path, query, whether the reader is anonymous, has a name or uses the token, and the role: pages show what it may do.
_Key = tuple[str, bytes, bool | None, Role]
_PAGES = ("/runs", "/trend", "/compare", "/query", "/pins")
_KEPT = (*_PAGES, *(f"/api/v1{path}" for path in (*_PAGES, "/side-by-side", "/choices", "/hits")))
_NEVER = ("/export", "/queries.csv")  # files
_RUN_PAGES = "/runs/"
_ONE_RUN = (_RUN_PAGES, "/api/v1/runs/")
_LARGEST = 1 << 20  # bytes of a cached response
_MOST = 64 << 20  # bytes of all responses, compressed
_EACH = 500  # bytes of overhead per response
_READY = (
    8 << 20
)  # bytes of responses that are also kept as they are sent, because to unpack one takes as long as the rest
# A random placeholder for the reader's name, so that one page serves everyone.
_MARK = f"visitor{secrets.token_hex(16)}"


@dataclass
class Kept:
    """A cached response. `state`: of the history when it was made or last validated; `since`: which request that was
    for; `version`: of its run."""

    state: str
    since: int
    version: str | None
    start: Message
    body: bytes  # compressed

    @property
    def size(self) -> int:
        return len(self.body) + _EACH


class SharedState:
    """The state of the history, read once for all requests that ask for it at the same time.

    A request may use only what was read after it came: a page must show what was written before. So requests that come
    during a read share the next one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reading: asyncio.Future[str] | None = None
        self._next: asyncio.Future[str] | None = None

    async def read(self) -> str:
        if self._store.is_near:
            return self._store.state()
        if self._next is None:
            self._next = asyncio.ensure_future(self._after(self._reading))
        return await asyncio.shield(self._next)  # others may wait for it

    async def _after(self, before: asyncio.Future[str] | None) -> str:
        if before is not None:
            await asyncio.wait([before])
        self._reading, self._next = self._next, None
        return await run_in_threadpool(self._store.state)


class Remember:
    """Middleware between the Guard and the application."""

    def __init__(
        self,
        app: ASGIApp,
        store: Store,
        most: int = _MOST,
        *,
        personal: Callable[[Scope], bool] | None = None,
        apart: bool = False,
    ) -> None:
        """`personal`: whether a page shows more than the history, such as the visitor's own labels. `apart`: other
        processes make pages."""
        self._app, self._store, self._most, self._personal = app, store, most, personal or (lambda scope: False)
        self._apart = apart
        self._state = SharedState(store)
        self._kept: OrderedDict[_Key, Kept] = OrderedDict()
        self._ready: OrderedDict[_Key, bytes] = OrderedDict()
        self._size = self._ready_size = 0
        self._working: dict[_Key, asyncio.Future[None]] = {}
        self._requests = count(1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or not _is_kept(scope["path"]) or self._personal(scope):
            await self._app(scope, receive, send)
            return
        name = VISITOR.get()
        key = (scope["path"], scope["query_string"], None if name is None else bool(name), ROLE.get())
        came = next(self._requests)
        while True:
            found = self._kept.get(key)
            if found is not None and found.since > came:  # made while this request waited
                await _send(found.start, self._body(key, found), name, send)
                return
            since = next(self._requests)
            try:
                state = await self._state.read()
                found = await self._still_right(key, state, since)
            except KaratError:  # the application reports the error
                await self._app(scope, receive, send)
                return
            if found is not None:
                await _send(found.start, self._body(key, found), name, send)
                return
            if key not in self._working:
                break
            await asyncio.wait([self._working[key]])  # another request is making it
        self._working[key] = asyncio.get_running_loop().create_future()
        try:
            start, body = await self._made(key, state, since, scope, receive)
        finally:
            self._working.pop(key).set_result(None)
        if start is not None:
            await _send(start, body, name, send)

    async def _made(
        self, key: _Key, state: str, since: int, scope: Scope, receive: Receive
    ) -> tuple[Message | None, bytes]:
        """Calls the application. State and version are read first, so a write in between invalidates the response.
        Processes that make pages read the version of the run themselves."""
        version = None if self._apart and key[0].startswith(_RUN_PAGES) else await self._version(key)
        scope[MADE_FROM] = made_from = list[str]()
        said: list[Message] = []

        async def keep(message: Message) -> None:
            said.append(message)

        if VISITOR.get():
            VISITOR.set(_MARK)
        await self._app(scope, receive, keep)
        if not said:
            return None, b""
        body = b"".join(message.get("body", b"") for message in said[1:])
        if said[0]["status"] == 200 and len(body) <= _LARGEST:
            version = made_from[0] if made_from else version
            self._keep(key, Kept(state, since, version, said[0], zlib.compress(body, 1)))
        return said[0], body

    async def _still_right(self, key: _Key, state: str, since: int) -> Kept | None:
        found = self._kept.get(key)
        if found is None:
            return None
        if found.state != state:
            if found.version is None or found.version != await self._version(key):
                return None
            found.state, found.since = state, since
        if key in self._kept:
            self._kept.move_to_end(key)
        return found

    async def _version(self, key: _Key) -> str | None:
        """The version of the run that a page is about; None for other pages."""
        run = run_of(key[0])
        try:
            return None if run is None else await self._asked(lambda: self._store.run_version(run))
        except KaratError:
            return None

    async def _asked(self, ask: Callable[[], _T]) -> _T:
        return ask() if self._store.is_near else await run_in_threadpool(ask)

    def _keep(self, key: _Key, new: Kept) -> None:
        old = self._kept.pop(key, None)
        self._ready_size -= len(self._ready.pop(key, b""))
        self._kept[key] = new
        self._size += new.size - (0 if old is None else old.size)
        while self._size > self._most:
            gone, dropped = self._kept.popitem(last=False)
            self._size -= dropped.size
            self._ready_size -= len(self._ready.pop(gone, b""))

    def _body(self, key: _Key, found: Kept) -> bytes:
        if self._kept.get(key) is not found:  # it was replaced meanwhile
            return zlib.decompress(found.body)
        body = self._ready.get(key)
        if body is not None:
            self._ready.move_to_end(key)
            return body
        self._ready[key] = body = zlib.decompress(found.body)
        self._ready_size += len(body)
        while self._ready_size > _READY:
            self._ready_size -= len(self._ready.popitem(last=False)[1])
        return body


def run_of(path: str) -> str | None:
    """
    >>> run_of("/runs/main/queries"), run_of("/api/v1/runs/ab12"), run_of("/runs")
    ('main', 'ab12', None)
    """
    for prefix in _ONE_RUN:
        if path.startswith(prefix):
            return path.removeprefix(prefix).partition("/")[0] or None
    return None


def _is_kept(path: str) -> bool:
    return path in _KEPT or (path.startswith(_ONE_RUN) and not path.endswith(_NEVER))


async def _send(start: Message, body: bytes, name: str | None, send: Send) -> None:
    if name:
        body = body.replace(_MARK.encode(), str(escape(name)).encode())
    headers = [(key, value) for key, value in start["headers"] if key.lower() != b"content-length"]
    await send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})
