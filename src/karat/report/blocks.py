"""What a report is made of. Blocks hold finished text and numbers; renderers only lay them out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from karat.errors import shorten

# One number, with what may stand in it and behind it; no list of ids, which may begin and end with digits as well.
_NUMBER = re.compile(r"\d(?:[\d./:→ +−-]|,(?! ))*(?:e[-+]?\d+)?(?: ?(?:ms|s|%))?")
_NUMBERS = re.compile(r"(?:[-+−–\d.%\s]|,(?! )|\[[-+−–\d.,%\s]*\]|ms|pp)+")  # 0.318 [0.27, 0.37]
Range: TypeAlias = tuple[float, float]


class Interval(msgspec.Struct, frozen=True, tag="interval"):
    """A cell with a value and its limits: text everywhere, and a small bar where one can be drawn."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


Cell: TypeAlias = str | float | int | Interval | None


class Text(msgspec.Struct, frozen=True, tag="text"):
    """A paragraph."""

    text: str
    kind: Literal["plain", "note", "warning"] = "plain"


class Column(msgspec.Struct, frozen=True):
    """A column: its heading, and how its numbers are written."""

    title: str
    style: Literal["text", "score", "count", "quantity"] = "text"
    help: str | None = None
    scale: Range | None = None  # where the bars of its intervals begin and end


class Table(msgspec.Struct, frozen=True, tag="table"):
    """Rows of cells; None is shown as a dash.

    `layout`: a grid of rows that can be compared; facts, a name and what is said of it in each row; or a card,
    facts under a heading of their own.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str | None = None
    layout: Literal["grid", "facts", "card"] = "grid"


class Series(msgspec.Struct, frozen=True):
    """One line of a chart, with an optional band."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None


