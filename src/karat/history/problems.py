"""Names in a history, and what can be wrong with it."""

from __future__ import annotations

import re

from karat.errors import ConfigError, UnknownName

CATALOGUE = "history.db"  # of a history in a folder
LATEST = "latest"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")


class StoreError(ConfigError):
    """A history that cannot be used."""

    code = "unusable-history"


class Collision(StoreError):
    """A transaction that collided with another one; a retry may succeed."""

    code = "collision"


class NotThere(UnknownName):
    """A run or pin that does not exist."""


def checked_name(name: str, kind: str) -> str:
    if not _NAME.fullmatch(name) or name == LATEST:
        expected = f"letters, digits, . _ / -, at most 100, and not {LATEST!r}"
        raise ConfigError(f"invalid name for a {kind}", code="bad-name", expected=expected, got=name)
    return name


def short(run_id: str, length: int = 10) -> str:
    return run_id[:length]


def gone(run_id: str) -> NotThere:
    return NotThere("run in the history", short(run_id), (), hint="it may have been deleted: karat history deleted")
