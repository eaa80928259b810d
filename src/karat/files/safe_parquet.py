"""Reads untrusted Parquet files in a separate process, which a damaged file may crash.

polars aborts the process if a damaged page needs more memory than available. So a worker opens files, checks their
sizes and sends back Arrow frames. It starts with the first file, is reused for the next ones, and ends with this
process.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karat.errors import ConfigError, InputError
from karat.files.child import Child, ChildFailed, Children
from karat.files.limits import EXPANSION, expands_too_far, largest_content
from karat.files.parquet_worker import DAMAGED, EXPANDS, GONE

if TYPE_CHECKING:
    import polars as pl

    from karat.files.parquet_worker import Reader

CRASH = "crash"
__all__ = ["CRASH", "GONE", "ParquetSource", "UnreadableParquet"]
_PATIENCE = 600.0  # seconds to wait for a response
_AT_ONCE = 2  # workers; each uses all cores for one read
_WRITE_AGAIN = "the file is damaged or incomplete: write or copy it again"


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

        with self._as_file() as path:
            plan = query(pl.scan_parquet(path, hive_partitioning=False, glob=False)).serialize()
            return self._frame({"do": "rows", "path": path}, plan)

    @contextmanager
    def _as_file(self) -> Iterator[str]:
        """Yield a path: before polars 2.0, a plan cannot contain bytes."""
        if self._path is not None:
            yield self._path
            return
        handle, path = tempfile.mkstemp(prefix="karat-", suffix=".parquet")
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(self._content)
            yield path
        finally:
            os.unlink(path)

    def _frame(self, wanted: dict[str, Any], plan: bytes = b"") -> pl.DataFrame:
        content = self._ask(wanted, plan)[1]
        import polars as pl

        return pl.read_ipc_stream(content)

    def _ask(self, wanted: dict[str, Any], plan: bytes = b"") -> tuple[dict[str, Any], bytes]:
        request = {**self._said, **wanted, "plan": bool(plan), "expansion": os.environ.get(EXPANSION, "")}
        told, frame = _answered(request, plan or self._content)
        if "failed" in told:
            raise UnreadableParquet(told["failed"], told["reason"], told.get("module", ""))
        return told, frame


def _answered(request: dict[str, Any], content: bytes) -> tuple[dict[str, Any], bytes]:
    if _here is not None:
        told, frame = _here.answer(request, content)
        return told, bytes(frame)
    with _WORKERS.one() as worker:
        try:  # to import polars takes as long here as in the worker
            return worker.ask(request, content, patience=_PATIENCE, meanwhile=_import_polars)
        except ChildFailed:
            return {"failed": CRASH, "reason": "the Parquet reader crashed on it"}, b""


def read_here() -> None:
    """From now on, reads files in this process, which a damaged one may crash; for processes that may."""
    global _here
    from karat.files.parquet_worker import Reader

    _here = Reader()


def _import_polars() -> None:
    import polars  # noqa: F401


def _cannot_start(program: str, reason: str) -> ConfigError:
    return ConfigError(
        f"the process that reads Parquet cannot be started: {reason}",
        code="no-worker",
        file=program,
        hint="free some memory, or convert the file to JSON Lines",
    )


def _started() -> Child:
    try:
        made = Child("karat.files.parquet_worker")
        made.ready(_PATIENCE)
    except ChildFailed as error:
        raise _cannot_start(sys.executable or "python3", str(error)) from error
    return made


_here: Reader | None = None
_WORKERS = Children(_started, _AT_ONCE)
atexit.register(_WORKERS.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_WORKERS.reset)
