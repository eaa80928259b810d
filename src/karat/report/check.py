"""What was found in files, as a report."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text
from karat.results.check import Checked
from karat.results.numbers import listed


def checked_report(checked: list[Checked]) -> Report:
    return Report("Files", [Section(c.file, c.file, _blocks(c)) for c in checked])


def _blocks(checked: Checked) -> list[Block]:
    if checked.error:
        return [Text(f"cannot be used: {checked.error}", "warning")]
    facts: list[list[Cell]] = [["format", checked.format]]
    facts += [[name, value] for name, value in checked.holds.items() if value is not None]
    blocks: list[Block] = [Table([Column(checked.kind), Column("")], facts)]
    if checked.audit:
        rows = [[e.count, e.found, e.done, listed(e.examples) or None] for e in checked.audit]
        blocks.append(
            Table([Column("count", "count"), Column("found"), Column("will be"), Column("for example")], rows)
        )
    else:
        blocks.append(Text("Nothing to repair."))
    return blocks
