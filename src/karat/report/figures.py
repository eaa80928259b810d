"""Pictures as tables of their numbers: for terminals, for Markdown, and for those who do not see them."""

from __future__ import annotations

from collections.abc import Sequence

from karat.report.blocks import (
    Bars,
    Block,
    Cell,
    Chart,
    Column,
    Dots,
    Figure,
    Interval,
    Picture,
    Scatter,
    Series,
    Table,
)
from karat.results.numbers import interval


def as_table(figure: Picture) -> Table:
    """The numbers of a picture."""
    if isinstance(figure, Chart):
        return _lines(figure)
    if isinstance(figure, Dots):
        columns = [Column("what"), Column(figure.x_title), *(Column(name, "score") for name in figure.others)]
        return Table(columns, [[row.name, row.value, *row.others] for row in figure.rows])
    if isinstance(figure, Bars):
        return _bars(figure)
    if isinstance(figure, Scatter):
        columns = [Column(figure.x_title, "score"), Column(figure.y_title, "score"), Column("queries", "count")]
        return Table(columns, [[spot.x, spot.y, spot.count] for spot in figure.spots])
    return Table([Column("what"), Column("value"), Column("")], [[t.name, t.text, t.detail] for t in figure.tiles])


def without_repeats(blocks: Sequence[Block]) -> list[Block]:
    """Blocks for where nothing can be drawn: a picture whose numbers stand beside it is left out."""
    return [block for block in blocks if not (isinstance(block, Figure) and block.told)]


def _lines(chart: Chart) -> Table:
    xs = sorted({x for series in chart.series for x in series.x})
    columns = [Column(chart.x_title), *(Column(series.name, "score") for series in chart.series)]
    return Table(columns, [[f"{x:g}", *(_at(series, x) for series in chart.series)] for x in xs], _marks(chart))


def _at(series: Series, x: float) -> Cell:
    if x not in series.x:
        return None
    i = list(series.x).index(x)
    y = series.y[i]
    if y is None or series.low is None or series.high is None:
        return y
    low, high = series.low[i], series.high[i]
    return Interval(f"{y:.4f} {interval(low, high)}", y, low, high)


def _marks(chart: Chart) -> str | None:
    return "; ".join(f"{chart.x_title} = {mark.x:g}: {mark.text}" for mark in chart.marks) or None


def _bars(bars: Bars) -> Table:
    rows: dict[str, list[Cell]] = {bar.name: [bar.name, *[None] * len(bars.kinds)] for bar in bars.bars}
    for bar in bars.bars:
        rows[bar.name][1 + bar.kind] = bar.text
    return Table([Column("what"), *(Column(kind) for kind in bars.kinds)], list(rows.values()))
