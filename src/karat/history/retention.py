"""How long runs are kept: a rule in the settings of a history, and the daily clean-up that follows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import msgspec

from karat.errors import ConfigError
from karat.history import statements as sql
from karat.history.audit import RETENTION, acting, record
from karat.history.problems import StoreError
from karat.history.rows import RunRow, now, written
from karat.history.statements import Connection
from karat.history.store import Store

_RULE, _CLEANED = "retention", "cleaned"  # names of settings
_DAY = timedelta(days=1)
_MOST_RUNS, _MOST_DAYS = 1_000_000, 36_500


class RetentionRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which runs are kept: the last ones of each dataset, system and branch, and those younger than some days. Runs
    with a pin or a tag, and runs that a person restored, are always kept. Without any number, all runs are kept."""

    keep_last: Annotated[int, msgspec.Meta(ge=1, le=_MOST_RUNS)] | None = None
    days: Annotated[int, msgspec.Meta(ge=1, le=_MOST_DAYS)] | None = None

    @property
    def keeps_all(self) -> bool:
        return self.keep_last is None and self.days is None

    def __str__(self) -> str:
        """
        >>> str(RetentionRule(keep_last=100, days=90)), str(RetentionRule(days=1)), str(RetentionRule())
        ('the last 100 of each dataset, system and branch, and those younger than 90 days', \
'those younger than 1 day', 'all runs')
        """
        last = [f"the last {self.keep_last:,} of each dataset, system and branch"] if self.keep_last else []
        young = [f"those younger than {self.days:,} {'day' if self.days == 1 else 'days'}"] if self.days else []
        return ", and ".join([*last, *young]) or "all runs"


class Preview(msgspec.Struct, frozen=True):
    """What a rule would delete now; `oldest`: some of these runs."""

    rule: RetentionRule
    runs: int  # in the history
    deletes: int
    oldest: list[RunRow]


class Cleaned(msgspec.Struct, frozen=True):
    """What a clean-up did. `deleted`: by the rule; `removed`: runs that were deleted more than 30 days ago;
    `texts`: that no run refers to any more; `leftovers`: files of processes that were killed."""

    deleted: int = 0
    removed: int = 0
    texts: int = 0
    leftovers: int = 0


def checked_rule(keep_last: int | None, days: int | None) -> RetentionRule:
    for field, value, most in (("keep_last", keep_last, _MOST_RUNS), ("days", days, _MOST_DAYS)):
        if value is not None and not 1 <= value <= most:
            expected = f"a number from 1 to {most:,}"
            raise ConfigError("invalid retention rule", code="bad-value", field=field, expected=expected, got=value)
    return RetentionRule(keep_last=keep_last, days=days)


def read_rule(store: Store) -> RetentionRule:
    with store.transaction() as connection:
        return _rule(connection)


def save_rule(store: Store, rule: RetentionRule) -> None:
    def change(connection: Connection) -> None:
        if rule != _rule(connection):
            _set(connection, _RULE, msgspec.json.encode(rule).decode())
            record(connection, "retention", detail=f"keep {rule}")

    store.write(change)


def preview(store: Store, rule: RetentionRule, shown: int = 20) -> Preview:
    with store.transaction() as connection:
        ids = _beyond(connection, rule)
        which, values = sql.among(connection, ids[:shown])
        statement = f"SELECT {sql.DESCRIBED} FROM runs WHERE id {which} ORDER BY saved_at, id"
        found = connection.execute(statement, values).fetchall() if ids else []
        [(runs,)] = connection.execute(f"SELECT count(*) FROM runs WHERE {sql.LIVE}").fetchall()
        return Preview(rule, int(runs), len(ids), sql.described(connection, found))


def clean(store: Store, *, look_for_texts: bool = True) -> Cleaned:
    """Deletes what the rule no longer keeps, and removes what was deleted more than 30 days ago.

    `look_for_texts`: also if no run was removed, which reads the keys of all texts."""

    def apply(connection: Connection) -> int:
        rule = _rule(connection)
        ids = _beyond(connection, rule)
        if ids:
            sql.set_deleted(connection, ids, now())
            record(connection, "delete", ids, f"keep {rule}")
        _set(connection, _CLEANED, now())
        return len(ids)

    with acting(RETENTION):
        deleted, removed = store.write(apply), store.purge()
        texts = store.remove_texts() if removed or look_for_texts else 0
        return Cleaned(deleted, removed, texts, store.clean())


def clean_daily(store: Store) -> Cleaned | None:
    """Cleans up unless this or another process did within a day."""
    with store.transaction() as connection:
        before = _setting(connection, _CLEANED)
    if before is not None and before > written(datetime.now(UTC) - _DAY):
        return None
    return clean(store, look_for_texts=False)


def _beyond(connection: Connection, rule: RetentionRule) -> list[str]:
    """The runs that a rule does not keep, oldest first."""
    if rule.keeps_all:
        return []
    conditions, values = ["place > ?"], list[Any]([rule.keep_last or 0])
    if rule.days is not None:
        conditions.append("saved_at < ?")
        values.append(written(datetime.now(UTC) - timedelta(days=rule.days)))
    place = "row_number() OVER (PARTITION BY dataset, system, branch ORDER BY saved_at DESC, id DESC)"
    statement = (
        f"SELECT id FROM (SELECT id, saved_at, {place} AS place FROM runs WHERE {sql.LIVE}) AS ranked "
        f"WHERE {' AND '.join(conditions)} AND NOT EXISTS (SELECT 1 FROM pins WHERE run_id = ranked.id) "
        "AND NOT EXISTS (SELECT 1 FROM tags WHERE run_id = ranked.id) "
        "AND NOT EXISTS (SELECT 1 FROM audit WHERE target = ranked.id AND action = 'restore') ORDER BY saved_at, id"
    )
    return [row[0] for row in connection.execute(statement, values).fetchall()]


def _rule(connection: Connection) -> RetentionRule:
    text = _setting(connection, _RULE)
    try:
        return RetentionRule() if text is None else msgspec.json.decode(text, type=RetentionRule)
    except msgspec.MsgspecError as error:
        hint = "set it again with `karat history retention`"
        raise StoreError("the retention rule cannot be read", code="damaged-history", hint=hint) from error


def _setting(connection: Connection, name: str) -> str | None:
    found = connection.execute("SELECT content FROM settings WHERE name = ?", (name,)).fetchall()
    return str(found[0][0]) if found else None


def _set(connection: Connection, name: str, content: str) -> None:
    statement = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET content = excluded.content"
    connection.execute(statement, (name, content))
