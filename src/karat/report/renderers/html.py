"""Renders a report as one self-contained page that is readable without a server, scripts or colour."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any

import msgspec
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from karat.errors.redaction import redact_all
from karat.report.blocks import (
    MOVED,
    SIGNS,
    Block,
    Cell,
    Column,
    Example,
    Interval,
    Line,
    Link,
    Listing,
    Report,
    Section,
    Table,
    Verdict,
)
from karat.report.cells import as_table, is_numeric, is_unbroken, write_cell
from karat.report.charts import draw, draw_spark
from karat.report.overview import explained_once
from karat.report.readable import LONGEST, NAME, QUERY, is_verbatim, readable, safe, short_name

_ROWS = 200  # of a table
_CELL = 500  # characters
_TEXT = 30  # characters above which a text column needs room
_STATE = {"hit": " class=hit>✓", "miss": ">✗", "unjudged": ">?", None: ">"}  # never colour alone
_HASHES, _HASH = re.compile(r"\b[0-9a-f]{32,}\b"), 12
_WEIGHED: dict[int, tuple[Example, str]] = {}  # by identity: queries that were weighed and not yet rendered
_SHOWN_BY = {
    "chart": "figure",
    "dots": "figure",
    "bars": "figure",
    "scatter": "figure",
    "histogram": "figure",
}  # default: a macro of the same name


def render_html(report: Report, command: str = "") -> bytes:
    """Renders a page. `command`: the command that made the report, so that it can be repeated."""
    from karat import __version__

    page = environment().get_template("page.html")
    style, script = asset("style.css"), asset("script.js")
    try:
        return page.render(
            title=report.page_title or report.title,
            facts={**report.facts, "Karat": __version__, **({"made with": command} if command else {})},
            parts=_parts(report.sections),
            style=Markup(style),  # Karat's own file
            script=Markup(script),
            policy=_policy(style, script),
        ).encode()
    finally:
        _WEIGHED.clear()


def block_weight(block: Block) -> int:
    """Size of a block on a page in bytes. The HTML of examples is kept until it is rendered."""
    if isinstance(block, Example):
        _WEIGHED[id(block)] = (block, _inside_example(block))
    return len(str(_shown(block, "", "section-1-1000", 3)).encode())


def _policy(style: str, script: str) -> str:
    """Content security policy that allows nothing but this style and script."""
    own = (f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (style, script))
    allowed = "style-src {}; script-src {}".format(*own)
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


class Placed(msgspec.Struct, frozen=True):
    """A section with a unique id on its page."""

    id: str
    title: str
    blocks: Sequence[Block] = ()


def place(sections: Iterable[Section]) -> list[Placed]:
    """Sections of one page, with links to each other, and each kind of interval explained once."""
    return [section for part in _parts(redact_all([*sections])) for section in part["sections"]]


def _parts(sections: Sequence[Section]) -> list[dict[str, Any]]:
    taken: Counter[str] = Counter()
    parts = []
    for title, group in groupby(explained_once(sections), lambda section: section.part):
        name = _unique(title, taken) if title else ""
        parts.append((title, name, [(_unique(section.name, taken), section) for section in group]))
    everywhere = {s.name: Placed(at, s.title) for _, _, part in reversed(parts) for at, s in reversed(part)}
    shown = []
    for title, name, part in parts:
        there = everywhere | {s.name: Placed(at, s.title) for at, s in reversed(part)}
        placed = [Placed(at, s.title, [_linked(block, there) for block in s.blocks]) for at, s in part]
        shown.append({"id": name, "title": title, "sections": placed})
    return shown


def _linked(block: Block, there: Mapping[str, Placed]) -> Block:
    """Replaces section names with ids on this page, and drops links to sections that are not on it."""
    if isinstance(block, Verdict) and block.to:
        return msgspec.structs.replace(block, to=[place.id for place in _found(block.to, there)])
    if not isinstance(block, Table) or not any(isinstance(cell, Link) for row in block.rows for cell in row):
        return block
    rows = [[_link(cell, there) if isinstance(cell, Link) else cell for cell in row] for row in block.rows]
    return msgspec.structs.replace(block, rows=rows)


def _link(link: Link, there: Mapping[str, Placed]) -> Link:
    found = _found(link.to, there)
    return Link([place.id for place in found], link.text or "".join(place.title for place in found))


def _found(names: Sequence[str], there: Mapping[str, Placed]) -> list[Placed]:
    """The first of the sections that is on the page, if any."""
    return [there[name] for name in names if name in there][:1]


def _unique(name: str, taken: Counter[str]) -> str:
    slug = _slug(name)
    taken[slug] += 1
    return slug if taken[slug] == 1 else f"{slug}--{taken[slug]}"  # no slug contains two dashes in a row


def _slug(name: str) -> str:
    """
    >>> _slug("Bm25 + rerank"), _slug("<>")
    ('bm25-rerank', 'part')
    """
    return re.sub(r"[^a-z0-9]+", "-", name[:NAME].lower()).strip("-") or "part"


@cache
def environment() -> Environment:
    """The template environment for blocks; the dashboard uses it too."""
    made = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_finished,  # applies to all text from data
    )
    made.filters.update(
        words=_words,
        line=lambda text: readable(text, NAME).replace("\n", " "),
        query=lambda text: readable(text, QUERY).replace("\n", " "),
        slug=_slug,
        cell=lambda value, style: readable(write_cell(value, style), _CELL),
        said=_said,
        hashes=lambda text: with_short_hashes(readable(text, NAME)),
        rows=_rows,
        gathered=_gathered,
        kind=_kind,
        draw=draw,
        as_table=as_table,
        looks=lambda table: [_look(table, i) for i in range(len(table.columns))],
        texts=_texts,
    )
    made.globals.update(signs=SIGNS, most_rows=_ROWS, show=_shown)
    return made


def _shown(block: Block, *place: str | int) -> Markup:
    """Renders a block with the macro for its kind. Examples have none, for speed: a page has a thousand of them."""
    if isinstance(block, Example):
        return _example(block, str(place[1]))
    macro = getattr(_macros(), _SHOWN_BY.get(_kind(block), _kind(block)))
    return Markup(macro(block, *place))  # escaped by the template


@cache
def _macros() -> object:
    return environment().get_template("blocks.html").module


@cache
def asset(name: str) -> str:
    return resources.files("karat.report").joinpath("page", name).read_text(encoding="utf-8")


def _kind(block: Block) -> str:
    return str(block.__struct_config__.tag)


def _finished(value: Any) -> Any:
    return readable(value) if type(value) is str else value  # Markup is escaped already


def _words(text: str) -> Markup:
    """Escapes text and marks up `code` in it."""
    escaped = str(escape(readable(text)))
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escaped))  # escaped above


def _said(value: Cell) -> Markup:
    """A fact as text, with a link if it has one."""
    text = with_short_hashes(_words(readable(write_cell(value, "text"), _CELL)))
    return Markup('<a href="#{}">{}</a>').format(value.to[0], text) if isinstance(value, Link) and value.to else text


def with_short_hashes(text: str) -> Markup:
    """Escapes text and shortens hashes; the full hash is in a tooltip.

    >>> with_short_hashes("sha256:" + "ab" * 32)[:32], with_short_hashes("f00d1234")
    (Markup('sha256:<abbr title="abababababab'), Markup('f00d1234'))
    """
    return Markup(_HASHES.sub(lambda m: f'<abbr title="{m[0]}">{m[0][:_HASH]}…</abbr>', str(escape(text))))


def _look(table: Table, column: int) -> str:
    """The class of a column: n for numbers, u for cells that must not wrap, t for long text."""
    if is_numeric(table, column):
        return "n"
    if is_unbroken(table, column):
        return "u"
    longest = max((len(write_cell(row[column], "text")) for row in table.rows), default=0)
    return "t" if column and longest > _TEXT else ""


def _rows(table: Table, looks: list[str]) -> Markup:
    """The rows of a table; the first cell of each is its heading. Made here because a report has thousands of cells."""
    tags = []
    for i, (column, look) in enumerate(zip(table.columns, looks, strict=True)):
        name, place = ("th", ' scope="row"') if i == 0 else ("td", "")
        direction = ' dir="auto"' if look in ("", "t") else ""
        tags.append((f"<{name}{place}" + (f' class="{look}"' if look else "") + direction, f"</{name}>", column))
    made = []
    for row in table.rows[:_ROWS]:
        made.append("<tr>")
        for value, (begin, end, column) in zip(row, tags, strict=True):
            if isinstance(value, str):
                made.append(f"{begin}>{safe(value, _CELL)}{end}")
            elif value is None:
                made.append(f"{begin}>–{end}")
            elif isinstance(value, float):  # needs no escaping, like other numbers
                made.append(f'{begin} data-v="{value!r}">{write_cell(value, column.style)}{end}')
            else:
                made.append(f"{begin}{_sort_key(value)}>{_inside(value, column)}{end}")
        made.append("</tr>\n")
    return Markup("".join(made))  # text is escaped by _inside


def _listed(listing: Listing) -> Markup:
    """A list of a query, in compact HTML because a page has thousands of lines. If there is only one kind of fact, the
    title names it, except for ranks in two runs."""
    facts = {name for line in listing.lines for name in line.facts}
    only = facts.pop() if len(facts) == 1 and facts != {MOVED} else None
    title = f"{listing.title}, by {only}" if only else listing.title
    made = "".join(f"<li{_STATE[line.state]}{_line(line, only)}\n" for line in listing.lines)
    note = f"<p class=note>{_words(listing.note)}</p>" if listing.note else ""
    return Markup(f"<div><p>{safe(title)}</p><ol>{made}</ol>{note}</div>")  # text is escaped


def _line(line: Line, only: str | None) -> str:
    """One line of a list. Tabs, which look like spaces, separate an id from the text around it, so that the script can
    look it up. An id that is not shown unchanged has no tabs and is not looked up."""
    gap, name = ("\t", line.id) if is_verbatim(line.id) else (" ", short_name(line.id))
    before = f" {safe(write_cell(line.facts[only], 'text'), _CELL)}" if only in line.facts else ""
    others = [
        str(v) if n == MOVED else f"{n} {write_cell(v, 'text')}"
        for n, v in line.facts.items()
        if n != only and v is not None
    ]
    after = f"{gap}{safe(', '.join(others), _CELL)}" if others else ""
    text = f"<p>{marked(line.text, line.marks)}" if line.text else ""
    return f"{before}{gap}{safe(name)}{after}{text}"


def _texts(listing: Listing) -> Markup:
    """The texts of passages that lists show by id only."""
    lines = ((safe(line.place), safe(line.id), marked(line.text or "", ())) for line in listing.lines)
    made = "".join(f"<li>{place}\t{name}<p>{text}\n" for place, name, text in lines)
    return Markup(f"<ul>{made}</ul>")  # text is escaped


def _example(block: Example, place: str) -> Markup:
    """One query, in compact HTML because a page has a thousand of them."""
    known = _WEIGHED.get(id(block))
    inside = known[1] if known is not None and known[0] is block else _inside_example(block)
    look = '"example alone" open' if block.alone else "example"
    return Markup(f"<details class={look} id={place}>{inside}</details>\n")  # text is escaped


def _inside_example(block: Example) -> str:
    query = safe(block.query or "", QUERY).replace("\n", " ")
    outcome = f" <small>{safe(block.outcome)}</small>" if block.outcome else ""
    facts, labels = _pairs(block.facts), _pairs(block.labels)
    notes = "".join(f"<p class=note>{_words(note)}</p>" for note in block.notes)
    lists = f"<div class=listings>{''.join(map(_listed, block.listings))}</div>" if block.listings else ""
    summary = f"<summary><b>{safe(block.query_id, NAME)}</b> {query}{outcome}</summary>"
    return f"{summary}\n<dl>{facts}</dl><dl>{labels}</dl>{notes}{lists}"


def _pairs(pairs: Mapping[str, Cell]) -> str:
    shown = ((name, write_cell(value, "score")) for name, value in pairs.items())
    return "".join(f"<dt>{safe(name, NAME)}<dd>{safe(value, NAME)}" for name, value in shown)


def marked(text: str, marks: Sequence[tuple[int, int]], longest: int = LONGEST) -> Markup:
    """Returns the text with its marks; unreadable characters are replaced one by one, so that offsets stay valid."""
    end, parts = 0, []
    for start, stop in marks:
        parts += [safe(text[end:start], longest), f"<mark>{safe(text[start:stop])}</mark>"]
        end = stop
    return Markup("".join([*parts, safe(text[end:], longest)]))  # text is escaped


def _inside(value: Cell, column: Column) -> str:
    shown = safe(write_cell(value, column.style), _CELL)
    if isinstance(value, Link) and value.to:
        return f'<a href="#{value.to[0]}">{shown}</a>'
    if not isinstance(value, Interval) or column.scale is None or value.value is None:
        return shown
    return f'<span class="interval">{draw_spark(value, column.scale)}<span>{shown}</span></span>'


def _sort_key(value: Cell) -> str:
    """The number in a cell, if it has one."""
    number = value.value if isinstance(value, Interval) else value
    return f' data-v="{number!r}"' if isinstance(number, (int, float)) else ""


def _gathered(rows: Sequence[Sequence[Cell]]) -> list[tuple[Cell, list[Cell]]]:
    """Groups facts by name: a row without a name belongs to the row before it."""
    found: list[tuple[Cell, list[Cell]]] = []
    for name, value in rows:
        if name or not found:
            found.append((name, [value]))
        else:
            found[-1][1].append(value)
    return found
