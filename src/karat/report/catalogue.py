"""The list of metrics as a report."""

from __future__ import annotations

from karat.report.blocks import Block, Column, Report, Section, Table, Text
from karat.scoring.metrics.reference import OPTIONAL, Description, describe, describe_all


def metrics_report(name: str | None = None) -> Report:
    """All metrics in a table, or everything about one."""
    if name is not None:
        found = describe(name)
        return Report(found.name, [Section(found.name, found.written, _one(found))])
    rows = [[d.written, d.definition, d.trec_eval] for d in describe_all()]
    table = Table([Column("metric"), Column("definition"), Column("trec_eval")], rows)
    note = Text("`karat metrics NAME` tells convention, parameters, aliases and an example.", "note")
    return Report("Metrics", [Section("metrics", f"{len(rows)} metrics", [table, note])])


def _one(d: Description) -> list[Block]:
    high = "unbounded" if d.range[1] is None else f"{d.range[1]:g}"
    facts = [
        ["better", d.direction],
        ["range", f"{d.range[0]:g} to {high}"],
        *(
            ["parameter", name if default == OPTIONAL else f"{name} (default {default})"]
            for name, default in d.parameters.items()
        ),
        *(["alias", f"{alias} = {text}"] for alias, text in d.aliases.items()),
        *([["trec_eval", d.trec_eval]] if d.trec_eval else []),
    ]
    blocks: list[Block] = [Text(d.definition)]
    if d.convention:
        blocks.append(Text(d.convention))
    blocks.append(Table([Column(""), Column("")], facts))
    return [*blocks, Text(d.example)] if d.example else blocks
