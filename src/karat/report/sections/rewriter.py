"""Rewritten queries against the original ones."""

from __future__ import annotations

from karat.errors import shorten
from karat.report.blocks import Block, Cell, Column, Table, Text
from karat.report.cells import difference_table
from karat.report.sections.base import ReportSection
from karat.results.analyses.rewriter import Rewriting, Rewritten
from karat.results.numbers import counted, share
from karat.results.result import Result

_TEXT = 300  # characters of a query; a table wraps them


class RewriterSection(ReportSection):
    """What rewriting changes, how often it harms, and where most."""

    name = "rewriter"
    title = "Query rewriting"
    order = 41

    def blocks(self, result: Result) -> list[Block]:
        found: Rewritten | None = result.analyses.found.get("rewriter")
        if found is None:
            return []
        blocks: list[Block] = [difference_table(found.differences, "original", "rewritten")]
        if found.without_original:
            said = f"{counted(found.without_original)} without a list of the original query, left out here."
            blocks.append(Text(said, "warning"))
        said = f"By {found.metric}, rewriting harmed {share(found.harmed)} of the queries"
        said += f" and helped {share(found.helped)}."
        if found.unchanged:
            said += f" The words of {counted(found.unchanged)} were left as they were."
        blocks.append(Text(said))
        changes = [*(("harmed", r) for r in found.harmed_most), *(("helped", r) for r in found.helped_most)]
        if changes:
            columns = [Column(c) for c in ("query", "", found.metric, "original", "rewritten")]
            blocks.append(Table(columns, [_row(*change) for change in changes], "those that changed most"))
        return blocks


def _row(how: str, change: Rewriting) -> list[Cell]:
    texts = (None if text is None else shorten(text, _TEXT) for text in (change.original, change.rewritten))
    return [change.query_id, how, f"{change.before:.2f} → {change.after:.2f}", *texts]
