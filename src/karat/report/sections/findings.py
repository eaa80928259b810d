"""What stands out, in words and at a glance."""

from __future__ import annotations

from collections.abc import Iterable

from karat.report.blocks import Block, Column, Table, Text, Tile, Tiles
from karat.report.sections.base import ReportSection
from karat.report.sections.segments import leading_metrics
from karat.results.diagnosis.finding import Finding
from karat.results.numbers import interval, written
from karat.results.result import Result
from karat.results.summary import FEW, SummaryRow

NOTHING = "Nothing stands out beyond noise."
_HOW_SURE = (
    "In brackets: how far a number could be off. strong, likely: how sure the finding is. "
    "What to try is where such numbers usually lead; the cause itself is not proven."
)


class Findings(ReportSection):
    """All findings, with their evidence and what to try."""

    name = "findings"
    title = "What to do"
    order = 85

    def blocks(self, result: Result) -> list[Block]:
        if result.findings:
            return finding_blocks(result.findings)
        if not result.background:
            return []  # not everything was measured, so that silence says nothing
        if len(result.rows) < FEW:
            return [Text(f"Too few queries to say: {len(result.rows)} of the {FEW} that it takes.", "warning")]
        return [Text(NOTHING)]


def finding_blocks(findings: Iterable[Finding]) -> list[Block]:
    return [*(_table(finding) for finding in findings), Text(_HOW_SURE, "note")]


def _table(finding: Finding) -> Table:
    rows = [["because", finding.evidence], *(["try" if not i else "", t] for i, t in enumerate(finding.what_to_try))]
    return Table([Column(finding.sure), Column(finding.title)], rows, layout="card")


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
