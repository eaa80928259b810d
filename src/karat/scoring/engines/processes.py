"""In several processes of this machine: each reads and scores parts of the run, and only scores come back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from karat.data.gold import Gold
from karat.data.hits import Run, Ungrouped
from karat.data.ids import Seen
from karat.errors import KaratError
from karat.scoring.engines.base import Engine, Scored, Task, score_slices

_PART = 32 << 20
# Fewer parts are read here in the time that processes take to start: it pays from about 256 MB on.
_PARTS = 8
# What is read by several threads here gains nothing from fewer processes than that.
_MANY = 4


class Processes(Engine):
    """All cores, or so many workers as are asked for. What cannot be read from the middle, is too small to pay, or uses
    the few cores that there are already, is read here."""

    name = "processes"

    def __init__(self, workers: int | None = None, part: int = _PART, parts: int = _PARTS) -> None:
        self.workers, self.part, self.parts = workers or _cores(), part, parts
        self._decided = workers is not None  # by the user

    def scores(self, run: Run, task: Task) -> Iterator[Scored]:
        few = self.workers < (_MANY if run.threaded and not self._decided else 2)
        # Passages that were looked for in the run's own hits differ from system to system.
        parts = None if few or task.gold_of("") is not task.gold_of("\0") else run.parts(self.part)
        if parts is None or len(parts) < self.parts:
            yield from score_slices(run, task)
            return
        try:
            found = list(self._scored(run, parts, task))
        except (KaratError, Ungrouped, BrokenProcessPool):
            # Whoever reads the whole file knows the line of an error, and needs the memory of one process only.
            found = None
        if found is None:
            yield from score_slices(run, task)
        else:
            yield from found

    def _scored(self, run: Run, parts: list[Run], task: Task) -> Iterator[Scored]:
        from multiprocessing import get_context

        start = _Start(replace(task, gold_of=_same), task.gold_of(""))
        queries: dict[str, Seen] = {}  # of each system
        workers = min(self.workers, len(parts))
        threads = max(1, _cores() // workers)
        # Threads of polars do not survive a fork.
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (start, threads)) as pool:
            for slices, notes in _in_order(pool, parts, 2 * workers):
                run.take_notes(notes)
                for scored in slices:
                    yield _once(scored, queries)


def _in_order(pool: ProcessPoolExecutor, parts: list[Run], ahead: int) -> Iterator[tuple[list[Scored], Any]]:
    """Results in the order of the parts, of which only some are under way."""
    waiting: list[Future[tuple[list[Scored], Any]]] = []
    left = iter(parts)
    for part in islice(left, ahead):
        waiting.append(pool.submit(_score, part))
    while waiting:
        yield waiting.pop(0).result()
        for part in islice(left, 1):
            waiting.append(pool.submit(_score, part))


def _once(scored: Scored, queries: dict[str, Seen]) -> Scored:
    """A query that two parts have must be seen whole."""
    if queries.setdefault(scored.system, Seen()).add([*scored.queries.tolist(), *scored.unknown]):
        raise Ungrouped
    return scored


@dataclass(frozen=True)
class _Start:
    task: Task
    gold: Gold


_started: _Start | None = None


def _begin(start: _Start, threads: int) -> None:
    global _started
    _started = start
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))  # it is not imported yet


def _score(part: Run) -> tuple[list[Scored], Any]:
    assert _started is not None
    return list(score_slices(part, _started.task)), part.notes()


def _same(system: str) -> Gold:
    assert _started is not None
    return _started.gold


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
