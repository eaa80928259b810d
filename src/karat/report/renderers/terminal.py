"""A report for a terminal, at most 100 columns wide."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text as RichText

from karat.errors import no_commands
from karat.report.blocks import (
    Block,
    Example,
    Figure,
    Listing,
    Report,
    Section,
    Table,
    Text,
    Verdict,
    is_numeric,
    is_unbroken,
    listing_table,
    write_cell,
)
from karat.report.figures import as_table, without_repeats
from karat.report.readable import QUERY, readable

WIDTH = 100
_GAP = 3  # between two columns
_NAME = 32  # letters of a name at the start of a row
_TEXT = 12  # what a column of text can be folded to
_MARKS = {"pass": "✓ pass", "fail": "✗ fail", "inconclusive": "? inconclusive", "invalid": "! invalid"}
_STYLES = {"note": "dim", "warning": "yellow", "plain": ""}


def print_report(report: Report, console: Console) -> None:
    with console.capture() as shown:
        console.print(RichText(clean(report.title), style="bold"))
        for section in report.sections:
            console.print(_section(section))
    # Only now is it known what stands at the start of a line.
    console.file.write(no_commands(shown.get()))


class _Console(Console):
    """rich ends the process with code 1 when its reader goes away; that is the command line's to decide."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def terminal_console() -> Console:
    """Standard output: as wide as the terminal, but never over 100 columns; plain when it is no terminal."""
    console = _Console(highlight=False, soft_wrap=False)
    console.width = min(console.width, WIDTH) if console.is_terminal else WIDTH
    return console


def clean(text: str) -> str:
    """Text from data without control characters, so that it cannot move the cursor or colour the screen."""
    return "".join(c if c.isprintable() or c == "\n" else "�" for c in text)


def _section(section: Section) -> RenderableType:
    heading = RichText(f"\n{clean(section.title)}", style="bold underline")
    parts: list[RenderableType] = [heading]
    blocks = without_repeats(section.blocks)
    for before, block in zip([None, *blocks], blocks, strict=False):
        if isinstance(before, (Table, Figure)) and isinstance(block, (Table, Figure)):
            parts.append("")
        parts.append(_block(block))
    return Group(*parts)


def _block(block: Block) -> RenderableType:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Text):
        return RichText(clean(block.text), style=_STYLES[block.kind])
    if isinstance(block, Verdict):
        return RichText(f"{_MARKS[block.outcome]}  {clean(block.title)}: {clean(block.reason)}")
    if isinstance(block, Example):
        return _example(block)
    if isinstance(block, Listing):
        return _table(listing_table(block))
    # A terminal has no lines worth reading, but the numbers are.
    return Group(RichText(clean(block.title), style="italic"), _table(as_table(block)))


def _example(block: Example) -> RenderableType:
    facts = [f"{name} {write_cell(value, 'score')}" for name, value in block.facts.items()]
    labels = [f"{name} {readable(value, QUERY)}" for name, value in block.labels.items()]
    parts: list[RenderableType] = [
        "",
        RichText(clean(f"{readable(block.query_id, QUERY)}  {readable(block.query or '', QUERY)}"), style="bold"),
        RichText(clean("  ".join(filter(None, [block.outcome, *facts, *labels]))), style="dim"),
        *(RichText(clean(note)) for note in block.notes),
    ]
    for listing in block.listings:
        parts += ["", _table(listing_table(listing))]
    return Group(*parts)


def _table(block: Table) -> RenderableType:
    fitting = _Fitting(block)
    return Group(fitting, RichText(clean(block.note), style="dim")) if block.note else fitting


class _Fitting:
    """A table that a narrow terminal cuts into several, each with the first column, rather than cut its numbers."""

    def __init__(self, block: Table) -> None:
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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        for i, columns in enumerate(self._parts(options.max_width)):
            if i:
                yield RichText("")
            yield self._part(columns, options.max_width)

    def _parts(self, width: int) -> list[list[int]]:
        """Which columns stand together: as many as fit beside the first."""
        parts = [[0]]
        used = first = self._needs(0, width)
        for column in range(1, len(self._titles)):
            used += _GAP + self._needs(column, width)
            if used > width and len(parts[-1]) > 1:
                parts.append([0])
                used = first + _GAP + self._needs(column, width)
            parts[-1].append(column)
        return parts

    def _needs(self, column: int, width: int) -> int:
        """The columns of the terminal without which it cannot be read: all of a number, a few words of a text."""
        longest = max(map(cell_len, [self._titles[column], *(row[column] for row in self._rows)]))
        return longest if self._unbroken[column] else min(longest, width // 3 if column == 0 else _TEXT)

    def _part(self, columns: list[int], width: int) -> RenderableType:
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, expand=False)
        for i in columns:
            table.add_column(
                escape(self._titles[i]),
                justify="right" if self._numeric[i] else "left",
                no_wrap=self._unbroken[i],
                overflow="fold",
                min_width=min(self._needs(i, width), width),
            )
        for row in self._rows:
            table.add_row(*(escape(row[i]) for i in columns))
        return table


def _middle_out(text: str) -> str:
    """A long name without its middle: what tells it from others is at either end."""
    half = _NAME // 2
    return text if len(text) <= _NAME else f"{text[: half - 1]}…{text[-half:]}"
