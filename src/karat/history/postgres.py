"""The history of a team: PostgreSQL."""

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
from karat.history.statements import CURRENT, Connection, Rows
from karat.history.store import Store, StoreError, gone

if TYPE_CHECKING:
    import psycopg

_SCHEME = re.compile(r"(?:postgresql|postgres)(?:\+\w+)?://", re.I)  # SQLAlchemy names a driver after a +
_LOCK = 0x6B61726174  # "karat": whoever makes or changes tables holds it
_SECONDS = 10


class PostgresStore(Store):
    """All of a run stands in tables; one transaction writes it. `up_to`: for tests of migrations."""

    postgres = True

    def __init__(self, url: str, *, up_to: int = CURRENT) -> None:
        keep_password_of(url)
        self.label, self._url = without_password(url), _SCHEME.sub("postgresql://", url, count=1)
        self._lock = threading.RLock()  # one connection, any thread
        self._connection: psycopg.Connection[Any] | None = None
        with self.transaction(write=True) as connection:
            there = connection.execute("SELECT to_regclass('karat.karat_history') IS NOT NULL").fetchall()[0][0]
            if there and self.version(connection) >= up_to:
                return  # whoever only reads and saves needs no right to make tables
            connection.execute("SELECT pg_advisory_xact_lock(?)", (_LOCK,))
            connection.execute("CREATE SCHEMA IF NOT EXISTS karat")
            connection.execute("CREATE TABLE IF NOT EXISTS karat_history (version INTEGER NOT NULL)")
            self._migrate(connection, up_to)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[Connection]:
        psycopg = _driver()
        with self._lock:
            connection = self._connected()
            try:
                with connection.transaction():
                    yield _Asking(connection)
            except psycopg.Error as error:
                what = f"the history {self.label} cannot be used: {self._said(error)}"
                raise StoreError(what, code="unusable-history") from error

    def source(self, run_id: str) -> bytes:
        return self._field("content", run_id)

    def _document(self, run_id: str) -> bytes:
        return self._field("document", run_id)

    def _put(self, connection: Connection, run_id: str, content: bytes, document: bytes) -> None:
        connection.execute("INSERT INTO files VALUES (?, ?, ?)", (run_id, document, content))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _field(self, name: str, run_id: str) -> bytes:
        found = self._rows(f"SELECT {name} FROM files WHERE run_id = ?", (run_id,))
        if not found:
            raise gone(run_id)
        return bytes(found[0][0])

    def _connected(self) -> psycopg.Connection[Any]:
        """The connection; a new one where the server went away in between."""
        psycopg = _driver()
        if self._connection is None or self._connection.closed:
            try:
                self._connection = psycopg.connect(
                    self._url, autocommit=True, connect_timeout=_SECONDS, options="-c search_path=karat"
                )
            except psycopg.Error as error:
                raise self._unreachable(error) from None  # its text may quote what it was given
        return self._connection

    def _unreachable(self, error: Exception) -> StoreError:
        said = self._said(error)
        if "password" in said or "authentication" in said or "no pg_hba" in said:
            hint = "are user and password of the URL right?"
            return StoreError(f"the history {self.label} does not let us in: {said}", code="denied", hint=hint)
        hint = "is the server up, and the address right?"
        return StoreError(f"the history {self.label} cannot be reached: {said}", code="unreachable", hint=hint)

    def _said(self, error: Exception) -> str:
        """The last line that the driver has to say, and never the password."""
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
    """A psycopg connection that takes ? for values."""

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
    """What must not be printed, as it was written and as it is meant."""
    parts = urlsplit(url)
    written = [parts.password, *re.findall(r"password=([^&]+)", parts.query)]
    return [form for text in written if text for form in (text, unquote(text))]
