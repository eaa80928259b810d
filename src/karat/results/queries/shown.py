"""What a person is shown of a query: its gold and its hits, with their texts and the words that they share with it."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import msgspec

from karat.data.attributes import attribute
from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.ids import DocRule
from karat.results.queries.highlight import MarkedText, shared_words
from karat.results.queries.lists import ListedHit

_TEXT, _SHORT, _ALL = 400, 80, 300_000  # characters shown of a passage, at most and at least, and of all together
_GOLD = 20  # items shown of a query that has very many

Mark = Literal["hit", "miss", "unjudged"]


class ShownHit(msgspec.Struct, frozen=True):
    """One place of a list: relevant (hit), judged not relevant (miss), or not judged."""

    rank: int
    id: str
    mark: Mark
    grade: float | None
    score: float | None
    passage: MarkedText | None


class ShownGold(msgspec.Struct, frozen=True):
    """What should have been found, and where it stands."""

    id: str
    grade: float
    rank: int | None  # place in the list; null: not among the first
    passage: MarkedText | None


class Texts:
    """Texts by id: of the corpus, else of the hits that were read."""

    def __init__(self, corpus: Corpus | None, lists: dict[str, list[ListedHit]], rule: DocRule) -> None:
        self.corpus, self.rule = corpus, rule
        self.seen = {hit.id: hit.text for hits in lists.values() for hit in hits if hit.text}

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
    """Hits and gold of one query, with the words that they share with it; with a length of 0 without texts."""

    def __init__(self, query: str | None, language: str | None, texts: Texts, length: int) -> None:
        self.query, self.language, self.texts, self.length = query, language, texts, length

    def hit(self, hit: ListedHit) -> ShownHit:
        mark: Mark = "unjudged" if hit.grade is None else "hit" if hit.grade > 0 else "miss"
        return ShownHit(hit.rank, hit.id, mark, hit.grade, hit.score, self._passage(hit.text or self.texts.of(hit.id)))

    def gold(self, gold: Gold, item: int, rank: int | None) -> ShownGold:
        name = gold.ids[item]
        return ShownGold(name, float(gold.grades[item]), rank, self._passage(self.texts.of(name)))

    def relevant(self, gold: Gold, row: int, ranks: dict[str, int]) -> tuple[list[ShownGold], int]:
        """What should be found, best grades first, with its place; and how many there are in all."""
        items = [i for i in range(*gold.offsets[row : row + 2].tolist()) if gold.grades[i] > 0]
        items.sort(key=lambda i: -gold.grades[i])
        return [self.gold(gold, i, ranks.get(gold.ids[i])) for i in items[:_GOLD]], len(items)

    def _passage(self, text: str | None) -> MarkedText | None:
        return None if not text or not self.length else shared_words(self.query or "", text, self.language, self.length)


def tags_of(gold: Gold, row: int) -> dict[str, str]:
    values: dict[str, Any] = {name: attribute(gold, name)[row] for name in gold.tags}
    return {name: str(value) for name, value in values.items() if value is not None}


def passage_length(lines: int) -> int:
    """How many characters of each of so many passages are shown, so that all together stay readable."""
    return min(max(_ALL // max(lines, 1), _SHORT), _TEXT)


def ranks_of(hits: list[ListedHit]) -> dict[str, int]:
    """Id or document → the first place where it stands."""
    return {name: hit.rank for hit in reversed(hits) for name in (hit.doc, hit.id)}
