"""The application: all pages and endpoints by path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from karat.errors import KaratError
from karat.history.store import Store
from karat.labels.desk import Desk
from karat.systems.live import LiveRetrievers
from karat.web.access import Access, Role
from karat.web.api import ENDPOINTS, PREFIX
from karat.web.endpoints import Endpoint, Problem, as_json, openapi, problem_of, read_body, read_parameters
from karat.web.grading import GRADING_ENDPOINTS, graded_page, grading_routes, shows_grades
from karat.web.guard import (
    HEALTH,
    LOGIN,
    LOGOUT,
    METRICS,
    Guard,
    Patience,
)
from karat.web.labels import LABEL_ENDPOINTS, Visit, label_routes, visit_of
from karat.web.live import LIVE_ENDPOINTS, LiveVisit, live_routes
from karat.web.log_in import log_in_route, log_out_route
from karat.web.metrics import metrics_route
from karat.web.order import ORDER_ENDPOINTS
from karat.web.page import LIVE, front_page, page, problem_page, static_file
from karat.web.page_worker import MADE_APART, Show
from karat.web.page_workers import PageWorkers
from karat.web.pages.csv_tables import compare_csv, queries_csv
from karat.web.pages.manage import manage_routes
from karat.web.pages.one_query import query_page
from karat.web.pages.run_list import runs_csv
from karat.web.pages.runs import pins_page
from karat.web.pools import POOL_ENDPOINTS, pool_routes
from karat.web.remember import Remember
from karat.web.rules import RoleRoute
from karat.web.turns import Lanes

DESK_ENDPOINTS = (*LABEL_ENDPOINTS, *POOL_ENDPOINTS, *GRADING_ENDPOINTS)
PAGES: dict[str, Show] = {
    "/": front_page,
    **{path: show for path, show in MADE_APART.items() if path != "/query"},
    "/runs.csv": runs_csv,
    "/runs/{run}/queries.csv": queries_csv,
    "/compare.csv": compare_csv,
    "/pins": pins_page,
    "/static/{name}": static_file,
}
_READ: dict[str, Role] = {"GET": "viewer"}
_PREPARED: set[type] = set()


def prepare(kind: type[msgspec.Struct] = msgspec.Struct) -> None:
    """Prepares all structs for msgspec before the first request: it crashes if two threads first decode a struct at the
    same time."""
    for own in kind.__subclasses__():
        if own.__module__.startswith("karat.") and own not in _PREPARED:
            with suppress(
                TypeError, NameError
            ):  # never decoded: fields of other types, or types only for type checkers
                msgspec.json.Decoder(own)
            _PREPARED.add(own)
        prepare(own)


def create_app(
    store: Store,
    access: Access,
    desk: Desk | None = None,
    patience: Patience | None = None,
    workers: PageWorkers | None = None,
    live: LiveRetrievers | None = None,
) -> Starlette:
    """Creates the application; `store` and `desk` must stay open while it runs. `workers`: make most pages; `live`:
    retrievers to ask."""
    prepare()
    desk = desk or Desk()
    visit = partial(visit_of, store, desk)
    personal = partial(shows_grades, desk)
    described = _described([*ENDPOINTS, *ORDER_ENDPOINTS, *DESK_ENDPOINTS, *(LIVE_ENDPOINTS if live else ())])
    routes = [
        *_api(ENDPOINTS, lambda request: store),
        *_api(ORDER_ENDPOINTS, lambda request: store),
        *_api(DESK_ENDPOINTS, visit),
        *label_routes(visit),
        *manage_routes(store),
        *pool_routes(visit),
        *grading_routes(visit),
        *(_live(live, visit) if live else ()),
        RoleRoute(f"{PREFIX}/openapi.json", described, _READ),
        RoleRoute(METRICS, metrics_route(store), _READ),
        RoleRoute(HEALTH, _healthy(store), _READ),
        RoleRoute("/query", _query(visit, _showing(store, "/query", query_page, workers), personal), _READ),
        *(RoleRoute(path, _showing(store, path, show, workers), _READ) for path, show in PAGES.items()),
        RoleRoute(LOGIN, log_in_route(access, store), {"GET": "viewer", "POST": "viewer"}),
        RoleRoute(LOGOUT, log_out_route(access), {"POST": "viewer"}),
    ]
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(_Told, live=live is not None),
            Middleware(Guard, access=access, patience=patience, routes=routes),
            Middleware(Remember, store=store, personal=personal, apart=workers is not None),
            Middleware(Lanes, apart=workers is not None),
        ],
        exception_handlers={HTTPException: _http_problem},
    )


def _api(endpoints: Sequence[Endpoint], place: Callable[[Request], Any]) -> list[RoleRoute]:
    """Routes for endpoints; `place` returns the object that answers a request."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [
        RoleRoute(PREFIX + path, _answering(place, own), {method: one.least_role for method, one in own.items()})
        for path, own in by_path.items()
    ]


