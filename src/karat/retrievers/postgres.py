"""Full text and vectors in PostgreSQL: one statement of your own, with bound parameters."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote
from uuid import UUID

from karat.data.question import Question
from karat.errors import ConfigError, MissingExtra
from karat.errors.redaction import keep_password_of
from karat.net.http import HttpError, Retry, Secrets
from karat.net.timeouts import TooSlow
from karat.retrievers.base import Found, Retriever, Stopwatch, Unusable, as_hits
from karat.retrievers.dense import STATIC, Embedder, make_embedder
from karat.retrievers.templates import Used, as_field, values_of, with_score

if TYPE_CHECKING:
    import psycopg

_SCHEME = re.compile(r"postgres(?:ql)?(?:\+\w+)?://", re.I)  # SQLAlchemy adds a driver after a +
_VARIABLE = re.compile(r"(?<=:)\$\{([A-Za-z_]\w*)\}(?=@)")  # in the place of a password
_PASSWORD = re.compile(r"://[^/?#\s:@]*:(?!\$\{\w+\}@)[^/?#\s]*@|[?&\s](?:ssl)?password=(?!\$\{)", re.I)
_CONNECTING, _PATIENCE = 10.0, 30.0  # seconds
# What is not to be touched (texts, quoted names, comments), and the values among it.
_TOKEN = re.compile(
    r"(?P<text>'(?:[^']|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)|(?P<other>\"[^\"]*\"|--[^\n]*|/\*.*?\*/)"
    r"|\{(?P<name>[A-Za-z_]\w*)\}|(?P<percent>%)",
    re.S,
)
_QUOTED = re.compile(r"\{(query|k|vector)\}")
_GONE = ("08", "57P")  # SQLSTATE: connection lost, server shuts down
_TIMED_OUT, _READ_ONLY = "57014", "25006"
_HINTS = {
    "42P01": "check the name of the table, and its schema",
    "42703": "check the names of the columns",
    "42883": "is the extension installed in this database? For pgvector: CREATE EXTENSION vector",
    "42704": "is the extension installed in this database? For pgvector: CREATE EXTENSION vector",
    "22000": "is `model` the one that made the stored vectors?",
    "42P18": "add a cast to the value, such as {topic}::text",
    _READ_ONLY: "a retriever may only read: use SELECT",
}


class Postgres(Retriever):
    """`postgres(${DATABASE_URL}, sql=…)`: runs one SELECT per query, in a read-only transaction.

    `sql` returns the hits, best first, with columns named `id` (or `chunk_id`) and, if wanted, `score` or `distance`,
    `text`, `doc_id`, `doc_version`, `source`. `{query}`, `{k}`, `{query_id}`, `{language}` and the query's tags are
    bound parameters, and so is `{vector}`, from `model`, `embeddings` and `key` as in `dense`. `${NAME}` in `url` is
    read from the environment; a password must be.
    """

    name = "postgres"
    searches_corpus = False

    def __init__(
        self,
        url: str,
        sql: str,
        model: str | None = None,
        embeddings: str | None = None,
        key: str | None = None,
        retries: int = 2,
    ) -> None:
        self.url = url
        self.sql = sql
        self.retries = retries
        self._address = _address(url)
        self._secrets = Secrets(self._address, *_passwords(self._address))
        self._statement, self._names = _bound(sql)
        self._embedder: Embedder | None = None
        if "vector" in self._names:
            model = model or STATIC
            self._embedder = make_embedder(model, embeddings, key)
        elif model or embeddings or key:
            what = "a model is given, but the statement has no {vector}"
            hint = "write {vector} into `sql`, or leave out `model`, `embeddings` and `key`"
            raise ConfigError(what, code="unused-option", got=model or embeddings or key, hint=hint)
        self.model: str | None = model
        self.embeddings = embeddings
        self.key = key
        self._psycopg = _driver()  # report its absence now, not for every query
        self._idle: list[psycopg.Connection[Any]] = []
        self._lock = threading.Lock()

    def answer(self, question: Question, k: int) -> Found:
        watch, used = Stopwatch(), Used()
        values = values_of(question, k)
        if self._embedder is not None:
            with watch.stage("embed"):
                vector = self._embedder.embed_query(question.text, question.timeout, used)
            values["vector"] = "[" + ",".join(map(str, vector.tolist())) + "]"
        absent = next((name for name in self._names if name not in values), None)
        if absent is not None:
            what = f"the statement needs {{{absent}}}, which this query does not have"
            raise Unusable(what, expected=", ".join(values))
        asked = {name: values[name] for name in self._names}
        limit = question.timeout or _PATIENCE
        deadline = time.monotonic() + limit

        def once() -> tuple[list[dict[str, Any]], float]:
            with self._connection(limit, deadline) as connection:
                return self._rows(connection, asked, k, deadline)

        rows, ms = Retry(self.retries + 1, limit=limit).during(once)
        return Found(as_hits(rows), watch.latency_ms | {"retrieve": ms}, fields=as_field(used))

    def _rows(
        self, connection: psycopg.Connection[Any], asked: Mapping[str, Any], k: int, deadline: float
    ) -> tuple[list[dict[str, Any]], float]:
        """Return up to k + 1 rows, and the time of the statement alone."""
        left = max(1, int((deadline - time.monotonic()) * 1000))
        connection.execute(f"SET LOCAL statement_timeout = {left}")  # also opens the transaction
        started = time.perf_counter()
        with connection.cursor() as cursor:
            # Streamed, because a statement without LIMIT would return the whole table.
            stream = cursor.stream(self._statement, asked)
            rows = list(islice(stream, k + 1))
            ms = (time.perf_counter() - started) * 1000
            names = [column.name for column in cursor.description or ()]
            del stream  # cancels what is left
        return [with_score({n: _plain(v) for n, v in zip(names, row, strict=True)}) for row in rows], ms

    @contextmanager
    def _connection(self, limit: float, deadline: float) -> Iterator[psycopg.Connection[Any]]:
        """Lend a connection. One that failed is closed; the others are used again."""
        connection = None
        try:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                connection = self._connect(deadline)
            yield connection
            connection.rollback()
        except self._psycopg.Error as error:
            if connection is not None:
                connection.close()
            raise self._failure(error, limit) from None  # its text may contain the address
        except BaseException:
            if connection is not None:
                connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def _connect(self, deadline: float) -> psycopg.Connection[Any]:
        seconds = max(1, int(min(_CONNECTING, deadline - time.monotonic())))
        connection: psycopg.Connection[Any] = self._psycopg.connect(
            self._address, connect_timeout=seconds, application_name="karat"
        )
        connection.read_only = True
        return connection

    def _failure(self, error: psycopg.Error, limit: float) -> HttpError | TooSlow:
        state = error.sqlstate or ""
        if state == _TIMED_OUT:
            late = TooSlow(limit, self.url)
            late.lost = False  # the server had all the time there was
            return late
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = self._secrets.redact(lines[0] if lines else type(error).__name__)
        lost = isinstance(error, self._psycopg.OperationalError) and (not state or state.startswith(_GONE))
        hint = "check that the server is running and the address is right" if lost else _HINTS.get(state)
        return HttpError(f"{self.url}: {said}", lost=lost, hint=hint)


def _address(url: str) -> str:
    """Return the address with its environment variables. Only those may hold a password, since run logs show `url`."""
    if _PASSWORD.search(url):
        hint = "put the whole address into an environment variable: ${DATABASE_URL}"
        raise ConfigError("the address has a password, which run logs would show", code="bad-address", hint=hint)
    secrets = Secrets()
    address: str = secrets.fill(_VARIABLE.sub(lambda found: quote(secrets.get(found[1]), safe=""), url))
    if not _SCHEME.match(address):
        got, expected = None if "$" in url else url, "postgresql://user@host/database, or ${DATABASE_URL}"
        raise ConfigError("invalid address of PostgreSQL", code="bad-address", got=got, expected=expected)
    keep_password_of(address)
    return _SCHEME.sub("postgresql://", address, count=1)


def _passwords(address: str) -> list[str]:
    """Return the passwords of an address, as written and decoded, however short."""
    written = re.findall(r"://[^\s:/?#@]*:(.*)@|[?&](?:ssl)?password=([^&]+)", address)
    return [form for pair in written for text in pair if text for form in (text, unquote(text))]


def _bound(sql: str) -> tuple[bytes, list[str]]:
    """Return the statement with placeholders, and their names. Texts in quotes stay as they are.

    >>> _bound("SELECT id, data #>> '{title}' FROM docs WHERE t ILIKE '%x' AND body = {query} LIMIT {k}")
    (b"SELECT id, data #>> '{title}' FROM docs WHERE t ILIKE '%%x' AND body = %(query)s LIMIT %(k)s", ['query', 'k'])
    """
    names: dict[str, None] = {}

    def replaced(found: re.Match[str]) -> str:
        quoted = _QUOTED.search(found["text"] or "")
        if quoted:
            what = f"{quoted[0]} is inside quotes, where it would be plain text"
            hint = f"write {quoted[0]} without quotes; to add to it: '%' || {quoted[0]} || '%'"
            raise ConfigError(what, code="quoted-value", field="sql", got=found["text"], hint=hint)
        if found["name"]:
            names[found["name"]] = None
            return f"%({found['name']})s"
        return found[0].replace("%", "%%")

    statement = _TOKEN.sub(replaced, sql.strip().rstrip(";"))
    if not statement:
        raise ConfigError("the statement is empty", code="empty-statement", field="sql", expected="SELECT …")
    return statement.encode(), list(names)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    return str(value) if isinstance(value, UUID) else value


def _driver() -> ModuleType:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("searching in PostgreSQL", "psycopg", "postgres") from None
    return psycopg
