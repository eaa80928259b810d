"""JSON over HTTP: connections are kept, a busy server is asked again, no secret stands in a message."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from karat.errors import ConfigError, KaratError, MissingExtra, shorten
from karat.retrievers.templates import Secrets
from karat.retrievers.waiting import TooSlow

_BUSY = (429, 502, 503, 504)
_PATIENCE = 30.0  # seconds, where a question has no timeout of its own
_FIRST_WAIT = 0.25


T = TypeVar("T")


class WebError(KaratError):
    """A server that does not answer as it should; recorded as the error of the query."""


class Answer(NamedTuple, Generic[T]):
    """What was read of an answer, and how long the try took that succeeded."""

    read: T
    ms: float


class Web:
    """Sends requests with one pool of connections; safe to use from many threads."""

    def __init__(self, secrets: Secrets, retries: int = 2) -> None:
        self._secrets, self._retries = secrets, retries

    @cached_property
    def _client(self) -> Any:
        try:
            import httpx2
        except ImportError:
            raise MissingExtra("asking a server", "httpx2", "http") from None
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=256)
        return httpx2.Client(limits=limits, headers={"User-Agent": "karat"})

    def send(
        self,
        method: str,
        url: str,
        payload: Any,
        read: Callable[[Any], T],
        *,
        timeout: float | None,
        params: Any = None,
        headers: Any = None,
    ) -> Answer[T]:
        """`read` takes what is wanted out of the JSON that comes back."""
        deadline = time.monotonic() + (timeout or _PATIENCE)
        where = self._secrets.redact(f"{method} {url.partition('?')[0]}")
        for attempt in range(self._retries + 1):
            started = time.perf_counter()
            response = self._exchange(where, method, url, payload, params, headers, deadline, timeout)
            if response is not None and response.status_code not in _BUSY:
                ms = (time.perf_counter() - started) * 1000
                return Answer(self._read(self._content(where, response), read), ms)
            wait = _wait(response, attempt)
            if attempt == self._retries or time.monotonic() + wait > deadline:
                break
            time.sleep(wait)
        tries = f" (asked {attempt + 1} times)" if attempt else ""
        raise WebError(f"{where}: {'the connection failed' if response is None else self._said(response)}{tries}")

    def _exchange(
        self,
        where: str,
        method: str,
        url: str,
        payload: Any,
        params: Any,
        headers: Any,
        deadline: float,
        timeout: float | None,
    ) -> Any:
        """The response; None where there was no connection, which may be better at the next try."""
        import httpx2

        left = max(deadline - time.monotonic(), 0.001)
        try:
            return self._client.request(method, url, json=payload, params=params, headers=headers, timeout=left)
        except httpx2.TimeoutException:
            raise TooSlow(timeout or _PATIENCE) from None
        except httpx2.TransportError:
            return None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError) as error:
            raise WebError(f"{where}: {self._secrets.redact(shorten(str(error), 200))}") from None

    def _content(self, where: str, response: Any) -> Any:
        if response.status_code // 100 != 2:
            raise WebError(f"{where}: {self._said(response)}")
        try:
            return json.loads(response.content)
        except (ValueError, RecursionError):
            got = self._secrets.redact(shorten(response.text, 80))
            raise WebError(f"{where}: the answer is no JSON", got=got) from None

    def _read(self, content: Any, read: Callable[[Any], T]) -> T:
        try:
            return read(content)
        except KaratError as error:  # shows what the server said, and that may be what it was told
            raise WebError(self._secrets.redact(str(error))) from None

    def _said(self, response: Any) -> str:
        said = self._secrets.redact(" ".join(shorten(response.text, 200).split()))
        return f"answered {response.status_code}" + (f" ({said})" if said else "")


def _wait(response: Any, attempt: int) -> float:
    asked = "" if response is None else response.headers.get("Retry-After", "").strip()
    try:
        return max(0.0, float(asked))
    except ValueError:
        return float(_FIRST_WAIT * 2**attempt)


def check_url(url: str) -> str:
    """An address without a password, which would stand in run logs."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    except ValueError:
        usable = None
    if not usable:
        raise ConfigError(
            "no usable address",
            got=url if "@" not in url else None,
            expected="http(s)://host/path without user and password",
            hint="keys belong into a header: Authorization: Bearer ${MY_KEY}",
        )
    return url.rstrip("/")
