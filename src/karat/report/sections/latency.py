"""Where the time goes."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Column, Interval, Table, write_cell
from karat.report.cells import interval_column
from karat.report.sections.base import ReportSection
from karat.results.analyses.latency import Latencies, Measured, Timing
from karat.results.numbers import interval, written
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
        rows = [_cells(timing) for timing in timings]
        few = any(write_cell(cell, "text").endswith(_FEW) for row in rows for cell in row)
        note = "milliseconds" + (f"; {_FEW} {_TOO_FEW}" if few else "")
        columns = [interval_column(name, (row[i] for row in rows)) for i, name in enumerate(names)]
        return [Table([*columns, Column("queries", "count")], rows, note)]


def _cells(timing: Timing) -> list[Cell]:
    numbers = (timing.mean, timing.p50, timing.p90, timing.p99)
    return [timing.stage or "in all", *map(_with_limits, numbers), timing.queries]


def _with_limits(number: Measured) -> Interval:
    value = written(number.value, "ms").removesuffix(" ms")
    text = f"{value} {_FEW if number.low is None else interval(number.low, number.high, 'ms')}"
    return Interval(text, number.value, number.low, number.high)
