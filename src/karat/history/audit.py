"""The audit log: who changed what, and when. Rows are added in the transaction of the change, and never changed."""

from __future__ import annotations

import getpass
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

from karat.errors import ConfigError, printable, shorten
from karat.history.rows import now
from karat.history.statements import Connection, is_storable

LOCAL, TOKEN, RETENTION = "local", "token", "retention"  # names of visitors without one, and of retention rules
RESERVED = (LOCAL, TOKEN, RETENTION)
WHO: ContextVar[str | None] = ContextVar("who", default=None)  # who makes the current change; None: this user
_LONGEST_NAME, _LONGEST = 128, 300  # characters of a name, and of details
_AT_ONCE = 100
_CURSOR = re.compile(r"(?P<at>[0-9T:.Z-]{1,40})~(?P<id>[0-9a-f]{1,64})")
_RUN = re.compile(r"[0-9a-f]{4,64}")


class AuditEntry(msgspec.Struct, frozen=True):
    """One change. `target`: the id of a run, if it is about one."""

    id: str
    at: str  # UTC
    who: str
    action: str
    target: str | None = None
    detail: str | None = None


class AuditPage(msgspec.Struct, frozen=True):
    """Some changes, newest first, and the cursor of the next page; null if there are no more."""

    entries: list[AuditEntry]
    after: str | None


class AuditFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Selects changes; null fields are ignored. `run`: an id or the beginning of one."""

    who: str | None = None
    action: str | None = None
    run: str | None = None


def whoever() -> str:
    """The name for the audit log: of the visitor, or of the user of this process."""
    name = WHO.get()
    if name is None:
        try:
            name = f"cli:{getpass.getuser()}"
        except (OSError, KeyError, ImportError):
            name = "cli:unknown"
    return printable(name)[:_LONGEST_NAME]


@contextmanager
def acting(name: str) -> Iterator[None]:
    """Changes in this block are made by someone else than the current user."""
    token = WHO.set(name)
    try:
        yield
    finally:
        WHO.reset(token)


def record(connection: Connection, action: str, targets: Sequence[str | None] = (None,), detail: str = "") -> None:
    """Adds one row per target. Details are short, and without secrets."""
    at, who, said = now(), whoever(), shorten(detail, _LONGEST) or None
    rows = [(secrets.token_hex(8), at, who, action, target, said) for target in targets]
    for start in range(0, len(rows), _AT_ONCE):
        some = rows[start : start + _AT_ONCE]
        marks = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(some))
        connection.execute(
            f"INSERT INTO audit (id, at, who, action, target, detail) VALUES {marks}", [v for row in some for v in row]
        )


def select_entries(connection: Connection, only: AuditFilter, limit: int, after: str | None) -> AuditPage:
    conditions, values = ["1 = 1"], list[Any]()
    for column, wanted in (("who", only.who), ("action", only.action)):
        if wanted:
            conditions.append(f"{column} = ?")
            values.append(wanted)
    if only.run:
        if not _RUN.fullmatch(only.run):
            expected = "the id of a run, or at least 4 characters of its beginning"
            raise ConfigError("invalid run", code="bad-value", expected=expected, got=only.run)
        conditions.append("target >= ? AND target < ?")
        values += [only.run, only.run + "g"]
    if after is not None:
        place = _CURSOR.fullmatch(after)
        if place is None:
            expected = "the cursor of an earlier page"
            raise ConfigError("invalid cursor in the audit log", code="bad-value", expected=expected, got=after)
        conditions.append("(at, id) < (?, ?)")
        values += [place["at"], place["id"]]
    if not all(map(is_storable, values)):
        return AuditPage([], None)
    statement = (
        f"SELECT id, at, who, action, target, detail FROM audit WHERE {' AND '.join(conditions)} "
        "ORDER BY at DESC, id DESC LIMIT ?"
    )
    found = [AuditEntry(*row) for row in connection.execute(statement, [*values, limit + 1]).fetchall()]
    last = found[limit - 1] if len(found) > limit else None
    return AuditPage(found[:limit], None if last is None else f"{last.at}~{last.id}")


def select_actions(connection: Connection) -> list[str]:
    return [row[0] for row in connection.execute("SELECT DISTINCT action FROM audit ORDER BY action").fetchall()]
