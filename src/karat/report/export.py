"""Results as files: HTML, JSON, Markdown, CSV and Parquet, by file extension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from karat.data.saved import json_text
from karat.errors import ConfigError
from karat.errors.redaction import redact, redact_all
from karat.files.atomic_write import check_writable, refuse_overwriting, write_whole
from karat.report.blocks import Block, Column, Report, Section, Table
from karat.report.build import evaluation_report, full_report
from karat.report.renderers.markdown import render_markdown
from karat.report.sections.audit import Artifacts, NotMeasured
from karat.report.tables import table_file
from karat.results.analyses.base import REGISTRY as ANALYSES
from karat.results.kept_run import keep
from karat.results.result import Result
from karat.results.save import saved_form
from karat.results.saved import SEVERAL, saved_text

if TYPE_CHECKING:
    import polars as pl


def to_json(results: list[Result]) -> bytes:
    """One result as itself; several as `{"schema": "karat/results/1", "results": [...]}`."""
    saved = [saved_form(r) for r in results]
    if len(saved) == 1:
        return saved_text(saved[0])
    several = b",\n".join(text.rstrip(b"\n") for text in map(saved_text, saved))
    return b'{"schema": "%b", "results": [\n%b\n]}\n' % (SEVERAL.encode(), several)


def to_html(results: list[Result], command: str = "") -> bytes:
    """One page with everything, several systems in it side by side."""
    return page(full_report(results), command)


def page(report: Report, command: str = "") -> bytes:
    """Renders a report as a page, cut to its size limit."""
    from karat.report.fit import fitted
    from karat.report.renderers.html import block_weight, render_html

    return render_html(fitted(redact_all(report), block_weight), redact(command))


TABLES: dict[str, Callable[[Result], pl.DataFrame]] = {
    "scores": lambda r: r.scores,
    "summary": lambda r: r.summary,
    "segments": lambda r: r.segments,
    "audit": lambda r: _audit_frame(r),
    "not_measured": lambda r: _facts_frame(NotMeasured().blocks(r), ("what", "it needs")),
    "made_from": lambda r: _facts_frame(Artifacts().full_blocks(r), ("what", "value")),
}


def export(results: list[Result], target: str, command: str = "") -> Path:
    """Write `target`: out.html, out.json or out.md with everything, or a table, `summary=out.csv` naming which.

    CSV and Parquet hold one table, by default the scores; JSON and Markdown hold one if it is named.
    A page shows the command that made it.
    """
    check_target(target)
    table, path = _split(target)
    ending = path.suffix.lower()
    if ending == PAGE:
        content = to_html(results, command)
    elif table is None and ending in WHOLE:
        content = WHOLE[ending](results)
    elif table == RESULT:
        content = keep(saved_form(_only_one(results))).to_parquet()
    else:
        name = table or "scores"
        content = FRAMES[ending](joined_frame(results, TABLES[name] if name in TABLES else found_frame(name)), name)
    write_whole(path, content)
    return path


def check_target(target: str, inputs: Sequence[str] = ()) -> None:
    """Raises ConfigError for a target that cannot or must not be written, before any work is done."""
    table, path = _split(target)
    refuse_overwriting(path, inputs)
    if path.suffix.lower() not in (PAGE, *FRAMES):
        raise ConfigError(
            f"unknown file extension of {str(path)!r}",
            code="unknown-output",
            expected=".html, .json, .md, .csv or .parquet",
            hint="a .tex table needs several runs: karat eval runs/*.jsonl … -o table.tex"
            if path.suffix.lower() == ".tex"
            else "the file extension selects the format",
        )
    if table == RESULT and path.suffix.lower() != ".parquet":
        raise ConfigError(f"a whole result is written to .json or .parquet, not to {path.suffix!r}", hint="-o out.json")
    names = (*TABLES, *_FOUND, *sorted(ANALYSES.everything()))
    if table is not None and table != RESULT and table.partition(".")[0] not in names:
        raise ConfigError(f"unknown table {table!r}", code="unknown-table", hint="available: " + ", ".join(names))
    if table is not None and path.suffix.lower() == PAGE:
        raise ConfigError(
            f"a page always holds everything, not only {table!r}",
            code="unknown-output",
            hint=f"-o {path}, or {table}=out.md",
        )
    check_writable(path)


_FOUND = ("bands", "findings")


def found_frame(name: str) -> Callable[[Result], pl.DataFrame]:
    """Returns a function for a table of an analysis (such as `latency.stages`), the bands or the findings."""
    from karat.report.tables import find_table, frame_of, tables_of

    def frame(result: Result) -> pl.DataFrame:
        found = {**result.analyses.found, **{kind: getattr(result, kind) for kind in _FOUND}}
        return frame_of(find_table(tables_of(found), name, TABLES))

    return frame


def _only_one(results: list[Result]) -> Result:
    if len(results) > 1:
        what = f"a Parquet file holds one result, but the run has {len(results)}"
        systems = ", ".join(r.system for r in results)
        raise ConfigError(what, code="several-systems", hint=f"choose one with --system: {systems}")
    return results[0]


def _split(target: str) -> tuple[str | None, Path]:
    from karat.report.tables import table_name

    name = table_name(target)
    return (None, Path(target)) if name is None else (name, Path(target.partition("=")[2]))


def joined_frame(results: list[Result], table: Callable[[Result], pl.DataFrame]) -> pl.DataFrame:
    import polars as pl

    if len(results) == 1:
        return table(results[0])
    frames = [table(r).with_columns(pl.lit(r.system).alias("system")) for r in results]
    return pl.concat(frames, how="diagonal")


def _markdown(frame: pl.DataFrame, name: str) -> bytes:
    columns = [Column(title, "score" if kind.is_float() else "count") for title, kind in frame.schema.items()]
    return render_markdown(Report("Karat", [Section(name, name.title(), [Table(columns, frame.rows())])])).encode()


PAGE = ".html"
RESULT = "result"  # the whole result, as Parquet
WHOLE: dict[str, Callable[[list[Result]], bytes]] = {
    ".json": to_json,
    ".md": lambda results: "\n".join(render_markdown(evaluation_report(r)) for r in results).encode(),
}
FRAMES: dict[str, Callable[[pl.DataFrame, str], bytes]] = {
    ".json": lambda frame, name: json_text(frame.to_dicts()),
    ".md": _markdown,
    ".csv": lambda frame, name: table_file(frame, ".csv"),
    ".parquet": lambda frame, name: table_file(frame, ".parquet"),
}


def _audit_frame(result: Result) -> pl.DataFrame:
    import polars as pl

    rows = [(e.code, e.count, e.found, e.done, "; ".join(e.examples)) for e in result.audited]
    texts = dict.fromkeys(("found", "done", "examples"), pl.String)
    return pl.DataFrame(rows, schema={"code": pl.String, "count": pl.Int64, **texts}, orient="row")


def _facts_frame(blocks: Sequence[Block], columns: tuple[str, str]) -> pl.DataFrame:
    import polars as pl

    rows = [tuple(map(str, row)) for block in blocks if isinstance(block, Table) for row in block.rows]
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
