"""Renders a report for a terminal, at most 100 columns wide."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from karat.errors import no_commands
from karat.errors.redaction import redact_all
from karat.report.blocks import SIGNS, Block, Example, Figure, Listing, Report, Section, Table, Text, Verdict
from karat.report.cells import as_table, is_numeric, is_unbroken, listing_table, without_repeats, write_cell
from karat.report.readable import QUERY, readable
from karat.report.renderers.columns import cells_of, cut, shared_width, wrapped

Style: TypeAlias = Literal["plain", "title", "heading", "caption", "note", "warning"]
Lines: TypeAlias = Iterator[tuple[str, Style]]

WIDTH = 100
_GAP = 3  # between two columns
_NAME = 32  # characters of a name at the start of a row
_TEXT = 12  # smallest width of a text column
_CODES: Mapping[Style, str] = {"title": "1", "heading": "1;4", "caption": "3", "note": "2", "warning": "33"}


def render_terminal(report: Report, width: int = WIDTH, codes: Mapping[Style, str] | None = None) -> str:
    """Renders a report as lines of text; `codes`: ANSI codes of the styles, if the output can show them."""
    report = redact_all(report)
    lines = [*_text(report.title, width, "title")]
    for section in report.sections:
        lines += _section(section, width)
    shown = (
        f"\033[{code}m{line}\033[0m" if (code := (codes or {}).get(style)) and line else line for line, style in lines
    )
    # Only now are the starts of lines known.
    return no_commands("".join(f"{line}\n" for line in shown))


def _styled(line: str, code: str | None) -> str:
    return f"\033[{code}m{line}\033[0m" if line and code else line


def terminal_width() -> int:
    """The width of the terminal, at most 100 columns; 100 if the output is not a terminal."""
    if not _is_terminal():
        return WIDTH
    from shutil import get_terminal_size  # slow to import

    return min(get_terminal_size().columns, WIDTH)


def terminal_codes() -> dict[Style, str]:
    """The styles that standard output can show: none if it is not a terminal, no colours if NO_COLOR is set."""
    if not _is_terminal() or os.environ.get("TERM", "").lower() in ("dumb", "unknown"):
        return {}
    return {style: code for style, code in _CODES.items() if style != "warning" or not os.environ.get("NO_COLOR")}


def _is_terminal() -> bool:
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def clean(text: str) -> str:
    """Text from data without control characters, so that it cannot move the cursor or colour the screen."""
    return text if text.isprintable() else "".join(c if c.isprintable() or c == "\n" else "�" for c in text)


def _text(text: str, width: int, style: Style = "plain") -> Lines:
    # A hint ends in a command to paste, so it stays on one line; the terminal folds it.
    prose, hint, command = clean(text).partition("\nhint: ")
    lines = [*wrapped(prose, width), *(f"hint: {command}".split("\n") if hint else ())]
    return ((line, style) for line in lines)


def _section(section: Section, width: int) -> Lines:
    yield "", "plain"
    yield from _text(section.title, width, "heading")
    blocks = without_repeats(section.blocks)
    for before, block in zip([None, *blocks], blocks, strict=False):
        if isinstance(before, (Table, Figure)) and isinstance(block, (Table, Figure)):
            yield "", "plain"
        yield from _block(block, width)


def _block(block: Block, width: int) -> Lines:
    if isinstance(block, Table):
        yield from _table(block, width)
    elif isinstance(block, Text):
        yield from _text(block.text, width, block.kind)
    elif isinstance(block, Verdict):
        yield from _text(f"{SIGNS[block.outcome]} {block.outcome}  {block.title}: {block.reason}", width)
    elif isinstance(block, Example):
        yield from _example(block, width)
    elif isinstance(block, Listing):
        yield from _table(listing_table(block), width)
    else:  # pictures are shown as tables of their numbers
        yield from _text(block.title, width, "caption")
        yield from _table(as_table(block), width)


def _example(block: Example, width: int) -> Lines:
    facts = [f"{name} {write_cell(value, 'score')}" for name, value in block.facts.items()]
    labels = [f"{name}: {readable(value, QUERY)}" for name, value in block.labels.items()]
    yield "", "plain"
    yield from _text(f"{readable(block.query_id, QUERY)}  {readable(block.query or '', QUERY)}", width, "title")
    yield from _text("  ".join(filter(None, [block.outcome, *facts, *labels])), width, "note")
    for note in block.notes:
        yield from _text(note, width)
    for listing in block.listings:
        yield "", "plain"
        yield from _table(listing_table(listing), width)


def _table(block: Table, width: int) -> Lines:
    yield from _Fitting(block, width).lines()
    if block.note:
        yield from _text(block.note, width, "note")


class _Fitting:
    """Splits a table into several on a narrow terminal, each with the first column, instead of cutting numbers."""

    def __init__(self, block: Table, width: int) -> None:
        self._width = width
        self._titles = [clean(c.title) for c in block.columns]
        self._rows = [
            [clean(write_cell(v, c.style)) for v, c in zip(row, block.columns, strict=True)] for row in block.rows
        ]
        if len(block.columns) > 3:  # a long name must not push the numbers off the screen
            for cells in (self._titles, *self._rows):
                cells[0] = _middle_out(cells[0])
        columns = range(len(block.columns))
        self._numeric = [is_numeric(block, i) for i in columns]
        self._unbroken = [is_unbroken(block, i) for i in columns]
        every = zip(*(self._titles, *self._rows), strict=True)
        self._longest = [max(cells_of(line) for cell in cells for line in cell.split("\n")) for cells in every]

    def lines(self) -> Lines:
        for i, columns in enumerate(self._parts()):
            if i:
                yield "", "plain"
            yield from self._part(columns)

    def _parts(self) -> list[list[int]]:
        """Groups of columns: as many as fit next to the first."""
        parts = [[0]]
        used = first = self._needs(0)
        for column in range(1, len(self._titles)):
            used += _GAP + self._needs(column)
            if used > self._width and len(parts[-1]) > 1:
                parts.append([0])
                used = first + _GAP + self._needs(column)
            parts[-1].append(column)
        return parts

    def _needs(self, column: int) -> int:
        """The smallest readable width: all of a number, a few words of a text."""
        longest = self._longest[column]
        return longest if self._unbroken[column] else min(longest, self._width // 3 if column == 0 else _TEXT)

    def _part(self, columns: Sequence[int]) -> Lines:
        sizes = self._sizes(columns)
        for line in self._row(self._titles, sizes, above=True):
            yield line, "title"
        yield cut("─" * (sum(sizes.values()) + _GAP * (len(sizes) - 1)), self._width), "plain"
        for row in self._rows:
            for line in self._row(row, sizes):
                yield line, "plain"

    def _sizes(self, columns: Sequence[int]) -> dict[int, int]:
        """The width of each column: that of its cells, or less if they do not fit. Columns without room are dropped."""
        last, room = len(columns) - 1, self._width - (len(columns) - 1)
        gaps = [(place > 0) + (place < last) for place in range(len(columns))]  # one side of each gap
        whole = [min(self._longest[i] + gap, room) for i, gap in zip(columns, gaps, strict=True)]
        fits = shared_width(whole, [not self._unbroken[i] for i in columns], room)
        return {
            i: max(size - gap, min(self._needs(i), self._width))
            for i, size, gap in zip(columns, fits, gaps, strict=True)
            if size or not self._longest[i]
        }

    def _row(self, cells: Sequence[str], sizes: Mapping[int, int], above: bool = False) -> Iterator[str]:
        """The lines of a row; one, unless a cell is folded. `above`: short cells are aligned to the bottom."""
        folded = [
            cells[i].split("\n") if self._unbroken[i] else wrapped(cells[i], max(size, 1)) for i, size in sizes.items()
        ]
        height = max(map(len, folded))
        for (i, size), lines in zip(sizes.items(), folded, strict=True):
            empty = [""] * (height - len(lines))
            lines[:] = [_padded(line, size, self._numeric[i]) for line in (empty + lines if above else lines + empty)]
        for line in zip(*folded, strict=True):
            yield cut((" " * _GAP).join(line), self._width)


def _padded(text: str, size: int, numeric: bool) -> str:
    shown = cut(text.rstrip() if numeric else text, size)
    space = " " * (size - cells_of(shown))
    return space + shown if numeric else shown + space


def _middle_out(text: str) -> str:
    """Cuts the middle out of a long name, because the ends distinguish it from others."""
    half = _NAME // 2
    return text if len(text) <= _NAME else f"{text[: half - 1]}…{text[-half:]}"
