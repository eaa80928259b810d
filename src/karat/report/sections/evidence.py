"""The content of hits: evidence covered, entities linked, and the effect of newer documents."""

from __future__ import annotations

from karat.errors import shorten
from karat.report.blocks import Block, Cell, Table, Text
from karat.report.cells import count, difference_table, table, texts
from karat.report.sections.base import AnalysisSection
from karat.results.analyses.entities import Linked
from karat.results.analyses.evidence import ON_ANSWERS, ON_EVIDENCE, EvidenceFound
from karat.results.analyses.freshness import Fresh
from karat.results.numbers import counted, listed, points, with_interval
from karat.results.result import Result
from karat.results.summary import SummaryRow

_WORDS = {
    "exact": "the chunk is the evidence",
    "contains": "the chunk contains the evidence",
    "contained": "the evidence contains the chunk",
    "fuzzy": "the texts are similar",
}
_WITHOUT_NEWER = (
    "without newer: without hits that are newer than their query's as_of, with the same gold set. A metric that falls "
    "relied on documents that did not exist yet; one that rises had lost places to them."
)


class EvidenceSection(AnalysisSection):
    name = "evidence"
    title = "Evidence texts"
    order = 45

    def show(self, found: EvidenceFound) -> list[Block]:
        rows = [[one.query_id, shorten(" ".join(one.text.split()), 70)] for one in found.uncovered_examples]
        uncovered = [table(["query", "evidence that no chunk covers"], rows)] if rows else []
        return [_panel(found), *_rules(found), *_caveats(found), *uncovered]

    def headline(self, result: Result) -> str | None:
        """None if nothing can be scored by id: then a terminal shows the numbers themselves."""
        return None if evidence_leads(result) else super().headline(result)

    def short_blocks(self, result: Result) -> list[Block]:
        found = result.analyses.found.get(self.name)
        return [] if found is None else [_panel(found)]

    def in_short(self, found: EvidenceFound) -> str:
        k = 5 if 5 in found.ks else max(found.ks)
        told = (row for row in found.panel if row.metric in (f"evidence_recall@{k}", f"answer_containment@{k}"))
        return "; ".join(f"{row.metric} {with_interval(row)}" for row in told)


def evidence_leads(result: Result) -> bool:
    """Whether only evidence texts can be scored, because the gold set has no items or other ids."""
    ids = result.doubts.ids
    return not (result.gold.grades > 0).any() or (ids is not None and ids.sure)


def _panel(found: EvidenceFound) -> Table:
    by_name = {row.metric: row for row in found.panel}
    rows = [
        [name, *(with_interval(by_name[f"{name}@{k}"]) for k in found.ks)]
        for name in (*ON_EVIDENCE, ON_ANSWERS)
        if f"{name}@{found.ks[0]}" in by_name
    ]
    return table(["metric", *(f"@{k}" for k in found.ks)], rows)


def _rules(found: EvidenceFound) -> list[Block]:
    if not found.evidences:
        return []
    rows: list[list[Cell]] = [
        [_WORDS[r.rule] + (f" (ratio ≥ {found.threshold:g})" if r.rule == "fuzzy" else ""), r.evidences, r.pairs]
        for r in found.rules
    ]
    note = (
        f"Covered by the top {max(found.ks)}: {found.covered:,} of {found.evidences:,} evidence texts of "
        f"{counted(found.queries)}. Each counts for the first chunk that covers it. pairs: evidence text and chunk."
    )
    return [table(["covered because", count("texts"), count("pairs")], rows, note)]


def _caveats(found: EvidenceFound) -> list[Block]:
    no_text = f"Hits without text, which cover nothing: {found.without_text:,} of {found.hits:,}."
    too_long = f"Pairs of texts too long to compare, counted as not covered: {found.too_long:,}."
    longer = f"Uncovered evidence texts longer than every chunk in their query's top: {found.longer:,}."
    return texts("note", (found.without_text, no_text), (found.too_long, too_long), (found.longer, longer))


class EntitySection(AnalysisSection):
    name = "entities"
    title = "Entity linking"
    order = 46

    def show(self, found: Linked) -> list[Block]:
        links = counted(found.linked, "link")
        blocks: list[Block] = [
            Text(f"{found.right:,} of {found.wanted:,} entities linked correctly, with {links} in total."),
            _table(found.scores),
        ]
        for what, entities in (("Missed", found.missed), ("Wrongly linked", found.wrong)):
            if entities:
                often = ", ".join(f"{entity.id} ({entity.times})" for entity in entities)
                blocks.append(Text(f"{what} most often: {often}."))
        if found.nil_scores:
            seen = f"{found.nil_right:,} of {found.nil_wanted:,} recognized, {found.nil_said:,} predicted"
            blocks += [Text(f"Mentions without an entity (NIL): {seen}."), _table(found.nil_scores)]
        return blocks


def _table(rows: list[SummaryRow]) -> Table:
    """One line per metric, with both averages side by side."""
    by_name = {row.metric: row for row in rows}
    lines = []
    for name, row in by_name.items():
        if "average=micro" not in name:
            head, _, rest = name.partition("(")
            micro = by_name.get(f"{head}(average=micro{',' + rest if rest else ')'}")
            lines.append([name, with_interval(row), None if micro is None else with_interval(micro), row.n])
    return table(["metric", "by query (macro)", "by link (micro)", count("queries")], lines)


class FreshnessSection(AnalysisSection):
    name = "freshness"
    title = "Freshness"
    order = 50

    def show(self, found: Fresh) -> list[Block]:
        said = f"{found.freshness.metric} {with_interval(found.freshness)}. {_dates(found)}"
        compared = difference_table(found.differences, "as returned", "without newer", _WITHOUT_NEWER)
        return [Text(said), compared, *_newer_gold(found)]

    def in_short(self, found: Fresh) -> str:
        first = found.differences[0] if found.differences else None
        without = f"; without them {first.metric} changes by {points(first.delta)}" if first else ""
        return f"{found.newer_hits:,} of {counted(found.hits, 'hit')} are newer than their query's as_of{without}"


def _dates(found: Fresh) -> str:
    undated = f"; {found.undated_hits:,} have no version and were kept" if found.undated_hits else ""
    odd = f"; {found.odd_versions:,} have one that cannot be compared (see the audit)" if found.odd_versions else ""
    return (
        f"{counted(found.queries)} with as_of, {counted(found.hits, 'hit')}: "
        f"{found.newer_hits:,} newer than it{undated}{odd}. "
        f"Queries with a newer hit in the top {found.k}: {found.affected:,}."
    )


def _newer_gold(found: Fresh) -> list[Block]:
    if not found.newer_gold:
        return []
    among = "" if found.all_gold else " that the run returned"
    shown = listed(found.newer_gold_examples)
    more = " …" if found.newer_gold > len(found.newer_gold_examples) else ""
    said = f"Relevant gold items{among} that are newer than their query's as_of: {found.newer_gold:,} ({shown}{more})."
    return [Text(f"{said} Either the label or the as_of is wrong.", "warning")]
