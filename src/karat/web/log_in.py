"""Logging in and out, with both in the audit log."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from karat.errors import InputError, KaratError
from karat.history.audit import TOKEN, acting
from karat.history.store import Store
from karat.web.access import SESSION, Access
from karat.web.endpoints import problem_of
from karat.web.forms import read_form
from karat.web.guard import COOKIE, LOGIN, NEXT, cookies_of, next_page, set_cookie
from karat.web.page import page

_MOST, _SPAN = 30, 3600.0  # refused log-ins in the audit log per this many seconds
_UNKNOWN = "unknown"


class LogInLog:
    """Adds log-ins to the audit log. Of refused ones only some: anyone can cause them."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._refused: deque[float] = deque()
        self._left_out = 0
        self._lock = threading.Lock()

    def accepted(self, name: str) -> None:
        with suppress(KaratError), acting(name or TOKEN):  # a history that cannot be written can still be read
            self._store.log("log-in")

    def refused(self, name: str | None) -> None:
        """`name`: of a known user. What else was typed is not kept: it may be a password."""
        now = self._clock()
        with self._lock:
            while self._refused and now - self._refused[0] >= _SPAN:
                self._refused.popleft()
            if len(self._refused) >= _MOST:
                self._left_out += 1
                return
            self._refused.append(now)
            left_out, self._left_out = self._left_out, 0
        tried = "the token" if name == "" else f"user {name}" if name is not None else "an unknown user"
        with suppress(KaratError), acting(_UNKNOWN):
            self._store.log(
                "log-in refused", tried + (f"; {left_out:,} more before are not listed" if left_out else "")
            )


def log_in_route(access: Access, store: Store) -> Callable[[Request], Awaitable[Response]]:
    log = LogInLog(store)

    def tried(name: str, password: str) -> str | None:
        cookie = access.log_in(name, password)
        if cookie is not None:
            log.accepted(name)
        else:
            log.refused(name if name in ("", *access.users) else None)
        return cookie

    async def log_in(request: Request) -> Response:
        wrong, wanted = False, request.query_params.get(NEXT, "")
        if request.method == "POST":
            try:
                form = await read_form(request)
            except InputError as error:
                status, problem = problem_of(error)
                return page("problem.html", "Something went wrong", status=status, problem=problem)
            wanted = form.get(NEXT, "")
            cookie = await run_in_threadpool(tried, form.get("name", ""), form.get("password", ""))
            if cookie is not None:
                response = RedirectResponse(next_page(wanted), 303)
                set_cookie(request, response, COOKIE, cookie, SESSION)
                return response
            wrong = True
        return page("login.html", "Log in", status=403 if wrong else 200, wrong=wrong, next=next_page(wanted))

    return log_in


def log_out_route(access: Access) -> Callable[[Request], Response]:
    """Ends the session on the server too, so that copied cookies stop working."""

    def log_out(request: Request) -> Response:
        access.log_out(cookies_of(request.scope).get(COOKIE, ""))
        response = RedirectResponse(LOGIN, 303)
        response.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return response

    return log_out
