"""A history of runs: the common part of folders (`folder.py`) and PostgreSQL (`postgres.py`)."""

from __future__ import annotations

import hashlib
import random
import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from karat.errors import ConfigError, InputError
from karat.history import statements as sql
from karat.history.changes import Changes, add_words, bring_back
from karat.history.hits import add_hits, has_hits, stored_parts
from karat.history.problems import LATEST as LATEST
from karat.history.problems import Collision as Collision
from karat.history.problems import NotThere as NotThere
from karat.history.problems import StoreError as StoreError
from karat.history.problems import checked_name as checked_name
from karat.history.problems import gone as gone
from karat.history.problems import short as short
from karat.history.rows import (
    ALL,
    Choices,
    Filter,
    Judgement,
    Measures,
    Page,
    Pin,
    RunHead,
    RunRow,
    TrendPoint,
    dataset_name,
    head_of,
    measures_of,
    now,
)
from karat.history.sorting import Sort, count_runs, distinct, select_sorted
from karat.history.statements import CURRENT, VERSIONS, Connection, is_storable
from karat.history.texts import remove_unused
from karat.results.kept_run import KeptRun, RunDocument, read_document, read_kept

_T = TypeVar("_T")
_NAMED = 20  # tags in an error
_ATTEMPTS = 10  # for a transaction that collides with others
_ID, _WHOLE_ID = re.compile(r"[0-9a-f]{4,64}"), re.compile(r"[0-9a-f]{64}")
_PAGE, _MOST = 50, 500
_NEWEST = Sort()
_DEFAULT_BRANCHES = ("main", "master", "trunk")


class Saved(NamedTuple):
    """The result of a save; `new`: the run did not exist before."""

    id: str
    new: bool


