"""Processes that make pages, so that many new pages at once use all cores and cached ones do not wait for them.

A page reads Parquet files in the process that makes it. If a damaged file crashes that, the server makes the page
itself, which reads files safely and says what is wrong.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from karat.errors import KaratError
from karat.errors.redaction import keep_secret, kept_secrets, redact_known
from karat.files.child import Child, ChildFailed, Children, answer_requests, pipes
from karat.files.safe_parquet import read_here
from karat.history.location import open_store
from karat.history.store import LATEST, Store
from karat.web.access import VISITOR
from karat.web.page import problem_page
from karat.web.pages.compare import compare_page
from karat.web.pages.queries import queries_page, query_page, triage_page
from karat.web.pages.runs import run_page, runs_page, trend_page

Show = Callable[[Store, Request], Response]
MADE_APART: dict[str, Show] = {
    "/runs": runs_page,
    "/trend": trend_page,
    "/runs/{run}": run_page,
    "/runs/{run}/queries": queries_page,
    "/runs/{run}/triage": triage_page,
    "/compare": compare_page,
    "/query": query_page,
}
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
        return Response(redact_known(body.decode()), told["status"], headers=told["headers"])  # told since it began

    def close(self) -> None:
        self._usual.close()
        self._slow.close()

    def _started(self) -> Child:
        return Child(__name__, self._first)


def main() -> None:
    requests, answers = pipes()
    first = json.loads(requests.readline())
    for secret in first["secrets"]:
        keep_secret(secret)
    read_here()
    with open_store(first["store"]) as store:
        for route in ("/runs/{run}", "/runs/{run}/queries", "/runs", "/trend"):  # loads what the first page would
            _made(store, {"route": route, "path": route, "query": "", "run": LATEST, "visitor": None})
        answer_requests(lambda asked, _: _made(store, asked), requests, answers)


def _made(store: Store, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    VISITOR.set(asked["visitor"])
    scope = {
        "type": "http",
        "method": "GET",
        "path": asked["path"],
        "query_string": asked["query"].encode("latin-1"),
        "path_params": {} if asked["run"] is None else {"run": asked["run"]},
        "headers": [],
    }
    with suppress(Exception):  # the server makes the page itself, and reports the error
        try:
            shown = MADE_APART[asked["route"]](store, Request(scope))
        except KaratError as error:
            shown = problem_page(store, error)
        headers = {name: value for name, value in shown.headers.items() if name != "content-length"}
        return {"status": shown.status_code, "headers": headers}, bytes(shown.body)
    return {}, b""
