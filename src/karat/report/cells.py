"""Cells with intervals, and where the bars in a column of them begin and end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from karat.report.blocks import Cell, Column, Interval, Range, Table
from karat.results.differences import Difference
from karat.results.numbers import difference, p_value, points, with_interval, written
from karat.results.summary import SummaryRow


def value_cell(row: SummaryRow, unit: str = "") -> Interval:
    """A metric over some queries."""
    return Interval(with_interval(row, unit), row.mean, row.low, row.high)


def difference_cell(d: Difference, unit: str) -> Interval:
    """A difference, in percentage points where it is one of shares."""
    text = difference(d.delta, unit, (d.low, d.high), 1 if unit == "pp" else 2)
    value, low, high = (v if v is None or unit != "pp" else v * 100 for v in (d.delta, d.low, d.high))
    return Interval(text, value, low, high)


def interval_column(title: str, cells: Iterable[Cell]) -> Column:
    """A column whose bars all have the same ends: as far as its intervals go, and 0 where some lie on either side."""
    found = [c for c in cells if isinstance(c, Interval)]
    return Column(title, scale=around(v for c in found for v in (c.value, c.low, c.high) if v is not None))


def around(values: Iterable[float], zero: bool = False) -> Range:
    """Where an axis for these values begins and ends; with `zero` on it, if asked for.

    >>> around([2.0, 9.5]), around([2.0, 9.5], zero=True), around([5.0]), around([])
    ((2.0, 9.5), (0.0, 9.5), (5.0, 5.0), (0.0, 1.0))
    """
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    return (min(*finite, 0.0), max(*finite, 0.0)) if zero else (min(finite), max(finite))


def difference_table(found: Sequence[Difference], before: str, after: str) -> Table:
    """Metrics of two kinds of lists beside each other, with what the second changes."""
    rows = [
        [d.metric, written(d.baseline), written(d.candidate), points(d.delta, limits=(d.low, d.high)), p_value(d.p)]
        for d in found
    ]
    return Table([Column(c) for c in ("metric", before, after, "difference", "p")], rows)
