"""The process that reads Parquet files, so that a damaged file can only crash this process.

See `safe_parquet.py` for the other side.
"""

from __future__ import annotations

import io
import os
from typing import IO, Any

from karat.files.child import answer_requests, pipes
from karat.files.limits import EXPANSION, largest_content
from karat.files.parquet_check import expanded_size
from karat.files.thrift import DamagedParquet

DAMAGED, EXPANDS, REFUSED, GONE, NO_FILE = "damaged", "expands", "refused", "gone", "no-file"


class _ExpandsTooFar(Exception):
    """The content exceeds the limit for a file of this size."""


def main() -> None:
    requests, answers = pipes()
    answer_requests(Reader().answer, requests, answers)


_MOST_KNOWN = 4096  # files that were checked


class Reader:
    """Answers requests for files. What is sent is the content of a file, or a plan of polars for a path."""

    def __init__(self) -> None:
        self._checked: dict[str, tuple[int, int, int]] = {}  # path → inode, size and time of change

    def answer(self, request: dict[str, Any], sent: bytes) -> tuple[dict[str, Any], bytes | memoryview]:
        content, plan = (b"", sent) if request["plan"] else (sent, b"")
        try:
            os.environ[EXPANSION] = request["expansion"]  # may have changed since the worker started
            packed = 0 if request["delta"] else self._check(request, content)
            return self._read(request, content, plan, packed)
        except DamagedParquet as error:
            return {"failed": DAMAGED, "reason": str(error)}, b""
        except _ExpandsTooFar:
            return {"failed": EXPANDS, "reason": ""}, b""
        except FileNotFoundError as error:
            return {"failed": GONE, "reason": error.strerror}, b""
        except OSError as error:
            return {"failed": NO_FILE, "reason": error.strerror or str(error)}, b""
        except BaseException as error:  # polars' PanicException is not an Exception
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            return {"failed": REFUSED, "reason": reason[:2000], "module": type(error).__module__}, b""

    def _check(self, request: dict[str, Any], content: bytes) -> int:
        """Return its size after checking its headers."""
        path = request["path"]
        if path is None:
            _refuse_bomb(io.BytesIO(content), len(content), request["most"])
            return len(content)
        there = os.stat(path)
        known = (there.st_ino, there.st_size, there.st_mtime_ns)
        if self._checked.get(path) != known:
            with open(path, "rb") as stream:
                _refuse_bomb(stream, there.st_size, request["most"])
            if len(self._checked) >= _MOST_KNOWN:
                self._checked.clear()
            self._checked[path] = known
        return there.st_size

    def _read(
        self, request: dict[str, Any], content: bytes, plan: bytes, packed: int
    ) -> tuple[dict[str, Any], bytes | memoryview]:
        import polars as pl

        table = pl.LazyFrame.deserialize(io.BytesIO(plan)) if plan else _table(request, content)
        if request["do"] == "height":
            return {"height": int(table.select(pl.len()).collect().item())}, b""
        if request["do"] == "schema":
            frame = pl.DataFrame(schema=table.collect_schema())
        else:
            frame = table.collect()
            if packed and sum(map(_text_bytes, frame)) > _most(packed, request["most"]):
                raise _ExpandsTooFar
        buffer = io.BytesIO()
        frame.write_ipc_stream(buffer, compat_level=pl.CompatLevel.newest())
        return {}, buffer.getbuffer()


def _table(request: dict[str, Any], content: bytes) -> Any:
    import polars as pl

    if request["delta"]:
        table = pl.scan_delta(request["path"])
    else:
        source = io.BytesIO(content) if request["path"] is None else request["path"]
        table = pl.scan_parquet(source, hive_partitioning=False, glob=False)
    if request["columns"] is not None:
        table = table.select(request["columns"])
    return table if request["rows"] is None else table.slice(*request["rows"])


def _refuse_bomb(stream: IO[bytes], size: int, most: int | None) -> None:
    if expanded_size(stream, size) > _most(size, most):
        raise _ExpandsTooFar


def _most(size: int, most: int | None) -> int:
    limit = largest_content(size)
    return limit if most is None else min(limit, most)


def _text_bytes(column: Any) -> int:
    """Return the bytes of all texts of a column: a dictionary can repeat one long text a million times."""
    import polars as pl

    kind = column.dtype
    if kind == pl.String:
        return int(column.str.len_bytes().sum())
    if kind == pl.Binary:
        return int(column.bin.size().sum())
    if kind == pl.Struct:
        return sum(map(_text_bytes, column.struct.unnest()))
    if kind in (pl.List, pl.Array) and kind.is_nested():
        inner = kind.inner
        return _text_bytes(column.explode()) if inner in (pl.String, pl.Binary) or inner.is_nested() else 0
    return 0
