"""A report as Markdown. Text from data is escaped: it cannot start a table, a link, HTML or a mention."""

from __future__ import annotations

import re
from collections.abc import Sequence

from karat.report.blocks import Block, Chart, Column, Example, Report, Table, Text, Verdict, listing_table, write_cell

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~$&-])")
# What hosts make a link of after Markdown was read, so that no escape keeps them from it. recall@5 is none.
_LIVE = re.compile(
    r"(?<!\w)@|@(?=[\w.-]*[^\W\d])|[#!$&](?=\d)|[%~](?=[\w\"])|\bGH-(?=\d)|\bwww(?=\.)|:(?=//)|\b(?:mailto|xmpp)(?=:)",
    re.I,
)
_MARKS = {"pass": "✅ pass", "fail": "❌ fail", "inconclusive": "❔ inconclusive", "invalid": "⚠️ invalid"}


def render_markdown(report: Report) -> str:
    parts = [f"# {safe(report.title)}"]
    for section in report.sections:
        parts.append(f"## {safe(section.title)}")
        parts += [_block(b) for b in section.blocks]
    return "\n\n".join(parts) + "\n"


def safe(text: str) -> str:
    """One line of text that Markdown shows as it is.

    >>> safe("<b>| @all [x](y)")
    '\\\\<b\\\\>\\\\| @\\u200ball \\\\[x\\\\]\\\\(y\\\\)'
    """
    return _SPECIAL.sub(r"\\\1", inert(text))


def inert(text: str) -> str:
    """One line without control characters in which nothing is a mention, a reference or a link.

    >>> inert("see #12,\\nwww.example.com"), inert("recall@5 of doc#p1")
    ('see #\\u200b12, www\\u200b.example.com', 'recall@5 of doc#p1')
    """
    line = "".join(c if c.isprintable() else " " for c in text)
    return _LIVE.sub("\\g<0>\u200b", line)


def _block(block: Block) -> str:
    if isinstance(block, Table):
        cells = [[write_cell(v, c.style) for v, c in zip(r, block.columns, strict=True)] for r in block.rows]
        return _table(block.columns, cells, block.note)
    if isinstance(block, Text):
        return safe(block.text)
    if isinstance(block, Verdict):
        return f"**{_MARKS[block.outcome]}** {safe(block.title)}: {safe(block.reason)}"
    if isinstance(block, Example):
        return _example(block)
    return _chart(block)


def _example(block: Example) -> str:
    facts = [f"{safe(n)} {safe(write_cell(v, 'score'))}" for n, v in block.facts.items()]
    labels = [f"{safe(n)} {safe(v)}" for n, v in block.labels.items()]
    parts = [f"**{safe(block.query_id)}** {safe(block.query or '')} ({', '.join([*facts, *labels])})"]
    parts += [safe(note) for note in block.notes]
    return "\n\n".join([*parts, *(_block(listing_table(listing)) for listing in block.listings)])


def _table(columns: Sequence[Column], rows: list[list[str]], note: str | None) -> str:
    titles = [c.title for c in columns]
    lines = [_row(titles), "|" + "|".join(" --- " for _ in titles) + "|", *(_row(r) for r in rows)]
    return "\n".join(lines) + (f"\n\n{safe(note)}" if note else "")


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(safe(c) for c in cells) + " |"


def _chart(block: Chart) -> str:
    columns = [Column(block.x_title), *(Column(s.name) for s in block.series)]
    xs = block.series[0].x if block.series else ()
    rows = [[f"{x:g}", *(write_cell(s.y[i], "score") for s in block.series)] for i, x in enumerate(xs)]
    return f"**{safe(block.title)}**\n\n" + _table(columns, rows, None)
