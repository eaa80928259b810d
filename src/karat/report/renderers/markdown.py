"""Renders a report as Markdown. Text from data is escaped: it cannot start a table, a link, HTML or a mention."""

from __future__ import annotations

import re

from karat.errors.redaction import redact_all
from karat.report.blocks import Block, Example, Listing, Report, Table, Text, Verdict
from karat.report.cells import as_table, listing_table, without_repeats, write_cell
from karat.report.readable import QUERY, readable

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|<>~$&-])")
# What hosts turn into links after parsing Markdown, so that escapes do not help. Not recall@5.
_LIVE = re.compile(
    r"(?<!\w)@|@(?=[\w.-]*[^\W\d])|[#!$&](?=\d)|[%~](?=[\w\"])|\bGH-(?=\d)|\bwww(?=\.)|:(?=//)|\b(?:mailto|xmpp)(?=:)",
    re.I,
)
# The id of a chunk with a number, such as doc_1#12.
_ID = re.compile(r"(?<![^\s,(])([\w./:-]*\w#\d[\w./:#-]*)(?![^\s,)])")
MARKS = {"pass": "✅", "fail": "❌", "inconclusive": "❔", "invalid": "⚠️", "not checked": "➖"}


def render_markdown(report: Report) -> str:
    report = redact_all(report)
    parts = [f"# {safe(report.title)}"]
    for section in report.sections:
        parts.append(f"## {safe(section.title)}")
        parts += [_block(b) for b in without_repeats(section.blocks)]
    return "\n\n".join(parts) + "\n"


def safe(text: str) -> str:
    """Escapes one line of text so that Markdown shows it unchanged.

    An id that a host would take for a reference becomes code: it can be copied unchanged.

    >>> safe("<b>| @all [x](y)"), safe("doc_1#12, doc_1#p2")
    ('\\\\<b\\\\>\\\\| @\\u200ball \\\\[x\\\\]\\\\(y\\\\)', '`doc_1#12`, doc\\\\_1\\\\#p2')
    """
    return "".join(f"`{part}`" if at % 2 else _escaped(part) for at, part in enumerate(_ID.split(text)))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", inert(text))


def inert(text: str) -> str:
    """Returns one line without control characters, mentions, references or links.

    >>> inert("see #12,\\nwww.example.com"), inert("recall@5 of doc#p1")
    ('see #\\u200b12, www\\u200b.example.com', 'recall@5 of doc#p1')
    """
    line = "".join(c if c.isprintable() else " " for c in text)
    return _LIVE.sub("\\g<0>\u200b", line)


def _block(block: Block) -> str:
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Text):
        return safe(block.text)
    if isinstance(block, Verdict):
        return f"**{MARKS[block.outcome]} {block.outcome}** {safe(block.title)}: {safe(block.reason)}"
    if isinstance(block, Example):
        return _example(block)
    if isinstance(block, Listing):
        return _table(listing_table(block))
    return f"**{safe(block.title)}**\n\n{_table(as_table(block))}"


def _example(block: Example) -> str:
    facts = [f"{safe(n)} {safe(write_cell(v, 'score'))}" for n, v in block.facts.items()]
    labels = [f"{safe(n)} {safe(v)}" for n, v in block.labels.items()]
    said = ", ".join(filter(None, [safe(block.outcome), *facts, *labels]))
    parts = [f"**{safe(block.query_id)}** {safe(readable(block.query or '', QUERY))} ({said})"]
    parts += [safe(note) for note in block.notes]
    return "\n\n".join([*parts, *(_table(listing_table(listing)) for listing in block.listings)])


def _table(table: Table) -> str:
    cells = [[write_cell(v, c.style) for v, c in zip(r, table.columns, strict=True)] for r in table.rows]
    lines = [_row([c.title for c in table.columns]), "|" + " --- |" * len(table.columns), *map(_row, cells)]
    return "\n".join(lines) + (f"\n\n{safe(table.note)}" if table.note else "")


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(safe(c) for c in cells) + " |"
