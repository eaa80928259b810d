"""Reads ahead in a thread: one core reads the next part of a file while another judges this one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import TypeVar

T = TypeVar("T")
_ARENAS = -8  # M_ARENA_MAX of malloc.h


def read_ahead(parts: Iterator[T]) -> Iterator[T]:
    """The same parts in the same order, and an error where it occurred. The next part is made while the last one is
    used, if there is a core for it."""
    return _from_thread(parts) if _cores() > 1 else parts


def _from_thread(parts: Iterator[T]) -> Iterator[T]:
    from queue import Queue
    from threading import Event, Thread

    _share_memory()
    made: Queue[tuple[T | None, BaseException | None]] = Queue()
    wanted, stopped = Event(), Event()

    def make() -> None:
        try:
            for part in parts:
                wanted.wait()
                wanted.clear()
                if stopped.is_set():
                    return
                made.put((part, None))
                del part
            made.put((None, None))
        except BaseException as error:
            made.put((None, error))

    thread = Thread(target=make, name="karat-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            wanted.set()
            part, error = made.get()
            if error is not None:
                raise error
            if part is None:
                return
            yield part
            del part
    finally:
        stopped.set()
        wanted.set()
        thread.join()


@cache
def _share_memory() -> None:
    """Let threads use the same memory: glibc would keep what the thread freed for that thread alone."""
    import ctypes

    with suppress(OSError, AttributeError, TypeError):  # other systems
        ctypes.CDLL(None).mallopt(_ARENAS, 1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
