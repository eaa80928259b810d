"""Reads untrusted Parquet files in a separate process, which a damaged file may crash.

polars aborts the process if a damaged page needs more memory than available. So a worker opens files, checks their
sizes and sends back Arrow frames. It starts with the first file, is reused for the next ones, and ends with this
process.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from karat.errors import ConfigError, InputError
from karat.files.limits import EXPANSION, expands_too_far, largest_content
from karat.files.parquet_worker import DAMAGED, EXPANDS, GONE, READY

if TYPE_CHECKING:
    import polars as pl

CRASH = "crash"
__all__ = ["CRASH", "GONE", "ParquetSource", "UnreadableParquet"]
_PATIENCE = 600.0  # seconds to wait for a response
_AT_ONCE = 2  # workers; each uses all cores for one read
_WRITE_AGAIN = "the file is damaged or incomplete: write or copy it again"
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); import karat.files.parquet_worker as w; w.main()"


class UnreadableParquet(Exception):
    """Why a file was not read."""

    def __init__(self, kind: str, reason: str, module: str = "") -> None:
        super().__init__(reason)
        self.kind = kind
        self.module = module

    def as_error(self, what: str, *, code: str, label: str, hint: str | None = None) -> InputError:
        """Return the error; if `what` ends with a colon, the reason follows."""
        if self.kind == EXPANDS:
            return expands_too_far(label)
        told = f"{what} {self}" if what.endswith(":") else what
        damaged = self.kind in (DAMAGED, CRASH)
        return InputError(told, code=code, file=label, hint=hint or (_WRITE_AGAIN if damaged else None))


class ParquetSource:
    """A Parquet file, its bytes, or a Delta table. `most`: largest unpacked size in bytes."""

    def __init__(self, content: str | Path | bytes, *, delta: bool = False, most: int | None = None) -> None:
        largest_content(0)  # raises an error for an invalid limit
        self._content = content if isinstance(content, bytes) else b""
        self._path = None if isinstance(content, bytes) else os.path.abspath(content)
        self._said: dict[str, Any] = {"path": self._path, "delta": delta, "most": most, "columns": None, "rows": None}

    def schema(self) -> pl.Schema:
        return self._frame({"do": "schema"}).schema

    def height(self) -> int:
        return int(self._ask({"do": "height"})[0]["height"])

    def rows(self, columns: Sequence[str] | None = None, at: int = 0, size: int | None = None) -> pl.DataFrame:
        """Read some rows of some columns."""
        rows = None if at == 0 and size is None else [at, size]
        return self._frame({"do": "rows", "columns": None if columns is None else list(columns), "rows": rows})

    def collect(self, query: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.DataFrame:
        """Return the result of a query on the table."""
        import polars as pl

        source = io.BytesIO(self._content) if self._path is None else self._path
        plan = query(pl.scan_parquet(source, hive_partitioning=False, glob=False)).serialize()
        return self._frame({"do": "rows"}, plan)

    def _frame(self, wanted: dict[str, Any], plan: bytes = b"") -> pl.DataFrame:
        content = self._ask(wanted, plan)[1]
        import polars as pl

        return pl.read_ipc_stream(content)

    def _ask(self, wanted: dict[str, Any], plan: bytes = b"") -> tuple[dict[str, Any], bytes]:
        with _WORKERS.one() as worker:
            told, frame = worker.ask({**self._said, **wanted}, self._content, plan)
        if "failed" in told:
            raise UnreadableParquet(told["failed"], told["reason"], told.get("module", ""))
        return told, frame


class _Worker:
    """The worker process."""

    def __init__(self) -> None:
        command = [sys.executable or "python3", "-I", "-c", _START, json.dumps(sys.path)]
        pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
        except OSError as error:
            raise _cannot_start(command[0], error.strerror or str(error)) from error
        if self._process.stdout.readline() != READY:  # type: ignore[union-attr]
            self.close()
            raise _cannot_start(command[0], "it ended at once")

    def ask(self, request: dict[str, Any], content: bytes, plan: bytes) -> tuple[dict[str, Any], bytes]:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            sizes = {"size": len(content), "plan": len(plan), "expansion": os.environ.get(EXPANSION, "")}
            process.stdin.write(json.dumps({**request, **sizes}).encode() + b"\n")
            process.stdin.write(content + plan)
            process.stdin.flush()
            import polars  # noqa: F401  (takes as long as the worker takes to do the same)

            if not _answers(process.stdout):
                raise EOFError
            told: dict[str, Any] = json.loads(process.stdout.readline() or b"null")
            return told, _exactly(process.stdout, told["size"])
        except (OSError, TypeError, EOFError):
            self.close()
            return {"failed": CRASH, "reason": "the Parquet reader crashed on it"}, b""
        except BaseException:  # interrupted during a response: what follows cannot be parsed
            self.close()
            raise

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        self._process.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._process.wait()


def _cannot_start(program: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the process that reads Parquet cannot be started: {reason}",
        code="no-worker",
        file=program,
        hint="free some memory, or convert the file to JSON Lines",
    )


def _answers(stream: IO[bytes]) -> bool:
    """Return whether a response begins within the time limit."""
    return os.name != "posix" or bool(select.select([stream], [], [], _PATIENCE)[0])


def _exactly(stream: IO[bytes], size: int) -> bytes:
    found = stream.read(size)
    if len(found) < size:
        raise EOFError
    return found


class _Workers:
    """Workers that wait for the next file."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._idle: list[_Worker] = []
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    @contextmanager
    def one(self) -> Iterator[_Worker]:
        with self._places:
            worker = self._idle.pop() if self._idle else _Worker()
            if not worker.is_alive:
                worker = _Worker()
            yield worker
            if worker.is_alive:
                self._idle.append(worker)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


_WORKERS = _Workers()
atexit.register(_WORKERS.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WORKERS.reset)
