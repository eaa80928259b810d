"""JSON over HTTP: connections are kept, a busy server is asked again, no secret stands in a message."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from karat.errors import ConfigError, KaratError, MissingExtra, shorten
from karat.net.hosts.client import timestamp
from karat.net.secrets import Secrets
from karat.net.waiting import TooSlow

_BUSY = (429, 502, 503, 504)
_PATIENCE = 30.0  # seconds, where a question has no timeout of its own
_FIRST_WAIT = 0.25
_LARGEST = 256 << 20

T = TypeVar("T")


class WebError(KaratError):
    """A server that does not answer as it should; recorded as the error of the query.

    `status` is what it answered, None where no answer came; `wait` the seconds after which it wants to be asked again.
    """

    code = "server-error"

    def __init__(self, what: str, *, status: int | None = None, wait: float | None = None, got: object = None) -> None:
        super().__init__(what, got=got)
        self.status, self.wait = status, wait


class _Response(NamedTuple):
    """An answer that was read to its end."""

    status: int
    headers: Any
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")


class Answer(NamedTuple, Generic[T]):
    """What was read of an answer, and how long the try took that succeeded."""

    read: T
    ms: float


class Web:
    """Sends requests with one pool of connections; safe to use from many threads. `extra` brings what it needs."""

    def __init__(self, secrets: Secrets, retries: int = 2, extra: str = "http") -> None:
        self._secrets, self._retries, self._extra = secrets, retries, extra

    @cached_property
    def _client(self) -> Any:
        try:
            import httpx2
        except ImportError:
            raise MissingExtra("asking a server", "httpx2", self._extra) from None
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
            if response is not None and response.status not in _BUSY:
                ms = (time.perf_counter() - started) * 1000
                return Answer(self._read(self._json(where, response), read), ms)
            asked = None if response is None else _wait_asked(response.headers)
            wait = _FIRST_WAIT * 2**attempt if asked is None else asked
            if attempt == self._retries or time.monotonic() + wait > deadline:
                break
            time.sleep(wait)
        tries = f" (asked {attempt + 1} times)" if attempt else ""
        if response is None:
            raise WebError(f"{where}: the connection failed{tries}")
        raise WebError(f"{where}: {self._said(response)}{tries}", status=response.status, wait=asked)

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
    ) -> _Response | None:
        """The response; None where there was no connection, which may be better at the next try."""
        client = self._client  # first: it tells what is not installed
        import httpx2

        left = max(deadline - time.monotonic(), 0.001)
        try:
            with client.stream(method, url, json=payload, params=params, headers=headers, timeout=left) as response:
                return _Response(response.status_code, response.headers, _content(response, deadline))
        except (httpx2.TimeoutException, TimeoutError):
            raise TooSlow(timeout or _PATIENCE) from None
        except httpx2.TransportError:
            return None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError) as error:
            raise WebError(f"{where}: {self._secrets.redact(shorten(str(error), 200))}") from None

    def _json(self, where: str, response: _Response) -> Any:
        if response.status // 100 != 2:
            raise WebError(f"{where}: {self._said(response)}", status=response.status)
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

    def _said(self, response: _Response) -> str:
        said = self._secrets.redact(" ".join(shorten(response.text, 200).split()))
        return f"answered {response.status}" + (f" ({said})" if said else "")


def _content(response: Any, deadline: float) -> bytes:
    """The whole content. A connection's own timeout starts anew with every byte, so a trickle needs a deadline."""
    chunks, size = [], 0
    for chunk in response.iter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if time.monotonic() > deadline:
            raise TimeoutError
        if size > _LARGEST:
            raise ValueError(f"an answer of more than {_LARGEST >> 20} MiB")
    return b"".join(chunks)


def _wait_asked(headers: Any) -> float | None:
    """Seconds, or until a date."""
    asked = headers.get("Retry-After", "").strip()
    try:
        return max(0.0, float(asked))
    except ValueError:
        moment = timestamp(asked)
        return None if moment is None else max(0.0, moment - (timestamp(headers.get("Date", "")) or time.time()))


def check_url(url: str, hint: str = "keys belong into a header: Authorization: Bearer ${MY_KEY}") -> str:
    """An address without a password, which would stand in run logs."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
    except ValueError:
        usable = None
    if not usable:
        raise ConfigError(
            "no usable address",
            code="bad-address",
            got=url if "@" not in url else None,
            expected="http(s)://host/path without user and password",
            hint=hint,
        )
    return url.rstrip("/")
