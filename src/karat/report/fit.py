"""Cuts a report to the size limit of a page: as many queries as fit with readable texts, and texts as long as possible.

Only examples are cut, because nothing else grows with the number of queries. Texts that several examples share are
written once, at the end, and looked up by id (docs/decisions/009).
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from markupsafe import escape

from karat.data.ids import Floats, Ints
from karat.report.blocks import Block, Example, Line, Listing, Report, Section, Text
from karat.report.readable import is_verbatim
from karat.results.queries.shown import MarkedText, cut

SIGNS = "✓ hit, ✗ miss (judged not relevant), ? not judged."
LIMIT = 1_495_000  # bytes, to stay under 1.5 MB: the size of headings and notes is only estimated
WHOLE = 2_000  # characters of a text that are ever needed
_PAGE, _SECTION = 36_000, 400  # bytes of style and script; of a section's heading, entry in the contents and notes
_LEAST, _FULL, _MOST = 20, 160, 300  # characters: fewest that can be read; of a query in full; of any text
_SHARED, _LONGER = 3, 3  # queries that share a text before it moves to the end; how many times longer it may be there
_NUMBER, _LONG = "§", 8  # prefix of a number that replaces an id; longest id that is not replaced
_LAST = 30  # of a section's queries, kept if not all fit: the sample, or the mildest
_TEXT, _CUT, _END, _MARK = 3, 3, 9, 18  # bytes of markup: of a text in a line, of its dots, at the end, of a mark
_CLEARLY = 0.8  # of the room: below this, the estimate is good enough
_MARKUP = re.compile("[&<>'\"]")
_Piece: TypeAlias = tuple[int, int, float, int, int]  # example, length, bytes per character, least length, factor
Weigh: TypeAlias = Callable[[Block], int]  # bytes of a block on a page


def fitted(report: Report, weigh: Weigh) -> Report:
    """Returns the report with as many queries and as much of their texts as fit on a page, and a note about it."""
    groups = [[b for b in s.blocks if isinstance(b, Example)] for s in report.sections]
    others = (b for s in report.sections for b in s.blocks if not isinstance(b, Example))
    room = LIMIT - _PAGE - _SECTION * len(report.sections) - sum(map(weigh, others))
    bare = {id(e): weigh(_bare(e)) for group in groups for e in group}
    kept, plan = _fewer(groups, bare, room)
    letters = plan.letters(room, weigh)
    sections = [
        msgspec.structs.replace(s, blocks=[*_cut(s.blocks, after, len(before) - len(after), plan, letters)])
        for s, before, after in zip(report.sections, groups, kept, strict=True)
    ]
    return msgspec.structs.replace(report, sections=[*sections, *plan.at_the_end(letters)])


def _bare(example: Example) -> Example:
    """Returns the example without its texts."""
    if not _has_texts(example):
        return example
    bare = msgspec.structs.replace
    lists = [bare(ls, lines=[bare(line, text=None, marks=()) for line in ls.lines]) for ls in example.listings]
    return bare(example, listings=lists)


def _fewer(groups: list[list[Example]], bare: dict[int, int], room: float) -> tuple[list[list[Example]], _Plan]:
    """Returns the examples of each section. If texts would be too short to read, long ids become numbers; if that is
    not enough, only the first and some of the last examples are kept."""
    share, kept, numbered = 1.0, groups, False
    while True:
        plan = _Plan([example for group in kept for example in group], bare, numbered)
        weight = plan.weights(_LEAST).sum()
        if weight <= room or not plan.examples:
            return kept, plan
        if numbered:
            share *= min(max(room / weight, 0.1), 0.98)  # those in full are kept, so a second step may be needed
            kept = [_first_and_last(group, int(len(group) * share)) for group in groups]
        numbered = True


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
    there = " Texts that are not next to their id are under Passages at the end." if plan.shared else ""
    yield (
        SIGNS + there + (f" {_NUMBER}1, {_NUMBER}2 … are short for the long ids listed there." if plan.numbers else "")
    )
    if plan.has_texts and letters < _MOST:
        others = [f"{_full(letters)} where words are highlighted"] if letters < _FULL else []
        others += [f"{letters * _LONGER} from the start of the text under Passages"] if plan.shared else []
        also = f" ({', '.join(others)})" if others else ""
        yield f"To keep the page small, texts are cut to {letters} characters around the query's words{also}."
    if left_out:
        queries = "1 query is" if left_out == 1 else f"{left_out:,} queries are"
        yield f"To keep the page small, {queries} left out before the last {_LAST}."


class _Plan:
    """The size of the texts of some examples, and which of them are written once."""

    def __init__(self, examples: list[Example], bare: dict[int, int], numbered: bool = False) -> None:
        self.examples = examples
        self.shared = _shared([e for e in examples if e.brief])
        self.numbers = _numbers(self.shared, examples) if numbered else {}
        self._rates: dict[str, float] = {}
        self._pieces = np.array([*self._all_pieces()], np.float64).reshape(-1, 5).T
        self._owners: Ints = self._pieces[0].astype(np.int64)
        own = (bare[id(e)] - self._saved(e) for e in examples)
        markup = np.array([*own, sum(_END + _bytes(name + self.numbers.get(name, "")) for name in self.shared)])
        inside = np.bincount(self._owners, minlength=len(markup))[:-1] * _TEXT
        self._fixed: Floats = markup + np.append(inside, 0.0)

    @property
    def has_texts(self) -> bool:
        return self._pieces.size > 0

    def letters(self, room: float, weigh: Weigh) -> int:
        """Returns how long texts may be so that everything fits."""
        letters = self._estimated(room)
        if not self.has_texts or self.weights(letters).sum() < _CLEARLY * room:
            return letters
        # Marks are denser in a cut text, so it may be larger than estimated.
        while letters and (weight := self._exact(letters, weigh)) > room:
            letters = min(int(letters * room / weight), letters - 1)
        return letters

    def _estimated(self, room: float) -> int:
        low, high = 0, _MOST
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.weights(middle).sum() <= room else (low, middle - 1)
        return low

    def weights(self, letters: int) -> Floats:
        """Bytes of each example with texts of that length; the last value is for the passages at the end."""
        _, long, rate, least, times = self._pieces
        shown = np.minimum(long, np.maximum(letters * times, np.minimum(_full(letters), least)))
        texts = np.bincount(self._owners, rate * shown + _CUT * (shown < long), len(self._fixed))
        return self._fixed + texts

    def _exact(self, letters: int, weigh: Weigh) -> int:
        """Exact number of bytes with texts of that length."""
        end = (block for section in self.at_the_end(letters) for block in section.blocks)
        return sum(map(weigh, end)) + sum(weigh(self.written(example, letters)) for example in self.examples)

    def written(self, example: Example, letters: int) -> Example:
        if not self.numbers and not _has_texts(example):
            return example
        standing = iter(self._standing(example))
        lists = []
        for listing in example.listings:
            lines = [self._line(line, example.brief, next(standing), letters) for line in listing.lines]
            lists.append(msgspec.structs.replace(listing, lines=lines))
        return msgspec.structs.replace(example, listings=lists)

    def at_the_end(self, letters: int) -> list[Section]:
        if not self.shared:
            return []
        lines = [
            Line(self.numbers.get(name, ""), name, text=cut(MarkedText(text), letters * _LONGER).text)
            for name, text in self.shared.items()
        ]
        said = f"Texts of {len(lines):,} passages that several queries share."
        return [Section("passages", "Passages", [Listing(said, lines)])]

    def _standing(self, example: Example) -> Iterator[bool]:
        """Whether the text of each line is next to it. In brief, not if it is looked up at the end or above."""
        texts, seen = _texts_of(example), set[str]()
        for line in _lines(example):
            if not line.text or not example.brief or not is_verbatim(line.id):
                yield bool(line.text)
                continue
            above = line.id in seen and len(texts[line.id]) == 1
            seen.add(line.id)
            yield not above and line.id not in self.shared

    def _line(self, line: Line, brief: bool, stands: bool, letters: int) -> Line:
        if brief:
            passage = cut(MarkedText(line.text or "", list(line.marks)), letters) if stands else MarkedText("")
            name = self.numbers.get(line.id, line.id)
            return msgspec.structs.replace(line, id=name, text=passage.text or None, marks=())
        if line.text is None:
            return line
        passage = cut(MarkedText(line.text, list(line.marks)), max(letters, _full(letters)))
        return msgspec.structs.replace(line, text=passage.text, marks=passage.marks)

    def _all_pieces(self) -> Iterator[_Piece]:
        for owner, example in enumerate(self.examples):
            if not _has_texts(example):
                continue
            for line, stands in zip(_lines(example), self._standing(example), strict=True):
                if stands and line.text:
                    marks = 0 if example.brief else len(line.marks) * _MARK / len(line.text)
                    least = 0 if example.brief else _FULL
                    yield owner, len(line.text), self._rate(line.text) + marks, least, 1
        for text in self.shared.values():
            yield len(self.examples), len(text), self._rate(text), 0, _LONGER

    def _rate(self, text: str) -> float:
        """Bytes per character."""
        if text not in self._rates:
            self._rates[text] = _bytes(text) / len(text)
        return self._rates[text]

    def _saved(self, example: Example) -> int:
        """Bytes saved by numbers instead of ids."""
        ids = [line.id for line in _lines(example) if line.id in self.numbers] if example.brief else []
        return sum(_bytes(name) - _bytes(self.numbers[name]) for name in ids)


def _shared(examples: list[Example]) -> dict[str, str]:
    """Id → text for texts that several examples share, sorted by id. Only ids that have a single text and are shown
    unchanged, because they are looked up."""
    texts: dict[str, set[str]] = defaultdict(set)
    places: Counter[str] = Counter()
    for example in examples:
        shown = _texts_of(example)
        places.update(shown.keys())
        for name, found in shown.items():
            texts[name] |= found
    often = (name for name, count in places.items() if count >= _SHARED and len(texts[name]) == 1)
    return {name: min(texts[name]) for name in sorted(often) if is_verbatim(name)}


def _texts_of(example: Example) -> dict[str, set[str]]:
    """Id → its texts."""
    found: dict[str, set[str]] = defaultdict(set)
    for line in _lines(example):
        if line.text:
            found[line.id].add(line.text)
    return found


def _numbers(shared: dict[str, str], examples: list[Example]) -> dict[str, str]:
    """Id → number for long ids at the end; empty if an id looks like such a number."""
    if any(line.id.startswith(_NUMBER) for example in examples for line in _lines(example)):
        return {}
    return {name: f"{_NUMBER}{at}" for at, name in enumerate(shared, 1) if len(name) > _LONG}


def _has_texts(example: Example) -> bool:
    return any(line.text for line in _lines(example))


def _lines(example: Example) -> Iterator[Line]:
    return (line for listing in example.listings for line in listing.lines)


def _full(letters: int) -> int:
    """Length of texts in full, if others have this length."""
    return min(_FULL, 4 * letters)


def _bytes(text: str) -> int:
    """Size of a text on a page."""
    if text.isascii() and _MARKUP.search(text) is None:
        return len(text)  # the usual case
    return len(str(escape(text)).encode(errors="replace"))
