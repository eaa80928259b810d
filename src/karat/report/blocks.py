"""The blocks of a report. They hold finished text and numbers; renderers only lay them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

Range: TypeAlias = tuple[float, float]
TextKind: TypeAlias = Literal["plain", "note", "warning"]


class Interval(msgspec.Struct, frozen=True, tag="interval"):
    """A cell with a value and its limits: shown as text, and as a small bar on pages."""

    text: str
    value: float | None = None
    low: float | None = None
    high: float | None = None


class Link(msgspec.Struct, frozen=True, tag="link"):
    """A cell that links to a section of the same report: the first of `to` that exists. Without a text, it shows the
    title of that section."""

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
    scale: Range | None = None  # ends of the bars of its intervals


class Table(msgspec.Struct, frozen=True, tag="table"):
    """Rows of cells; None is shown as a dash.

    `layout`: a grid of comparable rows; facts, with a name and a value per row; or a card, with facts under their
    own heading.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str | None = None
    layout: Literal["grid", "facts", "card"] = "grid"
    intervals: str = ""  # kind of intervals in its cells, if a page must explain them


class Series(msgspec.Struct, frozen=True):
    """One line of a chart, with an optional band."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None


class Mark(msgspec.Struct, frozen=True):
    """A labelled place on the x axis, such as the knee of a curve."""

    x: float
    text: str


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """A picture of numbers; shown as a table where nothing can be drawn."""

    told: bool = False  # a table next to it has the same numbers: left out where it cannot be drawn


class Chart(Figure, frozen=True, tag="chart"):
    """Lines over a number, such as recall over k."""

    title: str
    x_title: str
    y_title: str
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    x_scale: Literal["linear", "log", "time"] = "linear"  # time: seconds since 1970
    y_range: Range | None = None  # default: the range of the lines
    x_words: Sequence[str] = ()  # labels for 1, 2, 3 … on the x axis, such as days


class Dot(msgspec.Struct, frozen=True):
    """A row of dots: a value with whiskers, and the values it is compared with."""

    name: str
    value: Interval
    others: Sequence[float | None] = ()


class Dots(Figure, frozen=True, tag="dots"):
    """Values with their intervals, one below the other on one axis."""

    title: str
    x_title: str
    rows: Sequence[Dot]
    scale: Range
    others: Sequence[str] = ()  # what else each row shows, such as a baseline


class Bar(msgspec.Struct, frozen=True):
    """A piece of a bar; pieces with the same name share a row."""

    name: str
    start: float
    end: float
    kind: int  # index into the kinds
    text: str


class Bars(Figure, frozen=True, tag="bars"):
    """Stacked bars, or a waterfall in which each bar begins where the previous one ends."""

    title: str
    x_title: str
    kinds: Sequence[str]
    bars: Sequence[Bar]
    scale: Range


class Spot(msgspec.Struct, frozen=True, omit_defaults=True):
    """Queries that have the same two values."""

    x: float
    y: float
    count: int
    kind: Literal["gained", "lost", "same"]
    link: str = ""  # a page of the dashboard about these queries
    name: str = ""  # of the only query


class Scatter(Figure, frozen=True, tag="scatter"):
    """One value against another, both on the same scale."""

    title: str
    x_title: str
    y_title: str
    spots: Sequence[Spot]
    scale: Range


class Bin(msgspec.Struct, frozen=True):
    """Values from `low` to below `high`."""

    low: float
    high: float
    count: int
    text: str


class Histogram(Figure, frozen=True, tag="histogram"):
    """How many queries have which value."""

    title: str
    x_title: str
    bins: Sequence[Bin]  # from left to right, without gaps; all of one width, except perhaps the last


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
    whole: bool = False  # the overall decision
    to: Sequence[str] = ()  # the section that explains it: the first of these names that exists


MOVED = "rank"  # fact of a line: its ranks in two runs, in words


class Line(msgspec.Struct, frozen=True):
    """One line of a list; `marks`: ranges (from, to) of the text to highlight."""

    place: str
    id: str
    state: Literal["hit", "miss", "unjudged"] | None = None
    facts: dict[str, Cell] = {}
    text: str | None = None
    marks: Sequence[tuple[int, int]] = ()


class Listing(msgspec.Struct, frozen=True, tag="listing"):
    """A list of hits or of expected items. Lists of one example are shown side by side; a list outside of an example
    holds the texts that several examples share."""

    title: str
    lines: Sequence[Line]
    note: str | None = None


class Example(msgspec.Struct, frozen=True, tag="example"):
    """One query with its details. Readers can filter by `labels`; `outcome` is shown first."""

    query_id: str
    query: str | None
    facts: dict[str, Cell]
    labels: dict[str, str] = {}
    notes: Sequence[str] = ()
    listings: Sequence[Listing] = ()
    outcome: str = ""
    brief: bool = False  # one of many: its texts may be cut
    alone: bool = False  # the only one of its page: open, and not to be searched


Picture: TypeAlias = Chart | Dots | Bars | Scatter | Histogram | Tiles
Block: TypeAlias = Text | Table | Picture | Verdict | Example | Listing


class Section(msgspec.Struct, frozen=True):
    name: str
    title: str
    blocks: Sequence[Block]
    part: str = ""  # sections of the same part share a heading, such as a system


class Report(msgspec.Struct, frozen=True):
    title: str
    sections: Sequence[Section]
    facts: dict[str, Any] = {}
    page_title: str = ""  # title of a page, with names instead of paths
