"""The panel: every metric with what it could reach."""

from __future__ import annotations

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
        units = {str(m): m.unit for m in result.metrics}
        cells = [self._row(row, units[row.metric], floor) for row in rows]
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

    def _row(self, row: SummaryRow, unit: str, floor: bool) -> list[Cell]:
        cells: list[Cell] = [
            row.metric,
            _written(row.mean, unit),
            _written(row.ceiling, unit),
            row.n,
            row.undefined,
        ]
        if floor:
            cells.insert(3, _written(row.floor, unit))
        return cells


def _written(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if not unit:
        return f"{value:.4f}"
    return f"{value:.1f} {unit}" if value >= 10 else f"{value:.2f} {unit}"
