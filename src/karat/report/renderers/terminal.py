"""A report for a terminal, at most 100 columns wide."""

from __future__ import annotations

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text as RichText

from karat.report.blocks import Block, Chart, Example, Report, Section, Table, Text, Verdict, write_cell

WIDTH = 100
_NAME = 36
_MARKS = {"pass": "✓ pass", "fail": "✗ fail", "inconclusive": "? inconclusive", "invalid": "! invalid"}
_STYLES = {"note": "dim", "warning": "yellow", "plain": ""}


def print_report(report: Report, console: Console) -> None:
    console.print(RichText(clean(report.title), style="bold"))
    for section in report.sections:
        console.print(_section(section))


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
    for before, block in zip([None, *section.blocks], section.blocks, strict=False):
        if isinstance(before, (Table, Chart)) and isinstance(block, (Table, Chart)):
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
        facts = "  ".join(f"{name} {write_cell(value, 'score')}" for name, value in block.facts.items())
        return RichText(clean(f"{block.query_id}  {block.query or ''}\n  {facts}"))
    return _chart(block)


def _table(block: Table) -> RenderableType:
    table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, expand=False)
    # A long name must not push the numbers off the screen.
    named = _middle_out if len(block.columns) > 3 else clean
    for i, column in enumerate(block.columns):
        numeric = column.style != "text" or _looks_numeric(block, i)
        table.add_column(
            escape((clean if i else named)(column.title)),
            justify="right" if numeric else "left",
            no_wrap=numeric or i == 0,
            overflow="fold" if i else "ellipsis",
        )
    for row in block.rows:
        first, *rest = (write_cell(v, c.style) for v, c in zip(row, block.columns, strict=True))
        table.add_row(escape(named(first)), *(escape(clean(cell)) for cell in rest))
    return Group(table, RichText(clean(block.note), style="dim")) if block.note else table


def _middle_out(text: str) -> str:
    """A long name without its middle: what tells it from others is at either end."""
    name, half = clean(text), _NAME // 2
    return name if len(name) <= _NAME else f"{name[: half - 1]}…{name[-half:]}"


def _looks_numeric(block: Table, column: int) -> bool:
    cells = [str(row[column]) for row in block.rows if row[column] is not None]
    return bool(cells) and all(c == "–" or (c[:1].isdigit() and c[-1:] in "0123456789s") for c in cells)


def _chart(block: Chart) -> RenderableType:
    """A chart's numbers as a table: a terminal has no lines worth reading."""
    table = RichTable(title=clean(block.title), box=box.SIMPLE_HEAD, show_edge=False)
    table.add_column(escape(clean(block.x_title)), justify="right")
    for series in block.series:
        table.add_column(escape(clean(series.name)), justify="right")
    for i, x in enumerate(block.series[0].x if block.series else ()):
        table.add_row(f"{x:g}", *(write_cell(s.y[i], "score") for s in block.series))
    return table
