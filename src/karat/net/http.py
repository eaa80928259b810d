"""The HTTP client: time and size limits, one rule for retries, and no secrets in messages."""

from __future__ import annotations

import json
import math
import os
import random
import re
import time
from collections.abc import Callable, Container, Iterable, Mapping
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import count
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from karat.errors import ConfigError, KaratError, MissingExtra, shorten
from karat.errors.redaction import HIDDEN, keep_secret, redact
from karat.net.timeouts import TooSlow

if TYPE_CHECKING:
    from ssl import SSLContext

BUSY = frozenset({429, 502, 503, 504})
_PATIENCE = 30.0  # seconds, for a request without its own timeout
_LARGEST = 256 << 20
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SECRET = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_SECONDS = re.compile(r"\d{1,15}(\.\d+)?", re.ASCII)

T = TypeVar("T")


class Secrets:
    """Environment variables that settings name as `${NAME}`; their values are never shown."""

    def __init__(self, *values: str) -> None:
        self._seen = {value for value in map(keep_secret, values) if value}

    def fill(self, template: Any) -> Any:
        """Return the template with every `${NAME}` replaced."""
        if isinstance(template, dict):
            return {name: self.fill(value) for name, value in template.items()}
        if isinstance(template, list):
            return [self.fill(value) for value in template]
        return _SECRET.sub(lambda found: self.get(found[1]), template) if isinstance(template, str) else template

    def get(self, name: str) -> str:
        value = os.environ.get(name, "").strip()
        if not value:
            raise ConfigError(
                f"the environment variable {name} is not set", code="missing-variable", hint=f"set it: export {name}=…"
            )
        self._seen.add(keep_secret(value))
        return value

    def redact(self, text: str) -> str:
        for value in self._seen:  # also those too short to be hidden everywhere
            text = text.replace(value, HIDDEN)
        return redact(text)


