"""Doubts that make the numbers meaningless, shown before any number."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.doubts import read_first, ways_out
from karat.results.result import Result


class DoubtsSection(ReportSection):
    name = "doubts"
    title = "Read this first"
    order = 0

    def blocks(self, result: Result) -> list[Block]:
        ways: list[list[Cell]] = [["try" if not i else "", way] for i, way in enumerate(ways_out(result))]
        table = [Table([Column("what"), Column("how")], ways, layout="facts")] if ways else []
        return [*(Text(text, "warning") for text in read_first(result)), *table]


def with_doubts(report: Report, results: Sequence[Result]) -> Report:
    """Returns the report with the doubts about every result at the start."""
    names = [f": {result.system or result.run}" if len(results) > 1 else "" for result in results]
    sections = [
        Section(DoubtsSection.name, f"{DoubtsSection.title}{name}", blocks)
        for result, name in zip(results, names, strict=True)
        if (blocks := DoubtsSection().blocks(result))
    ]
    return msgspec.structs.replace(report, sections=[*sections, *report.sections])