class Store(Changes):
    """Runs by id, with a catalogue for lists. Every write is atomic."""

    label: str  # for messages, without the password
    address: str  # for another process to open it, with the password
    postgres = False
    is_near = False  # whether reading its state is instant

    @abstractmethod
    def transaction(self, *, write: bool = False) -> AbstractContextManager[Connection]:
        """A transaction on one consistent snapshot; writers wait for other writers."""

    def snapshot(self) -> AbstractContextManager[None]:
        """All reads inside see the same state, if that saves time: a server is asked once to begin and to end."""
        return nullcontext()

    @abstractmethod
    def state(self) -> str:
        """A value that changes with every write to the history."""

    @abstractmethod
    def _put(self, connection: Connection, run_id: str, content: bytes, document: bytes) -> None:
        """Stores the file of a run, in the transaction that adds its row."""

    @abstractmethod
    def source(self, run_id: str) -> Path | bytes:
        """The Parquet file of a run."""

    @abstractmethod
    def _document(self, run_id: str) -> bytes | str:
        """The document of a run, without reading the rest."""

    @abstractmethod
    def close(self) -> None: ...

    def _prepare(self, content: bytes) -> AbstractContextManager[bytes]:
        """Does slow work before the transaction, so that others do not wait."""
        return nullcontext(content)

    def _forget(self, run_id: str) -> None:
        """Cleans up after the row of a run was deleted."""
        return

    def clean(self) -> int:
        """Removes files that killed processes left behind; returns how many."""
        return 0

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Writing

    def save(
        self,
        run: KeptRun,
        *,
        branch: str | None = None,
        author: str | None = None,
        tags: Iterable[str] = (),
        judgements: Sequence[Judgement] = (),
        saved_at: str | None = None,
        title: str | None = None,
        note: str | None = None,
    ) -> Saved:
        """Adds a run; an existing run only gets the tags and judgements. A deleted one comes back."""
        names = [checked_name(tag, "tag") for tag in tags]
        head, measures = head_of(run, branch, author), measures_of(run.document.result)
        refuse_unstorable(head, measures)
        if self._keeps(run) and self._write(lambda c: self._add_to(c, run.id, names, judgements)):
            return Saved(run.id, new=False)
        parts = list(stored_parts(run))
        with self._prepare(run.to_parquet()) as content:

            def add(connection: Connection) -> bool:
                new = sql.add_run(connection, run.id, head, saved_at or now())
                if new:
                    sql.add_measures(connection, run.id, measures)
                    self._put(connection, run.id, content, run.text)
                    add_words(connection, run.id, title, note)
                else:
                    new = bring_back(connection, run.id)
                if run.hits is not None and not has_hits(connection, run.id):
                    add_hits(connection, run.id, parts, run.hits)
                self._add_to(connection, run.id, names, judgements)
                return new

            return Saved(run.id, self._write(add))

    def _keeps(self, run: KeptRun) -> bool:
        """Whether the run is there, with its hits. Runs of earlier versions have none, and get them now."""
        with self.transaction() as connection:
            return sql.has_run(connection, run.id) and (run.hits is None or has_hits(connection, run.id))

    def _add_to(
        self, connection: Connection, run_id: str, tags: Sequence[str], judgements: Sequence[Judgement] = ()
    ) -> bool:
        """Adds tags and judgements; returns whether the run still exists."""
        if not sql.has_run(connection, run_id):
            return False
        sql.add_tags(connection, run_id, tags)
        sql.add_judgements(connection, run_id, judgements)
        return True

    def remove_texts(self) -> int:
        """Removes texts that no run refers to; returns how many."""
        return self._write(remove_unused)

    # Reading

    def find(self, reference: str) -> str:
        """Resolves a pin, a tag (its newest run), `latest`, or an id or its beginning to the id of a run."""
        with self.transaction() as connection:
            return self._find(connection, reference)

    def _find(self, connection: Connection, reference: str) -> str:
        if not is_storable(reference):
            raise NotThere("run in the history", reference, (), hint="`karat history list` shows all runs")
        order = "ORDER BY saved_at DESC, id DESC LIMIT 1"
        if reference == LATEST:
            ids = connection.execute(f"SELECT id FROM runs WHERE {sql.LIVE} {order}").fetchall()
        else:
            # A range, because PostgreSQL's plan for any value of `tag = ?` reads all runs if one tag is frequent.
            tagged = f"SELECT id FROM runs JOIN tags ON run_id = id WHERE tag BETWEEN ? AND ? AND {sql.LIVE} {order}"
            near = f"SELECT id FROM runs WHERE id >= ? AND id < ? AND {sql.LIVE} ORDER BY id LIMIT 4"
            statement = (
                f"SELECT 0, run_id FROM pins WHERE name = ? UNION ALL SELECT 1, id FROM ({tagged}) AS tagged "
                f"UNION ALL SELECT 2, id FROM ({near}) AS near"
            )
            ends = (reference, reference + "g") if _ID.fullmatch(reference) else ("", "")
            found = connection.execute(statement, (reference, reference, reference, *ends)).fetchall()
            first = min((kind for kind, _ in found), default=None)
            ids = sorted((run_id,) for kind, run_id in found if kind == first)
        if len(ids) > 1:
            shown = ", ".join(short(row[0], 16) for row in ids[:3])
            raise ConfigError(
                f"several runs begin with {reference}: {shown} …", code="ambiguous-run", hint="write more of the id"
            )
        if not ids:
            tags = connection.execute(
                f"SELECT DISTINCT tag FROM tags JOIN runs ON run_id = id WHERE {sql.LIVE} ORDER BY tag LIMIT {_NAMED}"
            ).fetchall()
            names = [*(pin.name for pin in sql.all_pins(connection)), *(tag for (tag,) in tags)]
            raise NotThere("run in the history", reference, names, hint="`karat history list` shows all runs")
        return str(ids[0][0])

    def run_version(self, reference: str) -> str:
        """A value that changes with every write about the run of a reference, and with every pin."""
        run_id = reference
        found = self._rows(*sql.version_of(run_id)) if _WHOLE_ID.fullmatch(run_id) else []
        if not sql.is_unambiguous(run_id, found):
            with self.transaction() as connection:
                run_id = self._find(connection, reference)
                found = connection.execute(*sql.version_of(run_id)).fetchall()
        return hashlib.sha256(repr((run_id, [*map(tuple, found)])).encode()).hexdigest()

    def runs(
        self, only: Filter | None = None, *, limit: int = _PAGE, after: str | None = None, sort: Sort = _NEWEST
    ) -> Page:
        """A page of runs, newest first unless sorted in another way."""
        size = min(max(limit, 1), _MOST)
        with self.transaction() as connection:
            found, following = select_sorted(connection, only or Filter(), sort, size, after)
            return Page(sql.described(connection, found), following)

    def newest(self, only: Filter | None = None, limit: int = _PAGE) -> tuple[list[RunRow], int]:
        """The newest run of each dataset, system and branch, newest first, and how many there are in all."""
        with self.transaction() as connection:
            found, total = sql.select_newest(connection, only or Filter(), limit)
            return sql.described(connection, found), total

    def row(self, run_id: str) -> RunRow:
        with self.transaction() as connection:
            statement = f"SELECT {sql.DESCRIBED} FROM runs WHERE id = ? AND {sql.LIVE}"
            found = connection.execute(statement, (run_id,)).fetchall()
            if not found:
                raise gone(run_id)
            return sql.described(connection, found)[0]

    def trend(
        self, metric: str, only: Filter | None = None, *, segment: tuple[str, str] = (ALL, ALL), limit: int = 200
    ) -> list[TrendPoint]:
        """One metric over time, oldest first; skips runs that do not have it."""
        points: list[TrendPoint] = []
        after, size = None, min(max(limit, 1), 2 * _MOST)
        join = "JOIN measures ON measures.run_id = runs.id AND segment = ? AND value = ?"
        with self.transaction() as connection:
            pins = sql.all_pins(connection)
            while len(points) < size:
                columns = "runs.id, saved_at, head, queries, metrics"
                found = sql.select_runs(connection, only or Filter(), columns, join, segment, size, after)
                points += [p for row in found if (p := sql.point_of(row, metric, pins)) is not None]
                if len(found) < size:
                    break
                after = f"{found[-1][1]}~{found[-1][0]}"
            points = points[:size][::-1]
            tags = sql.tags_of(connection, [point.run_id for point in points])
        return [msgspec.structs.replace(point, tags=tags.get(point.run_id, [])) for point in points]

    def segments(self, run_id: str) -> dict[str, list[str]]:
        """Segments that a trend can follow, with their values."""
        statement = (
            "SELECT segment, value FROM measures JOIN runs ON id = run_id "
            f"WHERE run_id = ? AND segment <> '' AND {sql.LIVE} ORDER BY segment, value"
        )
        found: dict[str, list[str]] = {}
        for segment, value in self._rows(statement, (run_id,)):
            found.setdefault(segment, []).append(value)
        return found

    def pins(self) -> list[Pin]:
        with self.transaction() as connection:
            return sql.all_pins(connection)

    def judgements(self, run_id: str) -> list[Judgement]:
        """The gate verdicts on a run, newest first."""
        statement = (
            "SELECT outcome, document, judged_at FROM verdicts JOIN runs ON id = run_id "
            f"WHERE run_id = ? AND {sql.LIVE} ORDER BY judged_at DESC, digest"
        )
        found = self._rows(statement, (run_id,))
        return [Judgement(outcome=outcome, document=text, judged_at=at) for outcome, text, at in found]

    def judged(self, run_ids: Sequence[str]) -> set[str]:
        """The runs that have gate verdicts."""
        if not run_ids:
            return set()
        with self.transaction() as connection:
            which, values = sql.among(connection, run_ids)
            found = connection.execute(f"SELECT DISTINCT run_id FROM verdicts WHERE run_id {which}", values)
            return {row[0] for row in found.fetchall()}

    def choices(self) -> Choices:
        with self.transaction() as connection:
            not_deleted = "run_id NOT IN (SELECT id FROM runs WHERE deleted_at IS NOT NULL)"
            of_runs = [(column, "runs", sql.LIVE) for column in ("system", "branch", "dataset", "author")]
            found = distinct(connection, [*of_runs, ("tag", "tags", not_deleted), ("metric", "means", "TRUE")])
        systems, branches, datasets, authors, tags, metrics = found
        return Choices(systems, branches, tags, datasets, authors, metrics)

    def main_branch(self, only: Filter | None = None) -> str | None:
        """The branch for a trend of these runs: the usual default branch, or the one with the most runs. None if there
        is only one, or if most runs have no branch."""
        return self.main_branches([only or Filter()])[0]

    def main_branches(self, several: Sequence[Filter]) -> list[str | None]:
        """`main_branch` of each filter."""
        found: dict[int, str | None] = {}
        with self.transaction() as connection:
            for usual in _DEFAULT_BRANCHES:  # without counting
                left = [i for i in range(len(several)) if i not in found]
                told = sql.have_branch(connection, [several[i] for i in left], usual)
                found |= {i: usual if others else None for i, (this, others) in zip(left, told, strict=True) if this}
            for i, only in enumerate(several):
                if i not in found:
                    names = [branch for branch, _ in sql.runs_by_branch(connection, only)]
                    found[i] = names[0] if len(names) > 1 else None
        return [found[i] for i in range(len(several))]

    def recent_means(self, several: Sequence[tuple[str, Filter]], limit: int) -> list[list[float]]:
        """For each metric and filter, its means in the newest runs, oldest first; skips runs that do not have it."""
        with self.transaction() as connection:
            return sql.recent_means(connection, several, min(max(limit, 1), _MOST))

    def count(self, only: Filter | None = None) -> int:
        with self.transaction() as connection:
            return count_runs(connection, only or Filter())

    def ids(self) -> list[str]:
        """The ids of all runs, newest first."""
        return [row[0] for row in self._rows(f"SELECT id FROM runs WHERE {sql.LIVE} ORDER BY saved_at DESC, id DESC")]

    def document(self, run_id: str) -> RunDocument:
        """A run without its per-query data; fast for any number of queries."""
        return read_document(self._document(run_id), f"run {short(run_id)}")

    def kept(self, run_id: str) -> KeptRun:
        """A complete run."""
        try:
            return read_kept(self.source(run_id), f"run {short(run_id)}")
        except InputError:
            if self._has(run_id):
                raise
            raise gone(run_id) from None  # deleted while it was read

    # Shared parts

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        with self.transaction() as connection:
            return connection.execute(statement, values).fetchall()

    def _write(self, work: Callable[[Connection], _T]) -> _T:
        """Runs a write transaction, and retries it after collisions."""
        for attempt in count(1):
            try:
                with self.transaction(write=True) as connection:
                    return work(connection)
            except Collision:
                if attempt == _ATTEMPTS:
                    raise
                time.sleep(random.uniform(0.0, min(0.01 * 2**attempt, 1.0)))
        raise AssertionError  # count() never ends

    def _has(self, run_id: str) -> bool:
        with self.transaction() as connection:
            return sql.has_run(connection, run_id)

    def _migrate(self, connection: Connection, up_to: int) -> None:
        """Migrates the tables in one transaction; refuses a store of a newer Karat."""
        there = self.version(connection)
        for number, version in enumerate(VERSIONS[there:up_to], there + 1):
            for statement in (*version.shared, *(version.postgres if self.postgres else version.sqlite)):
                connection.execute(statement)
            connection.execute("DELETE FROM karat_history")
            connection.execute("INSERT INTO karat_history VALUES (?)", (number,))

    def version(self, connection: Connection) -> int:
        found = connection.execute("SELECT version FROM karat_history").fetchall()
        return self._known(found[0][0] if found else 0)

    def _known(self, version: object) -> int:
        if not isinstance(version, int):
            raise StoreError("the catalogue of the history is damaged", code="damaged-history", file=self.label)
        if version > CURRENT:
            raise StoreError(
                f"the history {self.label} was written by a newer Karat (its tables have version {version}, "
                f"this Karat supports {CURRENT})",
                code="newer-version",
                hint="update Karat",
            )
        return version


def refuse_unstorable(head: RunHead, measures: Measures) -> None:
    names = {"system": head.system, "branch": head.branch, "author": head.author}
    for field, name in {**names, "dataset": dataset_name(head.dataset, head.gold)}.items():
        if name is not None and not is_storable(name):
            raise InputError("a name that cannot be stored", code="bad-name", field=field, got=name)
    for segment in measures:
        for name in segment:
            if not is_storable(name):
                raise InputError("a segment that cannot be stored", code="bad-name", field="segments", got=name)
