"""What a query takes in time and money."""

from __future__ import annotations

from collections.abc import Iterator

from karat.data.prices import money
from karat.report.blocks import Block, Cell, Column, Interval, Table, Text, write_cell
from karat.report.cells import interval_column
from karat.report.sections.base import ReportSection
from karat.results.analyses.cost import CostPart, Costs
from karat.results.analyses.latency import Latencies, Measured, Timing
from karat.results.numbers import counted, interval, written
from karat.results.result import Result

_FEW = "*"
_TOO_FEW = (
    "limits not estimable: at the 95 % level p50 takes 6 queries, p90 takes 36 and p99 takes 368; "
    "the mean takes 2 that differ, or 20"
)


class LatencySection(ReportSection):
    """Every stage and the whole, with its slow tail."""

    name = "latency"
    title = "Latency"
    order = 50

    def blocks(self, result: Result) -> list[Block]:
        found: Latencies | None = result.analyses.found.get("latency")
        if found is None:
            return []
        timings = [*found.stages, found.total] if len(found.stages) > 1 else [found.total]
        names = ("stage", "mean", "p50", "p90", "p99")
        rows = [_timing_cells(timing) for timing in timings]
        few = any(write_cell(cell, "text").endswith(_FEW) for row in rows for cell in row)
        note = "milliseconds" + (f"; {_FEW} {_TOO_FEW}" if few else "")
        columns = [interval_column(name, (row[i] for row in rows)) for i, name in enumerate(names)]
        return [Table([*columns, Column("queries", "count")], rows, note)]


def _timing_cells(timing: Timing) -> list[Cell]:
    numbers = (timing.mean, timing.p50, timing.p90, timing.p99)
    return [timing.stage or "in all", *map(_with_limits, numbers), timing.queries]


def _with_limits(number: Measured) -> Interval:
    value = written(number.value, "ms").removesuffix(" ms")
    text = f"{value} {_FEW if number.low is None else interval(number.low, number.high, 'ms')}"
    return Interval(text, number.value, number.low, number.high)


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
            yield _cost_table(title, parts, found.currency)
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


def _cost_table(title: str, parts: list[CostPart], currency: str | None) -> Table:
    counts = ("queries", "calls", "tokens in", "tokens out")
    money_columns = [Column(currency), Column("share")] if currency else []
    rows = [_cost_cells(part) if currency else _cost_cells(part)[:-2] for part in parts]
    return Table([Column(title), *(Column(name, "count") for name in counts), *money_columns], rows)


def _cost_cells(part: CostPart) -> list[Cell]:
    return [
        part.name or "not said",
        part.queries,
        part.calls,
        part.prompt_tokens,
        part.completion_tokens,
        None if part.cost is None else money(part.cost),
        None if part.share is None else f"{part.share:.1%}",
    ]
