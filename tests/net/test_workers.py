"""Threads that are given up when they hang."""

from __future__ import annotations

import threading
import time

from refusals import refused

from karat.net.timeouts import Workers


def test_every_job_comes_back_once() -> None:
    found = list(Workers(lambda n: n * n, 4).each(range(100)))
    assert sorted(found) == [(n, n * n) for n in range(100)]
    assert list(Workers(lambda n: n, 4).each([])) == []


def test_work_goes_on_beside_what_hangs_and_its_late_result_is_thrown_away() -> None:
    release = threading.Event()

    def work(n: int) -> int:
        if n < 2:
            release.wait(60)
        return n

    started = time.monotonic()
    found = {}
    for job, result in Workers(work, 2, timeout=1).each(range(6)):
        assert job not in found
        found[job] = result
        if len(found) == 5:
            release.set()
    assert found == {0: None, 1: None, 2: 2, 3: 3, 4: 4, 5: 5}
    assert time.monotonic() - started < 30


def test_one_that_only_hangs_is_stopped() -> None:
    hanging = threading.Event()
    with refused("too-slow"):
        list(Workers(lambda n: hanging.wait(60), 32, timeout=0.01).each(range(500)))
    hanging.set()


def test_no_new_job_is_begun_once_the_results_are_not_wanted() -> None:
    begun: list[int] = []
    threads: set[threading.Thread] = set()
    release = threading.Event()

    def work(n: int) -> int:
        begun.append(n)
        threads.add(threading.current_thread())
        if n:
            release.wait(60)
        return n

    results = Workers(work, 2).each(range(1000))
    assert next(results) == (0, 0)
    results.close()  # type: ignore[attr-defined]
    release.set()
    for thread in list(threads):
        thread.join(60)
    assert len(begun) <= 3  # the first, and one that each thread had begun
