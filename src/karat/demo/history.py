"""The history of the demo, measured like any other, in a temporary folder."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import msgspec
from msgspec.structs import replace

from karat.demo.helpdesk import GATES, STORY, Step, baseline_of, read_helpdesk, run_log
from karat.files.progress import counting
from karat.gates.gate import as_criteria, gate_metrics, judge_result
from karat.history.folder import FolderStore
from karat.history.keep import judgement, keep_result
from karat.history.rows import Judgement
from karat.history.store import Store
from karat.results.evaluate import evaluate
from karat.results.kept_run import KeptRun
from karat.results.result import Result
from karat.statistics.sampling import Sampling

# A fast start matters more here than exact intervals and many failed queries.
_SAMPLING, _WORST = Sampling(resamples=1000), 25
_MOST = 4  # processes


@contextmanager
def demo_store() -> Iterator[tuple[Store, Path]]:
    """Yields a filled store and its folder, and removes both afterwards."""
    with (
        _ending_in_order(),
        tempfile.TemporaryDirectory(prefix="karat-demo-") as folder,
        FolderStore(Path(folder) / ".karat") as store,
    ):
        store.label = "the demo"
        fill(store)
        yield store, Path(folder)


@contextmanager
def _ending_in_order() -> Iterator[None]:
    """Turns SIGTERM into an exception, so that the temporary folder is removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def fill(store: Store) -> None:
    workers = min(os.cpu_count() or 1, _MOST)
    with (
        counting("measuring the demo runs", len(STORY)) as tick,
        ProcessPoolExecutor(workers, get_context("spawn"), _begin) as pool,
    ):
        try:
            for step, (kept, said) in zip(STORY, pool.map(_made, STORY), strict=True):
                _save(store, step, kept, said)
                tick()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the main process handles Ctrl-C


def _made(step: Step) -> tuple[KeptRun, Judgement]:
    result, before = _measured(step), baseline_of(step)
    said = _judged(result, None if before is None else _measured(before))
    return keep_result(result, worst=_WORST), msgspec.structs.replace(said, judged_at=step.time)


@lru_cache(maxsize=4)  # most steps have the same baseline
def _measured(step: Step) -> Result:
    """Measures a run; BM25 comes from the logged keyword search, so no search engine is needed."""
    helpdesk = read_helpdesk()
    log = run_log(helpdesk, step)
    found = evaluate(log, helpdesk.gold, corpus=helpdesk.corpus, bm25=helpdesk.keyword, sampling=_SAMPLING)
    return replace(found, run=f"runs/{step.day}.jsonl")


def _judged(result: Result, baseline: Result | None) -> Judgement:
    criteria = as_criteria(GATES)
    asked = gate_metrics(criteria)
    narrow = replace(result, metrics=[metric for metric in result.metrics if str(metric) in asked])
    return judgement(judge_result(narrow, criteria, baseline))


def _save(store: Store, step: Step, kept: KeptRun, said: Judgement) -> None:
    origin = {"branch": step.branch, "author": step.author}
    store.save(kept, **origin, tags=step.tags, saved_at=step.time, judgements=[said])
    if step.anchor:
        store.pin(kept.id, step.anchor, "anchor", pinned_at=step.time)
    if step.baseline:
        store.pin(kept.id, step.baseline, "baseline", pinned_at=step.time)
