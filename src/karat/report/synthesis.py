"""Queries that were made up, as a report."""

from __future__ import annotations

from collections import Counter

from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text
from karat.report.spending import spending_blocks
from karat.systems.synthesize.synthesize import Synthesis

_SHOWN = 5


def synthesis_report(done: Synthesis) -> Report:
    sections = [
        Section("queries", "Queries", _queries(done)),
        Section("rejected", "Rejected drafts", _rejected(done)),
        Section("spending", "Spent", spending_blocks(done.spending)),
    ]
    return Report(f"{len(done.queries):,} queries from {done.corpus}, made up by {done.model}", sections)


def _queries(done: Synthesis) -> list[Block]:
    kinds = Counter((_difficulty(query), query["tags"]["type"]) for query in done.queries)
    types = list(dict.fromkeys(kind for _, kind in kinds))
    rows: list[list[Cell]] = [
        [level, *(kinds[level, kind] for kind in types)] for level in dict.fromkeys(level for level, _ in kinds)
    ]
    table = Table([Column(""), *(Column(kind, "count") for kind in types)], rows)
    some: list[list[Cell]] = [
        [query["tags"]["type"], _difficulty(query), query["query"]] for query in done.queries[:_SHOWN]
    ]
    shown = Table([Column("type"), Column("difficulty"), Column("for example")], some)
    notes = [Text(f"{note}.", "warning") for note in done.notes]
    said = Text("Made up by a model: good for comparing systems, no measure of what people ask.", "note")
    return [table, shown, *notes, said]


def _difficulty(query: dict[str, object]) -> str:
    tags = query["tags"]
    return str(tags.get("difficulty", "no answer")) if isinstance(tags, dict) else ""


def _rejected(done: Synthesis) -> list[Block]:
    if not done.rejected:
        return [Text(f"None of {done.drafts:,}.")]
    rows: list[list[Cell]] = [[why, count] for why, count in done.rejected.items()]
    note = f"of {done.drafts:,} drafts"
    examples = [Text(example, "note") for example in done.rejected_examples]
    return [Table([Column("why"), Column("drafts", "count")], rows, note), *examples]
