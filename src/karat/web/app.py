"""Every page and endpoint by its address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import cache, partial
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from karat.errors import KaratError
from karat.history.store import Store
from karat.labels.desk import Desk
from karat.web.access import SESSION, Access
from karat.web.api import ENDPOINTS, PREFIX
from karat.web.endpoints import Endpoint, Problem, as_json, openapi, read_body, read_parameters, refusal
from karat.web.guard import COOKIE, LOGIN, LOGOUT, NEXT, Guard, cookie_of, next_page
from karat.web.label_api import LABEL_ENDPOINTS
from karat.web.label_pages import label_routes, visit_of
from karat.web.pages.common import front_page, problem_page, static_file
from karat.web.pages.comparing import compare_page
from karat.web.pages.queries import queries_page, query_page, triage_page
from karat.web.pages.runs import pins_page, run_page, runs_page
from karat.web.pages.trend import trend_page
from karat.web.rendering import page

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


def create_app(store: Store, access: Access, desk: Desk | None = None) -> Starlette:
    """`store` and `desk` stay open as long as the application runs."""
    visit = partial(visit_of, store, desk or Desk(), access)
    routes = [
        *_api(ENDPOINTS, lambda request: store),
        *_api(LABEL_ENDPOINTS, visit),
        *label_routes(visit, problem_page),
    ]
    routes.append(Route(f"{PREFIX}/openapi.json", _described))
    routes += [Route(path, _showing(store, show)) for path, show in PAGES.items()]
    return Starlette(
        routes=[
            *routes,
            Route(LOGIN, _log_in(access), methods=["GET", "POST"]),
            Route(LOGOUT, _log_out(access), methods=["POST"]),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HTTPException: _http_problem},
    )


def _api(endpoints: Sequence[Endpoint], place: Callable[[Request], Any]) -> list[Route]:
    """`place`: what a request is answered from."""
    by_path: dict[str, dict[str, Endpoint]] = {}
    for endpoint in endpoints:
        by_path.setdefault(endpoint.path, {})[endpoint.method] = endpoint
    return [
        Route(PREFIX + path, _answering(place, methods), methods=list(methods)) for path, methods in by_path.items()
    ]


def _showing(store: Store, show: Callable[[Store, Request], Response]) -> Callable[[Request], Response]:
    def shown(request: Request) -> Response:
        try:
            return show(store, request)
        except KaratError as error:
            return problem_page(store, error)

    return shown


def _log_in(access: Access) -> Callable[[Request], Awaitable[Response]]:
    async def log_in(request: Request) -> Response:
        wrong, wanted = False, request.query_params.get(NEXT, "")
        if request.method == "POST":
            form = dict(parse_qsl((await request.body()).decode("utf-8", "replace"), max_num_fields=10))
            name, password = form.get("name", ""), form.get("password", "")
            wanted = form.get(NEXT, "")
            cookie = await run_in_threadpool(access.log_in, name, password)
            if cookie is not None:
                return _welcome(next_page(wanted), cookie, secure=request.headers.get("x-forwarded-proto") == "https")
            wrong = True
        status, wanted = 403 if wrong else 200, next_page(wanted)
        return page("login.html", "Log in", status=status, store="", alone=True, wrong=wrong, next=wanted)

    return log_in


def _welcome(wanted: str, cookie: str, *, secure: bool) -> Response:
    response = RedirectResponse(wanted, 303)
    response.set_cookie(COOKIE, cookie, max_age=int(SESSION), httponly=True, samesite="strict", secure=secure)
    return response


def _log_out(access: Access) -> Callable[[Request], Response]:
    """Here too, and not only in the browser: a cookie that somebody has copied ends with it."""

    def log_out(request: Request) -> Response:
        access.log_out(cookie_of(request.headers))
        response = RedirectResponse(LOGIN, 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    return log_out


def _answering(
    place: Callable[[Request], Any], methods: dict[str, Endpoint]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        endpoint = methods["GET" if request.method == "HEAD" else request.method]
        try:
            asked = read_parameters(endpoint.parameters, request)
            body: Any = None
            if endpoint.takes is not None:
                body = read_body(endpoint.takes, await request.body())
            elif endpoint.takes_file:
                body = await request.body()
            found = await run_in_threadpool(endpoint.answer, place(request), dict(request.path_params), asked, body)
        except KaratError as error:
            return refusal(error)
        return Response(found, media_type=endpoint.file) if endpoint.file else as_json(found)

    return answer


def _described(request: Request) -> Response:
    return Response(_document(), media_type="application/json")


@cache
def _document() -> bytes:
    return msgspec.json.encode(openapi([*ENDPOINTS, *LABEL_ENDPOINTS], PREFIX))


async def _http_problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if not request.url.path.startswith(PREFIX):
        return page("problem.html", "Not there", status=error.status_code, store="", error=error.detail, hint=None)
    response = as_json(Problem(error.detail), error.status_code)
    response.headers.update(error.headers or {})
    return response