def _showing(
    store: Store, route: str, show: Show, workers: PageWorkers | None
) -> Callable[[Request], Awaitable[Response]]:
    def made_here(request: Request) -> Response:
        try:
            return show(store, request)
        except KaratError as error:
            return problem_page(store, error)

    async def shown(request: Request) -> Response:
        if workers is not None and route in MADE_APART and (made := await workers.page(route, request)) is not None:
            return made
        return await run_in_threadpool(made_here, request)

    return shown


class _Told:
    """Middleware that says whether there are retrievers to ask, for the menu."""

    def __init__(self, app: ASGIApp, live: bool) -> None:
        self._app, self._live = app, live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        LIVE.set(self._live)
        await self._app(scope, receive, send)


def _live(live: LiveRetrievers, visit: Callable[[Request], Visit]) -> list[RoleRoute]:
    def here(request: Request) -> LiveVisit:
        return LiveVisit(visit(request), live)

    return [*_api(LIVE_ENDPOINTS, here), *live_routes(here)]


def _query(
    visit: Callable[[Request], Visit],
    usual: Callable[[Request], Awaitable[Response]],
    personal: Callable[[Scope], bool],
) -> Callable[[Request], Awaitable[Response]]:
    """The page of a query. Whoever may label gets it with their own labels, which no cache and no other process has."""

    async def shown(request: Request) -> Response:
        if not personal(request.scope):
            return await usual(request)
        return await run_in_threadpool(graded_page, visit(request), request)

    return shown


def _healthy(store: Store) -> Callable[[Request], Response]:
    """For load balancers and containers: whether the history can be read."""

    def healthy(request: Request) -> Response:
        try:
            store.state()
        except KaratError:
            return as_json(Problem("the history cannot be read"), 503)
        return as_json({"ok": True})

    return healthy


def _answering(
    place: Callable[[Request], Any], methods: dict[str, Endpoint]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        try:
            asked = read_parameters(endpoint.parameters, request)
            body = None if endpoint.takes is None else read_body(endpoint.takes, await request.body())
            found = await run_in_threadpool(endpoint.answer, place(request), dict(request.path_params), asked, body)
        except KaratError as error:
            status, problem = problem_of(error)
            return as_json(problem, status)
        return Response(found, media_type=endpoint.file) if endpoint.file else as_json(found)

    return answer


def _described(endpoints: Sequence[Endpoint]) -> Callable[[Request], Response]:
    @cache
    def document() -> bytes:
        return msgspec.json.encode(openapi(endpoints, PREFIX))

    return lambda request: Response(document(), media_type="application/json")


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    problem = Problem(error.detail)
    if not request.url.path.startswith(PREFIX):
        return page("problem.html", "Not found", status=error.status_code, problem=problem)
    response = as_json(problem, error.status_code)
    response.headers.update(error.headers or {})
    return response
