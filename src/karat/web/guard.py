"""What every request must pass, and what every answer carries."""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from karat.web.access import VISITOR, Access
from karat.web.endpoints import Problem, as_json

COOKIE = "karat_session"
HEADER = "x-karat"
LOGIN = "/login"
LOGOUT = "/logout"
NEXT = "next"  # the page that was asked for before the log-in
LABELS = "/labels"
_OPEN_PATHS = (LOGIN, "/static/")
_SMALL, _LARGE = 64 << 10, 128 << 20  # bytes of a body, and of one that is a file of runs
_UPLOAD = ("POST", "/api/v1/runs")
_ALWAYS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without any, browsers hide from us where our own forms come from
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)


class TooLarge(Exception):
    """A body that goes on past its limit."""


class Guard:
    """Around the whole application: nothing behind it needs to think of any of this."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app, self._access = app, access

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
                for name, value in _ALWAYS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Content-Security-Policy", POLICY)
            await send(message)

        cookie = cookie_of(Headers(scope=scope))
        VISITOR.set(self._access.user_of(cookie) if self._access.is_logged_in(cookie) else None)
        refused = self._refused(scope)
        if refused is not None:
            await refused(scope, receive, guarded)
            return
        try:
            await self._app(scope, _counted(receive, _limit(scope)), guarded)
        except TooLarge:
            if not begun:
                await _problem(413, "the body is too large")(scope, receive, guarded)

    def _refused(self, scope: Scope) -> Response | None:
        headers, path = Headers(scope=scope), scope["path"]
        writes = scope["method"] not in ("GET", "HEAD", "OPTIONS")
        host = _host(headers.get("host", ""))
        if host not in self._access.hosts:
            return _problem(403, "this server does not go by that name", "karat serve --allow-host NAME")
        if not scope["query_string"].isascii():
            return _problem(400, "the address has bytes that are no characters of an address")
        if writes and not self._own_origin(headers):
            return _problem(403, "asked by a page of another site")
        if writes and HEADER not in headers and not _own_form(headers, path):
            return _problem(403, "a write without the header X-Karat", "send X-Karat: 1")
        if int(headers.get("content-length", "0").strip() or 0) > _limit(scope):
            return _problem(413, "the body is too large")
        if not self._may_ask(headers, path):
            if path.startswith("/api/"):
                said = "this is not the token" if "authorization" in headers else "not logged in"
                return _problem(401, said, "Authorization: Bearer TOKEN")
            return RedirectResponse(_log_in_first(scope), 303)
        return None

    def _may_ask(self, headers: Headers, path: str) -> bool:
        if self._access.open or path.startswith(_OPEN_PATHS):
            return True
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._access.is_token(token.strip())
        return self._access.is_logged_in(cookie_of(headers))

    def _own_origin(self, headers: Headers) -> bool:
        """Browsers say where a write comes from; scripts say nothing."""
        origin = headers.get("origin")
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        return origin is None or urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _own_form(headers: Headers, path: str) -> bool:
    """A form of these pages, sent without a script; where it comes from is said by the browser, and was looked at."""
    return path in (LOGIN, LOGOUT) or (path.startswith(f"{LABELS}/") and "origin" in headers)


def _log_in_first(scope: Scope) -> str:
    """To the log-in, and from there to the page that was asked for."""
    wanted = scope["path"] + (f"?{scope['query_string'].decode('latin-1')}" if scope["query_string"] else "")
    return f"{LOGIN}?{urlencode({NEXT: wanted})}" if scope["method"] == "GET" and wanted != "/" else LOGIN


def next_page(asked: str) -> str:
    """A page of this server, and of no other, whoever wrote the link.

    >>> [next_page(asked) for asked in ("/trend?metric=mrr", "//evil.example", "https://evil.example", "")]
    ['/trend?metric=mrr', '/runs', '/runs', '/runs']
    """
    ours = asked.startswith("/") and not asked.startswith("//") and "\\" not in asked
    readable = asked.isascii() and asked.isprintable()
    return asked if ours and readable and urlsplit(asked).path not in (LOGIN, LOGOUT) else "/runs"


def cookie_of(headers: Headers) -> str:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def set_cookie(request: Request, response: Response, name: str, value: str, seconds: float) -> None:
    """Out of reach of scripts and of other sites; only over TLS where the request came that way."""
    secure = request.headers.get("x-forwarded-proto") == "https"
    response.set_cookie(name, value, max_age=int(seconds), httponly=True, samesite="strict", secure=secure)


def _limit(scope: Scope) -> int:
    return _LARGE if (scope["method"], scope["path"]) == _UPLOAD else _SMALL


def _counted(receive: Receive, limit: int) -> Receive:
    """What a request says of its length is only a promise."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > limit:
            raise TooLarge
        return message

    return counted


def _host(header: str) -> str:
    """
    >>> _host("localhost:8000"), _host("[::1]:80"), _host("karat.example.org")
    ('localhost', '::1', 'karat.example.org')
    """
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _problem(status: int, error: str, hint: str | None = None) -> Response:
    return as_json(Problem(error, hint), status)
