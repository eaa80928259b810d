"""The ladder of baselines as a report."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text
from karat.results.numbers import difference, interval, titled, written
from karat.systems.ladder import Ladder, Rung


def ladder_report(ladder: Ladder) -> Report:
    names = [row.metric for row in ladder.rungs[0].values]
    sections = [Section(name, name, [_table(ladder, at, name)]) for at, name in enumerate(names)]
    said: list[Block] = [Text(f"{name} was skipped: {why}", "warning") for name, why in ladder.skipped.items()]
    said += [Text(note, "warning") for note in ladder.notes]
    if said:
        sections.append(Section("notes", "To know", said))
    size = ladder.corpus["size"]
    return Report(f"Ladder over {ladder.corpus['name']} ({size:,} items), against {ladder.gold}", sections)


def _table(ladder: Ladder, at: int, name: str) -> Table:
    """The highest rung on top, as on a ladder."""
    level = f"{ladder.statistics['level'] * 100:g} % interval"
    unit = ladder.units[name]
    steps = [titled(title, unit) for title in ("above the next", "above bm25")]
    columns = [Column(title) for title in ("system", "value", level, *steps)]
    rows = [_row(rung, at, unit) for rung in reversed(ladder.rungs)]
    unit = "" if ladder.units[name] == "pp" else ladder.units[name]
    if ladder.ceilings.get(name) is not None:
        rows.insert(0, ["(a perfect ranking)", written(ladder.ceilings[name], unit), None, None, None])
    if ladder.floors.get(name) is not None:
        rows.append(["(chance, on average)", written(ladder.floors[name], unit), None, None, None])
    return Table(columns, rows, _note(ladder))


def _note(ladder: Ladder) -> str:
    runs = [rung.system for rung in ladder.rungs if not rung.baseline]
    given = f" → marks what was given: {', '.join(runs)}." if runs else ""
    return f"above …: paired differences, query by query, with their intervals.{given}"


def _row(rung: Rung, at: int, unit: str) -> list[Cell]:
    value, shown = rung.values[at], "" if unit == "pp" else unit
    steps = []
    for differences in (rung.above_next, rung.above_bm25):
        found = next((d for d in differences if d.metric == value.metric), None)
        steps.append(None if found is None else difference(found.delta, unit, (found.low, found.high), 1))
    name = rung.system if rung.baseline else f"→ {rung.system}"
    return [name, written(value.mean, shown), interval(value.low, value.high, shown), *steps]
