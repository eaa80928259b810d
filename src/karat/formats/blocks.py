"""Reads a file in blocks. With a second core, two threads share the work: while one judges a part, the other makes the
next, and whichever is free makes a part."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Condition, Lock, Thread, current_thread
from typing import Generic, TypeVar

import numpy as np

from karat.data.ids import Ints
from karat.files.limits import largest_line, line_too_long
from karat.files.machine import cores, share_memory
from karat.formats.base import Source

B = TypeVar("B")
T = TypeVar("T")
_PARTS = 4  # in memory at a time


def line_starts(block: bytes) -> Ints:
    """Where the lines of a block begin."""
    breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    return np.append(0, breaks[:-1] + 1 if block.endswith(b"\n") else breaks + 1)


def cut_blocks(source: Source, size: int, last: Callable[[bytes], int]) -> Iterator[tuple[bytes, int]]:
    """The file in blocks of about `size` bytes, each with the number of its bytes that count. `last` says how many of
    them; what follows comes again in the next block. The end of the file always counts."""
    whole, read = source.size, 0
    with source.open() as stream:
        block = stream.read(size)
        while block:
            more = stream.read(1)
            cut = last(block) if more else len(block)
            again = cut - len(block) - len(more)  # bytes to read again, below 0; that is faster than copying the block
            rest = block[cut:] if not cut or source.begin is None or not stream.seekable() else None
            step = size if rest is None else max(size, len(rest))
            if not cut and b"\n" not in block and (step := min(step, largest_line() - len(block))) < 0:
                raise line_too_long(source.label)
            if cut:
                read += cut
                source.note_parsed(cut)
                blocks, block = [block], b""  # only the caller holds it
                yield blocks.pop(), cut
            if rest is None:
                stream.seek(again, os.SEEK_CUR)
            block = stream.read(step) if rest is None else b"".join([rest, more, stream.read(step)])
    source.refuse_shorter(whole, read)


def whole_lines(source: Source, size: int) -> Iterator[bytes]:
    """The file in blocks of about `size` bytes that end with a line."""
    whole, read = source.size, 0
    with source.open() as stream:
        while block := stream.read(size):
            rest = b"" if block.endswith(b"\n") else stream.readline()
            read += len(block) + len(rest)
            source.note_parsed(len(block) + len(rest))
            yield block + rest if rest else block
    source.refuse_shorter(whole, read)


def read_ahead(blocks: Iterator[B], make: Callable[[B], T]) -> Iterator[T]:
    """`map(make, blocks)`: the same parts in the same order, and an error where it occurred. With a second core, a
    thread makes parts while others are used. `make` must be safe to call from two threads; `blocks` is used by one at
    a time. No block may be None."""
    return PartsAhead(blocks, make).in_order() if has_two_cores() else map(make, blocks)


class PartsAhead(Generic[B, T]):
    """Parts that two threads make. `begin` starts in the background, `in_order` gives all parts once, `stop` ends the
    thread."""

    def __init__(self, blocks: Iterator[B], make: Callable[[B], T]) -> None:
        self._blocks, self._make = blocks, make
        self._reading, self._changed = Lock(), Condition()
        self._made: dict[int, tuple[list[T], BaseException | None]] = {}
        self._begun = 0  # parts that are made or being made
        self._next = 0  # the part that is used next
        self._used = 0  # parts in use
        self._ended = self._stopped = False
        self._thread: Thread | None = None

    def begin(self) -> None:
        """Make the first parts in the background."""
        if self._thread is None:
            share_memory()
            thread = Thread(target=self._make_all, name="karat-read-ahead", daemon=True)
            with suppress(RuntimeError):  # the system allows no more threads; then the caller makes all parts
                thread.start()
                self._thread = thread

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def in_order(self) -> Iterator[T]:
        try:
            self.begin()
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
            self.stop()

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
        """Begin and make the next part; False if there is none left, or if too many are in memory."""
        made: list[T] = []
        error = None
        with self._reading:
            if not self._may_begin:
                return False
            number = self._begun
            try:
                block = next(self._blocks, None)
            except BaseException as raised:
                block, error = None, self._kept(raised)
            with self._changed:
                self._ended = block is None
                self._begun += block is not None or error is not None
                self._changed.notify_all()
        if block is not None:
            try:
                made.append(self._make(block))
            except BaseException as raised:
                error = self._kept(raised)
        elif error is None:
            return True
        with self._changed:
            self._made[number] = made, error
            self._changed.notify_all()
        return True

    def _kept(self, raised: BaseException) -> BaseException:
        """The error to raise when the part is asked for. What interrupts the caller (Ctrl-C) is raised at once."""
        if not isinstance(raised, Exception) and current_thread() is not self._thread:
            raise raised
        return raised


def has_two_cores() -> bool:
    return cores() > 1
