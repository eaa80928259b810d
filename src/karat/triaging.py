"""Triage: the queries that failed, with what should have been found, what was, and what plain word search finds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec
import numpy as np

from karat.analyses.waterfall import Waterfall, locate
from karat.attributes import attribute
from karat.corpus import Corpus
from karat.errors import ConfigError, MissingExtra
from karat.gold import Dataset, Gold
from karat.highlight import Passage, shared_words
from karat.ids import DocRule
from karat.result import Result
from karat.retrievers.bm25 import BM25
from karat.top_lists import ListedHit, top_lists

SCHEMA: Literal["karat/triage/1"] = "karat/triage/1"
DEPTH = 10
MISSED, LOSS = f"recall@{DEPTH}", f"ndcg@{DEPTH}"
_TEXT, _SHORT, _ALL = 400, 80, 500_000  # characters shown of a passage, at most and at least, and of all together
_GOLD = 20  # items shown of a query that has very many

Mark = Literal["hit", "miss", "unjudged"]


class ShownHit(msgspec.Struct, frozen=True):
    """One place of a list: relevant (hit), judged not relevant (miss), or not judged."""

    rank: int
    id: str
    mark: Mark
    grade: float | None
    score: float | None
    passage: Passage | None


class ShownGold(msgspec.Struct, frozen=True):
    """What should have been found, and where it stands."""

    id: str
    grade: float
    rank: int | None  # place in the list; null: not among the first
    passage: Passage | None


class Case(msgspec.Struct, frozen=True):
    """One query that failed."""

    query_id: str
    query: str | None
    kind: Literal["nothing found", "loss"]
    scores: dict[str, float | None]
    tags: dict[str, str]
    gold: list[ShownGold]  # best grades first
    gold_items: int  # relevant items in all
    hits: list[ShownHit]
    bm25: list[ShownHit] | None = None  # what word search finds in the corpus; null: no corpus
    lost: dict[str, int] = {}  # stage → relevant items that it lost, as in the waterfall


class Triage(msgspec.Struct, frozen=True, kw_only=True):
    """What `karat triage` saves."""

    schema: Literal["karat/triage/1"] = SCHEMA
    karat: str
    system: str
    run: str
    gold: str
    dataset: Dataset
    queries: int  # that have something to find
    nothing_found: int  # queries without a single relevant hit among the first ten
    losing: int  # queries that fall short of what the gold allows, besides
    k: int  # `lost` speaks of the top k
    cases: list[Case]
    sampled: int = 0  # of the cases, those at the end: not the worst, but any of the others
    notes: list[str]


def triage(result: Result, most: int = 20, *, sample: int = 0) -> Triage:
    """The failed queries of a result, worst first: those with recall@10 of 0, then the greatest losses of nDCG@10.

    `sample`: of those that are left out, so many are shown after all, drawn by the seed of the result.
    """
    from karat import __version__

    if result.again is None:
        raise ConfigError("a saved result keeps no hits to look at", hint="give the run itself")
    if most < 1:
        raise ConfigError("nothing to show", expected="1 or more queries", got=most)
    measured = result.measure([MISSED, LOSS], facts=Waterfall.facts)
    missed, losing = _failed(measured)
    failed = [*missed, *losing]
    drawn = _sample(failed[most:], sample, result.sampling.seed)
    picked = [*failed[:most], *drawn]
    notes: list[str] = []
    maker = _CaseMaker(measured, picked, notes)
    return Triage(
        karat=__version__,
        system=result.system,
        run=result.run,
        gold=result.gold.label,
        dataset=result.gold.dataset,
        queries=int((~np.isnan(measured.values[MISSED])).sum()),
        nothing_found=len(missed),
        losing=len(losing),
        k=result.rules.k,
        cases=[maker.case(place) for place in picked],
        sampled=len(drawn),
        notes=notes,
    )


def _failed(result: Result) -> tuple[list[int], list[int]]:
    """Places of the queries that found nothing, in the gold's order, and of those that lost most, worst first."""
    recall, short = result.values[MISSED], result.ceilings[LOSS] - result.values[LOSS]
    missed = np.flatnonzero(recall == 0).tolist()
    losing = [i for i in np.flatnonzero(np.nan_to_num(short) > 1e-9).tolist() if recall[i] > 0]
    return missed, sorted(losing, key=lambda i: (-short[i], i))


