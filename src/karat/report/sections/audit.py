"""What was found and done before scoring, and what could not be measured."""

from __future__ import annotations

from karat.report.blocks import Block, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.analyse import REGISTRY
from karat.results.numbers import listed
from karat.results.result import Result


class AuditSection(ReportSection):
    """Everything that was repaired, left out or settled."""

    name = "audit"
    title = "Audit"
    order = 80

    def blocks(self, result: Result) -> list[Block]:
        entries = list(result.audited)
        if not entries:
            return [Text("Nothing to report: every query was found, every list was in order.")]
        columns = [Column("count", "count"), Column("found"), Column("done"), Column("for example")]
        return [Table(columns, [[e.count, e.found, e.done or None, listed(e.examples) or None] for e in entries])]


class NotMeasured(ReportSection):
    """Analyses that lack data."""

    name = "not_measured"
    title = "Not measured"
    order = 82

    def blocks(self, result: Result) -> list[Block]:
        titles = {name: kind.title for name, kind in REGISTRY.everything().items()}
        rows = [[titles.get(name, name), what] for name, what in result.analyses.lacking.items()]
        return [Table([Column("what"), Column("it needs")], rows, layout="facts")] if rows else []
