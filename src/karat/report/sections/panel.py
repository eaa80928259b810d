"""The panel: every metric with what it could reach."""

from __future__ import annotations

import numpy as np

from karat.metrics.base import Metric
from karat.report.blocks import Block, Cell, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.result import Result, SummaryRow


class Panel(ReportSection):
    """All metrics over all queries."""

    name = "panel"
    title = "Scores"
    order = 10

    def blocks(self, result: Result) -> list[Block]:
        rows = result.summary_rows
        columns = [
            Column("metric"),
            Column("value"),
            Column("ceiling"),
            Column("queries", "count"),
            Column("undefined", "count"),
        ]
        floor = any(row.floor is not None for row in rows)
        if floor:
            columns.insert(3, Column("random floor"))
        cells = [self._row(row, metric, result, floor) for row, metric in zip(rows, result.metrics, strict=True)]
        note = "ceiling: what a perfect ranking of the gold would score."
        if floor:
            note += f" random floor: what chance would score in a corpus of {result.corpus_size:,}."
        blocks: list[Block] = [Table(columns, cells, note)]
        if any(row.undefined for row in rows):
            blocks.append(
                Text(
                    "undefined: queries on which a metric says nothing (see the audit); never counted as 0.",
                    "note",
                )
            )
        return blocks

    def _row(self, row: SummaryRow, metric: Metric, result: Result, floor: bool) -> list[Cell]:
        unit = metric.unit
        cells: list[Cell] = [
            row.metric + _cutoffs(metric, result),
            _written(row.mean, unit),
            _written(row.ceiling, unit),
            row.n,
            row.undefined,
        ]
        if floor:
            cells.insert(3, _written(row.floor, unit))
        return cells


def _cutoffs(metric: Metric, result: Result) -> str:
    """Which k a metric that names none was measured at: the same for all queries, or from the lowest to the highest."""
    if metric.k is not None or metric.cutoff != "required" or not len(result.rows):
        return ""
    own = result.gold.k[result.rows]
    low, high = (int(f(np.where(own > 0, own, result.rules.k))) for f in (np.min, np.max))
    return f" (k={low})" if low == high else f" (k={low}…{high})"


def _written(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if not unit:
        return f"{value:.4f}"
    return f"{value:.1f} {unit}" if value >= 10 else f"{value:.2f} {unit}"