class HttpError(KaratError):
    """A failed request.

    `status` is the HTTP status, None without a response; `wait` the seconds that the server asks to wait. `lost`: the
    connection failed, so a retry may succeed.
    """

    code = "server-error"

    def __init__(
        self,
        what: str,
        *,
        status: int | None = None,
        wait: float | None = None,
        lost: bool = False,
        got: object = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(what, got=got, hint=hint)
        self.status = status
        self.wait = wait
        self.lost = lost


class Retry(msgspec.Struct, frozen=True):
    """When and how often a request is retried. All requests use this rule.

    A lost connection, a timeout and a response with one of `statuses` are retried, with at most `attempts` attempts,
    none later than `limit` seconds after the first. Retry-After is always respected; otherwise the pause doubles from
    `first` up to `longest` seconds. `chance` spreads the pauses, so that many clients do not retry at once;
    `random.Random(seed).random` makes them reproducible.
    """

    attempts: float = 3
    limit: float = math.inf
    statuses: Container[int] = BUSY
    first: float = 0.25
    longest: float = 32.0
    chance: Callable[[], float] = random.random
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def during(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which may run several times. The last error shows the number of attempts."""
        started = self.clock()
        for tries in count(1):
            try:
                return work()
            except (HttpError, TooSlow) as error:
                if not self.again(error):
                    raise
                wait = self._pause(error, tries)
                if tries >= self.attempts or self.clock() - started + wait > self.limit:
                    if error.wait is not None and tries < self.attempts:
                        error.what += f"; the server asks to wait {error.wait:,.0f} s"
                    error.what += f" ({tries} attempts)" if tries > 1 else ""
                    raise
            self.sleep(wait)
        raise AssertionError  # count() never ends

    def again(self, error: HttpError | TooSlow) -> bool:
        """Return whether a retry may succeed."""
        return error.lost or error.status in self.statuses

    def _pause(self, error: HttpError | TooSlow, tries: int) -> float:
        if error.wait is not None:
            return error.wait + self.first * self.chance()
        return min(self.first * 2.0 ** min(tries - 1, 30), self.longest) * (0.5 + self.chance())


class Response(NamedTuple):
    """A complete response. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    content: bytes
    where: str = ""  # the request, as messages show it

    @property
    def text(self) -> str:
        return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the decoded JSON; raise ValueError if it is not JSON."""
        try:
            return json.loads(self.content)
        except RecursionError:
            raise ValueError("nested too deeply") from None

    def seconds_until(self, moment: float) -> float:
        """Return the time on the server's clock, which may be wrong."""
        return max(0.0, moment - (timestamp(self.headers.get("date", "")) or time.time()))

    def wait_asked(self) -> float | None:
        """Return the seconds of Retry-After, which may also be a date."""
        asked = self.headers.get("retry-after", "").strip()
        if _SECONDS.fullmatch(asked):
            return float(asked)
        moment = timestamp(asked)
        return None if moment is None else self.seconds_until(moment)


class Answer(NamedTuple, Generic[T]):
    """The value read from a response, and the time of the successful attempt."""

    read: T
    ms: float


class Http:
    """Sends requests; thread-safe.

    `extra` is the extra with httpx2, which keeps connections open. With None, the standard library opens one connection
    per request. Redirects are not followed, so that secrets do not reach other servers.
    """

    def __init__(
        self, secrets: Secrets, retry: Retry | None = None, *, extra: str | None = "http", largest: int = _LARGEST
    ) -> None:
        if extra is not None and find_spec("httpx2") is None:  # report it now, not for every query
            raise MissingExtra("sending requests", "httpx2", extra)
        self.secrets = secrets
        self.retry: Retry = retry or Retry()
        self._extra = extra
        self._largest = largest

    @cached_property
    def _transport(self) -> Transport:
        return _send_alone if self._extra is None else _keeping_open()

    def send(
        self,
        method: str,
        url: str,
        payload: Any = None,
        *,
        timeout: float,
        deadline: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Send one request; return the response, whatever its status. Bytes are sent unchanged, anything else as JSON.

        `deadline` (time.monotonic) applies if earlier attempts used part of `timeout`.
        """
        where = self.secrets.redact(f"{method} {url.partition('?')[0]}")
        deadline = time.monotonic() + timeout if deadline is None else deadline
        sent = {"User-Agent": "karat", **({} if payload is None else {"Content-Type": "application/json"})}
        is_raw = payload is None or isinstance(payload, bytes)
        try:
            content = payload if is_raw else json.dumps(payload, allow_nan=False).encode()
            answer = self._transport(method, url, content, {**sent, **(headers or {})}, deadline, self._largest)
        except TimeoutError:
            raise TooSlow(timeout, where) from None
        except _Failed as error:
            raise HttpError(f"{where}: {self._shown(str(error))}", lost=error.lost, hint=error.hint) from None
        except (ValueError, TypeError) as error:
            raise HttpError(f"{where}: {self._shown(str(error))}") from None
        return answer._replace(where=where)

    def ask(
        self,
        method: str,
        url: str,
        payload: Any,
        read: Callable[[Any], T],
        *,
        timeout: float | None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer[T]:
        """Return what `read` extracts from the JSON response; `timeout` is for all attempts together."""
        limit = timeout or _PATIENCE
        deadline = time.monotonic() + limit

        def once() -> Answer[T]:
            started = time.perf_counter()
            response = self.send(method, url, payload, timeout=limit, deadline=deadline, headers=headers)
            ms = (time.perf_counter() - started) * 1000
            return Answer(self.read(response, read), ms)

        return replace(self.retry, limit=limit).during(once)

    def read(self, response: Response, read: Callable[[Any], T]) -> T:
        """Return what `read` extracts from the JSON of a successful response."""
        if response.status // 100 != 2:
            raise self.refusal(response, response.text)
        try:
            content = response.json()
        except ValueError:
            what = f"{response.where}: the response is not JSON"
            raise HttpError(what, status=response.status, got=self._shown(response.text)) from None
        try:
            return read(content)
        except KaratError as error:  # may quote the response, which may repeat a secret
            raise HttpError(self.secrets.redact(str(error)), status=response.status) from None

    def refusal(self, response: Response, said: str) -> HttpError:
        """Return the error for a failed response, with the server's message."""
        said = " ".join(self._shown(said).split())
        what = f"{response.where}: answered {response.status}" + (f" ({said})" if said else "")
        return HttpError(what, status=response.status, wait=response.wait_asked())

    def _shown(self, said: str) -> str:
        """Shorten text after removing secrets, since half a secret is still too much."""
        return shorten(self.secrets.redact(said), 200)


class _Failed(Exception):
    """No response. `lost`: a retry may succeed."""

    def __init__(self, what: str, *, lost: bool = True, hint: str | None = None) -> None:
        super().__init__(what)
        self.lost, self.hint = lost, hint


# (method, url, content, headers, deadline, largest response) → response; raises TimeoutError, _Failed, or ValueError
# for an invalid request.
Transport: TypeAlias = Callable[[str, str, bytes | None, dict[str, str], float, int], Response]


@cache
def _trusted(file: str | None, folder: str | None) -> SSLContext:
    """The certificates to trust, as the environment names them. Reading them takes longer than most requests."""
    import httpx2

    return httpx2.create_ssl_context()


def _keeping_open() -> Transport:
    """Sends requests with httpx2 and one pool of connections."""
    import httpx2

    trusted = _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    client = httpx2.Client(verify=trusted, limits=httpx2.Limits(max_connections=None, max_keepalive_connections=256))

    def send(
        method: str, url: str, content: bytes | None, headers: dict[str, str], deadline: float, largest: int
    ) -> Response:
        left = max(deadline - time.monotonic(), 0.001)
        try:
            with client.stream(method, url, content=content, headers=headers, timeout=left) as answer:
                found = {name.lower(): value for name, value in answer.headers.items()}
                return Response(answer.status_code, found, _whole(answer.iter_bytes(), deadline, largest))
        except httpx2.TimeoutException:
            raise TimeoutError from None
        except httpx2.TransportError as error:
            hint = "check that the server is running and the address is right"
            why = f": {error}".rstrip(". :")
            is_open = not isinstance(error, httpx2.ConnectError)
            raise _Failed(f"the connection failed{why}", hint=None if is_open else hint) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ValueError(str(error)) from None

    return send


def _send_alone(
    method: str, url: str, content: bytes | None, headers: dict[str, str], deadline: float, largest: int
) -> Response:
    """Sends requests with the standard library; proxies come from the environment, but not for this machine."""
    from http.client import HTTPException, IncompleteRead, InvalidURL
    from ssl import SSLCertVerificationError
    from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

    opener = OpenerDirector()  # without redirects and file URLs, which urllib would follow
    for handler in (ProxyHandler({} if is_loopback(url) else None), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    try:
        request = Request(url, content, headers, method=method)
        with opener.open(request, timeout=max(deadline - time.monotonic(), 0.001)) as answer:
            found = {name.lower(): value for name, value in answer.headers.items()}
            whole = _whole(iter(lambda: answer.read1(1 << 16), b""), deadline, largest)
            if answer.length:
                raise IncompleteRead(b"", answer.length)
            return Response(answer.status, found, whole)
    except InvalidURL as error:
        raise ValueError(str(error)) from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            raise TimeoutError from None
        is_forged = isinstance(reason, SSLCertVerificationError)
        hint = "set SSL_CERT_FILE to the certificates to trust" if is_forged else None
        raise _Failed(str(reason) or type(reason).__name__, lost=not is_forged, hint=hint) from None


def _whole(chunks: Iterable[bytes], deadline: float, largest: int) -> bytes:
    """Read with a deadline, because a connection's own timeout restarts with every byte."""
    read, size = [], 0
    for chunk in chunks:
        read.append(chunk)
        size += len(chunk)
        if time.monotonic() > deadline:
            raise TimeoutError
        if size > largest:
            raise ValueError(f"the response is larger than {largest >> 20} MiB")
    return b"".join(read)


def timestamp(date: str) -> float | None:
    """Return the date of a header in seconds; None if it is invalid."""
    from email.utils import parsedate_to_datetime

    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    return urlsplit(url).hostname in _LOOPBACK


def check_url(
    url: str,
    hint: str | None = "put keys into a header: Authorization: Bearer ${MY_KEY}",
    *,
    field: str | None = None,
    query: bool = True,
) -> str:
    """Return an address without its last slash. A password in it is an error, since run logs and messages show it."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        usable = usable and url.isprintable() and " " not in parts.netloc and parts.port != 0
        usable = usable and (query or not (parts.query or parts.fragment or " " in url))
    except ValueError:
        usable = None
    if not usable:
        raise ConfigError(
            "invalid address",
            code="bad-address",
            field=field,
            got=None if "@" in url or "?" in url else url,
            expected=f"http(s)://host[:port]/path without user and password{'' if query else ', and without a query'}",
            hint=hint,
        )
    return url.rstrip("/")


def check_token(token: str, field: str, kind: str = "token") -> str:
    """Return `token` without the line break that pasted secrets often have. Errors never show it."""
    token = token.strip()
    if not (token.isascii() and token.isprintable() and " " not in token):
        expected = "printable ASCII characters without spaces"
        raise ConfigError(f"invalid {kind}", code=f"bad-{kind}", field=field, expected=expected)
    return token
