"""Connections to the SQLite catalogue of a folder, writable or read-only."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from karat.history.store import StoreError

PATIENCE = 60.0  # seconds to wait for other writers
_HINTS = {
    sqlite3.SQLITE_FULL: "free some space",
    sqlite3.SQLITE_IOERR: "check whether the disk is full or failing",
    sqlite3.SQLITE_READONLY: "get write permission there, or use another history: KARAT_STORE=…",
    sqlite3.SQLITE_CANTOPEN: "get read and write permission there",
    sqlite3.SQLITE_BUSY: "another process has been writing for a long time; try again",
}
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def hint_for(number: int) -> str | None:
    return _HINTS.get(number)


class Catalogue:
    """One thread-safe connection. Without write permission it is read-only, but sees changes by others."""

    def __init__(self, path: Path, runs: Path) -> None:
        self._path, self._runs = path, runs
        self._lock = threading.RLock()
        self._seen: tuple[object, ...] | None = None  # state of the files, if changes cannot be detected otherwise
        with self.translated():
            self._connection = self._open()

    @contextmanager
    def transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock, self.translated():
            self._look_again()
            self._connection.execute(begin)
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def state(self) -> str:
        """A value that changes with every commit of another connection, even in this process."""
        with self._lock, self.translated():
            self._look_again()
            return f"{self._connection.execute('PRAGMA data_version').fetchone()[0]} {self._seen}"

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, msgspec.MsgspecError) as error:
            number = getattr(error, "sqlite_errorcode", 0 if isinstance(error, sqlite3.Error) else _DAMAGED[0]) & 0xFF
            what, code, hint = f"the history cannot be used: {error}", "unusable-history", hint_for(number)
            if number in _DAMAGED:
                what, code = "the catalogue of the history is damaged", "damaged-history"
                hint = f"move it away and import the runs again: karat history import {self._runs}/*.parquet"
            raise StoreError(what, code=code, file=str(self._path), hint=hint) from error

    def _open(self) -> sqlite3.Connection:
        if os.access(self._path.parent, os.W_OK):
            connection = sqlite3.connect(self._path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
            _write_ahead(connection)
        else:
            connection = self._open_to_read()
        connection.execute("PRAGMA foreign_keys = ON")
        return connection

    def _open_to_read(self) -> sqlite3.Connection:
        """Opens read-only, including the write-ahead log. If there is no log and none can be created, opens the file as
        immutable and reopens it when it changes."""
        where = self._path.resolve().as_uri() + "?mode=ro"
        self._seen = None
        connection = sqlite3.connect(where, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
        else:
            return connection
        self._seen = self._files()
        if self._seen[-1]:
            what = "the newest changes of the history cannot be read without write permission"
            hint = "run `karat history check` as a user with write permission"
            raise StoreError(what, code="unread-changes", file=str(self._path), hint=hint)
        return sqlite3.connect(f"{where}&immutable=1", uri=True, isolation_level=None, check_same_thread=False)

    def _look_again(self) -> None:
        if self._seen is not None and self._seen != self._files():
            self._connection.close()
            self._connection = self._open()

    def _files(self) -> tuple[object, ...]:
        """Values that change with the file; the last is the size of the write-ahead log."""
        there = self._path.stat()
        try:
            beside = self._path.with_name(f"{self._path.name}-wal").stat().st_size
        except OSError:
            beside = 0
        return there.st_ino, there.st_size, there.st_mtime_ns, beside


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switches to write-ahead logging. SQLite does not wait for others that do the same, so this retries."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)
    connection.execute("PRAGMA synchronous = FULL")
