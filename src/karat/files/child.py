"""Child processes that answer requests, so that work can crash, or use another core, without harming this process.

A request is a line of JSON followed by bytes; so is a response. The child ends when this process ends.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any

READY = b"ready\n"
Answer = Callable[[dict[str, Any], bytes], tuple[dict[str, Any], bytes | memoryview]]
_START = (
    "import json, sys; from importlib import import_module; sys.path[:] = json.loads(sys.argv[1]); "
    "import_module(sys.argv[2]).main()"
)


class ChildFailed(Exception):
    """The child could not be started, crashed, or took too long."""


class Child:
    """The process of a module with a function `main`, which calls `answer_requests`.

    `first`: sent before all requests, for secrets that must not be in its command."""

    def __init__(self, module: str, first: bytes = b"") -> None:
        command = [sys.executable or "python3", "-I", "-c", _START, json.dumps(sys.path), module]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
        except OSError as error:
            raise ChildFailed(error.strerror or str(error)) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers, self._ready = self._process.stdin, self._process.stdout, False
        with suppress(OSError):  # if it has ended, `ready` says so
            self._requests.write(first)
            self._requests.flush()

    def ready(self, patience: float) -> None:
        """Waits until it has loaded what it needs."""
        if not self._ready:
            if not _begins(self._answers, patience) or self._answers.readline() != READY:
                self.close()
                raise ChildFailed("it ended at once")
            self._ready = True

    def ask(
        self,
        request: dict[str, Any],
        content: bytes = b"",
        *,
        patience: float,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> tuple[dict[str, Any], bytes]:
        """Sends a request and waits for the response. `meanwhile`: called while the child works."""
        try:
            self.ready(patience)
            self._requests.write(json.dumps({**request, "size": len(content)}).encode() + b"\n")
            self._requests.write(content)
            self._requests.flush()
            meanwhile()
            if not _begins(self._answers, patience):
                raise EOFError
            told: dict[str, Any] = json.loads(self._answers.readline() or b"null")
            return told, _exactly(self._answers, told["size"])
        except (OSError, TypeError, ValueError, EOFError) as error:
            self.close()
            raise ChildFailed("it crashed, or took too long") from error
        except BaseException:  # interrupted during a response: what follows cannot be parsed
            self.close()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        """Ends the process; whoever waits for its response gets ChildFailed."""
        self._process.kill()

    def close(self) -> None:
        self.kill()
        for pipe in (self._requests, self._answers):
            with suppress(OSError):
                pipe.close()
        self._process.wait()


class Children:
    """Up to `most` children that wait for the next request."""

    def __init__(self, start: Callable[[], Child], most: int) -> None:
        self._start, self._most = start, most
        self.reset()

    def reset(self) -> None:
        """Forgets all children: after a fork they belong to the other process."""
        self._idle: list[Child] = []
        self._places = threading.BoundedSemaphore(self._most)

    @contextmanager
    def one(self) -> Iterator[Child]:
        with self._places:
            child = self._idle.pop() if self._idle else self._start()
            if not child.is_alive:
                child.close()
                child = self._start()
            yield child
            if child.is_alive:
                self._idle.append(child)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


def answer_requests(answer: Answer, requests: IO[bytes], answers: IO[bytes]) -> None:
    """The loop of a child; ends when the other process closes the pipe."""
    with suppress(BrokenPipeError):
        answers.write(READY)
        answers.flush()
        while line := requests.readline():
            request = json.loads(line)
            told, content = answer(request, requests.read(request["size"]))
            answers.write(json.dumps({**told, "size": len(content)}).encode() + b"\n")
            answers.write(content)
            answers.flush()


def pipes() -> tuple[IO[bytes], IO[bytes]]:
    """The two ends of a child; whatever else it prints is dropped, because the other process reports crashes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process decides, and closes the pipe
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    return requests, answers


def _begins(stream: IO[bytes], patience: float) -> bool:
    """Returns whether a response begins within the time limit."""
    if not hasattr(select, "poll"):
        return True
    waiting = select.poll()  # not select: a server with many connections has files above its limit of 1024
    waiting.register(stream, select.POLLIN)
    return bool(waiting.poll(patience * 1000))


def _exactly(stream: IO[bytes], size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError
    return found