class Mark(msgspec.Struct, frozen=True):
    """A place on the x axis that is worth a word, such as the knee of a curve."""

    x: float
    text: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of numbers; where nothing can be drawn, a table of them (`figures.py`)."""

    told: bool = False  # a table beside it has the same numbers: shown only where it can be drawn


class Chart(Figure, frozen=True, tag="chart"):
    """Lines over a number, such as recall over k."""

    title: str
    x_title: str
    y_title: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    x_scale: Literal["linear", "log"] = "linear"
    y_range: Range | None = None  # else as far as the lines go
    x_words: Sequence[str] = ()  # what 1, 2, 3 … on the x axis stand for, such as days


class Dot(msgspec.Struct, frozen=True):
    """A row of dots: a value with whiskers, and what it is held against."""

    name: str
    value: Interval
    others: Sequence[float | None] = ()


class Dots(Figure, frozen=True, tag="dots"):
    """Values with their intervals under each other on one axis."""

    title: str
    x_title: str
    rows: Sequence[Dot]
    scale: Range
    others: Sequence[str] = ()  # what else each row shows, such as a baseline


class Bar(msgspec.Struct, frozen=True):
    """A piece of a bar; pieces of the same name stand in one row."""

    name: str
    start: float
    end: float
    kind: int  # place among the kinds
    text: str


class Bars(Figure, frozen=True, tag="bars"):
    """Stacked bars; or a waterfall, where each begins at the end of the one before."""

    title: str
    x_title: str
    kinds: Sequence[str]
    bars: Sequence[Bar]
    scale: Range


class Spot(msgspec.Struct, frozen=True):
    """Queries that have the same two values."""

    x: float
    y: float
    count: int
    kind: Literal["gained", "lost", "same"]


class Scatter(Figure, frozen=True, tag="scatter"):
    """One value against another, both on the same scale."""

    title: str
    x_title: str
    y_title: str
    spots: Sequence[Spot]
    scale: Range


class Tile(msgspec.Struct, frozen=True):
    """One number for those who read only one."""

    name: str
    text: str
    detail: str = ""


class Tiles(Figure, frozen=True, tag="tiles"):
    """A few numbers in large type."""

    title: str
    tiles: Sequence[Tile]


class Verdict(msgspec.Struct, frozen=True, tag="verdict"):
    """A decision with its reason."""

    outcome: Literal["pass", "fail", "inconclusive", "invalid"]
    title: str
    reason: str
    whole: bool = False  # the decision over all others


class Line(msgspec.Struct, frozen=True):
    """One place of a list; `marks`: places (from, to) in the text that the reader should see at once."""

    place: str
    id: str
    state: Literal["hit", "miss", "unjudged"] | None = None
    facts: dict[str, Cell] = {}
    text: str | None = None
    marks: Sequence[tuple[int, int]] = ()


class Listing(msgspec.Struct, frozen=True, tag="listing"):
    """A list of hits, or of what should have been found. Those of one example stand side by side where they can; one
    that stands for itself holds the texts that several examples share."""

    title: str
    lines: Sequence[Line]
    note: str | None = None


class Example(msgspec.Struct, frozen=True, tag="example"):
    """One query with what is said of it. `labels` are what a reader may filter by; `outcome` is read first."""

    query_id: str
    query: str | None
    facts: dict[str, Cell]
    labels: dict[str, str] = {}
    notes: Sequence[str] = ()
    listings: Sequence[Listing] = ()
    outcome: str = ""
    brief: bool = False  # one of many: its texts may be short


Picture: TypeAlias = Chart | Dots | Bars | Scatter | Tiles
Block: TypeAlias = Text | Table | Picture | Verdict | Example | Listing


class Section(msgspec.Struct, frozen=True):
    """Blocks under one heading."""

    name: str
    title: str
    blocks: Sequence[Block]
    part: str = ""  # sections of the same part stand under a heading of their own, such as a system


class Report(msgspec.Struct, frozen=True):
    """Everything that one command has to say."""

    title: str
    sections: Sequence[Section]
    facts: dict[str, Any] = {}


_LINE = 110  # letters of a hit's text in a table
STATES = {"hit": "✓ hit", "miss": "✗ miss", "unjudged": "? unjudged", None: ""}  # never colour alone


def listing_table(listing: Listing) -> Table:
    """A list as a table, each text cut to a line or two."""
    facts = list(dict.fromkeys(name for line in listing.lines for name in line.facts))
    states = [Column("")] if any(line.state for line in listing.lines) else []
    places = [Column("#")] if any(line.place for line in listing.lines) else []
    columns = [*places, Column(listing.title), *states, *map(Column, facts), Column("text")]
    rows = [
        [
            *(line.place for _ in places),
            line.id,
            *(STATES[line.state] for _ in states),
            *(line.facts.get(name) for name in facts),
            shorten(line.text or "", _LINE),
        ]
        for line in listing.lines
    ]
    return Table(columns, rows, listing.note)


def write_cell(value: Cell, style: str) -> str:
    """A cell as text: scores with four decimals, quantities with one, None as a dash.

    >>> write_cell(0.65092, "score"), write_cell(None, "score"), write_cell(12, "count")
    ('0.6509', '–', '12')
    """
    if value is None:
        return "–"
    if isinstance(value, Interval):
        return value.text
    if isinstance(value, str):
        return value
    if style == "score":
        return f"{value:.4f}"
    if style == "quantity":
        return f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def is_unbroken(table: Table, column: int) -> bool:
    """Whether its cells are nothing but numbers, intervals among them, which no line may break."""
    cells = [write_cell(row[column], table.columns[column].style) for row in table.rows]
    return is_numeric(table, column) or all(map(_NUMBERS.fullmatch, cells))


def is_numeric(table: Table, column: int) -> bool:
    """Whether a column is read as numbers, which stand at its right edge."""
    if table.columns[column].style != "text":
        return True
    cells = [write_cell(row[column], "text") for row in table.rows if row[column] is not None]
    return bool(cells) and all(c == "–" or _NUMBER.fullmatch(c) for c in cells)
