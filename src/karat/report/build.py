"""Result → Report: every section that has something to say, in order."""

from __future__ import annotations

from karat.registry import Registry
from karat.report.blocks import Report, Section
from karat.report.sections.base import ReportSection
from karat.result import Result

REGISTRY: Registry[ReportSection] = Registry("report section", "karat.report.sections", ReportSection)


def evaluation_report(result: Result) -> Report:
    makers = sorted((maker() for maker in REGISTRY.everything().values()), key=lambda s: (s.order, s.name))
    sections = [Section(m.name, m.title, blocks) for m in makers if (blocks := m.blocks(result))]
    return Report(title=f"{result.system or result.run} against {result.gold.label}", sections=sections)
