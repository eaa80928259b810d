"""What the means hide."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Column, Table
from karat.report.sections.base import ReportSection
from karat.results.numbers import written
from karat.results.result import Result
from karat.results.summary import SummaryRow
from karat.scoring.judged import Rules
from karat.scoring.metrics.base import Metric


class Spread(ReportSection):
    """Quartiles of every metric, and how many queries got nothing or all."""

    name = "spread"
    title = "Spread over queries"
    order = 20

    def blocks(self, result: Result) -> list[Block]:
        # A quantile of latency is a point of the spread itself.
        shown = {str(m): m for m in result.metrics if m.aggregate is None}
        summary = [row for row in result.summary_rows if row.metric in shown and row.n > 1]
        rows = [_cells(row, shown[row.metric], result.rules) for row in summary]
        names = ("metric", "lower quarter", "median", "upper quarter", "at 0", "at 1")
        return [Table([Column(name) for name in names], rows)] if rows else []


def _cells(row: SummaryRow, metric: Metric, rules: Rules) -> list[Cell]:
    spread, unit = row.distribution, metric.unit_by(rules)
    assert spread is not None
    return [
        row.metric,
        *(written(value, unit) for value in (spread.q1, spread.median, spread.q3)),
        f"{spread.zeros:.1%}",
        f"{spread.ones:.1%}" if metric.range[1] == 1 else None,  # of a count, 1 is no end
    ]
