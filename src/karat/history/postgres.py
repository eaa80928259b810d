"""A history in PostgreSQL, for teams."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from karat.errors import MissingExtra
from karat.errors.redaction import HIDDEN, keep_password_of, redact
from karat.history.statements import CURRENT, LIVE, Connection, Rows
from karat.history.store import Collision, Store, StoreError, gone

if TYPE_CHECKING:
    import psycopg

_SCHEME = re.compile(r"(?:postgresql|postgres)(?:\+\w+)?://", re.I)  # SQLAlchemy adds a driver after a +
_LOCK = 0x6B61726174  # "karat": held by writers
_COLLISIONS = ("40001", "40P01")  # SQLSTATE of transactions to retry: serialisation failure, deadlock
_PATIENCE = 60  # seconds to wait for other writers
_SECONDS = 10


class PostgresStore(Store):
    """Stores runs in tables, each in one transaction. `up_to`: for tests of migrations."""

    postgres = True

    def __init__(self, url: str, *, up_to: int = CURRENT) -> None:
        keep_password_of(url)
        self.label: str = without_password(url)
        self._url = _SCHEME.sub("postgresql://", url, count=1)
        self.address: str = self._url
        # One connection for reads and one for writes, so that reads do not wait for writes.
        self._locks = {False: threading.RLock(), True: threading.RLock()}
        self._connections: dict[bool, psycopg.Connection[Any]] = {}
        self._snapshot: Connection | None = None  # of the thread that has the lock for reads
        with self.transaction() as connection:
            there = connection.execute("SELECT to_regclass('karat.karat_history') IS NOT NULL").fetchall()[0][0]
            if there and self.version(connection) >= up_to:
                return  # reading and saving need no right to create tables
        self._write(lambda connection: self._make_tables(connection, up_to))

    def _make_tables(self, connection: Connection, up_to: int) -> None:
        connection.execute("CREATE SCHEMA IF NOT EXISTS karat")
        connection.execute("CREATE TABLE IF NOT EXISTS karat_history (version INTEGER NOT NULL)")
        self._migrate(connection, up_to)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Connection]:
        psycopg = _driver()
        with self._locks[write]:
            if self._snapshot is not None and not write:
                yield self._snapshot
                return
            connection = self._connected(write)
            with self._translated():
                levels = psycopg.IsolationLevel
                # Reads see one snapshot. Writes wait for other writers and then see their changes.
                connection.isolation_level = levels.READ_COMMITTED if write else levels.REPEATABLE_READ
                connection.read_only = not write
                with connection.transaction():
                    asking = _Asking(connection)
                    if write:
                        asking.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
                    yield asking

    @contextmanager
    def _translated(self) -> Iterator[None]:
        psycopg = _driver()
        try:
            yield
        except psycopg.Error as error:
            what = f"the history {self.label} cannot be used: {self._said(error)}"
            if error.sqlstate in _COLLISIONS:
                raise Collision(what) from error
            raise StoreError(what, code="unusable-history") from error

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self.transaction() as connection:
            before, self._snapshot = self._snapshot, connection
            try:
                yield
            finally:
                self._snapshot = before

    def state(self) -> str:
        """The current snapshot: it changes whenever another transaction commits a change."""
        return str(self._rows("SELECT pg_current_snapshot()::text")[0][0])

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """One statement sees one state without a transaction, which would take three times as many messages."""
        with self._locks[False]:
            if self._snapshot is not None:
                return self._snapshot.execute(statement, values).fetchall()
            with self._translated():
                return _Asking(self._connected(write=False)).execute(statement, values).fetchall()

    def source(self, run_id: str) -> bytes:
        return self._field("content", run_id)

    def _document(self, run_id: str) -> bytes:
        return self._field("document", run_id)

    def _put(self, connection: Connection, run_id: str, content: bytes, document: bytes) -> None:
        connection.execute("INSERT INTO files VALUES (?, ?, ?)", (run_id, document, content))

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def _field(self, name: str, run_id: str) -> bytes:
        found = self._rows(f"SELECT {name} FROM files JOIN runs ON id = run_id WHERE run_id = ? AND {LIVE}", (run_id,))
        if not found:
            raise gone(run_id)
        return bytes(found[0][0])

    def _connected(self, write: bool) -> psycopg.Connection[Any]:
        """Returns the connection, or a new one if it was closed."""
        psycopg = _driver()
        known = self._connections.get(write)
        if known is None or known.closed:
            options = f"-c search_path=karat -c lock_timeout={_PATIENCE}s"
            try:
                known = psycopg.connect(self._url, autocommit=True, connect_timeout=_SECONDS, options=options)
            except psycopg.Error as error:
                raise self._unreachable(error) from None  # its text may contain the URL
            self._connections[write] = known
        return known

    def _unreachable(self, error: Exception) -> StoreError:
        said = self._said(error)
        if "password" in said or "authentication" in said or "no pg_hba" in said:
            hint = "check the user and password in the URL"
            return StoreError(f"access to the history {self.label} denied: {said}", code="denied", hint=hint)
        hint = "check that the server is running and the address is right"
        return StoreError(f"the history {self.label} cannot be reached: {said}", code="unreachable", hint=hint)

    def _said(self, error: Exception) -> str:
        """The last line of the message of the driver, without the password."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = lines[-1] if lines else type(error).__name__
        try:
            for secret in _secrets(self._url):  # however short
                said = said.replace(secret, HIDDEN)
        except ValueError:
            return "the address cannot be read"
        return redact(said)


def _driver() -> ModuleType:
    try:
        import psycopg
    except ImportError as error:
        raise MissingExtra("a history in PostgreSQL", "psycopg", "postgres") from error
    return psycopg


class _Asking:
    """A psycopg connection with ? as placeholder."""

    splits_texts = True  # `string_to_array`

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def execute(self, statement: str, values: Sequence[Any] = (), /) -> Rows:
        return self._connection.execute(statement.replace("?", "%s"), values)


def is_postgres(place: str) -> bool:
    """
    >>> [is_postgres(x) for x in ("postgresql+psycopg://h/db", "POSTGRES://h/db", "my/folder", "mysql://h/db")]
    [True, True, False, False]
    """
    return _SCHEME.match(place) is not None


def without_password(url: str) -> str:
    """
    >>> without_password("postgresql://me:secret@db.example/karat?sslmode=require")
    'postgresql://me@db.example/karat'
    """
    try:
        parts = urlsplit(url)
        user = f"{parts.username}@" if parts.username else ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "postgresql://…"
    return f"postgresql://{user}{parts.hostname or ''}{port}{parts.path}"


def _secrets(url: str) -> list[str]:
    """Secrets of a URL that must not be printed, as written and unquoted."""
    parts = urlsplit(url)
    written = [parts.password, *re.findall(r"password=([^&]+)", parts.query)]
    return [form for text in written if text for form in (text, unquote(text))]
