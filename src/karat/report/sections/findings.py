"""What to do: what stands out beyond noise."""

from __future__ import annotations

from collections.abc import Iterable

from karat.report.blocks import Block, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.diagnosis.finding import Finding
from karat.results.result import Result
from karat.results.summary import FEW

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
