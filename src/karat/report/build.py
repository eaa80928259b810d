"""Builds reports from results: every section that is not empty, in order."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from karat.registry import Registry
from karat.report.blocks import Block, Cell, Column, Dot, Dots, Report, Section, Table, Text
from karat.report.cells import interval_column, value_cell
from karat.report.overview import data_name, range_title, run_names, score_note, with_difference_note
from karat.report.sections.audit import audit_line
from karat.report.sections.base import ReportSection
from karat.report.sections.doubts import DoubtsSection
from karat.report.sections.evidence import EvidenceSection, evidence_leads
from karat.report.sections.findings import Glance, what_stands_out
from karat.report.sections.labels import BoundsSection
from karat.report.sections.panel import Panel
from karat.report.sections.segments import leading_metrics
from karat.results.doubts import in_doubt
from karat.results.numbers import amount, counted
from karat.results.result import Result
from karat.results.summary import FEW

_MORE = "`--explain` prints every table; `-o report.html` writes a page with everything."
REGISTRY: Registry[ReportSection] = Registry("report section", "karat.report.sections", ReportSection)


def evaluation_report(result: Result) -> Report:
    """All tables, for a terminal or a pull request."""
    return Report(_title(result), [Section(m.name, m.title, b) for m in _makers() if (b := m.blocks(result))])


def short_report(result: Result) -> Report:
    """About two screens: what was requested, what stands out, and one line for each other section."""
    sections: list[Section] = []
    lines: list[list[Cell]] = []
    for maker in _makers():
        headline = maker.headline(result)
        if headline:
            lines.append([maker.title, headline])
        elif headline is None and (blocks := maker.short_blocks(result)):
            sections.append(Section(maker.name, maker.title, blocks))
    if lines:
        table = Table([Column("about"), Column("in short")], lines, layout="facts")
        sections.append(Section("in_short", "In short", [table, Text(_MORE, "note")]))
    return Report(_title(result), sections)


def brief_report(result: Result) -> Report:
    """About one screen, with the effect of missing labels if requested."""
    parts: list[tuple[type[ReportSection], list[Block]]] = [(DoubtsSection, DoubtsSection().blocks(result))]
    parts += [(Panel, [*audit_line(result), *Panel().blocks(result)]), (BoundsSection, BoundsSection().blocks(result))]
    if evidence_leads(result):
        parts.append((EvidenceSection, EvidenceSection().short_blocks(result)))
    parts.append((Glance, what_stands_out(result)))
    return Report(_title(result), [Section(part.name, part.title, blocks) for part, blocks in parts if blocks])


def full_report(results: Sequence[Result]) -> Report:
    """Everything, for a page; several systems first side by side, then one by one."""
    if len(results) == 1:
        return Report(page_title(results[0]), full_sections(results[0]))
    sections = [Section("systems", "Side by side", _side_by_side(results))]
    for result in results:
        part = run_names([result.system or result.run])[0]
        sections += [msgspec.structs.replace(section, part=part) for section in full_sections(result)]
    return Report(_range_title(results), sections)


def joined(reports: Sequence[Report]) -> Report:
    """Combines several reports into one, with a part for each."""
    if len(reports) == 1:
        return reports[0]
    titles = [report.page_title or report.title for report in reports]
    sections = [
        msgspec.structs.replace(s, part=title)
        for report, title in zip(reports, titles, strict=True)
        for s in report.sections
    ]
    return Report(f"{len(reports)} reports", sections)


def full_sections(result: Result, without: Sequence[str] = ()) -> list[Section]:
    """The sections of a page about one result: overview, what to do, scores, details."""
    makers = sorted((m for m in _makers() if m.name not in without), key=_place_on_page)
    found = ((m, m.full_blocks(result)) for m in makers)
    level = result.sampling.level
    return [Section(m.name, m.title, with_difference_note(blocks, level)) for m, blocks in found if blocks]


def _place_on_page(section: ReportSection) -> int:
    return section.order if section.page_order is None else section.page_order


def _makers() -> list[ReportSection]:
    return sorted((maker() for maker in REGISTRY.everything().values()), key=lambda s: (s.order, s.name))


def _title(result: Result) -> str:
    return f"{result.system or result.run} against {result.gold.label}"


def page_title(result: Result) -> str:
    """The title of a page: system and data, the key score, and the number of findings.

    `bm25 on helpdesk: recall@5 33.2%, 3 findings`
    """
    [name] = run_names([result.system or result.run])
    title = f"{name} on {data_name(result.gold.dataset, result.gold.label)}"
    trouble = in_doubt(result)
    if trouble is not None:
        return f"{title}: {trouble}"
    metric = leading_metrics(result.metrics)[0]
    mean = result.means[str(metric)]
    told = [counted(len(result.rows)) if mean is None else f"{metric} {amount(mean, metric.told_in(result.rules))}"]
    if result.diagnosis:
        told.append(counted(len(result.diagnosis), "finding"))
    elif result.background and len(result.rows) >= FEW:
        told.append("nothing stands out")
    return f"{title}: {', '.join(told)}"


def _range_title(results: Sequence[Result]) -> str:
    gold, metric = results[0].gold, leading_metrics(results[0].metrics)[0]
    believed = {r.system or r.run: None if in_doubt(r) else r.means.get(str(metric)) for r in results}
    data = data_name(gold.dataset, gold.label)
    return range_title(believed, data, str(metric), metric.told_in(results[0].rules))


def _side_by_side(results: Sequence[Result]) -> list[Block]:
    """The key metrics of all systems. For which is better, `karat compare` compares query by query."""
    names = run_names([result.system or result.run for result in results])
    found = [{row.metric: row for row in result.summary_rows} for result in results]
    shown = [m for m in leading_metrics(results[0].metrics) if all(str(m) in rows for rows in found)]
    cells = [[value_cell(rows[str(m)], m.unit_by(results[0].rules)) for m in shown] for rows in found]
    columns = [interval_column(str(m), (row[i] for row in cells)) for i, m in enumerate(shown)]
    rows: list[list[Cell]] = [[name, *row] for name, row in zip(names, cells, strict=True)]
    pictures = [
        Dots(str(m), str(m), [Dot(n, row[i]) for n, row in zip(names, cells, strict=True)], m.range, told=True)
        for i, m in enumerate(shown)
        if m.range == (0.0, 1.0)
    ]
    note = "Overlapping intervals do not show which system is better: `karat compare` compares query by query."
    said = score_note(results[0].sampling.level, results[0].cluster)
    return [*pictures[:1], Table([Column("system"), *columns], rows, note), said]
