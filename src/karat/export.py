"""Results as files: JSON, Markdown, CSV and Parquet, by the ending of the name."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from karat.errors import ConfigError
from karat.output import write_whole
from karat.report.build import evaluation_report
from karat.report.renderers.markdown import render_markdown
from karat.result import Result, SavedResults

if TYPE_CHECKING:
    import polars as pl


def to_json(results: list[Result]) -> bytes:
    """One result as itself; several as `{"schema": "karat/results/1", "results": [...]}`."""
    saved = [r.saved() for r in results]
    value = saved[0] if len(saved) == 1 else SavedResults(results=saved)
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def to_markdown(results: list[Result]) -> bytes:
    return "\n".join(render_markdown(evaluation_report(r)) for r in results).encode()


TABLES: dict[str, Callable[[Result], pl.DataFrame]] = {
    "scores": lambda r: r.scores,
    "summary": lambda r: r.summary,
    "segments": lambda r: r.segments,
    "audit": lambda r: _audit_frame(r),
}


def export(results: list[Result], target: str) -> Path:
    """Write `target`: out.json, out.md, or a table as CSV or Parquet, `summary=out.csv` naming which."""
    check_target(target)
    table, path = _split(target)
    ending = path.suffix.lower()
    if ending == ".json":
        content = to_json(results)
    elif ending == ".md":
        content = to_markdown(results)
    else:
        frame = _joined(results, TABLES[table or "scores"])
        content = frame.write_csv().encode() if ending == ".csv" else _parquet(frame)
    write_whole(path, content)
    return path


def check_target(target: str, inputs: Sequence[str] = ()) -> None:
    """Refuse a target that cannot or must not be written, before any work is done for it."""
    table, path = _split(target)
    if path.exists() and any(Path(i).exists() and path.samefile(i) for i in inputs):
        raise ConfigError("this file is read, and would be overwritten", file=str(path), hint="name another output")
    if path.suffix.lower() not in (".json", ".md", ".csv", ".parquet"):
        raise ConfigError(
            f"cannot tell from the ending what to write to {str(path)!r}",
            expected=".json, .md, .csv or .parquet",
            hint="the ending of the file's name says which format",
        )
    if table is not None and table not in TABLES:
        raise ConfigError(f"no table {table!r}", hint="there are: " + ", ".join(TABLES))
    if not path.parent.is_dir():
        raise ConfigError("the folder does not exist", file=str(path), hint=f"create {path.parent} first")


def _split(target: str) -> tuple[str | None, Path]:
    name, equals, path = target.partition("=")
    return (name, Path(path)) if equals and "/" not in name and "." not in name else (None, Path(target))


def _joined(results: list[Result], table: Callable[[Result], pl.DataFrame]) -> pl.DataFrame:
    import polars as pl

    if len(results) == 1:
        return table(results[0])
    frames = [table(r).with_columns(pl.lit(r.system).alias("system")) for r in results]
    return pl.concat(frames, how="diagonal")


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def _audit_frame(result: Result) -> pl.DataFrame:
    import polars as pl

    rows = [(e.code, e.count, e.found, e.done, "; ".join(e.examples)) for e in result.audit]
    kinds = {
        "code": pl.String,
        "count": pl.Int64,
        "found": pl.String,
        "done": pl.String,
        "examples": pl.String,
    }
    return pl.DataFrame(rows, schema=kinds, orient="row")
