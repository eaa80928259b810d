"""Many runs side by side: for a terminal, Markdown, a page, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karat.data.saved import json_text
from karat.errors.redaction import redact_all
from karat.report.blocks import Block, Cell, Dot, Dots, Interval, Report, Section, Text
from karat.report.cells import around, interval_column, narrow_warning, table
from karat.report.overview import data_name, range_title, run_names
from karat.report.tables import table_file
from karat.results.leaderboard import Leaderboard, MetricStanding, Standing
from karat.results.numbers import counted, titled, with_interval
from karat.results.result import Result
from karat.results.save import saved_form
from karat.results.saved import saved_text
from karat.results.summary import SummaryRow
from karat.scoring.doubts import MOST_MISSING
from karat.scoring.metrics.grammar import parse_metric

if TYPE_CHECKING:
    import polars as pl

_SPECIAL = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "−": "$-$",
    "~": r"\textasciitilde{}",
    "^": r"\^{}",
    "\\": r"\textbackslash{}",
}


def leaderboard_report(board: Leaderboard, *, pictures: bool = False) -> Report:
    """One line per system, one column per metric."""
    rows: list[list[Cell]] = [
        [f"{s.letter}  {name}", *(_cell(m, board.units[m.metric]) for m in s.metrics)] for s, name in _named(board)
    ]
    columns = [
        interval_column(titled(name, board.units[name]), (row[1 + at] for row in rows))
        for at, name in enumerate(board.metrics)
    ]
    blocks: list[Block] = [*(Text(note, "warning") for note in board.notes)]
    blocks += [table(["system", *columns], rows, _note(board)), *_missing(board)]
    blocks += narrow_warning(m for s in board.systems for m in s.metrics)
    return Report(
        f"{counted(len(board.systems), 'system')} against {board.gold}",
        [Section("leaderboard", "Systems", blocks), *(_pictures(board) if pictures else [])],
        page_title=_sentence(board),
    )


def _named(board: Leaderboard) -> list[tuple[Standing, str]]:
    """Every system with a name for a table: file names without folder and extension."""
    return list(zip(board.systems, run_names([s.system for s in board.systems]), strict=True))


def _sentence(board: Leaderboard) -> str:
    metric, means = board.metrics[0], {s.system: s.metrics[0].value for s in board.systems}
    unit = "pp" if parse_metric(metric).range == (0.0, 1.0) else board.units[metric]
    return range_title(means, data_name(board.dataset, board.gold), metric, unit)


def _cell(found: MetricStanding, unit: str, *, marked: bool = True) -> Interval:
    """`marked`: with letters, which do not fit into a picture."""
    text = with_interval(SummaryRow(found.metric, 0, 0, found.value, found.low, found.high), unit)
    marks = [text, "*" * found.best, found.beats] if marked else [text]
    return Interval(" ".join(filter(None, marks)), found.value, found.low, found.high)


def _note(board: Leaderboard) -> str:
    level, tests = board.statistics["level"], board.tests
    shown = {sum(s.metrics[at].value is not None for s in board.systems) for at in range(len(board.metrics))}
    over = "up to " if len(shown) > 1 else ""
    if not tests:
        return f"In brackets: {level:.0%} interval. *: best value."
    return (
        f"In brackets: {level:.0%} interval. *: best value. Letters: the systems that this one beats significantly "
        f"(paired sign-flip test, Holm-adjusted over {over}{counted(tests, 'comparison')} per metric)."
    )


def _missing(board: Leaderboard) -> list[Block]:
    few = [
        (s, name) for s, name in _named(board) if 0 < s.missing <= MOST_MISSING * s.queries
    ]  # notes report larger numbers
    said = "; ".join(f"{name} has no results for {counted(s.missing)}" for s, name in few)
    return (
        [Text(f"{said}. Missing queries count as failed; `--missing skip` leaves them out.", "warning")] if said else []
    )


def _pictures(board: Leaderboard) -> list[Section]:
    """Every metric as dots with intervals, the best first."""
    sections = []
    for at, name in enumerate(board.metrics):
        found = [(system, s.metrics[at]) for s, system in _named(board) if s.metrics[at].value is not None]
        found.sort(key=lambda pair: pair[1].value or 0.0, reverse=name not in board.lower_is_better)
        cells = [(system, _cell(m, board.units[name], marked=False)) for system, m in found]
        scale = around(v for _, cell in cells for v in (cell.value, cell.low, cell.high) if v is not None)
        if cells and scale is not None:
            title = titled(name, board.units[name])
            dots = Dots(title, title, [Dot(system, cell) for system, cell in cells], scale)
            sections.append(Section(f"metric-{at + 1}", title, [dots]))
    return sections


def to_latex(board: Leaderboard) -> str:
    """A table for a paper: booktabs, best values bold, letters as superscripts, intervals in small print."""
    head = " & ".join(["", "System", *(_latex(titled(name, board.units[name])) for name in board.metrics)])
    lines = [
        " & ".join([s.letter, _latex(name), *(_latex_cell(m, board.units[m.metric]) for m in s.metrics)])
        for s, name in _named(board)
    ]
    return "\n".join(
        [
            f"% {_note(board)}".replace("*:", "Bold:"),
            r"% needs \usepackage{booktabs}",
            rf"\begin{{tabular}}{{ll{'r' * len(board.metrics)}}}",
            r"\toprule",
            head + r" \\",
            r"\midrule",
            *(line + r" \\" for line in lines),
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


def _latex_cell(found: MetricStanding, unit: str) -> str:
    if found.value is None:
        return "--"
    row = SummaryRow(found.metric, 0, 0, found.value, found.low, found.high)
    value, _, limits = _latex(with_interval(row, unit)).partition(" ")
    parts = [rf"\textbf{{{value}}}" if found.best else value, f"$^{{{found.beats}}}$" if found.beats else ""]
    return "".join(parts) + (rf" {{\scriptsize {limits}}}" if limits else "")


def _latex(text: str) -> str:
    return "".join(_SPECIAL.get(c, c) for c in text)


def to_frame(board: Leaderboard) -> pl.DataFrame:
    """One row per system: for each metric its value, limits and the letters of the systems that it beats."""
    import polars as pl

    return pl.DataFrame([_row(standing) for standing in board.systems], infer_schema_length=None)


def _row(standing: Standing) -> dict[str, str | int | float | None]:
    row: dict[str, str | int | float | None] = {
        "letter": standing.letter,
        "system": standing.system,
        "run": standing.run,
        "queries": standing.queries,
        "missing": standing.missing,
    }
    for found in standing.metrics:
        name = found.metric
        row |= {name: found.value, f"{name} low": found.low, f"{name} high": found.high, f"{name} beats": found.beats}
    return row


def board_json(board: Leaderboard, results: Sequence[Result]) -> bytes:
    """The table and the results behind it, which `karat.load` reads."""
    saved = b",\n".join(saved_text(saved_form(result)).rstrip(b"\n") for result in results)
    return json_text(board).rstrip().removesuffix(b"}").rstrip() + b',\n  "results": [\n' + saved + b"\n]}\n"


def board_file(board: Leaderboard, ending: str) -> bytes:
    """Returns the table in the format of a file extension."""
    if ending == ".tex":
        return to_latex(redact_all(board)).encode()
    return table_file(to_frame(board), ending)
