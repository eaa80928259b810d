"""What could not be looked at, and which data it takes."""

from __future__ import annotations

from karat.report.blocks import Block, Column, Table
from karat.report.sections.base import ReportSection
from karat.results.analyses.analyse import REGISTRY
from karat.results.result import Result


class NotMeasured(ReportSection):
    """Analyses that lack data."""

    name = "not_measured"
    title = "Not measured"
    order = 82

    def blocks(self, result: Result) -> list[Block]:
        titles = {name: kind.title for name, kind in REGISTRY.everything().items()}
        rows = [[titles.get(name, name), what] for name, what in result.analyses.lacking.items()]
        return [Table([Column("what"), Column("it needs")], rows, layout="facts")] if rows else []
