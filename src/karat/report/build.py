"""Results → Report: every section that has something to say, in order."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from karat.registry import Registry
from karat.report.blocks import Block, Cell, Column, Dot, Dots, Report, Section, Table
from karat.report.cells import interval_column, value_cell
from karat.report.sections.base import ReportSection
from karat.report.sections.findings import Glance, what_stands_out
from karat.report.sections.labels import BoundsSection
from karat.report.sections.panel import Panel
from karat.report.sections.segments import leading_metrics
from karat.results.result import Result

REGISTRY: Registry[ReportSection] = Registry("report section", "karat.report.sections", ReportSection)


def evaluation_report(result: Result) -> Report:
    """What fits a terminal and a pull request."""
    return Report(_title(result), [Section(m.name, m.title, b) for m in _makers() if (b := m.blocks(result))])


def brief_report(result: Result) -> Report:
    """What fits one screen, and how far labels could move it where that was asked for."""
    parts = [(Panel, Panel().blocks(result)), (BoundsSection, BoundsSection().blocks(result))]
    parts.append((Glance, what_stands_out(result)))
    return Report(_title(result), [Section(part.name, part.title, blocks) for part, blocks in parts if blocks])


def full_report(results: Sequence[Result]) -> Report:
    """Everything, for a page; several systems side by side first, then each for itself."""
    if len(results) == 1:
        return Report(_title(results[0]), full_sections(results[0]))
    sections = [Section("systems", "Side by side", _side_by_side(results))]
    for result in results:
        part = result.system or result.run
        sections += [msgspec.structs.replace(section, part=part) for section in full_sections(result)]
    return Report(f"{len(results)} systems against {results[0].gold.label}", sections)


def joined(reports: Sequence[Report]) -> Report:
    """Several reports as one, each a part of it."""
    if len(reports) == 1:
        return reports[0]
    sections = [msgspec.structs.replace(s, part=report.title) for report in reports for s in report.sections]
    return Report(f"{len(reports)} reports", sections)


def full_sections(result: Result, without: Sequence[str] = ()) -> list[Section]:
    makers = [maker for maker in _makers() if maker.name not in without]
    return [Section(m.name, m.title, blocks) for m in makers if (blocks := m.full_blocks(result))]


def _makers() -> list[ReportSection]:
    return sorted((maker() for maker in REGISTRY.everything().values()), key=lambda s: (s.order, s.name))


def _title(result: Result) -> str:
    return f"{result.system or result.run} against {result.gold.label}"


def _side_by_side(results: Sequence[Result]) -> list[Block]:
    """The most telling metrics of all systems. Which is better, `karat compare` says: it looks query by query."""
    names = [result.system or result.run for result in results]
    found = [{row.metric: row for row in result.summary_rows} for result in results]
    shown = [m for m in leading_metrics(results[0].metrics) if all(str(m) in rows for rows in found)]
    units = [m.unit_by(results[0].rules) for m in shown]
    cells = [[value_cell(rows[str(m)], unit) for m, unit in zip(shown, units, strict=True)] for rows in found]
    columns = [interval_column(str(m), (row[i] for row in cells)) for i, m in enumerate(shown)]
    rows: list[list[Cell]] = [[name, *row] for name, row in zip(names, cells, strict=True)]
    pictures = [
        Dots(str(m), str(m), [Dot(n, row[i]) for n, row in zip(names, cells, strict=True)], m.range, told=True)
        for i, m in enumerate(shown)
        if m.range == (0.0, 1.0)
    ]
    note = "Intervals that overlap say little about which is better: `karat compare` looks query by query."
    return [*pictures[:1], Table([Column("system"), *columns], rows, note)]
