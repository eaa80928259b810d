"""Checks for every request, and headers for every response."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from karat.history.audit import LOCAL, TOKEN, WHO
from karat.web.access import ROLE, TOKEN_ROLE, VISITOR, Access, allows
from karat.web.endpoints import Problem, as_json
from karat.web.page import page
from karat.web.rules import READS, needed_role, refusal
from karat.web.turns import Gone, is_upload

COOKIE = "karat_session"
HEADER = "x-karat"
LOGIN = "/login"
LOGOUT = "/logout"
NEXT = "next"  # the page requested before the log-in
LABELS = "/labels"
MANAGE = "/manage"
DESK = "/desk"
TRY = "/try"
METRICS = "/metrics"
HEALTH = "/health"
_FORMS = (f"{LABELS}/", f"{MANAGE}/", f"{DESK}/", TRY)
_OPEN_PATHS = (LOGIN, HEALTH, "/static/")
_SMALL, _LARGE = 64 << 10, 128 << 20  # bytes of a body, and of an upload of runs
_LONGEST_ADDRESS, LARGEST_HEAD = 8 << 10, 16 << 10  # bytes of path and query, and of all headers
_COOKIES = "karat.cookies"  # key in the scope
ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers hide the origin of our own forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
}


@dataclass(frozen=True)
class Patience:
    """How long a body may take: a fixed time plus its size divided by a minimum speed."""

    seconds: float = 20.0
    bytes_per_second: int = 32 << 10


class TooLarge(Exception):
    """A body over its size limit."""


class BodyTooSlow(Exception):
    """A body that arrives too slowly."""


class Guard:
    """Middleware around the whole application, so that nothing else has to do these checks."""

    def __init__(
        self, app: ASGIApp, access: Access, patience: Patience | None = None, routes: Sequence[BaseRoute] = ()
    ) -> None:
        self._app, self._access, self._patience, self._routes = app, access, patience or Patience(), routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        begun = False

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                headers = MutableHeaders(scope=message)
                for name, value in ALWAYS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            refused = self._refused(scope)
            if refused is None:
                await self._app(scope, self._counted(receive, _limit(scope)), guarded)
                return
        except TooLarge:
            refused = _problem(413, "the body is too large")
        except BodyTooSlow:
            refused = _last(_problem(408, "the body took too long"))
        except Gone:
            return
        except Exception:
            logging.getLogger("karat.web").exception("%s %s was not answered", scope["method"], scope["path"])
            refused = _problem(500, "internal error in Karat")
        if not begun:
            await refused(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        if len(scope["path"]) + len(scope["query_string"]) > _LONGEST_ADDRESS:
            return _last(_problem(414, "the address is too long"))
        if sum(len(name) + len(value) for name, value in scope["headers"]) > LARGEST_HEAD:
            return _last(_problem(431, "the headers are too large"))
        headers, path = Headers(scope=scope), scope["path"]
        scope[_COOKIES] = _parsed(headers.getlist("cookie"))
        VISITOR.set(self._visitor(scope, headers))
        ROLE.set(self._access.role_of(VISITOR.get()))
        WHO.set(VISITOR.get() or (LOCAL if self._access.open else TOKEN))
        writes = scope["method"] not in READS
        host = _host(headers.get("host", ""))
        if host not in self._access.hosts:
            return _problem(403, "host name not allowed", "karat serve --allow-host NAME")
        if not scope["query_string"].isascii():
            return _problem(400, "the address contains invalid characters")
        if writes and not self._own_origin(headers):
            return _problem(403, "request from another site")
        if writes and HEADER not in headers and not _own_form(headers, path):
            return _problem(403, "the header X-Karat is missing", "send X-Karat: 1")
        if int(headers.get("content-length", "0").strip() or 0) > _limit(scope):
            return _problem(413, "the body is too large")
        if not self._may_ask(headers, path):
            if path.startswith("/api/") or path == METRICS:
                said = "wrong token" if "authorization" in headers else "not logged in"
                return _problem(401, said, "Authorization: Bearer TOKEN")
            if self._access.proxy is not None and not self._access.users and self._access.token is None:
                return _problem(401, "the proxy did not name a user", "log in at the address of the proxy")
            return RedirectResponse(_log_in_first(scope), 303)
        return self._beyond_role(scope)

    def _visitor(self, scope: Scope, headers: Headers) -> str | None:
        proxy = self._access.proxy
        named = None if proxy is None else proxy.user(scope, headers)
        return named or self._access.visitor(cookies_of(scope).get(COOKIE, ""))

    def _may_ask(self, headers: Headers, path: str) -> bool:
        if self._access.open or path.startswith(_OPEN_PATHS):
            return True
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            given = token.strip()
            if self._access.is_token(given):
                ROLE.set(TOKEN_ROLE)
                WHO.set(TOKEN)
                return True
            ROLE.set("viewer")
            return path == METRICS and self._access.is_metrics_token(given)
        return VISITOR.get() is not None

    def _beyond_role(self, scope: Scope) -> Response | None:
        own, needed = ROLE.get(), needed_role(self._routes, scope)
        if allows(own, needed):
            return None
        problem = Problem(refusal(own, needed), "ask an admin of this server for the role")
        if scope["path"].startswith("/api/"):
            return as_json(problem, 403)
        return page("problem.html", "Not allowed", status=403, problem=problem)

    def _own_origin(self, headers: Headers) -> bool:
        """Whether a write comes from our own pages. Browsers send its origin; scripts do not."""
        origin = headers.get("origin")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        return origin is None or _place(origin) == headers.get("host", "").lower()

    def _counted(self, receive: Receive, limit: int) -> Receive:
        """Limits the size and the time of a body, because Content-Length cannot be trusted."""
        seen, begun, whole = 0, time.monotonic(), False

        async def counted() -> Message:
            nonlocal seen, whole
            if whole:  # only reports disconnects from now on
                return await receive()
            left = begun + self._patience.seconds + seen / self._patience.bytes_per_second - time.monotonic()
            try:
                async with asyncio.timeout(left):
                    message = await receive()
            except TimeoutError:
                raise BodyTooSlow from None
            seen += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if seen > limit:
                raise TooLarge
            return message

        return counted


def _own_form(headers: Headers, path: str) -> bool:
    """Whether this is a form of our pages sent without a script; its origin has been checked."""
    return path in (LOGIN, LOGOUT) or (path.startswith(_FORMS) and "origin" in headers)


def _log_in_first(scope: Scope) -> str:
    """The address of the log-in, which leads back to the requested page."""
    wanted = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
    return f"{LOGIN}?{urlencode({NEXT: wanted})}" if scope["method"] == "GET" and wanted != "/" else LOGIN


def next_page(asked: str) -> str:
    """Returns a page of this server, never of another site.

    >>> [next_page(asked) for asked in ("/trend?metric=mrr", "//evil.example", "https://evil.example", "")]
    ['/trend?metric=mrr', '/runs', '/runs', '/runs']
    """
    ours = asked.startswith("/") and not asked.startswith("//") and "\\" not in asked
    readable = asked.isascii() and asked.isprintable()
    return asked if ours and readable and urlsplit(asked).path not in (LOGIN, LOGOUT) else "/runs"


def cookies_of(scope: Scope) -> dict[str, str]:
    """Returns the cookies that the Guard has parsed."""
    found: dict[str, str] = scope[_COOKIES]
    return found


def _parsed(headers: list[str]) -> dict[str, str]:
    """Parses cookies in linear time. Our cookies need no quotes, so quotes are not removed.

    >>> _parsed(['karat_session=abc; other="x', "a=b=c; =; karat_session=def"])
    {'karat_session': 'abc', 'other': '"x', 'a': 'b=c'}
    """
    found: dict[str, str] = {}
    for header in headers:
        for part in header.split(";"):
            name, _, value = part.partition("=")
            if name.strip():
                found.setdefault(name.strip(), value.strip())
    return found


def set_cookie(request: Request, response: Response, name: str, value: str, seconds: float) -> None:
    """Sets a cookie that scripts and other sites cannot read; TLS only if the request used TLS."""
    secure = request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(name, value, max_age=int(seconds), httponly=True, samesite="strict", secure=secure)


def _limit(scope: Scope) -> int:
    return _LARGE if is_upload(scope) else _SMALL


def _host(header: str) -> str:
    """
    >>> _host("localhost:8000"), _host("[::1]:80"), _host("karat.example.org")
    ('localhost', '::1', 'karat.example.org')
    """
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _place(origin: str) -> str | None:
    """Host and port of an origin; None if it is invalid."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _problem(status: int, error: str, hint: str | None = None) -> Response:
    return as_json(Problem(error, hint), status)


def _last(response: Response) -> Response:
    """Closes the connection after this response."""
    response.headers["Connection"] = "close"
    return response
