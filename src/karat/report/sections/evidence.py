"""What hits say: evidence covered, entities linked."""

from __future__ import annotations

from karat.errors import shorten
from karat.report.blocks import Block, Cell, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.entities import Linked, Often
from karat.results.analyses.evidence import ON_ANSWERS, ON_EVIDENCE, EvidenceFound
from karat.results.numbers import with_interval
from karat.results.result import Result
from karat.results.summary import SummaryRow

_WORDS = {
    "exact": "the chunk is the evidence",
    "contains": "the chunk contains the evidence",
    "contained": "the chunk lies inside the evidence",
    "fuzzy": "they are alike",
}


class EvidenceSection(ReportSection):
    """How much of the evidence the top holds, by which rule, and what is not covered."""

    name = "evidence"
    title = "Evidence texts"
    order = 45

    def blocks(self, result: Result) -> list[Block]:
        found: EvidenceFound | None = result.analyses.found.get("evidence")
        if found is None:
            return []
        return [_panel(found), *_rules(found), *_caveats(found), *_uncovered(found)]


def _panel(found: EvidenceFound) -> Table:
    by_name = {row.metric: row for row in found.panel}
    rows = [
        [name, *(with_interval(by_name[f"{name}@{k}"]) for k in found.ks)]
        for name in (*ON_EVIDENCE, ON_ANSWERS)
        if f"{name}@{found.ks[0]}" in by_name
    ]
    return Table([Column("metric"), *(Column(f"@{k}") for k in found.ks)], rows)


def _rules(found: EvidenceFound) -> list[Block]:
    if not found.evidences:
        return []
    rows: list[list[Cell]] = [
        [_WORDS[r.rule] + (f" (ratio ≥ {found.threshold:g})" if r.rule == "fuzzy" else ""), r.evidences, r.pairs]
        for r in found.rules
    ]
    columns = [Column("covered because"), Column("evidences", "count"), Column("pairs", "count")]
    deepest = max(found.ks)
    note = (
        f"{found.covered:,} of {found.evidences:,} evidences of {found.queries:,} queries are covered by the top "
        f"{deepest}. evidences: by the first chunk that covers them; pairs: of evidence and chunk."
    )
    return [Table(columns, rows, note)]


def _caveats(found: EvidenceFound) -> list[Block]:
    said = []
    if found.without_text:
        said.append(f"Hits without a text, which cover nothing: {found.without_text:,} of {found.hits:,}.")
    if found.too_long:
        said.append(f"Pairs of texts too long to be compared letter by letter, taken as uncovered: {found.too_long:,}.")
    if found.longer:
        said.append(f"Uncovered evidences that are longer than every chunk of their query's top: {found.longer:,}.")
    return [Text(text, "note") for text in said]


def _uncovered(found: EvidenceFound) -> list[Block]:
    rows = [[one.query_id, shorten(" ".join(one.text.split()), 70)] for one in found.uncovered_examples]
    return [Table([Column("query"), Column("evidence that no chunk covers")], rows)] if rows else []


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
