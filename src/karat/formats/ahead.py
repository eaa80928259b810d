"""Reads a file with two threads: while this one judges a part, another makes the next; whoever is free makes a part."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from threading import Condition, Lock, Thread
from typing import Generic, TypeVar

B = TypeVar("B")
T = TypeVar("T")
_ARENAS = -8  # M_ARENA_MAX of malloc.h
_PARTS = 3  # in memory at a time


def read_ahead(blocks: Iterator[B], make: Callable[[B], T]) -> Iterator[T]:
    """`map(make, blocks)`: the same parts in the same order, and an error where it occurred. With a second core, a
    thread makes parts while others are used. `make` must be safe to call from two threads; `blocks` is used by one at
    a time. No block may be None."""
    return _Parts(blocks, make).in_order() if _cores() > 1 else map(make, blocks)


class _Parts(Generic[B, T]):
    """Parts that two threads make, by their numbers."""

    def __init__(self, blocks: Iterator[B], make: Callable[[B], T]) -> None:
        self._blocks, self._make = blocks, make
        self._reading, self._changed = Lock(), Condition()
        self._made: dict[int, tuple[list[T], BaseException | None]] = {}
        self._begun = 0  # parts that are made or being made
        self._next = 0  # the part that is used next
        self._used = 0  # parts in use
        self._ended = self._stopped = False

    def in_order(self) -> Iterator[T]:
        _share_memory()
        thread = Thread(target=self._make_all, name="karat-read-ahead", daemon=True)
        thread.start()
        try:
            while self._has_next():
                with self._changed:
                    made, error = self._made.pop(self._next)
                    self._next += 1
                    self._used = 1
                if error is not None:
                    raise error
                yield made.pop()
                with self._changed:
                    self._used = 0
                    self._changed.notify_all()
        finally:
            with self._changed:
                self._stopped = True
                self._changed.notify_all()
            thread.join()

    def _has_next(self) -> bool:
        """Wait for the next part, and make one meanwhile; False at the end."""
        while self._next not in self._made:
            if self._is_over:
                return False
            if not self._make_one():
                with self._changed:
                    self._changed.wait_for(lambda: self._next in self._made or self._may_begin or self._is_over)
        return True

    @property
    def _is_over(self) -> bool:
        return self._ended and self._next >= self._begun

    def _make_all(self) -> None:
        while not (self._stopped or self._ended):
            if not self._make_one():
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped or self._ended or self._may_begin)

    @property
    def _may_begin(self) -> bool:
        return not self._ended and self._begun - self._next + self._used < _PARTS

    def _make_one(self) -> bool:
        """Make the next part that nobody makes; False if there is none, or if too many are waiting."""
        made: list[T] = []
        error = None
        with self._reading:
            if not self._may_begin:
                return False
            number = self._begun
            try:
                block = next(self._blocks, None)
            except BaseException as raised:
                block, error = None, raised
            with self._changed:
                self._ended = block is None
                self._begun += block is not None or error is not None
                self._changed.notify_all()
        if block is not None:
            try:
                made.append(self._make(block))
            except BaseException as raised:
                error = raised
        elif error is None:
            return True
        with self._changed:
            self._made[number] = made, error
            self._changed.notify_all()
        return True


@cache
def _share_memory() -> None:
    """Let threads use the same memory: glibc would keep what the thread freed for that thread alone."""
    import ctypes

    with suppress(OSError, AttributeError, TypeError):  # other systems
        ctypes.CDLL(None).mallopt(_ARENAS, 1)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
