"""Many writers and readers of one history at once, readers without rights, and names that need care."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from refusals import refused

from karat.errors import ConfigError, InputError, KaratError
from karat.history.folder import FolderStore
from karat.history.location import open_store
from karat.history.postgres import PostgresStore
from karat.history.queries import query_over_time, scores_of
from karat.history.rows import Filter, Judgement
from karat.history.store import NotThere, Store
from karat.results.kept_run import KeptRun

Maker = Callable[..., KeptRun]


def at_once(works: list[Callable[[], Any]]) -> list[Any]:
    ready = threading.Barrier(len(works))

    def begin(work: Callable[[], Any]) -> Any:
        ready.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return [done.result() for done in [pool.submit(begin, work) for work in works]]


@pytest.fixture
def doors(place: str) -> Iterator[list[Store]]:
    """One history, opened several times as several processes would."""
    with ExitStack() as stack:
        yield [stack.enter_context(open_store(place, create=True)) for _ in range(6)]


def test_pins_at_once(doors: list[Store], made_run: Maker) -> None:
    ids = [doors[0].save(made_run(i)).id for i in range(3)]

    def pinning(number: int, door: Store) -> Callable[[], None]:
        def pin() -> None:
            for turn in range(20):
                door.pin(ids[(number + turn) % 3], ("main", "release")[turn % 2], "baseline")

        return pin

    at_once([pinning(number, door) for number, door in enumerate(doors)])
    assert sorted(pin.name for pin in doors[0].pins()) == ["main", "release"]
    with refused("pinned-already", ConfigError):
        doors[1].pin(ids[0], "main", "anchor")
    assert doors[2].pin(ids[0], "main", "baseline") is not None


def test_save_delete_and_read_at_once(doors: list[Store], made_run: Maker) -> None:
    """Nobody sees half a run; what is gone is said to be gone."""
    runs = [made_run(i) for i in range(3)]
    judged = [Judgement(outcome="pass", document="{}")]

    def saving(door: Store) -> Callable[[], None]:
        def save() -> None:
            for turn in range(12):
                door.save(runs[turn % 3], tags=["t"], judgements=judged)

        return save

    def deleting(door: Store) -> Callable[[], None]:
        def delete() -> None:
            for turn in range(12):
                door.delete(runs[turn % 3].id)
                with suppress(NotThere):
                    door.restore(runs[(turn + 1) % 3].id)
                door.delete(runs[turn % 3].id)
                door.purge(days=0)

        return delete

    def reading(door: Store) -> Callable[[], None]:
        def read() -> None:
            for turn in range(12):
                door.runs(limit=10)
                door.trend("recall@5")
                query_over_time(door, "q1")
                for look in (door.row, door.document, door.kept, lambda run: scores_of(door, run)):
                    with suppress(NotThere):
                        look(runs[turn % 3].id)
                with suppress(NotThere):
                    door.tag(runs[turn % 3].id, ["more"])
                    door.pin(runs[turn % 3].id, "moving", "baseline")
                    door.unpin("moving")

        return read

    def careful(work: Callable[[], None]) -> Callable[[], None]:
        def tried() -> None:
            try:
                work()
            except ConfigError as error:
                if error.code != "pinned-run":
                    raise

        return tried

    makers = [saving, saving, deleting, deleting, reading, reading]
    at_once([careful(make(door)) for make, door in zip(makers, doors, strict=True)])
    for run_id in doors[0].ids():
        assert doors[0].kept(run_id).id == run_id
        assert doors[0].row(run_id).measures


def test_serialisation_failures_are_tried_again(postgres: str, made_run: Maker) -> None:
    """Also where the database makes every transaction serialisable."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        name = connection.info.dbname
        connection.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    try:
        with ExitStack() as stack:
            doors = [stack.enter_context(PostgresStore(postgres)) for _ in range(4)]
            ids = [doors[0].save(made_run(i)).id for i in range(2)]

            def pin(number: int) -> Callable[[], None]:
                return lambda: [doors[number].pin(ids[turn % 2], "main", "baseline") for turn in range(10)] and None

            at_once([pin(number) for number in range(4)])
            fails = iter([True, True, False])

            def work(connection: Any) -> str:
                if next(fails):
                    connection.execute("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END $$")
                return "done"

            assert doors[0]._write(work) == "done"
    finally:
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {name} RESET default_transaction_isolation")


def test_who_reads_does_not_wait_for_who_writes(place: str, made_run: Maker) -> None:
    with open_store(place, create=True) as store, open_store(place) as other:
        store.save(made_run(1))
        with other.transaction(write=True):
            waiting = threading.Thread(target=lambda: store.tag(made_run(1).id, ["late"]))
            waiting.start()
            waiting.join(0.2)
            assert waiting.is_alive()
            assert store.count() == 1
            before = store.state()
        waiting.join()
        assert store.row(made_run(1).id).tags == ["late"]
        assert store.state() != before


