"""Which alerts were handled for which run, so that restarts and several servers do not send one twice."""

from __future__ import annotations

from karat.history.rows import now
from karat.history.store import Store

_SINCE = "alerts"


def watched_since(store: Store) -> str:
    """The time at which alerts were first switched on: earlier runs are not looked at."""
    with store.transaction(write=True) as connection:
        statement = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
        connection.execute(statement, (_SINCE, now()))
        return str(connection.execute("SELECT content FROM settings WHERE name = ?", (_SINCE,)).fetchall()[0][0])


def handled(store: Store, run_id: str) -> set[str]:
    """The reasons that were handled for a run."""
    with store.transaction() as connection:
        return {
            row[0] for row in connection.execute("SELECT reason FROM alerts WHERE run_id = ?", (run_id,)).fetchall()
        }


def claim(store: Store, run_id: str, reason: str) -> bool:
    """Marks a reason as handled; False if it is already, or the run was deleted."""
    with store.transaction(write=True) as connection:
        statement = "INSERT INTO alerts SELECT id, ?, ? FROM runs WHERE id = ? ON CONFLICT (run_id, reason) DO NOTHING"
        return connection.execute(statement, (reason, now(), run_id)).rowcount == 1


def give_back(store: Store, run_id: str, reason: str) -> None:
    """Takes a claim back: the alert could not be sent."""
    with store.transaction(write=True) as connection:
        connection.execute("DELETE FROM alerts WHERE run_id = ? AND reason = ?", (run_id, reason))
