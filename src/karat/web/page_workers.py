"""Processes that make pages, so that many new pages at once use all cores and cached ones do not wait for them.

A page reads Parquet files in the process that makes it. If a damaged file crashes that, the server makes the page
itself, which reads files safely and says what is wrong.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from karat.errors.redaction import kept_secrets, redact_known
from karat.files.child import Child, ChildFailed, Children
from karat.history.store import Store
from karat.web.access import VISITOR

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_SLOW = "/compare"  # has a process of its own, so that other pages do not wait for it
_FEWEST, _MOST = 2, 4  # processes
_PATIENCE = 120.0  # seconds


class PageWorkers:
    """The processes of one server."""

    def __init__(self, store: Store) -> None:
        self._first = json.dumps({"store": store.address, "secrets": kept_secrets()}).encode() + b"\n"
        self._usual = Children(self._started, min(max(os.cpu_count() or 1, _FEWEST), _MOST))
        self._slow = Children(self._started, 1)

    def start(self) -> None:
        """Starts the processes for most pages; they load while the server does."""
        self._usual.start_all()

    def page(self, route: str, request: Request) -> Response | None:
        """Makes a page; None if a process failed."""
        from starlette.responses import Response

        asked = {
            "route": route,
            "path": request.url.path,
            "query": request.scope["query_string"].decode("latin-1"),
            "run": request.path_params.get("run"),
            "visitor": VISITOR.get(),
        }
        try:
            with (self._slow if route == _SLOW else self._usual).one() as worker:
                told, body = worker.ask(asked, patience=_PATIENCE)
        except ChildFailed:
            return None
        if "status" not in told:
            return None
        return Response(redact_known(body.decode()), told["status"], headers=told["headers"])

    def close(self) -> None:
        self._usual.close()
        self._slow.close()

    def _started(self) -> Child:
        return Child("karat.web.page_worker", self._first)
