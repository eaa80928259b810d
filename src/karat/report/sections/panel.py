"""The panel: every metric, how sure it is, and what it could reach."""

from __future__ import annotations

import numpy as np

from karat.metrics.base import Metric
from karat.report.blocks import Block, Cell, Column, Dot, Dots, Table, Text
from karat.report.cells import value_cell
from karat.report.numbers import interval, written
from karat.report.sections.base import ReportSection
from karat.result import Result
from karat.summary import FEW, SummaryRow

_BOUNDS = {"ceiling": "ceiling", "floor": "random floor"}


class Panel(ReportSection):
    """All metrics over all queries."""

    name = "panel"
    title = "Scores"
    order = 10

    def blocks(self, result: Result) -> list[Block]:
        rows = result.summary_rows
        # Columns in which nothing would stand are left out, and so is what explains them.
        bounds = [name for name in _BOUNDS if any(getattr(row, name) is not None for row in rows)]
        columns = [
            Column("metric"),
            Column("value"),
            Column(f"{result.sampling.level * 100:g} % interval"),
            *(Column(_BOUNDS[name]) for name in bounds),
            Column("queries", "count"),
            Column("undefined", "count"),
        ]
        cells = [_cells(row, metric, result, bounds) for row, metric in zip(rows, result.metrics, strict=True)]
        return [Table(columns, cells, _note(result, bounds)), *_warnings(rows)]

    def full_blocks(self, result: Result) -> list[Block]:
        return [*panel_picture(result), *self.blocks(result)]


def panel_picture(result: Result, baseline: Result | None = None) -> list[Block]:
    """All metrics from 0 to 1, with what they are held against."""
    shares = {str(m) for m in result.metrics if m.range == (0.0, 1.0)}
    rows = [row for row in result.summary_rows if row.metric in shares and row.mean is not None]
    before = baseline.means if baseline else {}
    dots = [Dot(row.metric, value_cell(row), [before.get(row.metric), row.floor, row.ceiling]) for row in rows]
    name = f"baseline ({baseline.system or baseline.run})" if baseline else "baseline"
    title = f"Every score with its {result.sampling.level * 100:g} % interval"
    others = (name, "random floor", "ceiling")
    return [Dots(title, "score", dots, (0.0, 1.0), others, told=True)] if len(dots) > 1 else []


def _cells(row: SummaryRow, metric: Metric, result: Result, bounds: list[str]) -> list[Cell]:
    unit = metric.unit_by(result.rules)
    return [
        row.metric + _cutoffs(metric, result),
        written(row.mean, unit),
        interval(row.low, row.high, unit),
        *(written(getattr(row, name), unit) for name in bounds),
        row.n,
        row.undefined,
    ]


def _cutoffs(metric: Metric, result: Result) -> str:
    """Which k a metric that names none was measured at: the same for all queries, or from the lowest to the highest."""
    if metric.k is not None or metric.budget is not None or metric.cutoff != "required" or not len(result.rows):
        return ""
    own = result.gold.k[result.rows]
    low, high = (int(f(np.where(own > 0, own, result.rules.k))) for f in (np.min, np.max))
    return f" (k={low})" if low == high else f" (k={low}…{high})"


def _note(result: Result, bounds: list[str]) -> str | None:
    notes = []
    if "ceiling" in bounds:
        notes.append("ceiling: what a perfect ranking of the gold would score.")
    if "floor" in bounds:
        notes.append(f"random floor: what chance would score in a corpus of {result.corpus_size:,}.")
    if result.cluster is not None:
        notes.append(f"intervals: queries with the same {result.cluster} are resampled together.")
    return " ".join(notes) or None


def _warnings(rows: list[SummaryRow]) -> list[Block]:
    blocks: list[Block] = []
    few = [row.metric for row in rows if 0 < row.n < FEW]
    if few:
        which = "every metric" if len(few) == len(rows) else ", ".join(few)
        blocks.append(Text(f"too few to judge: {which} on fewer than {FEW} queries.", "warning"))
    if any(row.undefined for row in rows):
        blocks.append(
            Text("undefined: queries on which a metric says nothing (see the audit); never counted as 0.", "note")
        )
    return blocks
