"""A report cut to what a page may weigh: every query that fits with readable texts, and texts as long as there is room.

Only examples are cut, for nothing else grows with the queries. What several of them show is written once, at the end,
where its id is looked up (docs/decisions/009).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from markupsafe import escape

from karat.highlight import Passage, cut
from karat.ids import Floats, Ints
from karat.report.blocks import Block, Example, Line, Listing, Report, Section, Text

SIGNS = "✓ hit, ✗ miss (judged not relevant), ? not judged."
LIMIT = 1_490_000  # bytes of a page that is to stay under 1.5 MB: what marks take is only estimated
WHOLE = 2_000  # letters of a text that need not be known beyond
_PAGE, _SECTION = 32_000, 400  # bytes of style and script; of a section's heading, contents and notes
_LEAST, _FULL, _MOST = 20, 160, 300  # letters: with fewer a text cannot be read; of a query in full; of any
_SHARED, _LONGER = 3, 3  # a text that so many queries show stands at the end, and may be so many times as long
_LAST = 30  # of a section's queries, kept where not all can be: the sample, or the mildest
_TEXT, _CUT, _END, _MARK = 3, 3, 8, 18  # bytes of markup: of a text in a line, of its dots, at the end, of a mark
_MARKUP = re.compile("[&<>'\"]")
_Piece: TypeAlias = tuple[int, int, float, int, int]  # example, letters, bytes a letter, letters in any case, times
Weigh: TypeAlias = Callable[[Block], int]  # bytes of a block on a page


def fitted(report: Report, weigh: Weigh) -> Report:
    """The report with as many queries and as much of their texts as a page has room for, and with a word about it."""
    groups = [[b for b in s.blocks if isinstance(b, Example)] for s in report.sections]
    others = (b for s in report.sections for b in s.blocks if not isinstance(b, Example))
    room = LIMIT - _PAGE - _SECTION * len(report.sections) - sum(map(weigh, others))
    bare = {id(e): weigh(_bare(e)) for group in groups for e in group}
    kept, plan = _fewer(groups, bare, room)
    letters = plan.letters(room)
    sections = [
        msgspec.structs.replace(s, blocks=[*_cut(s.blocks, after, len(before) - len(after), plan, letters)])
        for s, before, after in zip(report.sections, groups, kept, strict=True)
    ]
    return msgspec.structs.replace(report, sections=[*sections, *plan.at_the_end(letters)])


def _bare(example: Example) -> Example:
    """Without its texts."""
    bare = msgspec.structs.replace
    lists = [bare(ls, lines=[bare(line, text=None, marks=()) for line in ls.lines]) for ls in example.listings]
    return bare(example, listings=lists)


def _fewer(groups: list[list[Example]], bare: dict[int, int], room: float) -> tuple[list[list[Example]], _Plan]:
    """The examples of each section; where texts would be too short to be read, only the first and some of the last."""
    share, kept = 1.0, groups
    while True:
        plan = _Plan([example for group in kept for example in group], bare)
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
    yield SIGNS + (" A text that does not stand beside its id is under Passages at the end." if plan.shared else "")
    if plan.has_texts and letters < _MOST:
        others = [f"{_FULL} where words are marked"] if letters < _FULL else []
        others += [f"{letters * _LONGER} under Passages"] if plan.shared else []
        also = f" ({', '.join(others)})" if others else ""
        yield f"So that the page stays small, texts are cut to {letters} letters{also}, around the query's words."
    if left_out:
        queries = "1 query is" if left_out == 1 else f"{left_out:,} queries are"
        yield f"So that the page stays small, {queries} left out, before the last {_LAST} here."


class _Plan:
    """What the texts of some examples weigh, and which of them are written once."""

    def __init__(self, examples: list[Example], bare: dict[int, int]) -> None:
        self.examples = examples
        self.shared = _shared([e for e in examples if e.brief])
        self._rates: dict[str, float] = {}
        self._pieces = np.array([*self._all_pieces()], np.float64).reshape(-1, 5).T
        self._owners: Ints = self._pieces[0].astype(np.int64)
        markup = np.array([*(bare[id(e)] for e in examples), sum(_END + _bytes(name) for name in self.shared)])
        inside = np.bincount(self._owners, minlength=len(markup))[:-1] * _TEXT
        self._fixed: Floats = markup + np.append(inside, 0.0)

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
        _, long, rate, least, times = self._pieces
        shown = np.minimum(long, np.maximum(letters * times, least))
        texts = np.bincount(self._owners, rate * shown + _CUT * (shown < long), len(self._fixed))
        return self._fixed + texts

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
        lines = [Line("", name, text=_short(text, letters * _LONGER)) for name, text in self.shared.items()]
        said = f"The texts of {len(lines):,} passages that several queries show."
        return [Section("passages", "Passages", [Text(said), Listing(said, lines)])]

    def _line(self, line: Line, brief: bool, letters: int, seen: set[str]) -> Line:
        if line.text is None:
            return line
        if not brief:
            passage = cut(Passage(line.text, list(line.marks)), max(letters, _FULL))
            return msgspec.structs.replace(line, text=passage.text, marks=passage.marks)
        elsewhere = line.id in self.shared or line.text in seen
        seen.add(line.text)
        text = None if elsewhere else cut(Passage(line.text, list(line.marks)), letters).text
        return msgspec.structs.replace(line, text=text, marks=())

    def _all_pieces(self) -> Iterator[_Piece]:
        for owner, example in enumerate(self.examples):
            seen: set[str] = set()
            for line in _lines(example):
                text = line.text
                if not text or (example.brief and (text in seen or line.id in self.shared)):
                    continue
                seen.add(text)
                marks = 0 if example.brief else len(line.marks) * _MARK / len(text)
                yield owner, len(text), self._rate(text) + marks, 0 if example.brief else _FULL, 1
        for text in self.shared.values():
            yield len(self.examples), len(text), self._rate(text), 0, _LONGER

    def _rate(self, text: str) -> float:
        """Bytes a letter."""
        if text not in self._rates:
            self._rates[text] = _bytes(text) / len(text)
        return self._rates[text]


def _shared(examples: list[Example]) -> dict[str, str]:
    """Id → text, of those that several examples show, in the order of ids. An id of several texts is not among them."""
    texts: dict[str, set[str]] = defaultdict(set)
    places: Counter[str] = Counter()
    for example in examples:
        lines = {(line.id, line.text) for line in _lines(example) if line.text}
        places.update({name for name, _ in lines})
        for name, text in lines:
            texts[name].add(text)
    often = (name for name, count in places.items() if count >= _SHARED and len(texts[name]) == 1)
    return {name: min(texts[name]) for name in sorted(often)}


def _lines(example: Example) -> Iterator[Line]:
    return (line for listing in example.listings for line in listing.lines)


def _short(text: str, letters: int) -> str:
    return cut(Passage(text), letters).text


def _bytes(text: str) -> int:
    """Of a text on a page."""
    if text.isascii() and _MARKUP.search(text) is None:
        return len(text)  # as nearly all are
    return len(str(escape(text)).encode(errors="replace"))
