"""Requests to a host's API: JSON both ways, a timeout on each, no token for strangers, no secret in a message."""

from __future__ import annotations

import json
import re
import time
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPResponse, IncompleteRead
from ssl import SSLCertVerificationError
from urllib.parse import urljoin, urlsplit
from urllib.request import HTTPHandler, HTTPSHandler, OpenerDirector, ProxyHandler, Request

from karat.errors import ConfigError, KaratError, shorten

_MOVED = (301, 302, 307, 308)
_HOPS = 3
_LARGEST = 128 << 20  # a page of a hundred of GitLab's longest comments, and no more
_ONE_MINUTE = 60.0  # GitHub: "otherwise, wait for at least one minute"
_URL = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?(/[\w./%~-]*)?", re.ASCII)


class HostError(KaratError):
    """A host's API answered with something Karat cannot work with."""

    code = "host-error"


class Denied(HostError):
    """The token is good and may not do this."""

    code = "denied"


class NotFound(HostError):
    """Not there, or not for the eyes of this token: hosts do not tell these apart."""

    code = "not-found"


class Unavailable(HostError):
    """No answer this time, worth another try: after `wait` seconds, if the host said so."""

    code = "unavailable"

    def __init__(self, what: str, wait: float | None = None) -> None:
        super().__init__(what)
        self.wait = wait


def check_url(url: str, variable: str) -> str:
    """`url` without its last slash. Refused are other schemes, and passwords, which would end up in messages."""
    if not _URL.fullmatch(url):
        raise ConfigError(
            "no usable address",
            code="bad-address",
            field=variable,
            expected="http(s)://host/path, without user or query",
        )
    return url.rstrip("/")


def check_token(token: str, variable: str) -> str:
    """`token` without the line break that a pasted secret often has. What is wrong with it is said, never shown."""
    token = token.strip()
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(
            "no usable token", code="bad-token", field=variable, expected="printable ASCII characters without spaces"
        )
    return token


@dataclass(frozen=True)
class HostReply:
    """What a server said."""

    status: int
    headers: Message
    content: bytes

    def json(self) -> object:
        """The content, None when it is no JSON."""
        try:
            found: object = json.loads(self.content)
        except (ValueError, RecursionError):
            return None
        return found

    def message(self) -> str:
        """What an error says of itself."""
        said = self.json()
        if not isinstance(said, dict):
            return ""
        parts = (said.get(key) for key in ("message", "error", "error_description", "errors"))
        return "; ".join(part if isinstance(part, str) else json.dumps(part) for part in parts if part)

    def has_next_page(self) -> bool:
        """Whether more follows: GitHub says it in Link, GitLab in X-Next-Page."""
        return 'rel="next"' in self.headers.get("Link", "") or bool(self.headers.get("X-Next-Page", "").strip())

    def rate_limited(self) -> bool:
        """GitHub answers 403 not only to the forbidden, but also to the hasty."""
        if self.status != 403:
            return self.status == 429
        spent = self.headers.get("X-RateLimit-Remaining", "").strip() == "0"
        return spent or "Retry-After" in self.headers or "rate limit" in self.message().lower()

    def wait_asked(self) -> float | None:
        """Seconds to wait before another try, as the headers ask, counted from the server's own clock."""
        after = self.headers.get("Retry-After", "").strip()
        if _is_number(after):
            return float(after)
        moment = timestamp(after) or self._reset()
        if moment is not None:
            return max(0.0, moment - (timestamp(self.headers.get("Date", "")) or time.time()))
        return _ONE_MINUTE if self.rate_limited() else None

    def _reset(self) -> float | None:
        for prefix in ("X-RateLimit", "RateLimit"):
            remaining = self.headers.get(f"{prefix}-Remaining", "0").strip()
            reset = self.headers.get(f"{prefix}-Reset", "").strip()
            if remaining == "0" and _is_number(reset):
                return float(reset)
        return None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 16


