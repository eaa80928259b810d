"""What people change about runs: tags, pins, titles, notes, and deleting. Each change is in the audit log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import msgspec

from karat.errors import ConfigError, InputError, shorten
from karat.history import statements as sql
from karat.history.audit import AuditFilter, AuditPage, record, select_actions, select_entries
from karat.history.problems import NotThere, checked_name, gone, short
from karat.history.rows import Pin, PinKind, RunRow, now, written
from karat.history.statements import Connection, is_storable

_T = TypeVar("_T")
DAYS = 30  # until a deleted run is removed for good
LONGEST_TITLE, LONGEST_NOTE = 200, 5_000  # characters
_AT_ONCE = 100  # runs removed in one transaction, so that others can write in between
_MOST = 500


class DeletedRun(msgspec.Struct, frozen=True):
    """A deleted run that can still be restored."""

    run: RunRow
    deleted_at: str
    deleted_by: str | None
    removed_after: str  # when it can no longer be restored


class Changes(ABC):
    """The part of a history that people change; see `Store`."""

    @abstractmethod
    def transaction(self, *, write: bool = False) -> AbstractContextManager[Connection]: ...

    @abstractmethod
    def _write(self, work: Callable[[Connection], _T]) -> _T: ...

    @abstractmethod
    def _forget(self, run_id: str) -> None: ...

    def write(self, work: Callable[[Connection], _T]) -> _T:
        """Runs a write transaction, and retries it after collisions."""
        return self._write(work)

    def tag(self, run_id: str, tags: Iterable[str]) -> None:
        names = [checked_name(tag, "tag") for tag in tags]

        def add(connection: Connection) -> None:
            _refuse_gone(connection, run_id)
            known = sql.tags_of(connection, [run_id]).get(run_id, [])
            if new := [name for name in dict.fromkeys(names) if name not in known]:
                sql.add_tags(connection, run_id, new)
                record(connection, "tag", [run_id], ", ".join(new))

        self._write(add)

    def untag(self, run_id: str, tags: Iterable[str]) -> None:
        names = list(tags)

        def remove(connection: Connection) -> None:
            _refuse_gone(connection, run_id)
            for name in names:
                if not (is_storable(name) and sql.remove_tag(connection, run_id, name)):
                    raise ConfigError(f"the run {short(run_id)} has no tag {shorten(name, 40)!r}", code="unknown-tag")
            record(connection, "untag", [run_id], ", ".join(names))

        self._write(remove)

    def pin(self, run_id: str, name: str, kind: PinKind, *, pinned_at: str | None = None) -> Pin | None:
        """Points a name to this run; returns its previous pin."""
        checked_name(name, "pin")

        def move(connection: Connection) -> Pin | None:
            _refuse_gone(connection, run_id)
            before = next((pin for pin in sql.all_pins(connection) if pin.name == name), None)
            if not sql.set_pin(connection, Pin(name, kind, run_id, pinned_at or now())):
                raise ConfigError(
                    f"{name} is already pinned as {before.kind if before else 'something else'}",
                    code="pinned-already",
                    hint=f"karat history unpin {name}",
                )
            moved = "" if before is None or before.run_id == run_id else f", was {short(before.run_id)}"
            record(connection, "pin", [run_id], f"{kind} {name}{moved}")
            return before

        return self._write(move)

    def unpin(self, name: str) -> None:
        def remove(connection: Connection) -> None:
            pins = {pin.name: pin for pin in sql.all_pins(connection)}
            if not (is_storable(name) and sql.remove_pin(connection, name)):
                raise NotThere("pin", name, list(pins))
            record(connection, "unpin", [pins[name].run_id], f"{pins[name].kind} {name}")

        self._write(remove)

    def set_title(self, run_id: str, title: str | None) -> None:
        """Sets the title of a run: one line, or nothing."""
        line = checked_title(title)

        def change(connection: Connection) -> None:
            if sql.set_text(connection, run_id, "title", line):
                record(connection, "rename", [run_id], line or "")

        self._change(run_id, change)

    def set_note(self, run_id: str, note: str | None) -> None:
        """Sets the note on a run: some lines, or nothing. The audit log has only its length."""
        text = checked_note(note)

        def change(connection: Connection) -> None:
            if sql.set_text(connection, run_id, "note", text):
                length = len(text or "")
                record(connection, "note", [run_id], f"{length:,} {'character' if length == 1 else 'characters'}")

        self._change(run_id, change)

    def delete(self, run_id: str) -> bool:
        """Deletes a run, unless it is pinned; returns whether it was there. It can be restored for 30 days."""

        def remove(connection: Connection) -> bool:
            pinned = [pin.name for pin in sql.all_pins(connection) if pin.run_id == run_id]
            if pinned:
                hint = f"karat history unpin {pinned[0]}"
                raise ConfigError(
                    f"the run {short(run_id)} is pinned as {', '.join(pinned)}", code="pinned-run", hint=hint
                )
            if done := sql.set_deleted(connection, [run_id], now()) == 1:
                record(connection, "delete", [run_id])
            return done

        return self._write(remove)

    def restore(self, run_id: str) -> None:
        """Brings a deleted run back, with its tags, title, note and verdicts."""

        def bring_back(connection: Connection) -> None:
            if sql.set_deleted(connection, [run_id], None):
                record(connection, "restore", [run_id])
            else:
                _refuse_gone(connection, run_id)

        self._write(bring_back)

    def find_deleted(self, reference: str) -> str:
        """The id of a deleted run, by its beginning."""
        found = []
        if is_storable(reference) and 4 <= len(reference) <= 64:
            statement = "SELECT id FROM runs WHERE deleted_at IS NOT NULL AND id >= ? AND id < ? ORDER BY id LIMIT 2"
            with self.transaction() as connection:
                found = connection.execute(statement, (reference, reference + "g")).fetchall()
        if len(found) > 1:
            what = f"several deleted runs begin with {reference}"
            raise ConfigError(what, code="ambiguous-run", hint="write more of the id")
        if not found:
            raise NotThere(
                "run among the deleted ones", reference, (), hint="`karat history deleted` shows all of them"
            )
        return str(found[0][0])

    def deleted(self, *, limit: int = 50, offset: int = 0) -> tuple[list[DeletedRun], int]:
        """Deleted runs, the last one first, and how many there are."""
        with self.transaction() as connection:
            [(total,)] = connection.execute("SELECT count(*) FROM runs WHERE deleted_at IS NOT NULL").fetchall()
            statement = (
                f"SELECT {sql.DESCRIBED}, deleted_at FROM runs WHERE deleted_at IS NOT NULL "
                "ORDER BY deleted_at DESC, id DESC LIMIT ? OFFSET ?"
            )
            found = connection.execute(statement, (min(max(limit, 1), _MOST), max(offset, 0))).fetchall()
            rows = sql.described(connection, [row[:-1] for row in found])
            by = sql.deleted_by(connection, [row.id for row in rows])
        times = [row[-1] for row in found]
        return [
            DeletedRun(row, at, by.get(row.id), written(datetime.fromisoformat(at) + timedelta(days=DAYS)))
            for row, at in zip(rows, times, strict=True)
        ], int(total)

    def purge(self, *, days: int = DAYS) -> int:
        """Removes runs for good that were deleted more than 30 days ago; returns how many."""
        before, total = written(datetime.now(UTC) - timedelta(days=days)), 0

        def remove(connection: Connection) -> list[str]:
            statement = "SELECT id FROM runs WHERE deleted_at IS NOT NULL AND deleted_at < ? ORDER BY id LIMIT ?"
            ids = [row[0] for row in connection.execute(statement, (before, _AT_ONCE)).fetchall()]
            if ids:
                connection.execute(f"DELETE FROM runs WHERE id IN ({', '.join('?' * len(ids))})", ids)
                record(connection, "remove", ids, f"deleted more than {days} days ago")
            return ids

        while ids := self._write(remove):
            total += len(ids)
            for run_id in ids:
                self._forget(run_id)
        return total

    def audit(self, only: AuditFilter | None = None, *, limit: int = 50, after: str | None = None) -> AuditPage:
        """The audit log, newest first."""
        with self.transaction() as connection:
            return select_entries(connection, only or AuditFilter(), min(max(limit, 1), _MOST), after)

    def audit_actions(self) -> list[str]:
        """All actions in the audit log."""
        with self.transaction() as connection:
            return select_actions(connection)

    def log(self, action: str, detail: str = "") -> None:
        """Adds something to the audit log that is not about a run, such as a log-in."""
        self._write(lambda connection: record(connection, action, detail=detail))

    def log_import(self, new: Sequence[str], runs: int) -> None:
        """Adds the new runs of an imported file to the audit log."""
        detail = f"one of {runs:,} runs" if runs > 1 else ""
        self._write(lambda connection: record(connection, "import", new, detail))

    def _change(self, run_id: str, change: Callable[[Connection], None]) -> None:
        def changed(connection: Connection) -> None:
            _refuse_gone(connection, run_id)
            change(connection)

        self._write(changed)


def add_words(connection: Connection, run_id: str, title: str | None, note: str | None) -> None:
    """Adds title and note to a run that was imported."""
    for column, text in (("title", checked_title(title)), ("note", checked_note(note))):
        if text is not None:
            sql.set_text(connection, run_id, column, text)


def bring_back(connection: Connection, run_id: str) -> bool:
    """Restores a deleted run that is saved again; returns whether it was deleted."""
    done = sql.set_deleted(connection, [run_id], None) == 1
    if done:
        record(connection, "restore", [run_id], "saved again")
    return done


def checked_title(title: str | None) -> str | None:
    """
    >>> checked_title("  Reranker, first try "), checked_title(" ")
    ('Reranker, first try', None)
    """
    line = (title or "").strip()
    if len(line) > LONGEST_TITLE or not line.isprintable() or not is_storable(line):
        expected = f"one line of at most {LONGEST_TITLE} characters"
        raise InputError("invalid title", code="bad-value", expected=expected, got=shorten(line, 60))
    return line or None


def checked_note(note: str | None) -> str | None:
    """Line breaks are allowed, other control characters are not.

    >>> checked_note("one\\r\\ntwo\\n")
    'one\\ntwo'
    """
    text = (note or "").replace("\r\n", "\n").replace("\r", "\n").strip()
    readable = all(c.isprintable() or c in "\n\t" for c in text)
    if len(text) > LONGEST_NOTE or not readable or not is_storable(text):
        expected = f"text of at most {LONGEST_NOTE:,} characters"
        raise InputError("invalid note", code="bad-value", expected=expected, got=shorten(text, 60))
    return text or None


def _refuse_gone(connection: Connection, run_id: str) -> None:
    if not sql.has_run(connection, run_id):
        raise gone(run_id)
