"""What it costs."""

from __future__ import annotations

from collections.abc import Iterator

from karat.data.prices import money
from karat.report.blocks import Block, Cell, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.cost import CostPart, Costs
from karat.results.numbers import counted, interval, written
from karat.results.result import Result


class CostSection(ReportSection):
    """Per query and in all, by stage and model; one-off costs as lines of their own."""

    name = "cost"
    title = "Cost"
    order = 51

    def blocks(self, result: Result) -> list[Block]:
        found: Costs | None = result.analyses.found.get("cost")
        return [] if found is None else list(_blocks(found))


def _blocks(found: Costs) -> Iterator[Block]:
    yield Text(" ".join(_sentences(found)))
    for title, parts in (("stage", found.stages), ("model", found.models)):
        if {part.name for part in parts} - {None}:
            yield _table(title, parts, found.currency)
    if found.unpriced:
        yield Text(f"The cost of some queries is not known, and left out: {', '.join(found.unpriced)}.", "warning")
    if found.currency is None:
        yield Text("No price table: `--prices FILE` turns this into money.", "note")
    if found.one_off:
        amounts = [[line.name, money(line.amount), line.per] for line in found.one_off]
        titles = ("one-off cost", found.currency or "", "per")
        yield Table([*map(Column, titles)], amounts, "no part of what the queries cost")


def _sentences(found: Costs) -> Iterator[str]:
    rows = {row.metric: row for row in found.per_query}
    for name, said in (("cost", "costs"), ("prompt_tokens", "sends"), ("completion_tokens", "gets")):
        if row := rows.get(name):
            unit = (found.currency or "") if name == "cost" else "tokens"
            few = " (limits not estimable: too few queries that differ)"
            limits = few if row.low is None else f" {interval(row.low, row.high, unit)}"
            yield f"On average a query {said} {written(row.mean, unit)}{limits}."
    if found.total is not None and "cost" in rows:
        yield f"In all: {money(found.total)} {found.currency} for {counted(rows['cost'].n)}."


def _table(title: str, parts: list[CostPart], currency: str | None) -> Table:
    counts = ("queries", "calls", "tokens in", "tokens out")
    money_columns = [Column(currency), Column("share")] if currency else []
    rows = [_cells(part) if currency else _cells(part)[:-2] for part in parts]
    return Table([Column(title), *(Column(name, "count") for name in counts), *money_columns], rows)


def _cells(part: CostPart) -> list[Cell]:
    return [
        part.name or "not said",
        part.queries,
        part.calls,
        part.prompt_tokens,
        part.completion_tokens,
        None if part.cost is None else money(part.cost),
        None if part.share is None else f"{part.share:.1%}",
    ]
