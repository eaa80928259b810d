"""Runs in several local processes: each reads and scores parts of the run, and only scores come back."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from karat.data.hits import Run, Ungrouped
from karat.data.ids import Seen
from karat.errors import KaratError
from karat.files.machine import cores
from karat.scoring.engines.base import Engine
from karat.scoring.one_pass import Golds, Part, PassRequest, read_parts

_PART = 32 << 20
# Starting processes only pays from about 256 MB on.
_PARTS = 8
# Input that is already read by several threads gains nothing from fewer processes than this.
_MANY = 4


class Processes(Engine):
    """Uses all cores, or the requested number of workers. Input that cannot be read from the middle, is too small, or
    already uses the few cores, is read in this process."""

    name = "processes"

    def __init__(self, workers: int | None = None, part: int = _PART, parts: int = _PARTS) -> None:
        self.workers: int = workers or cores()
        self.part = part
        self.parts_from = parts
        self._decided = workers is not None  # by the user

    def parts(self, run: Run, request: PassRequest, golds: Golds) -> Iterator[Part]:
        few = self.workers < (_MANY if run.threaded and not self._decided else 2)
        # Passages that were located in the run's own hits differ between systems.
        parts = None if few or golds.located else run.parts(self.part)
        if parts is None or len(parts) < self.parts_from:
            yield from read_parts(run, request, golds)
            return
        try:
            found: Iterable[Part] = list(self._judged(run, parts, request, golds))
        except (KaratError, Ungrouped, BrokenProcessPool):
            # Reading the whole file here gives the line of an error, and needs the memory of one process only.
            found = read_parts(run, request, golds)
        yield from found

    def _judged(self, run: Run, parts: list[Run], request: PassRequest, golds: Golds) -> Iterator[Part]:
        from multiprocessing import get_context

        queries: dict[str, Seen] = {}  # of each system
        workers = min(self.workers, len(parts))
        threads = max(1, cores() // workers)
        # Threads of polars do not survive a fork.
        with ProcessPoolExecutor(workers, get_context("spawn"), _begin, (request, golds, threads)) as pool:
            for slices, notes in _in_order(pool, parts, 2 * workers):
                run.take_notes(notes)
                for part in slices:
                    yield _once(part, request, queries)


def _in_order(pool: ProcessPoolExecutor, parts: list[Run], ahead: int) -> Iterator[tuple[list[Part], Any]]:
    """Results in the order of the parts, with a bounded number in progress."""
    waiting: deque[Future[tuple[list[Part], Any]]] = deque()
    for part in parts:
        waiting.append(pool.submit(_judge, part))
        if len(waiting) == ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _once(part: Part, request: PassRequest, queries: dict[str, Seen]) -> Part:
    """Raise Ungrouped for a query in two parts."""
    rows = part.tables[request.own].queries.tolist() if request.own in part.tables else []
    if queries.setdefault(part.system, Seen()).add([*rows, *part.unknown]):
        raise Ungrouped
    return part


_started: tuple[PassRequest, Golds] | None = None


def _begin(request: PassRequest, golds: Golds, threads: int) -> None:
    global _started
    _started = request, golds
    os.environ.setdefault("POLARS_MAX_THREADS", str(threads))  # polars is not imported yet


def _judge(part: Run) -> tuple[list[Part], Any]:
    assert _started is not None
    return list(read_parts(part, *_started)), part.notes()
