"""Reports of `karat metrics` and `karat check`."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Report, Section, Text
from karat.report.cells import count, table, texts
from karat.results.check import Checked
from karat.results.numbers import listed
from karat.scoring.metrics.reference import OPTIONAL, Description, describe, describe_all, limits


def metrics_report(name: str | None = None) -> Report:
    """All metrics in a table, or everything about one."""
    if name is not None:
        found = describe(name)
        return Report(found.name, [Section(found.name, found.written, _one(found))])
    rows = [[d.written, d.definition, d.trec_eval] for d in describe_all()]
    note = Text("`karat metrics NAME` shows conventions, parameters, aliases and an example.", "note")
    everything = table(["metric", "definition", "trec_eval"], rows)
    return Report("Metrics", [Section("metrics", f"{len(rows)} metrics", [everything, note])])


def _one(d: Description) -> list[Block]:
    facts = [
        ["better", d.direction if d.is_quality else "neither: it describes labels or lists, not quality"],
        ["range", limits(d)],
        *(
            ["parameter", name if default == OPTIONAL else f"{name} (default {default})"]
            for name, default in d.parameters.items()
        ),
        *(["alias", f"{alias} = {text}"] for alias, text in d.aliases.items()),
        *([["trec_eval", d.trec_eval]] if d.trec_eval else []),
    ]
    said = texts("plain", (True, d.definition), (d.convention, d.convention))
    return [*said, table(["", ""], facts), *texts("plain", (d.example, d.example))]


def checked_report(checked: list[Checked]) -> Report:
    return Report("Files", [Section(c.file, c.file, _blocks(c)) for c in checked])


def _blocks(checked: Checked) -> list[Block]:
    named = [[name, value] for name, value in checked.fields.items()]
    fields: list[Block] = [table(["field", "in the first record"], named)] if named else []
    if checked.error:
        return [Text(f"cannot be used: {checked.error}", "warning"), *fields]
    facts: list[list[Cell]] = [["format", checked.format]]
    facts += [[name, value] for name, value in checked.holds.items() if value is not None]
    rows = [[e.count, e.found, e.done, listed(e.examples) or None] for e in checked.audit]
    repaired = table([count("count"), "found", "will be", "for example"], rows) if rows else Text("Nothing to repair.")
    return [table([checked.kind, ""], facts), repaired, *fields]
