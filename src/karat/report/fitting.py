"""A report cut to what a page may weigh: every query that fits with readable texts, and texts as long as there is room.

Only examples are cut, for nothing else grows with the queries. What many of them show is written once, at the end, and
they refer to it (docs/decisions/009).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from markupsafe import escape

from karat.highlight import Passage, cut
from karat.ids import Floats
from karat.report.blocks import Block, Cell, Example, Figure, Line, Listing, Report, Section, Text, write_cell
from karat.report.readable import QUERY

SIGNS = "✓ hit, ✗ miss (judged not relevant), ? not judged."
LIMIT = 1_490_000  # bytes of a page that is to stay under 1.5 MB: what markup takes is only estimated
WHOLE = 2_000  # letters of a text that need not be known beyond
_PAGE = 35_000  # bytes of style, script and contents
_DRAWN, _TABLE = 6.5, 2.0  # bytes on a page for each byte as JSON, of pictures and of all else that is no example
_LEAST, _FULL, _MOST = 40, 160, 300  # letters: with fewer a text cannot be read; of a query in full; of any
_SHARED, _LONGER = 4, 3  # a text at so many places stands at the end, and may be so many times as long
_LAST = 30  # of a section's queries, kept where not all can be: the sample, or the mildest
# Bytes of markup on a page: of a query, its labels, lists, lines, texts in them, references, texts at the end, marks.
_EXAMPLE, _LABEL, _LIST, _LINE, _HIT, _TEXT, _SEE, _END, _MARK = 136, 8, 32, 8, 18, 3, 17, 21, 18
_MARKUP = re.compile("[&<>'\"]")
_Piece: TypeAlias = tuple[int, int, float, int, int]  # example, letters, bytes a letter, letters in any case, times


def fitted(report: Report) -> Report:
    """The report with as many queries and as much of their texts as a page has room for, and with a word about it."""
    groups = [[b for b in s.blocks if isinstance(b, Example)] for s in report.sections]
    room = LIMIT - _PAGE - _rest(report)
    kept, plan = _fewer(groups, room)
    letters = plan.letters(room)
    sections = [
        msgspec.structs.replace(s, blocks=[*_cut(s.blocks, after, len(before) - len(after), plan, letters)])
        for s, before, after in zip(report.sections, groups, kept, strict=True)
    ]
    return msgspec.structs.replace(report, sections=[*sections, *plan.at_the_end(letters)])


def _rest(report: Report) -> float:
    """Bytes of all that is no example."""
    blocks = [b for s in report.sections for b in s.blocks if not isinstance(b, Example)]
    return sum(len(msgspec.json.encode(b)) * (_DRAWN if isinstance(b, Figure) else _TABLE) for b in blocks)


def _fewer(groups: list[list[Example]], room: float) -> tuple[list[list[Example]], _Plan]:
    """The examples of each section; where texts would be too short to be read, only the first and some of the last."""
    share, kept = 1.0, groups
    while True:
        plan = _Plan([example for group in kept for example in group])
        weight = plan.weights(_LEAST).sum()
        if weight <= room or not plan.examples:
            return kept, plan
        share *= min(max(room / weight, 0.1), 0.98)  # those in full stay, so that a second step may be needed
        kept = [_first_and_last(group, int(len(group) * share)) for group in groups]


def _first_and_last(group: list[Example], most: int) -> list[Example]:
    if len(group) <= most:
        return group
    last = min(_LAST, most // 2)
    return [*group[: most - last], *group[len(group) - last :]]


def _cut(blocks: Sequence[Block], kept: list[Example], left_out: int, plan: _Plan, letters: int) -> Iterator[Block]:
    told, shown = False, set(map(id, kept))
    for block in blocks:
        if not isinstance(block, Example):
            yield block
            continue
        if not told:
            yield from (Text(note, "note") for note in _notes(left_out, plan, letters))
        told = True
        if id(block) in shown:
            yield plan.written(block, letters)


def _notes(left_out: int, plan: _Plan, letters: int) -> Iterator[str]:
    linked = " An id that is a link leads to its text, under Passages at the end." if plan.shared else ""
    yield SIGNS + linked
    if plan.has_texts and letters < _MOST:
        others = [f"{_FULL} where words are marked"] if letters < _FULL else []
        others += [f"{letters * _LONGER} under Passages"] if plan.shared else []
        also = f" ({', '.join(others)})" if others else ""
        yield f"So that the page stays small, texts are cut to {letters} letters{also}, around the query's words."
    if left_out:
        yield f"So that the page stays small, {left_out:,} queries before the last {_LAST} here are left out."


class _Plan:
    """What the texts of some examples weigh, and which of them are written once."""

    def __init__(self, examples: list[Example]) -> None:
        self.examples = examples
        places = Counter(text for e in examples if e.brief for text in {line.text for line in _lines(e)} if text)
        named = {line.text: line.id for e in examples if e.brief for line in _lines(e)}
        often = [text for text in named if text and places[text] >= _SHARED]
        self.shared = {text: f"P{i}" for i, text in enumerate(often, 1)}
        self._names = [named[text] for text in often]
        self._rates: dict[str, float] = {}
        self._fixed = np.array([*map(self._base, examples), sum(_END + _bytes(name) for name in self._names)])
        self._pieces = np.array([*self._all_pieces()], np.float64).reshape(-1, 5).T

    @property
    def has_texts(self) -> bool:
        return self._pieces.size > 0

    def letters(self, room: float) -> int:
        """How long texts may be, so that all of it fits."""
        low, high = 0, _MOST
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.weights(middle).sum() <= room else (low, middle - 1)
        return low

    def weights(self, letters: int) -> Floats:
        """Bytes of each example with texts of that length, and last of what stands at the end."""
        owner, long, rate, least, times = self._pieces
        shown = np.minimum(long, np.maximum(letters * times, least))
        return self._fixed + np.bincount(owner.astype(np.int64), rate * shown, len(self._fixed))

    def written(self, example: Example, letters: int) -> Example:
        seen: set[str] = set()
        lists = []
        for listing in example.listings:
            lines = [self._line(line, example.brief, letters, seen) for line in listing.lines]
            lists.append(msgspec.structs.replace(listing, lines=lines))
        return msgspec.structs.replace(example, listings=lists)

    def at_the_end(self, letters: int) -> list[Section]:
        if not self.shared:
            return []
        texts = zip(self.shared.items(), self._names, strict=True)
        lines = [Line(place, name, text=_short(text, letters * _LONGER)) for (text, place), name in texts]
        said = f"The texts of {len(lines):,} passages that several queries show."
        return [Section("passages", "Passages", [Text(said), Listing(said, lines)])]

    def _line(self, line: Line, brief: bool, letters: int, seen: set[str]) -> Line:
        if line.text is None:
            return line
        if not brief:
            passage = cut(Passage(line.text, list(line.marks)), max(letters, _FULL))
            return msgspec.structs.replace(line, text=passage.text, marks=passage.marks)
        if line.text in self.shared:
            return msgspec.structs.replace(line, text=None, marks=(), see=self.shared[line.text])
        text = None if line.text in seen else cut(Passage(line.text, list(line.marks)), letters).text
        seen.add(line.text)
        return msgspec.structs.replace(line, text=text, marks=())

    def _all_pieces(self) -> Iterator[_Piece]:
        for owner, example in enumerate(self.examples):
            seen: set[str] = set()
            for line in _lines(example):
                text = line.text
                if text is None or (example.brief and (text in seen or text in self.shared)):
                    continue
                seen.add(text)
                marks = 0 if example.brief else len(line.marks) * _MARK / len(text)
                yield owner, len(text), self._rate(text) + marks, 0 if example.brief else _FULL, 1
        for text in self.shared:
            yield len(self.examples), len(text), self._rate(text), 0, _LONGER

    def _rate(self, text: str) -> float:
        """Bytes a letter."""
        if text not in self._rates:
            self._rates[text] = _bytes(text) / len(text)
        return self._rates[text]

    def _base(self, example: Example) -> int:
        """Bytes without texts."""
        weight = _EXAMPLE + _bytes(example.query_id, example.outcome, (example.query or "")[:QUERY], *example.notes)
        for facts in (example.facts, example.labels):
            weight += sum(_LABEL + _bytes(name, _written(value)) for name, value in facts.items())
        weight += sum(_LIST + _bytes(listing.title, listing.note or "") for listing in example.listings)
        return weight + sum(self._line_base(line, example.brief) for line in _lines(example))

    def _line_base(self, line: Line, brief: bool) -> int:
        known = {name: _written(value) for name, value in line.facts.items() if value is not None}
        facts = sum(1 + _bytes(value) + (1 + len(name)) * (len(line.facts) > 1) for name, value in known.items())
        text = 0 if line.text is None else _SEE if brief and line.text in self.shared else _TEXT
        return (_HIT if line.state == "hit" else _LINE) + _bytes(line.id) + facts + text


def _lines(example: Example) -> Iterator[Line]:
    return (line for listing in example.listings for line in listing.lines)


def _short(text: str, letters: int) -> str:
    return cut(Passage(text), letters).text


def _written(value: Cell) -> str:
    return write_cell(value, "score")


def _bytes(*texts: str) -> int:
    """Of texts on a page."""
    return sum(map(_text_bytes, texts))


def _text_bytes(text: str) -> int:
    if text.isascii() and _MARKUP.search(text) is None:
        return len(text)  # as nearly all are
    return len(str(escape(text)).encode(errors="replace"))
