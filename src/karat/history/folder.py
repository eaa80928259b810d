"""The history of one machine: a folder with a catalogue in SQLite and one Parquet file a run."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from karat.files.atomic_write import umask
from karat.files.safe_parquet import ParquetSource, UnreadableParquet
from karat.history.statements import CURRENT, Connection
from karat.history.store import Store, StoreError, gone, short
from karat.results.kept_run import DOCUMENT

CATALOGUE = "history.db"
_PATIENCE = 60.0  # seconds to wait for others that write
_ABANDONED = 3600.0  # seconds after which a file without a row is nobody's
_HINTS = {
    sqlite3.SQLITE_FULL: "free some space",
    sqlite3.SQLITE_IOERR: "is the disk full, or failing?",
    sqlite3.SQLITE_READONLY: "ask for the right to write there, or name another history: KARAT_STORE=…",
    sqlite3.SQLITE_CANTOPEN: "ask for the right to read and write there",
    sqlite3.SQLITE_BUSY: "another process has been writing for long; try again",
}
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class FolderStore(Store):
    """`up_to`: tables of an older version, for tests of what comes after it."""

    def __init__(self, folder: Path, *, create: bool = True, up_to: int = CURRENT) -> None:
        self.label, self._folder, self._runs = str(folder), folder, folder / "runs"
        self._lock = threading.RLock()  # one connection, any thread
        if create:
            self._create()
        elif not (folder / CATALOGUE).is_file():
            raise StoreError("no history", code="no-history", file=str(folder), hint="karat eval … --save begins one")
        self._connection = self._open()
        with self._translated():
            self._to_current(up_to)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Connection]:
        with self._lock, self._translated():
            # IMMEDIATE: a transaction that reads first and writes later would be refused when others wrote meanwhile.
            self._connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def source(self, run_id: str) -> Path:
        path = self._path(run_id)
        if not path.is_file():
            if not self._has(run_id):
                raise gone(run_id)
            what = f"the run {short(run_id)} has lost its file"
            raise StoreError(what, code="lost-run", file=str(path), hint="karat history check")
        return path

    def _document(self, run_id: str) -> str:
        path = self.source(run_id)
        what = f"the file of the run {short(run_id)} is damaged"
        try:
            return str(ParquetSource(path).rows([DOCUMENT], 0, 1).item())
        except (UnreadableParquet, ValueError) as error:  # damaged, or without a row
            raise StoreError(what, code="damaged-history", file=str(path)) from error

    @contextmanager
    def _prepare(self, content: bytes) -> Iterator[bytes]:
        """On the disk before the catalogue is locked; it becomes the run's file by being renamed."""
        try:
            handle, name = tempfile.mkstemp(dir=self._runs, prefix=".new-", suffix=".parquet")
            try:
                with os.fdopen(handle, "wb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())
                os.chmod(name, 0o666 & ~umask())
                yield os.fsencode(name)
            finally:
                Path(name).unlink(missing_ok=True)
        except OSError as error:
            raise self._cannot_write(error) from error

    def _put(self, connection: Connection, run_id: str, content: bytes, document: bytes) -> None:
        """Before the row is there for others: a kill in between leaves a file that nobody asks for, and no half run."""
        os.replace(os.fsdecode(content), self._path(run_id))
        handle = os.open(self._runs, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _forget(self, run_id: str) -> None:
        with self.transaction(write=True) as connection:  # unless another process has saved it again meanwhile
            if not connection.execute("SELECT 1 FROM runs WHERE id = ?", (run_id,)).fetchall():
                self._path(run_id).unlink(missing_ok=True)

    def close(self) -> None:
        self._connection.close()

    def clean(self) -> int:
        """Files of runs that were never finished or are deleted, older than any save takes."""
        if not os.access(self._runs, os.W_OK):
            return 0
        with self.transaction(write=True) as connection:
            known = {row[0] for row in connection.execute("SELECT id FROM runs").fetchall()}
            old = time.time() - _ABANDONED
            left = [p for p in self._runs.iterdir() if p.stem not in known and p.stat().st_mtime < old]
            for path in left:
                path.unlink()
        return len(left)

    def _path(self, run_id: str) -> Path:
        return self._runs / f"{run_id}.parquet"

    def _create(self) -> None:
        try:
            self._runs.mkdir(parents=True, exist_ok=True)
            ignore = self._folder / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise self._cannot_write(error) from error

    def _open(self) -> sqlite3.Connection:
        with self._translated():
            if os.access(self._folder, os.W_OK):
                connection = sqlite3.connect(
                    self._folder / CATALOGUE, timeout=_PATIENCE, isolation_level=None, check_same_thread=False
                )
                self._write_ahead(connection)
            else:  # without files beside it, which cannot be made here
                where = (self._folder / CATALOGUE).resolve().as_uri() + "?mode=ro&immutable=1"
                connection = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA foreign_keys = ON")
            return connection

    def _write_ahead(self, connection: sqlite3.Connection) -> None:
        """Readers and a writer side by side. Changing to it does not wait by itself for others that do the same."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        connection.execute("PRAGMA synchronous = FULL")

    def _to_current(self, up_to: int) -> None:
        try:
            found = self._connection.execute("SELECT version FROM karat_history").fetchall()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_ERROR:  # anything but: no such table
                raise
            found = []
        if not found or self._known(found[0][0]) < up_to:
            with self.transaction(write=True) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS karat_history (version INTEGER NOT NULL)")
                self._migrate(connection, up_to)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, UnicodeDecodeError, msgspec.MsgspecError) as error:
            number = getattr(error, "sqlite_errorcode", 0 if isinstance(error, sqlite3.Error) else _DAMAGED[0]) & 0xFF
            what, code, hint = f"the history cannot be used: {error}", "unusable-history", _HINTS.get(number)
            if number in _DAMAGED:
                what, code = "the catalogue of the history is damaged", "damaged-history"
                hint = f"move it away and take the runs in again: karat history import {self._runs}/*.parquet"
            raise StoreError(what, code=code, file=str(self._folder / CATALOGUE), hint=hint) from error

    def _cannot_write(self, error: OSError) -> StoreError:
        hint = _HINTS[sqlite3.SQLITE_FULL if error.errno in _NO_SPACE else sqlite3.SQLITE_READONLY]
        what = f"the history cannot be written: {error.strerror or error}"
        return StoreError(what, code="not-writable", file=self.label, hint=hint)
