"""What was repaired before scoring, what could not be measured, and the inputs of the numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from karat.data.audit import Audit
from karat.report.blocks import Block, Column, Report, Section, Table, Text
from karat.report.cells import count, table
from karat.report.overview import run_names
from karat.report.sections.base import ReportSection
from karat.report.sections.doubts import with_doubts
from karat.results.analyses.base import REGISTRY
from karat.results.doubts import in_doubt, lost_in_short, too_deep
from karat.results.numbers import counted, listed
from karat.results.result import Result


class AuditSection(ReportSection):
    name = "audit"
    title = "Audit"
    order = 80

    def blocks(self, result: Result) -> list[Block]:
        if not list(result.audited):
            return [Text("Nothing to report: every query was found, every list was valid.")]
        return [_audit_table(result.audited)]

    def short_blocks(self, result: Result) -> list[Block]:
        return self.blocks(result) if list(result.audited) else []


def _audit_table(audit: Audit) -> Table:
    rows = [[e.count, e.found, e.done or None, listed(e.examples) or None] for e in audit]
    return table([count("count"), "found", "done", "for example"], rows)


def audit_line(result: Result, *, deep: bool = True) -> list[Text]:
    """A line about queries that failed, are missing, unknown or left out; with `deep`, another about a k beyond the
    longest list."""
    return [Text(said, "warning") for said in (lost_in_short(result), too_deep(result) if deep else None) if said]


def with_audits(report: Report, results: Sequence[Result], audits: Sequence[Audit] | None = None) -> Report:
    """Returns the report with the audits that are not empty, and with doubts at the start. `audits`: if they are not
    those of the results."""
    sections = [*report.sections, *audit_sections(results, audits)]
    return with_doubts(_with_trouble(msgspec.structs.replace(report, sections=sections), results), results)


def audit_sections(
    results: Sequence[Result], audits: Sequence[Audit] | None = None, *, brief: bool = False
) -> list[Section]:
    """Returns the audits that are not empty, one section per result; in brief, one section with a line per result."""
    names = [f": {name}" if len(results) > 1 else "" for name in run_names([r.system or r.run for r in results])]
    if brief:
        lines = [
            msgspec.structs.replace(line, text=f"{name.removeprefix(': ')}: {line.text}" if name else line.text)
            for result, name in zip(results, names, strict=True)
            for line in audit_line(result, deep=len(results) == 1)
        ]
        return [Section(AuditSection.name, AuditSection.title, lines)] if lines else []
    shown = [result.audited for result in results] if audits is None else audits
    return [
        Section(AuditSection.name, f"{AuditSection.title}{name}", [_audit_table(audit)])
        for audit, name in zip(shown, names, strict=True)
        if list(audit)
    ]


def _with_trouble(report: Report, results: Sequence[Result]) -> Report:
    """Returns the report with a title that names the runs with unreliable scores, and why."""
    names = run_names([result.system or result.run for result in results])
    found = [(name, in_doubt(result)) for result, name in zip(results, names, strict=True)]
    told = [why if len(results) == 1 else f"{name}: {why}" for name, why in found if why is not None]
    if not told:
        return report
    sentence = report.page_title or report.title
    title = f"{sentence.rpartition(': ')[0] or sentence}: {'; '.join(told)}"
    return msgspec.structs.replace(report, page_title=title)


class NotMeasured(ReportSection):
    name = "not_measured"
    title = "Not measured"
    order = 82

    def blocks(self, result: Result) -> list[Block]:
        titles = {name: kind.title for name, kind in REGISTRY.everything().items()}
        rows = [[titles.get(name, name), what] for name, what in result.analyses.lacking.items()]
        return [Table([Column("what"), Column("it needs")], rows, layout="facts")] if rows else []

    def headline(self, result: Result) -> str:
        [*tables] = self.blocks(result)
        names = [str(row[0]).lower() for block in tables if isinstance(block, Table) for row in block.rows]
        return ", ".join(names) + " (`--explain` shows what each needs)" if names else ""


class Artifacts(ReportSection):
    name = "artifacts"
    title = "Inputs and settings"
    order = 90

    def blocks(self, result: Result) -> list[Block]:
        dataset, drawn, prices = result.gold.dataset, result.sampling, result.rules.prices
        facts: dict[str, Any] = {
            "run": result.run,
            "system": result.system,
            "gold": result.gold.label,
            "dataset": " ".join(x for x in (dataset.name, dataset.version) if x),
            "dataset hash": dataset.hash,
            "as of": " to ".join(dataset.as_of_range or []),
            "prices": prices and f"{prices.currency}, {counted(len(prices.models), 'model')}, {prices.hash}",
            "intervals": f"{drawn.method}, {drawn.resamples:,} resamples, seed {drawn.seed}",
            # RAG_TOP_K and the like are names of settings: keep them.
            **{n if n.isupper() else n.replace("_", " "): value for n, value in result.provenance.items()},
        }
        return [_table(facts)]

    def headline(self, result: Result) -> str:
        dataset, drawn = result.gold.dataset, result.sampling
        name = " ".join(x for x in (dataset.name, dataset.version) if x) or result.gold.label
        depth = result.provenance.get("gold_depth")
        name = f"{name}, first {counted(depth, 'hit')}" if isinstance(depth, int) else name
        return f"{name} ({dataset.hash}); {drawn.method} intervals, {drawn.resamples:,} resamples, seed {drawn.seed}"

    def full_blocks(self, result: Result) -> list[Block]:
        [table] = self.blocks(result)
        assert isinstance(table, Table)
        rules = result.rules
        settings: dict[str, Any] = {
            "intervals are over": f"groups with the same {result.cluster}" if result.cluster else "queries",
            "default k": rules.k,
            "queries missing from the run": {"worst": "scored as failed", "skip": "left out"}[rules.missing],
            "hits cut below the score": rules.min_score,
            "document of a chunk": f"the part of its id before {rules.doc_of!r}",
            "items in the corpus": result.rules.corpus_size,
            "versions of the metrics": ", ".join(f"{name} v{version}" for name, version in result.definitions.items()),
        }
        return [msgspec.structs.replace(table, rows=[*table.rows, *_table(settings).rows])]


def _table(facts: dict[str, Any]) -> Table:
    rows = [[name, _plain(value)] for name, value in facts.items() if value not in (None, "", {})]
    return Table([Column("what"), Column("value")], rows, layout="facts")


def _plain(value: Any) -> str:
    if isinstance(value, dict) and set(value) == {"values", "first"}:
        return f"{value['values']} different values, the first: {_plain(value['first'])}"
    if isinstance(value, dict) and set(value) == {"values"}:
        return f"{counted(value['values'], 'value')}, not shown"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_plain(v)}" for k, v in value.items())
    return str(value)
