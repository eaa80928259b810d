"""What a report is made of. Blocks hold finished text and numbers; renderers only lay them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

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


class Example(msgspec.Struct, frozen=True, tag="example"):
    """One query with what is said of it."""

    query_id: str
    query: str | None
    facts: dict[str, Cell]


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
