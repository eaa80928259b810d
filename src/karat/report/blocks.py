"""What a report is made of. Blocks hold finished text and numbers; renderers only lay them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from karat.errors import shorten

Cell: TypeAlias = str | float | int | None


class Text(msgspec.Struct, frozen=True, tag="text"):
    """A paragraph."""

    text: str
    kind: Literal["plain", "note", "warning"] = "plain"


class Column(msgspec.Struct, frozen=True):
    """A column: its heading, and how its numbers are written."""

    title: str
    style: Literal["text", "score", "count", "quantity"] = "text"
    help: str | None = None


class Table(msgspec.Struct, frozen=True, tag="table"):
    """Rows of cells; None is shown as a dash."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str | None = None


class Series(msgspec.Struct, frozen=True):
    """One line of a chart, with an optional band."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None


class Chart(msgspec.Struct, frozen=True, tag="chart"):
    """Lines over a number, such as recall over k."""

    title: str
    x_title: str
    y_title: str
    series: Sequence[Series]


class Verdict(msgspec.Struct, frozen=True, tag="verdict"):
    """A decision with its reason."""

    outcome: Literal["pass", "fail", "inconclusive", "invalid"]
    title: str
    reason: str


class Line(msgspec.Struct, frozen=True):
    """One place of a list; `marks`: places (from, to) in the text that the reader should see at once."""

    place: str
    id: str
    state: Literal["hit", "miss", "unjudged"] | None = None
    facts: dict[str, Cell] = {}
    text: str | None = None
    marks: Sequence[tuple[int, int]] = ()


class Listing(msgspec.Struct, frozen=True):
    """A list of hits, or of what should have been found. Those of one example stand side by side where they can."""

    title: str
    lines: Sequence[Line]
    note: str | None = None


class Example(msgspec.Struct, frozen=True, tag="example"):
    """One query with what is said of it. `labels` are what a reader may filter by."""

    query_id: str
    query: str | None
    facts: dict[str, Cell]
    labels: dict[str, str] = {}
    notes: Sequence[str] = ()
    listings: Sequence[Listing] = ()


Block: TypeAlias = Text | Table | Chart | Verdict | Example


class Section(msgspec.Struct, frozen=True):
    """Blocks under one heading."""

    name: str
    title: str
    blocks: Sequence[Block]


class Report(msgspec.Struct, frozen=True):
    """Everything that one command has to say."""

    title: str
    sections: Sequence[Section]
    facts: dict[str, Any] = {}


_LINE = 110  # letters of a hit's text in a table
_STATES = {"hit": "✓ hit", "miss": "✗ miss", "unjudged": "? unjudged", None: ""}  # never colour alone


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
            *(_STATES[line.state] for _ in states),
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
    if isinstance(value, str):
        return value
    if style == "score":
        return f"{value:.4f}"
    if style == "quantity":
        return f"{value:.1f}"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
