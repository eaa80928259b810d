"""Makes tables and cells from numbers, pictures and lists, and formats them."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from karat.errors import shorten
from karat.report.blocks import (
    Bars,
    Block,
    Cell,
    Chart,
    Column,
    Dots,
    Figure,
    Histogram,
    Interval,
    Link,
    Listing,
    Picture,
    Range,
    Scatter,
    Series,
    Table,
    Text,
    TextKind,
)
from karat.results.differences import Difference
from karat.results.numbers import difference, interval, listed, p_value, points, with_interval, written
from karat.results.summary import FEW, SegmentRow, SummaryRow
from karat.scoring.metrics.base import Relevance
from karat.scoring.metrics.grammar import parse_metric
from karat.statistics.intervals import OPEN

if TYPE_CHECKING:
    from karat.results.comparison.compare import SegmentDifferences

# One number with separators and unit, but not a list of ids, which may also begin and end with digits.
_NUMBER = re.compile(r"\d(?:[\d./:→ +−-]|,(?! ))*(?:e[-+]?\d+)?(?: ?(?:ms|s|%))?")
_NUMBERS = re.compile(r"(?:[-+−–\d.%\s]|,(?! )|\[[-+−–\d.,%\s]*\]|ms|pp)+")  # 0.318 [0.27, 0.37]
_LINE = 110  # characters of a hit's text in a table
_S = TypeVar("_S", SegmentRow, "SegmentDifferences")
STATES: dict[str | None, str] = {
    "hit": "✓ hit",
    "miss": "✗ miss",
    "unjudged": "? unjudged",
    None: "",
}  # never colour alone


def value_cell(row: SummaryRow, unit: str = "") -> Interval:
    """A metric over some queries."""
    return Interval(with_interval(row, unit), row.mean, row.low, row.high)


def difference_cell(d: Difference, unit: str) -> Interval:
    """A difference, in percentage points for shares."""
    text = difference(d.delta, unit, (d.low, d.high), 1 if unit == "pp" else 2)
    value, low, high = (v if v is None or unit != "pp" else v * 100 for v in (d.delta, d.low, d.high))
    return Interval(text, value, low, high)


def interval_column(title: str, cells: Iterable[Cell]) -> Column:
    """A column whose interval bars share one scale."""
    found = [c for c in cells if isinstance(c, Interval)]
    return Column(title, scale=around(v for c in found for v in (c.value, c.low, c.high) if v is not None))


def around(values: Iterable[float], zero: bool = False) -> Range:
    """Returns the ends of an axis for these values; `zero`: the axis includes 0.

    >>> around([2.0, 9.5]), around([2.0, 9.5], zero=True), around([5.0]), around([])
    ((2.0, 9.5), (0.0, 9.5), (5.0, 5.0), (0.0, 1.0))
    """
    finite = [v for v in values if math.isfinite(v)] or [0.0, 1.0]
    return (min(*finite, 0.0), max(*finite, 0.0)) if zero else (min(finite), max(finite))


class _Group(Protocol):
    """Queries that have something in common."""

    @property
    def value(self) -> str: ...
    @property
    def few(self) -> bool: ...


class _Measured(Protocol):
    """A value of a metric, or a difference."""

    @property
    def metric(self) -> str: ...
    @property
    def few(self) -> bool: ...
    @property
    def narrow(self) -> bool: ...


def few_by(group: _S, names: Collection[str]) -> _S:
    """The same segment, marked as too small by these metrics only: a table should not warn about metrics that it does
    not show, which may be defined for fewer queries."""
    rows: Iterable[SummaryRow | Difference] = group.summary if isinstance(group, SegmentRow) else group.differences
    few = any(row.few and row.n for row in rows if row.metric in names)
    return msgspec.structs.replace(group, few=few or group.queries < FEW)


def few_name(group: _Group) -> str:
    """The value that the queries share, with a star if there are too few of them."""
    return group.value + (" *" if group.few else "")


def few_warning(groups: Iterable[_Group], what: str = "queries") -> list[Block]:
    """Explains the star, if there is one."""
    return texts("warning", (any(group.few for group in groups), f"* too few {what} for a reliable result"))


def narrow_warning(rows: Iterable[_Measured]) -> list[Block]:
    """Which intervals may be too narrow. Those of too few queries have a warning already."""
    names = dict.fromkeys(row.metric for row in rows if row.narrow and not row.few)
    said = (
        f"{', '.join(names)}: the interval may be too narrow. Values have no upper limit, and fewer than {OPEN} "
        "queries or conversations may miss rare large ones."
    )
    return texts("warning", (names, said))


def queries_cell(queries: int, defined: Iterable[int]) -> Cell:
    """How many queries of a group its numbers are based on; queries without gold have no value.

    >>> queries_cell(30, [4, 4]), queries_cell(1200, [1200, 900]), queries_cell(30, [])
    ('4 of 30', 1200, 30)
    """
    most = max(defined, default=queries)
    return queries if most == queries else f"{most:,} of {queries:,}"


def relevance_counts(rows: Iterable[SummaryRow | Difference]) -> list[int]:
    """On how many queries each relevance metric is defined; if there are none, each other metric."""
    listed = list(rows)
    found = [row.n for row in listed if isinstance(parse_metric(row.metric), Relevance)]
    return found or [row.n for row in listed]


def difference_table(found: Sequence[Difference], before: str, after: str, note: str | None = None) -> Table:
    """Metrics of two kinds of lists side by side, with their difference."""
    rows = [
        [
            d.metric,
            written(d.baseline),
            written(d.candidate),
            points(d.delta, _unit(d.metric), (d.low, d.high)),
            p_value(d.p),
        ]
        for d in found
    ]
    notes = [text for text in (note, _disagreement(found)) if text]
    shown = table(("metric", before, after, "difference", "p"), rows, " ".join(notes) or None)
    return msgspec.structs.replace(shown, intervals="difference")


_SMALL = 0.05


def _disagreement(found: Sequence[Difference]) -> str | None:
    """Says for which metrics interval and p lead to different conclusions, and why.

    >>> _disagreement([Difference("mrr", 900, 0.5, 0.51, 0.01, low=-0.002, high=0.02, p=0.004)])[:45]
    'mrr is unclear: only one of interval and p sh'
    """
    tested = [(d, d.low, d.high, d.p) for d in found if d.low is not None and d.high is not None and d.p is not None]
    odd = [
        d.metric
        for d, low, high, p in tested
        if (p <= _SMALL if low <= 0 <= high else not d.certain and p > _SMALL) and (d.delta or 0) != 0
    ]
    if not odd:
        return None
    return (
        f"{listed(odd)} {'is' if len(odd) == 1 else 'are'} unclear: only one of interval and p shows a difference. The "
        "interval also allows for rare queries that change more than any of these; p only asks how likely these "
        "changes are if their directions are random."
    )


def _unit(name: str) -> str:
    """Percentage points for shares, otherwise the unit of the metric."""
    metric = parse_metric(name)
    return "pp" if metric.range == (0.0, 1.0) else metric.unit


def listing_table(listing: Listing) -> Table:
    """A list as a table, with each text cut to a line or two."""
    facts = list(dict.fromkeys(name for line in listing.lines for name in line.facts))
    states = [Column("")] if any(line.state for line in listing.lines) else []
    places = [Column("#")] if any(line.place for line in listing.lines) else []
    texts = [Column("text")] if any(line.text for line in listing.lines) else []
    columns = [*places, Column(listing.title), *states, *map(Column, facts), *texts]
    rows = [
        [
            *(line.place for _ in places),
            line.id,
            *(STATES[line.state] for _ in states),
            *(line.facts.get(name) for name in facts),
            *(shorten(line.text or "", _LINE) for _ in texts),
        ]
        for line in listing.lines
    ]
    return Table(columns, rows, listing.note)


def table(titles: Iterable[str | Column], rows: Sequence[Sequence[Cell]], note: str | None = None) -> Table:
    return Table([title if isinstance(title, Column) else Column(title) for title in titles], rows, note)


def count(title: str) -> Column:
    return Column(title, "count")


def texts(kind: TextKind, *said: tuple[object, str]) -> list[Block]:
    """The texts whose conditions hold."""
    return [Text(text, kind) for holds, text in said if holds]


def as_table(figure: Picture) -> Table:
    """The numbers of a picture as a table, for terminals, Markdown and screen readers."""
    if isinstance(figure, Chart):
        xs = sorted({x for series in figure.series for x in series.x})
        from karat.report.time_axis import moment

        shown = moment if figure.x_scale == "time" else "{:g}".format
        marks = "; ".join(f"{figure.x_title} = {shown(mark.x)}: {mark.text}" for mark in figure.marks)
        scores = (Column(series.name, "score") for series in figure.series)
        values = [[shown(x), *(_at(series, x) for series in figure.series)] for x in xs]
        return table([figure.x_title, *scores], values, marks or None)
    if isinstance(figure, Dots):
        scores = (Column(name, "score") for name in figure.others)
        return table(["what", figure.x_title, *scores], [[row.name, row.value, *row.others] for row in figure.rows])
    if isinstance(figure, Bars):
        rows: dict[str, list[Cell]] = {bar.name: [bar.name, *[None] * len(figure.kinds)] for bar in figure.bars}
        for bar in figure.bars:
            rows[bar.name][1 + bar.kind] = bar.text
        return table(["what", *figure.kinds], list(rows.values()))
    if isinstance(figure, Scatter):
        scores = (Column(title, "score") for title in (figure.x_title, figure.y_title))
        return table([*scores, count("queries")], [[spot.x, spot.y, spot.count] for spot in figure.spots])
    if isinstance(figure, Histogram):
        return table([figure.x_title, count("queries")], [[one.text, one.count] for one in figure.bins])
    return table(["what", "value", ""], [[tile.name, tile.text, tile.detail] for tile in figure.tiles])


def _at(series: Series, x: float) -> Cell:
    if x not in series.x:
        return None
    i = list(series.x).index(x)
    y = series.y[i]
    if y is None or series.low is None or series.high is None:
        return y
    low, high = series.low[i], series.high[i]
    return Interval(f"{y:.4f} {interval(low, high)}", y, low, high)


def without_repeats(blocks: Sequence[Block]) -> list[Block]:
    """Blocks for text output: leaves out pictures whose numbers are also in a table."""
    return [block for block in blocks if not (isinstance(block, Figure) and block.told)]


def write_cell(value: Cell, style: str) -> str:
    """A cell as text: scores with four decimals, quantities with one, None as a dash.

    >>> write_cell(0.65092, "score"), write_cell(None, "score"), write_cell(12, "count")
    ('0.6509', '–', '12')
    """
    if isinstance(value, str):
        return value
    if value is None:
        return "–"
    if isinstance(value, (Interval, Link)):
        return value.text
    if style == "score":
        return f"{value:.4f}"
    if style == "quantity":
        return f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def is_unbroken(table: Table, column: int) -> bool:
    """Whether all cells are numbers or intervals, which must not wrap."""
    if table.rows and all(isinstance(row[column], Interval) for row in table.rows):
        return True
    style = table.columns[column].style
    cells = (write_cell(row[column], style) for row in table.rows)
    return is_numeric(table, column) or all(map(_NUMBERS.fullmatch, cells))


def is_numeric(table: Table, column: int) -> bool:
    """Whether a column holds numbers, which are right-aligned."""
    if table.columns[column].style != "text":
        return True
    values = [row[column] for row in table.rows if row[column] is not None]
    cells = (write_cell(value, "text") for value in values)
    return bool(values) and all(c == "–" or _NUMBER.fullmatch(c) for c in cells)
