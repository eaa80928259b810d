"""Base of hosts, and the client of their APIs, which never sends the token to another server."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urljoin, urlsplit

from karat.errors import ConfigError, KaratError
from karat.net.http import Http, HttpError, Response, Secrets

_MOVED = (301, 302, 307, 308)
_HOPS = 3
_NOTE = "\n\n*Cut here: the rest is longer than a comment may be.*\n"
_RESERVE = 400  # characters for the note and closing marks before it
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_ONE_MINUTE = 60.0  # GitHub: "otherwise, wait for at least one minute"


class HostError(KaratError):
    """An unexpected response of a host's API."""

    code = "host-error"


class Denied(HostError):
    """The token is valid but may not do this."""

    code = "denied"


class NotFound(HostError):
    """Not found, or hidden from this token: hosts do not distinguish the two."""

    code = "not-found"


class HostClient:
    """Sends requests and returns only successful responses. After an HttpError, a retry may succeed."""

    def __init__(self, headers: dict[str, str], token: str, timeout: float) -> None:
        self._headers, self._timeout = headers, timeout
        self._http = Http(Secrets(token), extra=None)
        self.redact: Callable[[str], str] = self._http.secrets.redact

    def send(self, method: str, url: str, payload: object = None) -> Response:
        target = url
        for _ in range(_HOPS):
            answer = self._http.send(method, target, payload, headers=self._headers, timeout=self._timeout)
            if answer.status not in _MOVED:
                return self._good(answer)
            target = self._moved(target, answer.headers.get("location", ""))
        raise HostError(f"{method} {url}: redirected more than {_HOPS} times", code="redirected")

    def _moved(self, url: str, location: str) -> str:
        """Return the new address of a renamed project. The token is only sent to its own server."""
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
                hint="set the API address to its new location",
            )
        return target

    def _good(self, answer: Response) -> Response:
        if 200 <= answer.status < 300:
            return answer
        error = self._http.refusal(answer, _message(answer))
        if _is_hasty(answer) or answer.status >= 500:
            status = max(answer.status, 429)  # also GitHub's 403 for rate limits
            raise HttpError(error.what, status=status, wait=_wait_asked(answer))
        if answer.status == 401:
            raise HostError(error.what, hint="the token is wrong or has expired")
        if answer.status == 403:
            raise Denied(error.what)
        if answer.status in (404, 410):
            raise NotFound(error.what, hint="check that it exists and that the token may see it")
        raise HostError(error.what)


def json_of(answer: Response) -> object:
    """Return the content; None if it is not JSON."""
    try:
        found: object = answer.json()
    except ValueError:
        return None
    return found


def _message(answer: Response) -> str:
    """Return the message of an error response."""
    said = json_of(answer)
    if not isinstance(said, dict):
        return ""
    parts = (said.get(key) for key in ("message", "error", "error_description", "errors"))
    return "; ".join(part if isinstance(part, str) else json.dumps(part) for part in parts if part)


def _is_hasty(answer: Response) -> bool:
    """Return whether it is a rate limit; GitHub uses 403 for that, too."""
    if answer.status != 403:
        return answer.status == 429
    spent = answer.headers.get("x-ratelimit-remaining", "").strip() == "0"
    return spent or "retry-after" in answer.headers or "rate limit" in _message(answer).lower()


def _wait_asked(answer: Response) -> float | None:
    """Return the seconds to wait, from Retry-After or the reset of a rate limit."""
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
    """What was done. `warning` goes to standard error; `text` is the comment, if it could not be posted elsewhere."""

    done: str
    warning: str = ""
    text: str = ""


@dataclass(frozen=True, kw_only=True)
class Host(ABC):
    """One pull request on one host."""

    title: ClassVar[str]
    variable: ClassVar[str]  # "true" in the host's CI
    limit: ClassVar[int]  # characters of the longest comment
    edit_method: ClassVar[str]
    oldest_first: ClassVar[str]  # parameters of a listing; empty if it is the default order
    author: ClassVar[tuple[str, str]]  # path to the author's login in a comment
    comments_url: str  # to list and create comments
    comment_url: str  # to change comments, followed by an id
    token: str = field(repr=False)
    headers: dict[str, str] = field(repr=False)  # of every request, with the token

    @classmethod
    @abstractmethod
    def find(cls, environment: Mapping[str, str], number: int | None, dry_run: bool) -> Host:
        """Return the pull request of the environment; `number` overrides it, and a dry run needs no token."""

    @abstractmethod
    def whoami(self, client: HostClient) -> str:
        """Return the login of the token's owner."""

    @abstractmethod
    def page_of(self, comment: Mapping[str, Any]) -> str:
        """Return the web address of a comment."""

    @abstractmethod
    def instead(self, body: str, reason: str) -> Outcome:
        """Show the body elsewhere if the token may not comment."""

    def unable(self) -> str:
        """Return why no comment can be written, if known before any request."""
        return ""


def login(owner: object, key: str) -> str | None:
    """Return `owner[key]`; None for a deleted account or anything else."""
    found = owner.get(key) if isinstance(owner, dict) else None
    return found if isinstance(found, str) else None


def require(host: str, needed: Mapping[str, object], hint: str) -> None:
    """Raise one error for all missing variables."""
    missing = ", ".join(name for name, value in needed.items() if not value)
    if missing:
        raise ConfigError(f"cannot comment on {host}: missing {missing}", code="missing-variable", hint=hint)


def utf8(text: str) -> int:
    return len(text.encode())


def cut(text: str, limit: int, size: Callable[[str], int] = len) -> str:
    """Return `text`, shortened to its first lines and a note if it exceeds the limit."""
    if size(text) <= limit:
        return text
    left = limit - _RESERVE
    kept: list[str] = []
    for line in text.split("\n"):
        left -= size(line) + 1
        if left < 0:
            break
        kept.append(line)
    if not kept:
        kept = [text[: (limit - _RESERVE) // 4]]  # one very long line; a character has at most four bytes
    return "\n".join(kept) + _closing(kept) + _NOTE


def _closing(lines: list[str]) -> str:
    """Return the closing marks of open code blocks and folds, which would otherwise contain the note."""
    fence = ""
    for line in lines:
        found = _FENCE.match(line)
        if found and not fence:
            fence = found[1]
        elif found and found[1].startswith(fence):
            fence = ""
    text = "\n".join(lines)
    folds = text.count("<details") - text.count("</details>")
    return (f"\n{fence[:100]}" if fence else "") + "\n</details>" * min(folds, 20)
