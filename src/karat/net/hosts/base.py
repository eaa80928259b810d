"""What Karat must know of a host to keep a comment there, and how its API is asked: no token for strangers."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urljoin, urlsplit

from karat.errors import ConfigError, KaratError
from karat.net.http import Http, HttpError, Response, Secrets

_MOVED = (301, 302, 307, 308)
_HOPS = 3
_ONE_MINUTE = 60.0  # GitHub: "otherwise, wait for at least one minute"


class HostError(KaratError):
    """A host's API answered with something Karat cannot work with."""

    code = "host-error"


class Denied(HostError):
    """The token is good and may not do this."""

    code = "denied"


class NotFound(HostError):
    """Not there, or not for the eyes of this token: hosts do not tell these apart."""

    code = "not-found"


class HostClient:
    """Sends one request at a time, and gives back good answers only. An HttpError may be worth another try."""

    def __init__(self, headers: dict[str, str], token: str, timeout: float) -> None:
        self._headers, self._timeout = headers, timeout
        self._secrets = Secrets(token)
        self._http = Http(self._secrets, extra=None)
        self.redact = self._secrets.redact

    def send(self, method: str, url: str, payload: object = None) -> Response:
        target = url
        for _ in range(_HOPS):
            answer = self._http.send(method, target, payload, headers=self._headers, timeout=self._timeout)
            if answer.status not in _MOVED:
                return self._good(answer)
            target = self._moved(target, answer.headers.get("location", ""))
        raise HostError(f"{method} {url}: redirected more than {_HOPS} times", code="redirected")

    def _moved(self, url: str, location: str) -> str:
        """The new address of a renamed project. The token goes nowhere but to the server it was meant for."""
        try:
            target = urljoin(url, location)
            same = urlsplit(target)[:2] == urlsplit(url)[:2]
        except ValueError:
            same = False
        if not same or not location:
            raise HostError(
                f"{url}: redirected to another server, which must not see the token",
                code="redirected",
                got=self.redact(location or "nowhere"),
                hint="set the address of the API to where it lives now",
            )
        return target

    def _good(self, answer: Response) -> Response:
        if 200 <= answer.status < 300:
            return answer
        error = self._http.refusal(answer, _message(answer))
        if _is_hasty(answer) or answer.status >= 500:
            status = max(answer.status, 429)  # also GitHub's 403 to the hasty
            raise HttpError(error.what, status=status, wait=_wait_asked(answer))
        if answer.status == 401:
            raise HostError(error.what, hint="the token is wrong or has expired")
        if answer.status == 403:
            raise Denied(error.what)
        if answer.status in (404, 410):
            raise NotFound(error.what, hint="is it there, and may the token see it?")
        raise HostError(error.what)


def json_of(answer: Response) -> object:
    """The content, None where it is no JSON."""
    try:
        found: object = answer.json()
    except ValueError:
        return None
    return found


def _message(answer: Response) -> str:
    """What an error says of itself."""
    said = json_of(answer)
    if not isinstance(said, dict):
        return ""
    parts = (said.get(key) for key in ("message", "error", "error_description", "errors"))
    return "; ".join(part if isinstance(part, str) else json.dumps(part) for part in parts if part)


def _is_hasty(answer: Response) -> bool:
    """GitHub answers 403 not only to the forbidden, but also to the hasty."""
    if answer.status != 403:
        return answer.status == 429
    spent = answer.headers.get("x-ratelimit-remaining", "").strip() == "0"
    return spent or "retry-after" in answer.headers or "rate limit" in _message(answer).lower()


def _wait_asked(answer: Response) -> float | None:
    """Seconds to wait before another try, as Retry-After or the reset of a rate limit asks."""
    asked = answer.wait_asked()
    if asked is not None:
        return asked
    for prefix in ("x-ratelimit", "ratelimit"):
        remaining = answer.headers.get(f"{prefix}-remaining", "0").strip()
        reset = answer.headers.get(f"{prefix}-reset", "").strip()
        if remaining == "0" and reset.isascii() and reset.isdigit() and len(reset) < 16:
            return answer.seconds_until(float(reset))
    return _ONE_MINUTE if _is_hasty(answer) else None


@dataclass(frozen=True)
class Outcome:
    """What was done; `warning` is for standard error, `text` is the comment where nothing else can show it."""

    done: str
    warning: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Host(ABC):
    """One pull request on one host."""

    title: ClassVar[str]
    limit: ClassVar[int]
    """Characters of the longest comment."""
    edit_method: ClassVar[str]
    oldest_first: ClassVar[str]
    """Parameters of a listing, empty where this is the host's own order."""
    api: str
    token: str = field(repr=False)
    number: int

    @classmethod
    @abstractmethod
    def recognised(cls, environment: Mapping[str, str]) -> bool:
        """Whether this process runs in the host's CI."""

    @classmethod
    @abstractmethod
    def find(cls, environment: Mapping[str, str], number: int | None, dry_run: bool) -> Host:
        """The pull request that the environment speaks of; `number` wins, and a dry run needs no token."""

    @property
    @abstractmethod
    def comments_url(self) -> str:
        """Where comments are listed and created."""

    @abstractmethod
    def comment_url(self, number: int) -> str:
        """Where one comment is changed."""

    @abstractmethod
    def headers(self) -> dict[str, str]:
        """Headers of every request, with the token."""

    @abstractmethod
    def whoami(self, client: HostClient) -> str:
        """The login of the token's owner."""

    @abstractmethod
    def author(self, comment: Mapping[str, Any]) -> str | None:
        """The login of who wrote a comment."""

    @abstractmethod
    def page_of(self, comment: Mapping[str, Any]) -> str:
        """Where people read a comment."""

    @abstractmethod
    def instead(self, body: str, reason: str) -> Outcome:
        """Show the body elsewhere, because the token may not comment."""

    def unable(self) -> str:
        """Why no comment can be written, if that is known before any request."""
        return ""


def login(owner: object, key: str) -> str | None:
    """`owner[key]`, None for a deleted account or anything else that is no account."""
    found = owner.get(key) if isinstance(owner, dict) else None
    return found if isinstance(found, str) else None


def require(host: str, needed: Mapping[str, object], hint: str) -> None:
    """One message for everything that is missing."""
    missing = ", ".join(name for name, value in needed.items() if not value)
    if missing:
        raise ConfigError(f"cannot comment on {host}: missing {missing}", code="missing-variable", hint=hint)
