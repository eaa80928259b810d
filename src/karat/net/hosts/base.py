"""What Karat must know of a host to keep a comment there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from karat.errors import ConfigError
from karat.net.hosts.client import HostClient


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