def _sample(places: list[int], size: int, seed: int) -> list[int]:
    if len(places) <= size:
        return places
    drawn = np.random.default_rng(seed).choice(len(places), size, replace=False)
    return [places[i] for i in np.sort(drawn).tolist()]


class _CaseMaker:
    """Turns places of a result into cases; lists and BM25 are read once for all of them."""

    def __init__(self, result: Result, places: Sequence[int], notes: list[str]) -> None:
        self.result, self.gold = result, result.gold
        self.lists = top_lists(result, {result.queries[i]: DEPTH for i in places}, texts=True)
        self.texts = _Texts(result.corpus, self.lists, DocRule(result.rules.doc_of))
        self.search = _word_search(result.corpus, notes)
        self.lost = locate(result).by_query()
        lines = len(places) * (2 * DEPTH if result.corpus is None else 3 * DEPTH)
        self.length = min(max(_ALL // max(lines, 1), _SHORT), _TEXT)

    def case(self, place: int) -> Case:
        query_id, row = self.result.queries[place], int(self.result.rows[place])
        query, language = self.gold.text(row), _language(self.gold, row)
        items = [i for i in range(*self.gold.offsets[row : row + 2].tolist()) if self.gold.grades[i] > 0]
        items.sort(key=lambda i: -self.gold.grades[i])
        listed = self.lists.get(query_id, [])
        passages = _Passages(query, language, self.texts, self.length)
        ranks = {name: hit.rank for hit in reversed(listed) for name in (hit.doc, hit.id)}
        return Case(
            query_id=query_id,
            query=query,
            kind="nothing found" if self.result.values[MISSED][place] == 0 else "loss",
            scores={n: _number(self.result.values[n][place]) for n in (MISSED, LOSS)},
            tags=_tags(self.gold, row),
            gold=[passages.gold(self.gold, i, ranks.get(self.gold.ids[i])) for i in items[:_GOLD]],
            gold_items=len(items),
            hits=[passages.hit(hit) for hit in listed],
            bm25=None if self.search is None or query is None else self._word_hits(query, language, row, passages),
            lost=self.lost.get(query_id, {}),
        )

    def _word_hits(self, query: str, language: str | None, row: int, passages: _Passages) -> list[ShownHit]:
        assert self.search is not None
        items = range(*self.gold.offsets[row : row + 2].tolist())
        grades = {self.gold.ids[i]: float(self.gold.grades[i]) for i in items}
        found = enumerate(self.search.search(query, DEPTH, language=language), 1)
        docs = self.texts.rule.doc
        listed = [
            ListedHit(rank, name, docs(name), grades.get(name, grades.get(docs(name))), score)
            for rank, (name, score) in found
        ]
        return [passages.hit(hit) for hit in listed]


class _Texts:
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


class _Passages:
    """Hits and gold of one query, with the words that they share with it."""

    def __init__(self, query: str | None, language: str | None, texts: _Texts, length: int) -> None:
        self.query, self.language, self.texts, self.length = query, language, texts, length

    def hit(self, hit: ListedHit) -> ShownHit:
        mark: Mark = "unjudged" if hit.grade is None else "hit" if hit.grade > 0 else "miss"
        return ShownHit(hit.rank, hit.id, mark, hit.grade, hit.score, self._passage(hit.text or self.texts.of(hit.id)))

    def gold(self, gold: Gold, item: int, rank: int | None) -> ShownGold:
        name = gold.ids[item]
        return ShownGold(name, float(gold.grades[item]), rank, self._passage(self.texts.of(name)))

    def _passage(self, text: str | None) -> Passage | None:
        return None if not text else shared_words(self.query or "", text, self.language, self.length)


def _word_search(corpus: Corpus | None, notes: list[str]) -> BM25 | None:
    """BM25 over the corpus; where the package for it is not installed, that is said and the rest is shown."""
    if corpus is None:
        return None
    search = BM25()
    try:
        search.index(corpus)
    except MissingExtra as error:
        notes.append(f"no word search beside the hits: {error}")
        return None
    return search


def _language(gold: Gold, row: int) -> str | None:
    value = gold.tags.get("language", gold.fields.get("language", [None] * len(gold.queries)))[row]
    return None if value is None else str(value)


def _tags(gold: Gold, row: int) -> dict[str, str]:
    values: dict[str, Any] = {name: attribute(gold, name)[row] for name in gold.tags}
    return {name: str(value) for name, value in values.items() if value is not None}


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
