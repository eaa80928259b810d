"""Standard output and error that may be closed at any time: the work goes on, and the exit code stays what it is."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any


class _MayClose(io.FileIO):
    """A file to which nothing more is written once its reader has gone. `forgives`: other errors, too."""

    def __init__(self, handle: int, forgives: Callable[[OSError], bool]) -> None:
        super().__init__(handle, "w", closefd=False)
        self._forgives = forgives

    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # an error is told once; child processes write here, too
            os.close(nowhere)
            if not self._forgives(error):
                raise
            return memoryview(content).nbytes


def open_streams() -> None:
    """`karat gate … | true` still writes its files and ends with its verdict; so does a command without a place to
    write messages to. Other errors of standard output are errors: the disk is full, for instance."""
    _open_all()
    sys.stdout = _opened(sys.stdout, 1, lambda error: isinstance(error, BrokenPipeError))
    sys.stderr = _opened(sys.stderr, 2, lambda error: True)


def _open_all() -> None:
    """The next file that is opened would take the place of a closed one, and get its messages."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)


def _opened(stream: Any, handle: int, forgives: Callable[[OSError], bool]) -> Any:
    if stream is None:  # it was closed when Python started
        return io.TextIOWrapper(io.BufferedWriter(_MayClose(handle, forgives)), encoding="utf-8", errors="replace")
    try:
        if stream.fileno() != handle:
            return stream
    except (OSError, ValueError):  # of tests, or of another program that has replaced it
        return stream
    stream.flush()
    binary = io.BufferedWriter(_MayClose(handle, forgives))
    buffering = stream.line_buffering or handle == 2
    return io.TextIOWrapper(binary, stream.encoding, stream.errors, line_buffering=buffering)