def timestamp(date: str) -> float | None:
    """A date of a header as seconds, None where it is none."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class HostClient:
    """Sends one request at a time, and gives back good answers only."""

    headers: dict[str, str] = field(repr=False)
    token: str = field(repr=False)
    timeout: float

    def send(self, method: str, url: str, payload: object = None) -> HostReply:
        data = None if payload is None else json.dumps(payload).encode()
        target = url
        for _ in range(_HOPS):
            answer = self._exchange(method, target, data)
            if answer.status not in _MOVED:
                return self._good(f"{method} {target}", answer)
            target = self._moved(target, answer)
        raise HostError(f"{method} {url}: redirected more than {_HOPS} times", code="redirected")

    def redact(self, text: str) -> str:
        return text.replace(self.token, "***") if self.token else text

    def _exchange(self, method: str, url: str, data: bytes | None) -> HostReply:
        headers = {"User-Agent": "karat", "Content-Type": "application/json", **self.headers}
        deadline = time.monotonic() + self.timeout
        try:
            with _opener().open(Request(url, data, headers, method=method), timeout=self.timeout) as response:
                return HostReply(response.status, response.headers, _read(response, deadline))
        except (OSError, HTTPException, UnicodeError) as error:
            raise self._failed(f"{method} {url}", error) from None

    def _failed(self, request: str, error: Exception) -> HostError:
        reason = getattr(error, "reason", error)
        said = self.redact(str(reason) or type(reason).__name__)
        if isinstance(reason, SSLCertVerificationError):
            return HostError(f"{request}: {said}", hint="SSL_CERT_FILE names the certificates to trust")
        if isinstance(reason, TimeoutError):
            return Unavailable(f"{request}: no answer within {self.timeout:g} s")
        return Unavailable(f"{request}: {shorten(said, 200)}")

    def _moved(self, url: str, answer: HostReply) -> str:
        """The new address of a renamed project. The token goes nowhere but to the server it was meant for."""
        try:
            target = urljoin(url, answer.headers.get("Location", ""))
            same = urlsplit(target)[:2] == urlsplit(url)[:2]
        except ValueError:
            same = False
        if not same or not answer.headers.get("Location"):
            raise HostError(
                f"{url}: redirected to another server, which must not see the token",
                code="redirected",
                got=self.redact(answer.headers.get("Location", "nowhere")),
                hint="set the address of the API to where it lives now",
            )
        return target

    def _good(self, request: str, answer: HostReply) -> HostReply:
        if 200 <= answer.status < 300:
            return answer
        said = shorten(self.redact(answer.message()), 200)
        what = f"{request}: answered {answer.status}" + (f" ({said})" if said else "")
        if answer.rate_limited() or answer.status >= 500:
            raise Unavailable(what, answer.wait_asked())
        if answer.status == 401:
            raise HostError(what, hint="the token is wrong or has expired")
        if answer.status == 403:
            raise Denied(what)
        if answer.status in (404, 410):
            raise NotFound(what, hint="is it there, and may the token see it?")
        raise HostError(what)


def _opener() -> OpenerDirector:
    """Proxies as the environment has them; neither redirects nor files, which urllib would follow on its own."""
    opener = OpenerDirector()
    for handler in (ProxyHandler(), HTTPHandler(), HTTPSHandler()):
        opener.add_handler(handler)
    return opener


def _read(response: HTTPResponse, deadline: float) -> bytes:
    """The whole content. A socket's own timeout starts anew with every byte, so a trickle needs a deadline."""
    chunks, size = [], 0
    while chunk := response.read1(1 << 16):
        chunks.append(chunk)
        size += len(chunk)
        if size > _LARGEST:
            raise HTTPException(f"an answer of more than {_LARGEST >> 20} MiB")
        if time.monotonic() > deadline:
            raise TimeoutError
    if response.length:
        raise IncompleteRead(b"", response.length)
    return b"".join(chunks)
