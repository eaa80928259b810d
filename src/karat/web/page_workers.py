"""Processes that make pages, so that many new pages at once use all cores and cached ones do not wait for them.

A page reads Parquet files in the process that makes it. If a damaged file crashes that, the server makes the page
itself, which reads files safely and says what is wrong.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from karat.errors.redaction import kept_secrets, redact_known
from karat.files.child import Child, ChildFailed
from karat.history.store import Store
from karat.web.access import ROLE, VISITOR
from karat.web.page import LIVE

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_SLOW = "/compare"  # has a process of its own, so that other pages do not wait for it
_FEWEST, _MOST = 2, 4  # processes
_PATIENCE = 120.0  # seconds
MADE_FROM = "karat.made_from"  # a list in the scope of a request, for the version of the run that its page shows
_Answer = Future[tuple[dict[str, Any], bytes]]


class PageWorkers:
    """The processes of one server; `start` comes first."""

    def __init__(self, store: Store) -> None:
        self._first = (
            json.dumps({"store": store.address, "label": store.label, "secrets": kept_secrets()}).encode() + b"\n"
        )
        self._usual = _Team(self._first, min(max(os.cpu_count() or 1, _FEWEST), _MOST))
        self._slow = _Team(self._first, 1)

    def start(self) -> None:
        """Starts all processes; they load while the server does."""
        self._usual.start()
        self._slow.start()

    def wait(self) -> None:
        """Waits until they have loaded: many readers at once would make loading slow, and wait for it."""
        self._usual.wait()
        self._slow.wait()

    async def page(self, route: str, request: Request) -> Response | None:
        """Makes a page; None if a process failed."""
        from starlette.responses import Response

        asked = {
            "route": route,
            "path": request.url.path,
            "query": request.scope["query_string"].decode("latin-1"),
            "run": request.path_params.get("run"),
            "visitor": VISITOR.get(),
            "role": ROLE.get(),
            "live": LIVE.get(),
        }
        try:
            told, body = await asyncio.wrap_future((self._slow if route == _SLOW else self._usual).answer(asked))
        except ChildFailed:
            return None
        if "status" not in told:
            return None
        if told["version"] is not None and MADE_FROM in request.scope:
            request.scope[MADE_FROM].append(told["version"])
        shown = redact_known(body.decode()) if kept_secrets() else body
        return Response(shown, told["status"], headers=told["headers"])

    def close(self) -> None:
        self._usual.close()
        self._slow.close()


class _Team:
    """Processes that make pages in the order of the requests. Each has a thread that sends it the next one: while the
    event loop answers a hundred cached pages, a process would wait for it."""

    def __init__(self, first: bytes, size: int) -> None:
        self._first, self._asked = first, SimpleQueue[tuple[dict[str, Any], _Answer] | None]()
        self._children: list[Child | None] = [None] * size
        self._threads: list[threading.Thread] = []
        self._loaded = threading.Semaphore(0)

    def start(self) -> None:
        for number in range(len(self._children)):
            self._threads.append(threading.Thread(target=self._work, args=[number], daemon=True))
            self._threads[-1].start()

    def wait(self) -> None:
        for _ in self._threads:
            self._loaded.acquire(timeout=_PATIENCE)

    def answer(self, asked: dict[str, Any]) -> _Answer:
        found: _Answer = Future()
        self._asked.put((asked, found))
        return found

    def close(self) -> None:
        for _ in self._threads:
            self._asked.put(None)
        for child in self._children:
            if child is not None:
                child.kill()
        for thread in self._threads:
            thread.join()

    def _work(self, number: int) -> None:
        with suppress(ChildFailed):  # the first request fails too
            self._child(number).ready(_PATIENCE)
        self._loaded.release()
        while (following := self._asked.get()) is not None:
            asked, found = following
            if found.set_running_or_notify_cancel():
                try:
                    found.set_result(self._child(number).ask(asked, patience=_PATIENCE))
                except ChildFailed as error:
                    found.set_exception(error)
        if (child := self._children[number]) is not None:
            child.close()

    def _child(self, number: int) -> Child:
        child = self._children[number]
        if child is None or not child.is_alive:
            if child is not None:
                child.close()
            child = self._children[number] = Child("karat.web.page_worker", self._first)
        return child
