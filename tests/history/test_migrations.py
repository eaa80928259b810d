"""Histories that an older Karat wrote: all that is in them stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest
from refusals import refused

from karat.history.folder import FolderStore
from karat.history.keep import restored
from karat.history.location import open_store
from karat.history.postgres import PostgresStore
from karat.history.rows import Judgement
from karat.history.sorting import Sort
from karat.history.statements import CURRENT
from karat.history.store import Store, StoreError

V1 = Path(__file__).parent / "v1"
OLD, NEW = (
    "dff84e745a902520cca6e3ddda7557d7051ec101b74a3e261030061f566c0117",
    "9dfe6a436f7f945d41081691197659242e9e8e3fd7cf0595cbcaa27e1ef89009",
)


@pytest.fixture
def old_place(place: str) -> str:
    """A history as version 1 has left it."""
    if "://" not in place:
        shutil.copytree(V1 / "folder", place)
        return place
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute((V1 / "postgres.sql").read_bytes())
    return place


def version_of(store: Store) -> int:
    with store.transaction() as connection:
        return store.version(connection)


def test_a_history_of_version_1_keeps_everything(old_place: str) -> None:
    with open_store(old_place) as store:
        assert version_of(store) == CURRENT > 1
        rows = store.runs().rows
        assert [row.id for row in rows] == [NEW, OLD]
        assert [row.saved_at[:10] for row in rows] == ["2025-06-02", "2025-06-01"]
        assert [row.tags for row in rows] == [["kept"], []]
        assert [(pin.name, pin.kind, pin.run_id) for pin in store.pins()] == [
            ("release", "anchor", OLD),
            ("main", "baseline", NEW),
        ]
        assert [round(p.measure.mean or 0, 4) for p in store.trend("mrr")] == [0.6806, 0.8333]
        assert store.trend("mrr", segment=("language", "de"))[0].queries == 3
        assert [store.kept(i).id for i in (OLD, NEW)] == [OLD, NEW]
        result = restored(store.kept(NEW))
        assert result.known is not None
        assert (result.system, result.known.sweep is not None) == ("new", True)
        assert result.known.triage.cases[0].hits


@pytest.mark.parametrize("up_to", [1, 2])
def test_lists_of_older_histories_can_be_sorted(old_place: str, up_to: int) -> None:
    """The table of means is filled from what is there."""
    opened = PostgresStore(old_place, up_to=up_to) if "://" in old_place else FolderStore(Path(old_place), up_to=up_to)
    opened.close()
    with open_store(old_place) as store:
        assert [row.id for row in store.runs(sort=Sort("mrr")).rows] == [NEW, OLD]
        assert [row.id for row in store.runs(sort=Sort("mrr", "asc")).rows] == [OLD, NEW]
        with store.transaction() as connection:
            means = connection.execute("SELECT run_id, metric, mean FROM means").fetchall()
        told = {(row.id, name): one.mean for row in store.runs().rows for name, one in row.measures.items()}
        assert {(run, metric): mean for run, metric, mean in means} == told
        assert store.choices().metrics == sorted({name for _, name in told})


def test_and_takes_what_is_new(old_place: str) -> None:
    with open_store(old_place) as store:
        run = store.kept(NEW)
        said = Judgement(outcome="fail", document="{}")
        assert not store.save(run, judgements=[said]).new
        assert store.row(NEW).outcome == "fail"


def test_a_migration_that_fails_leaves_the_old_history(old_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from karat.history.statements import VERSIONS, SchemaVersion

    broken = (VERSIONS[0], SchemaVersion(("CREATE TABLE extra (x INTEGER)", "SELECT nothing FROM nowhere")))
    with monkeypatch.context() as changed:
        changed.setattr("karat.history.store.VERSIONS", broken)
        with pytest.raises(StoreError):
            open_store(old_place)
    with open_store(old_place) as store:  # as if nothing had been tried
        assert store.ids() == [NEW, OLD]
        with pytest.raises(StoreError), store.transaction() as connection:
            connection.execute("SELECT x FROM extra")


def test_a_newer_history_is_left_alone(place: str) -> None:
    with open_store(place, create=True) as store, store.transaction(write=True) as connection:
        connection.execute("UPDATE karat_history SET version = 99")
    with refused("newer-version", StoreError) as caught:
        open_store(place)
    assert " 99" in caught.value.what
    assert caught.value.hint


def test_the_first_version_is_still_made_as_it_was(tmp_path: Path, postgres: str) -> None:
    """The statements of a version that is out there must never change."""
    import sqlite3

    with FolderStore(tmp_path / "new", up_to=1):
        pass
    shapes = []
    for folder in (tmp_path / "new", V1 / "folder"):
        with sqlite3.connect(f"{(folder / 'history.db').as_uri()}?immutable=1", uri=True) as connection:
            shapes.append(connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall())
    assert shapes[0] == shapes[1]
    with PostgresStore(postgres, up_to=1) as store, store.transaction() as connection:
        assert connection.execute("SELECT version FROM karat_history").fetchall() == [(1,)]
