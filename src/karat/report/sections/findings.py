"""The findings, as cards and at a glance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from karat.report.blocks import Block, Cell, Column, Link, Table, Text, Tile, Tiles
from karat.report.overview import SURE, places_of, score_note
from karat.report.sections.audit import audit_line
from karat.report.sections.base import ReportSection
from karat.report.sections.segments import leading_metrics
from karat.results.diagnosis.finding import Finding
from karat.results.doubts import in_doubt
from karat.results.numbers import interval, written
from karat.results.result import Result
from karat.results.summary import FEW, is_outage

_CARDS = 3  # findings that a terminal shows with their evidence
NOTHING = "Nothing stands out beyond noise."
_HOW_SURE = f"In brackets: the confidence interval. {SURE}"


class Findings(ReportSection):
    name = "findings"
    title = "What to do"
    order = 85
    page_order: ClassVar[int | None] = 6

    def blocks(self, result: Result) -> list[Block]:
        return finding_blocks(result.diagnosis) if result.diagnosis else _no_finding(result)

    def full_blocks(self, result: Result) -> list[Block]:
        """Empty if there are no findings: the glance says so."""
        return linked_findings((result.diagnosis, ()))

    def short_blocks(self, result: Result) -> list[Block]:
        """The first findings with their evidence and the first suggestion; one line for each other."""
        first, others = result.diagnosis[:_CARDS], result.diagnosis[_CARDS:]
        if not first:
            return self.blocks(result)
        rows = [[finding.sure, finding.title] for finding in others]
        more: list[Block] = [Table([Column("also"), Column("")], rows, layout="facts")] if rows else []
        return [*(_table(finding, most=1) for finding in first), *more]


def _no_finding(result: Result) -> list[Block]:
    if not result.background:
        return []  # not everything was measured, so there may be findings
    if len(result.rows) < FEW:
        return [Text(f"Too few queries for findings: {len(result.rows)}, and at least {FEW} are needed.", "warning")]
    return [] if in_doubt(result) is not None else [Text(NOTHING)]


def finding_blocks(findings: Iterable[Finding]) -> list[Block]:
    return [*(_table(finding) for finding in findings), Text(_HOW_SURE, "note")]


def linked_findings(*groups: tuple[Iterable[Finding], Sequence[str]]) -> list[Block]:
    """For pages: findings with links to the sections of their group, or to those of their kind."""
    cards = [_table(finding, Link(to or places_of(finding))) for findings, to in groups for finding in findings]
    return [*cards, Text(SURE, "note", explains="sure")] if cards else []


def _table(finding: Finding, see: Link | None = None, most: int | None = None) -> Table:
    rows: list[list[Cell]] = [["because", finding.evidence]]
    rows += [["try" if not i else "", text] for i, text in enumerate(finding.what_to_try[:most])]
    rows += [] if see is None else [["see", see]]
    return Table([Column(finding.sure), Column(finding.title)], rows, layout="card")


class Glance(ReportSection):
    """For pages: a summary of the sections below."""

    name = "glance"
    title = "At a glance"
    order = 5

    def full_blocks(self, result: Result) -> list[Block]:
        rows = {row.metric: row for row in result.summary_rows}
        tiles = []
        down = is_outage(result.audit, len(result.rows))
        told = [m for m in result.metrics if not result.doubts.about(m) and not (down and m.rests_on)]
        for metric in leading_metrics(told):
            row, unit = rows[str(metric)], metric.unit_by(result.rules)
            shown = f"{row.mean:.3f}" if row.mean is not None and not unit else written(row.mean, unit)
            tiles.append(Tile(row.metric, shown, interval(row.low, row.high, unit)))
        without = result.audit["no_answer_queries"]
        tiles.append(
            Tile("queries", f"{len(result.rows):,}", f"{without:,} of them without an answer" if without else "")
        )
        note = score_note(result.sampling.level, result.cluster)
        found = what_stands_out(result) or _no_finding(result)
        return [Tiles("Key numbers", tiles, told=True), note, *audit_line(result), *found]


def what_stands_out(result: Result) -> list[Block]:
    """The findings, one line each."""
    return finding_lines((result.diagnosis, ()))


def finding_lines(*groups: tuple[Iterable[Finding], Sequence[str]]) -> list[Block]:
    """One line for each finding, with a link to the section that shows its numbers."""
    rows: list[list[Cell]] = [
        [finding.sure, Link(to or places_of(finding), finding.title)] for findings, to in groups for finding in findings
    ]
    table = Table([Column("how sure"), Column("what stands out")], rows, layout="facts")
    return [Text("What stands out beyond noise, and how certain it is:"), table] if rows else []
