"""A query for display: its gold and its hits, with their texts and the words that they share with it."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property, lru_cache
from typing import Any, Literal

import msgspec

from karat.data.attributes import attribute, label_text, language_of
from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.ids import DocRule
from karat.errors import MissingExtra
from karat.results.queries.lists import ListedHit
from karat.retrievers.words import fold, words

_TEXT, _SHORT, _ALL = 400, 80, 300_000  # characters shown of a passage, at most and at least, and of all together
GOLD = 20  # items shown of a query that has very many

Mark = Literal["hit", "miss", "unjudged"]
_WORD = re.compile(r"\w+")
_BEFORE = 40  # characters shown before the first shared word of a passage that is cut
# Stop words if the package with those of all languages is not installed.
_COMMON = frozenset(
    [
        "a",
        "about",
        "all",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "he",
        "her",
        "his",
        "how",
        "i",
        "if",
        "in",
        "into",
        "is",
        "it",
        "its",
        "just",
        "me",
        "my",
        "no",
        "nor",
        "not",
        "of",
        "on",
        "or",
        "our",
        "out",
        "she",
        "should",
        "so",
        "some",
        "than",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "those",
        "to",
        "too",
        "us",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "while",
        "who",
        "whom",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)
_NEAR = 10  # characters within which a word begins, in most scripts with spaces


class MarkedText(msgspec.Struct, frozen=True):
    """A text, or a part of it, with the places (from, to) of the words that are also in the query."""

    text: str
    marks: list[tuple[int, int]] = []


def shared_words(query: str, text: str, language: str | None, length: int) -> MarkedText:
    """At most `length` characters of the text, where most words are shared with the query. Stop words do not count.

    >>> shared_words("refund window", "Within the refund windows of 90 days", "en", 30)
    MarkedText(text='Within the refund windows of …', marks=[(11, 17), (18, 25)])
    >>> shared_words("How do I get my refund?", "How to get a refund", "en", 30).marks
    [(7, 10), (13, 19)]
    """
    shared = _words_of(query, language)
    return cut(MarkedText(text, [m.span() for m in _WORD.finditer(text) if shared[m[0]]]), length)


def cut(passage: MarkedText, length: int) -> MarkedText:
    """At most `length` characters of a passage, where most of its marks are.

    >>> cut(MarkedText("All fees apply. A wire has fees of 2 %.", [(4, 8), (18, 22), (27, 31)]), 20)
    MarkedText(text='…A wire has fees of…', marks=[(3, 7), (12, 16)])
    """
    text = passage.text
    if len(text) <= length:
        return passage
    start = _at_a_word(text, min(_start(passage, length), len(text) - length))
    head, tail = "…" if start else "", "…" if len(text) > start + length else ""
    end = start + length - len(head) - len(tail)
    shift = len(head) - start
    shown = head + text[start:end] + tail
    return MarkedText(shown, [(a + shift, b + shift) for a, b in passage.marks if a >= start and b <= end])


def _start(passage: MarkedText, length: int) -> int:
    """A little before the densest marks; 0 if the beginning has as many."""
    before = min(_BEFORE, length // 4)
    ends = [end for _, end in passage.marks]
    together = [bisect_right(ends, start - before + length) - i for i, (start, _) in enumerate(passage.marks)]
    most = max(together, default=0)
    if bisect_right(ends, length) >= most:
        return 0
    return max(passage.marks[together.index(most)][0] - before, 0)


def _at_a_word(text: str, start: int) -> int:
    """The start of the next word, if it is near."""
    space = text.find(" ", start - 1, start + _NEAR) if start else -1
    return start if space < 0 else space + 1


class _Shared(dict[str, bool]):
    """Word → whether it is in the query, computed once for all passages of a query."""

    def __init__(self, query: str, language: str | None) -> None:
        self._language = language
        self._wanted = frozenset(word for word in _stems(query, language) if len(word) > 1)  # not the m of "I'm"

    def __missing__(self, word: str) -> bool:
        self[word] = not self._wanted.isdisjoint(_stems(word, self._language))
        return self[word]


_words_of = lru_cache(8)(_Shared)


@lru_cache(1 << 16)  # the same words come again and again
def _stems(text: str, language: str | None) -> list[str]:
    """Stems of a query or passage, without filler words such as "what do you"."""
    try:
        return words(text, language, asked=True)
    except MissingExtra:  # no stemmer: whole words
        return [word for word in _WORD.findall(fold(text)) if word not in _COMMON]


class ShownHit(msgspec.Struct, frozen=True):
    """One place of a list: relevant (hit), judged not relevant (miss), or not judged."""

    rank: int
    id: str
    mark: Mark
    grade: float | None
    score: float | None
    passage: MarkedText | None


class ShownGold(msgspec.Struct, frozen=True):
    """An item that should have been found, and its rank."""

    id: str
    grade: float
    rank: int | None  # place in the list; null: not among the first
    passage: MarkedText | None


class Texts:
    """Texts by id, from the hits that were read or from the corpus."""

    def __init__(self, corpus: Corpus | None, lists: dict[str, list[ListedHit]], rule: DocRule) -> None:
        self.corpus = corpus
        self.rule = rule
        self.seen: dict[str, str] = {hit.id: hit.text for hits in lists.values() for hit in hits if hit.text}

    def of(self, name: str) -> str | None:
        if name in self.seen:
            return self.seen[name]
        if self.corpus is None:
            return None
        at = self.corpus.index.get(name, self._first_chunk.get(name))
        return None if at is None else self.corpus.texts[at] or self.corpus.titles[at]

    @cached_property
    def _first_chunk(self) -> dict[str, int]:
        """Where each document begins."""
        firsts: dict[str, int] = {}
        for place, name in enumerate(self.corpus.ids if self.corpus else ()):
            firsts.setdefault(self.rule.doc(name), place)
        return firsts


class Passages:
    """Hits and gold of one query, with the words that they share with it. With length 0, without texts."""

    def __init__(self, gold: Gold, row: int, texts: Texts, length: int) -> None:
        self.gold = gold
        self.row = row
        self.texts = texts
        self.length = length
        self.query: str | None = gold.text(row)
        self.language: str | None = language_of(gold, row)

    def hit(self, hit: ListedHit) -> ShownHit:
        mark: Mark = "unjudged" if hit.grade is None else "hit" if hit.grade > 0 else "miss"
        return ShownHit(hit.rank, hit.id, mark, hit.grade, hit.score, self._passage(hit.text or self.texts.of(hit.id)))

    def about(self, hits: list[ListedHit]) -> dict[str, Any]:
        """Text and tags of the query, and its gold, best grades first, with ranks among the hits."""
        gold, row = self.gold, self.row
        items = [i for i in range(*gold.offsets[row : row + 2].tolist()) if gold.grades[i] > 0]
        items.sort(key=lambda i: -gold.grades[i])
        # Id or document → its first rank.
        ranks = {name: hit.rank for hit in reversed(hits) for name in (hit.doc, hit.id)}
        names = [(gold.ids[i], float(gold.grades[i])) for i in items[:GOLD]]
        tags = {name: attribute(gold, name)[row] for name in gold.tags}
        return {
            "query": self.query,
            "tags": {name: _tag(value) for name, value in tags.items() if value is not None},
            "gold": [ShownGold(n, grade, ranks.get(n), self._passage(self.texts.of(n))) for n, grade in names],
            "gold_items": len(items),
        }

    def _passage(self, text: str | None) -> MarkedText | None:
        return None if not text or not self.length else shared_words(self.query or "", text, self.language, self.length)


def _tag(value: Any) -> str:
    return label_text(value) if isinstance(value, list) else str(value)


def passage_length(lines: int) -> int:
    """How many characters of each of `lines` passages to show, so that the whole stays readable."""
    return min(max(_ALL // max(lines, 1), _SHORT), _TEXT)