def test_the_state_changes_with_whatever_is_written(place: str, made_run: Maker) -> None:
    with open_store(place, create=True) as store, open_store(place) as other:
        seen = [store.state()]
        run_id = store.save(made_run(1)).id
        for door in (store, other):
            for write in (
                lambda door=door: door.tag(run_id, [f"t{len(seen)}"]),
                lambda door=door: door.pin(run_id, "x", "anchor"),
                lambda door=door: door.save(
                    made_run(1), judgements=[Judgement(outcome="pass", document=f"{len(seen)}")]
                ),
                lambda door=door: door.unpin("x"),
                lambda door=door: door.save(made_run(len(seen))),
            ):
                write()
                seen.append(store.state())
        assert len(set(seen)) == len(seen)
        assert store.state() == store.state()


@pytest.mark.parametrize("name", ["a[1]", "a*b", "a?b", "[!x]", "{a,b}", "x=1", "%41", "a b#c"])
def test_paths_are_no_patterns(tmp_path: Path, made_run: Maker, name: str) -> None:
    (tmp_path / "a1").mkdir()
    with FolderStore(tmp_path / name / ".karat") as store:
        run_id = store.save(made_run(1)).id
        assert store.document(run_id).result.system == "hybrid"
        assert store.kept(run_id).id == run_id
        assert scores_of(store, run_id).total == 20
    with open_store(str(tmp_path / name / ".karat")) as again:
        assert again.count() == 1


@pytest.mark.parametrize("name", ["a\0b", "\0", "\ud800"])
def test_names_that_no_history_can_hold(store: Store, made_run: Maker, name: str) -> None:
    """The same answer of both kinds."""
    known = store.save(made_run(1)).id
    for work in (lambda: made_run(2, system=name), lambda: made_run(2, dataset=name)):
        try:
            run = work()
        except (KaratError, UnicodeError):
            continue  # no run can be made with it
        with refused("bad-name", InputError):
            store.save(run)
    with refused("bad-name", InputError):
        store.save(made_run(2), branch=name)
    with refused("bad-name", ConfigError):
        store.save(made_run(2), tags=[name])
    with refused("bad-name", ConfigError):
        store.pin(known, name, "anchor")
    assert store.ids() == [known]
    for look in (store.find, store.unpin):
        with pytest.raises(NotThere):
            look(name)
    with refused("unknown-tag", ConfigError):
        store.untag(known, [name])
    for only in (Filter(system=name), Filter(branch=name), Filter(tag=name), Filter(dataset=name)):
        assert store.runs(only).rows == []
        assert store.trend("recall@5", only) == []
        assert store.main_branch(only) is None
    assert store.trend("recall@5", segment=(name, name)) == []


def reader(folder: Path) -> subprocess.Popen[str]:
    """A process that has no right to write, and says how many runs there are whenever it is asked."""
    code = (
        "import sys\nfrom karat.errors import KaratError\nfrom karat.history.location import open_store\n"
        f"try:\n    store = open_store({str(folder)!r})\n    print(store.count(), flush=True)\n"
        "    for line in sys.stdin:\n        print(store.count(), flush=True)\n"
        "except KaratError as error:\n    print(error.code, flush=True)\n"
    )

    def obey_modes() -> None:
        if os.geteuid() == 0:
            for right in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
                ctypes.CDLL(None).prctl(24, right)  # PR_CAPBSET_DROP

    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=obey_modes)


def said(process: subprocess.Popen[str], *, ask: bool = True) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    if ask:
        process.stdin.write("?\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def closed(folder: Path) -> None:
    for path in (folder, folder / "runs"):
        path.chmod(0o555)


def opened(folder: Path) -> None:
    for path in (folder, folder / "runs"):
        path.chmod(0o755)


def test_a_reader_without_rights_sees_what_is_written(tmp_path: Path, made_run: Maker) -> None:
    """Whether it came before the writer or after it, and also when the writer is gone again."""
    folder = tmp_path / ".karat"
    with FolderStore(folder) as store:
        store.save(made_run(1))
    closed(folder)
    with reader(folder) as early:
        assert said(early, ask=False) == "1"
        opened(folder)
        with FolderStore(folder) as writer:
            writer.save(made_run(2))
            closed(folder)
            assert said(early) == "2"
            with reader(folder) as late:
                assert said(late, ask=False) == "2"
                opened(folder)
                writer.save(made_run(3))
                closed(folder)
                assert (said(early), said(late)) == ("3", "3")
                assert late.stdin is not None
                late.stdin.close()
            opened(folder)
        with FolderStore(folder) as again:
            again.save(made_run(4))
        closed(folder)
        assert said(early) == "4"
        assert early.stdin is not None
        early.stdin.close()
    opened(folder)


def test_a_reader_who_cannot_see_the_newest_is_told(tmp_path: Path, made_run: Maker) -> None:
    folder = tmp_path / ".karat"
    with FolderStore(folder) as store:
        store.save(made_run(1))
        beside = folder / "history.db-wal"
        beside.chmod(0o000)
        closed(folder)
        try:
            with reader(folder) as process:
                assert said(process, ask=False) == "unread-changes"
        finally:
            opened(folder)
            beside.chmod(0o644)
