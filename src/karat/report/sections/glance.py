"""The first thing to see: a few numbers, and what stands out."""

from __future__ import annotations

from karat.report.blocks import Block, Column, Table, Text, Tile, Tiles
from karat.report.sections.base import ReportSection
from karat.report.sections.segments import leading_metrics
from karat.results.numbers import interval, written
from karat.results.result import Result
from karat.results.summary import SummaryRow


class Glance(ReportSection):
    """For pages: everything here is said again, in full, further down."""

    name = "glance"
    title = "At a glance"
    order = 5

    def full_blocks(self, result: Result) -> list[Block]:
        rows = {row.metric: row for row in result.summary_rows}
        tiles = [_tile(rows[str(m)], m.unit_by(result.rules)) for m in leading_metrics(result.metrics)]
        tiles.append(Tile("queries", f"{len(result.rows):,}", _undefined(result)))
        return [Tiles("The most telling numbers", tiles, told=True), *what_stands_out(result)]


def _tile(row: SummaryRow, unit: str) -> Tile:
    shown = "–" if row.mean is None else f"{row.mean:.3f}" if not unit else written(row.mean, unit)
    return Tile(row.metric, shown, interval(row.low, row.high, unit))


def _undefined(result: Result) -> str:
    without = result.audit["no_answer_queries"]
    return f"{without:,} of them without an answer" if without else ""


def what_stands_out(result: Result) -> list[Block]:
    """The findings, a line each."""
    rows = [[finding.sure, finding.title] for finding in result.findings]
    table = Table([Column("how sure"), Column("what stands out")], rows, layout="facts")
    return [Text("What stands out beyond noise, and how sure that is:"), table] if rows else []
