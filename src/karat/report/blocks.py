"""What a report is made of. Blocks hold finished text and numbers; renderers only lay them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

Range: TypeAlias = tuple[float, float]
TextKind: TypeAlias = Literal["plain", "note", "warning"]


class Interval(msgspec.Struct, frozen=True, tag="interval"):
    """A cell with a value and its limits: text everywhere, and a small bar where one can be drawn."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


class Link(msgspec.Struct, frozen=True, tag="link"):
    """A cell that leads to a section of the same report, where there are links: to the first of `to` that is there.
    One without a text has the title of its section."""

    to: Sequence[str]  # names of sections
    text: str = ""


Cell: TypeAlias = str | float | int | Interval | Link | None


class Text(msgspec.Struct, frozen=True, tag="text"):
    text: str
    kind: TextKind = "plain"
    explains: str = ""  # a kind of interval; a page explains each kind once


class Column(msgspec.Struct, frozen=True):
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
    intervals: str = ""  # of which kind those in its cells are, where a page must explain them


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
    """A picture of numbers; where nothing can be drawn, a table of them."""

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
    name: str
    text: str
    detail: str = ""


class Tiles(Figure, frozen=True, tag="tiles"):
    title: str
    tiles: Sequence[Tile]


# never colour alone
SIGNS = {"pass": "✓", "fail": "✗", "inconclusive": "?", "invalid": "!", "not checked": "–"}


class Verdict(msgspec.Struct, frozen=True, tag="verdict"):
    outcome: Literal["pass", "fail", "inconclusive", "invalid", "not checked"]
    title: str
    reason: str
    whole: bool = False  # the decision over all others
    to: Sequence[str] = ()  # the section that explains it: the first of these names that is there


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
    name: str
    title: str
    blocks: Sequence[Block]
    part: str = ""  # sections of the same part stand under a heading of their own, such as a system


class Report(msgspec.Struct, frozen=True):
    title: str
    sections: Sequence[Section]
    facts: dict[str, Any] = {}
    page_title: str = ""  # a sentence with names, for a page where the title has paths
