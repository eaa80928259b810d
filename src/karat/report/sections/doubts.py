"""Doubts that make the numbers meaningless, shown before any number."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.diagnosis.finding import Finding
from karat.results.doubts import warnings_of
from karat.results.result import Result


class DoubtsSection(ReportSection):
    name = "doubts"
    title = "Read this first"
    order = 0

    def blocks(self, result: Result) -> list[Block]:
        return _blocks(warnings_of(result))


def _blocks(warnings: Sequence[Finding]) -> list[Block]:
    tries = [way for found in warnings for way in found.what_to_try]
    ways: list[list[Cell]] = [["try" if not i else "", way] for i, way in enumerate(tries)]
    table = [Table([Column("what"), Column("how")], ways, layout="facts")] if ways else []
    return [*(Text(found.evidence, "warning") for found in warnings), *table]


def doubt_sections(warnings: Sequence[Finding], name: str = "") -> list[Section]:
    """The section that comes first, if anything is doubtful."""
    return [Section(DoubtsSection.name, f"{DoubtsSection.title}{name}", _blocks(warnings))] if warnings else []


def with_doubts(report: Report, results: Sequence[Result]) -> Report:
    """Returns the report with the doubts about every result at the start."""
    names = [f": {result.system or result.run}" if len(results) > 1 else "" for result in results]
    pairs = zip(results, names, strict=True)
    sections = [section for result, name in pairs for section in doubt_sections(warnings_of(result), name)]
    return msgspec.structs.replace(report, sections=[*sections, *report.sections])
