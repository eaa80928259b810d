"""Time and money per query."""

from __future__ import annotations

from collections.abc import Iterator

from karat.data.prices import money
from karat.report.blocks import Block, Cell, Interval, Table, Text
from karat.report.cells import count, interval_column, narrow_warning, table, texts, write_cell
from karat.report.sections.base import AnalysisSection
from karat.results.analyses.cost import CostPart, Costs
from karat.results.analyses.latency import Latencies, Measured
from karat.results.numbers import counted, interval, written
from karat.statistics.intervals import OPEN

_FEW = "*"
_TOO_FEW = (
    "no interval: at the 95 % level p50 needs 6 queries, p90 needs 36 and p99 needs 368; "
    "the mean needs 2 that differ, or 20"
)


class LatencySection(AnalysisSection):
    name = "latency"
    title = "Latency"
    order = 50

    def show(self, found: Latencies) -> list[Block]:
        timings = [*found.stages, found.total] if len(found.stages) > 1 else [found.total]
        names = ("stage", "mean", "p50", "p90", "p99")
        rows: list[list[Cell]] = [
            [t.stage or "total", *map(_with_limits, (t.mean, t.p50, t.p90, t.p99)), t.queries] for t in timings
        ]
        few = any(write_cell(cell, "text").endswith(_FEW) for row in rows for cell in row)
        note = "milliseconds" + (f"; {_FEW} {_TOO_FEW}" if few else "")
        if any(t.mean.narrow for t in timings):
            note += f"; with fewer than {OPEN} queries or conversations, the interval of the mean may be too narrow"
        columns = [interval_column(name, (row[i] for row in rows)) for i, name in enumerate(names)]
        return [table([*columns, count("queries")], rows, note)]

    def in_short(self, found: Latencies) -> str:
        times = ((name, getattr(found.total, name).value) for name in ("mean", "p50", "p90", "p99"))
        return ", ".join(f"{name} {written(value, 'ms')}" for name, value in times if value is not None)


def _with_limits(number: Measured) -> Interval:
    value = written(number.value, "ms").removesuffix(" ms")
    text = f"{value} {_FEW if number.low is None else interval(number.low, number.high, 'ms')}"
    return Interval(text, number.value, number.low, number.high)


class CostSection(AnalysisSection):
    name = "cost"
    title = "Cost"
    order = 51

    def show(self, found: Costs) -> list[Block]:
        blocks: list[Block] = [Text(" ".join(_sentences(found))), *narrow_warning(found.per_query)]
        for title, parts in (("stage", found.stages), ("model", found.models)):
            if {part.name for part in parts} - {None}:
                blocks.append(_cost_table(title, parts, found.currency))
        unpriced = f"Queries of unknown cost are left out: {', '.join(found.unpriced)}."
        blocks += texts("warning", (found.unpriced, unpriced))
        blocks += texts("note", (found.currency is None, "No price table: pass `--prices FILE` to see costs."))
        if found.one_off:
            amounts = [[line.name, money(line.amount), line.per] for line in found.one_off]
            titles = ("one-off cost", found.currency or "", "per")
            blocks.append(table(titles, amounts, "not included in the cost of the queries"))
        return blocks


def _sentences(found: Costs) -> Iterator[str]:
    rows = {row.metric: row for row in found.per_query}
    for name, said in (("cost", "costs"), ("prompt_tokens", "sends"), ("completion_tokens", "gets")):
        if row := rows.get(name):
            unit = (found.currency or "") if name == "cost" else "tokens"
            few = " (no interval: too few queries that differ)"
            limits = few if row.low is None else f" {interval(row.low, row.high, unit)}"
            yield f"On average a query {said} {written(row.mean, unit)}{limits}."
    if found.total is not None and "cost" in rows:
        yield f"Total: {money(found.total)} {found.currency} for {counted(rows['cost'].n)}."


def _cost_table(title: str, parts: list[CostPart], currency: str | None) -> Table:
    counts = map(count, ("queries", "calls", "tokens in", "tokens out"))
    rows = [_cost_cells(part) if currency else _cost_cells(part)[:-2] for part in parts]
    return table([title, *counts, *([currency, "share"] if currency else [])], rows)


def _cost_cells(part: CostPart) -> list[Cell]:
    return [
        part.name or "unknown",
        part.queries,
        part.calls,
        part.prompt_tokens,
        part.completion_tokens,
        None if part.cost is None else money(part.cost),
        None if part.share is None else f"{part.share:.1%}",
    ]
