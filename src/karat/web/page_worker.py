"""A process that makes pages; `page_workers.py` is the other side."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from karat.errors import KaratError
from karat.errors.redaction import keep_secret
from karat.files.child import answer_requests, pipes
from karat.files.safe_parquet import read_here
from karat.history.location import open_store
from karat.history.store import LATEST, Store
from karat.web.access import ROLE, VISITOR
from karat.web.page import LIVE, problem_page
from karat.web.pages.compare import compare_page
from karat.web.pages.one_query import query_page
from karat.web.pages.queries import queries_page, triage_page
from karat.web.pages.run_list import runs_page
from karat.web.pages.runs import run_page
from karat.web.pages.trend import trend_page

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


def main() -> None:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # a page reads little, and other processes use the other cores
    requests, answers = pipes()
    first = json.loads(requests.readline())
    for secret in first["secrets"]:
        keep_secret(secret)
    read_here()
    with open_store(first["store"]) as store:
        store.label = first["label"]
        for route in ("/runs/{run}", "/runs/{run}/queries"):  # loads what the first page would
            _made(store, {"route": route, "path": route, "query": "", "run": LATEST, "visitor": None, "role": "admin"})
        answer_requests(lambda asked, _: _made(store, asked), requests, answers)


def _made(store: Store, asked: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    VISITOR.set(asked["visitor"])
    ROLE.set(asked["role"])
    LIVE.set(asked.get("live", False))
    scope = {
        "type": "http",
        "method": "GET",
        "path": asked["path"],
        "query_string": asked["query"].encode("latin-1"),
        "path_params": {} if asked["run"] is None else {"run": asked["run"]},
        "headers": [],
    }
    with suppress(Exception):  # the server makes the page itself, and reports the error
        version = None
        try:
            with store.snapshot():
                version = None if asked["run"] is None else store.run_version(asked["run"])
                shown = MADE_APART[asked["route"]](store, Request(scope))
        except KaratError as error:
            shown = problem_page(store, error)
        headers = {name: value for name, value in shown.headers.items() if name != "content-length"}
        return {"status": shown.status_code, "headers": headers, "version": version}, bytes(shown.body)
    return {}, b""
