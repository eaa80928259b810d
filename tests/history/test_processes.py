"""Many processes at once, and processes that are killed: nothing is lost, and nothing is half there."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from karat.history.folder import FolderStore
from karat.history.location import open_store
from karat.history.store import Store
from karat.results.kept_run import KeptRun

WORKER = str(Path(__file__).parent / "worker.py")


def start(place: str, first: int, count: int, *when: str) -> subprocess.Popen[str]:
    command = [sys.executable, WORKER, place, str(first), str(count), *when]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def whole_runs(store: Store) -> list[str]:
    """Ids of all runs; each of them must be there in every table and in its file."""
    ids = store.ids()
    for run_id in ids:
        assert store.kept(run_id).id == run_id
        assert store.row(run_id).measures
        assert store.segments(run_id)
    return ids


def test_ten_processes_lose_nothing(place: str) -> None:
    """They all begin with a history that is not there yet, and every other pair saves the same runs."""
    processes = [start(place, (n // 2) * 100, 5) for n in range(10)]
    said = [process.communicate(timeout=120) for process in processes]
    assert [(p.returncode, err) for p, (_, err) in zip(processes, said, strict=True)] == [(0, "")] * 10
    promised = {line for out, _ in said for line in out.split()}
    assert len(promised) == 25
    with open_store(place) as store:
        assert set(whole_runs(store)) == promised


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_in_the_middle_of_a_save(place: str, made_run: Callable[..., KeptRun], when: str) -> None:
    """Between the row and the file, and between the file and the commit."""
    with open_store(place, create=True) as store:
        store.save(made_run(1))
        process = start(place, 2, 1, when)
        process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert whole_runs(store) == [made_run(1).id]
        assert store.save(made_run(2)).new  # the dead hold no lock
        assert len(whole_runs(store)) == 2


def test_killed_at_any_moment(place: str) -> None:
    """What a process had said to be saved is there; of what it had not, all or nothing."""
    promised: set[str] = set()
    chance = random.Random(5)
    for turn in range(4):
        process = start(place, turn * 1000, 500)
        assert process.stdout is not None
        promised.add(process.stdout.readline().strip())
        time.sleep(chance.uniform(0.01, 0.3))
        process.kill()
        out, _ = process.communicate(timeout=60)
        promised |= set(out.split())
    with open_store(place) as store:
        ids = set(whole_runs(store))
    assert {run_id for run_id in promised if len(run_id) == 64} <= ids
    assert len(ids) < 2000  # they were killed indeed


def test_what_the_dead_left_behind_is_removed_when_it_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / ".karat"
    for when in ("before", "after"):
        start(str(place), 1, 1, when).communicate(timeout=60)
    with FolderStore(place) as store:
        assert store.count() == 0
        assert len(list((place / "runs").iterdir())) == 2
        assert store.clean() == 0  # someone may be about to finish them
        monkeypatch.setattr("karat.history.folder._ABANDONED", -1.0)
        assert store.clean() == 2
        assert list((place / "runs").iterdir()) == []
