"""Every page by its address."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response

from karat.history.store import Store
from karat.web.pages.comparing import compare_page
from karat.web.pages.frame import front_page, static_file
from karat.web.pages.pins import pins_page
from karat.web.pages.queries import queries_page, triage_page
from karat.web.pages.query import query_page
from karat.web.pages.run import run_page
from karat.web.pages.runs import runs_page
from karat.web.pages.trend import trend_page

PAGES: dict[str, Callable[[Store, Request], Response]] = {
    "/": front_page,
    "/runs": runs_page,
    "/trend": trend_page,
    "/runs/{run}": run_page,
    "/runs/{run}/queries": queries_page,
    "/runs/{run}/triage": triage_page,
    "/compare": compare_page,
    "/query": query_page,
    "/pins": pins_page,
    "/static/{name}": static_file,
}
