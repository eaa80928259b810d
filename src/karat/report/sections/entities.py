"""Entity linking."""

from __future__ import annotations

from karat.report.blocks import Block, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.entities import Linked, Often
from karat.results.numbers import with_interval
from karat.results.result import Result
from karat.results.summary import SummaryRow


class EntitySection(ReportSection):
    """Precision, recall and F1 by query and by link; mentions without an entity apart."""

    name = "entities"
    title = "Entity linking"
    order = 46

    def blocks(self, result: Result) -> list[Block]:
        found: Linked | None = result.analyses.found.get("entities")
        if found is None:
            return []
        blocks: list[Block] = [
            Text(f"{found.right:,} of {found.wanted:,} entities linked rightly, with {found.linked:,} links in all."),
            _table(found.scores),
        ]
        for what, entities in (("Missed", found.missed), ("Wrongly linked", found.wrong)):
            if entities:
                blocks.append(Text(f"{what} most often: {_listed(entities)}."))
        if found.nil_scores:
            seen = f"{found.nil_right:,} of {found.nil_wanted:,} seen, {found.nil_said:,} said"
            blocks += [Text(f"Mentions without an entity (NIL): {seen}."), _table(found.nil_scores)]
        return blocks


def _table(rows: list[SummaryRow]) -> Table:
    """One line a metric, both averages beside each other."""
    by_name = {row.metric: row for row in rows}
    lines = []
    for name, row in by_name.items():
        if "average=micro" not in name:
            micro = by_name.get(_micro(name))
            lines.append([name, with_interval(row), None if micro is None else with_interval(micro), row.n])
    titles = ("metric", "by query (macro)", "by link (micro)")
    return Table([*map(Column, titles), Column("queries", "count")], lines)


def _micro(name: str) -> str:
    head, _, rest = name.partition("(")
    return f"{head}(average=micro{',' + rest if rest else ')'}"


def _listed(entities: list[Often]) -> str:
    return ", ".join(f"{entity.id} ({entity.times})" for entity in entities)
