"""Standard output and error that may close at any time: the work continues and the exit code stays the same."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Any


class _MayClose(io.FileIO):
    """A file that discards writes after the first error. `forgives`: errors that are not raised."""

    def __init__(self, handle: int, forgives: Callable[[OSError], bool]) -> None:
        super().__init__(handle, "w", closefd=False)
        self._forgives = forgives

    def write(self, content: Any) -> int:
        try:
            return super().write(content) or 0
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())  # report an error only once; child processes write here, too
            os.close(nowhere)
            if not self._forgives(error):
                raise
            return memoryview(content).nbytes


def open_streams() -> None:
    """Let `karat gate … | true`, or a command with closed streams, still write its files and exit with its verdict.
    Other errors of standard output, such as a full disk, are raised."""
    _open_all()
    sys.stdout = _opened(sys.stdout, 1, lambda error: isinstance(error, BrokenPipeError))
    sys.stderr = _opened(sys.stderr, 2, lambda error: True)


def _open_all() -> None:
    """Open closed standard streams; else the next opened file would get their messages."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(handle, True)
    os.close(handle)


def _opened(stream: Any, handle: int, forgives: Callable[[OSError], bool]) -> Any:
    if stream is None:  # it was closed when Python started
        return io.TextIOWrapper(io.BufferedWriter(_MayClose(handle, forgives)), encoding="utf-8", errors="replace")
    try:
        if stream.fileno() != handle:
            return stream
    except (OSError, ValueError):  # replaced by a test or another program
        return stream
    stream.flush()
    binary = io.BufferedWriter(_MayClose(handle, forgives))
    buffering = stream.line_buffering or handle == 2
    return io.TextIOWrapper(binary, stream.encoding, stream.errors, line_buffering=buffering)
