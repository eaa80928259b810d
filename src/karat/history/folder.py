"""A history in a folder, for one machine: a SQLite catalogue and one Parquet file per run."""

from __future__ import annotations

import errno
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from karat.files.atomic_write import umask
from karat.files.safe_parquet import GONE, ParquetSource, UnreadableParquet
from karat.history.catalogue import Catalogue, hint_for
from karat.history.problems import CATALOGUE
from karat.history.statements import CURRENT, Connection
from karat.history.store import Store, StoreError, gone, short
from karat.results.kept_run import DOCUMENT

_ABANDONED = 3600.0  # seconds until a file without a row can be removed
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_LOOKS = 3  # for a file whose run may be saved again at this moment


class FolderStore(Store):
    """A history in a folder. `up_to`: an older version of the tables, for tests of migrations."""

    is_near = True

    def __init__(self, folder: Path, *, create: bool = True, up_to: int = CURRENT) -> None:
        self.label: str = str(folder)
        self.address: str = str(folder.absolute())
        self._folder = folder
        self._runs = folder / "runs"
        if create:
            self._create()
        elif not (folder / CATALOGUE).is_file():
            raise StoreError("no history", code="no-history", file=str(folder), hint="karat eval … --save creates one")
        # One connection to write, one to read (so that reads do not wait for writes), one to see changes.
        self._writing = Catalogue(folder / CATALOGUE, self._runs)
        with self._writing.translated():
            self._to_current(up_to)
        self._reading, self._watching = (Catalogue(folder / CATALOGUE, self._runs) for _ in range(2))

    def transaction(self, *, write: bool = False) -> AbstractContextManager[Connection]:
        # IMMEDIATE: a transaction that reads before it writes would fail if others wrote in between.
        return self._writing.transaction("BEGIN IMMEDIATE") if write else self._reading.transaction("BEGIN")

    def state(self) -> str:
        return self._watching.state()

    def source(self, run_id: str) -> Path:
        path = self._path(run_id)
        for _ in range(_LOOKS):
            there = path.is_file()
            if not self._has(run_id):
                raise gone(run_id)
            if there:
                return path
        what = f"the file of the run {short(run_id)} is missing"
        raise StoreError(what, code="lost-run", file=str(path), hint="karat history check")

    def _document(self, run_id: str) -> str:
        path = self.source(run_id)
        what = f"the file of the run {short(run_id)} is damaged"
        try:
            return str(ParquetSource(path).rows([DOCUMENT], 0, 1).item())
        except (UnreadableParquet, ValueError) as error:  # damaged, or without a row
            if isinstance(error, UnreadableParquet) and error.kind == GONE:
                raise gone(run_id) from None  # deleted while it was being read
            raise StoreError(what, code="damaged-history", file=str(path)) from error

    @contextmanager
    def _prepare(self, content: bytes) -> Iterator[bytes]:
        """Writes a temporary file before the catalogue is locked; `_put` renames it."""
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
        """Renames the file before the row is committed: a kill in between leaves an unused file, but no partial run."""
        os.replace(os.fsdecode(content), self._path(run_id))
        handle = os.open(self._runs, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _forget(self, run_id: str) -> None:
        with self.transaction(write=True) as connection:  # unless another process has saved it again
            if not connection.execute("SELECT 1 FROM runs WHERE id = ?", (run_id,)).fetchall():
                self._path(run_id).unlink(missing_ok=True)

    def close(self) -> None:
        for catalogue in (self._watching, self._reading, self._writing):
            catalogue.close()

    def clean(self) -> int:
        """Removes old files of unfinished or deleted runs; returns how many."""
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

    def _to_current(self, up_to: int) -> None:
        found: list[tuple[int]] = []
        with self._writing.transaction("BEGIN") as connection:
            try:
                found = connection.execute("SELECT version FROM karat_history").fetchall()
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_ERROR:  # anything but: no such table
                    raise
        if not found or self._known(found[0][0]) < up_to:
            with self.transaction(write=True) as writing:
                writing.execute("CREATE TABLE IF NOT EXISTS karat_history (version INTEGER NOT NULL)")
                self._migrate(writing, up_to)

    def _cannot_write(self, error: OSError) -> StoreError:
        hint = hint_for(sqlite3.SQLITE_FULL if error.errno in _NO_SPACE else sqlite3.SQLITE_READONLY)
        what = f"the history cannot be written: {error.strerror or error}"
        return StoreError(what, code="not-writable", file=self.label, hint=hint)
