"""Triage: the queries that failed, with what should have been found, what was found, and what BM25 finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.attributes import language_of
from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.ids import DocRule, Floats
from karat.data.saved import SavedOfSystem
from karat.errors import ConfigError, MissingExtra, shorten
from karat.results.analyses.base import Setup
from karat.results.analyses.waterfall import Waterfall, locate
from karat.results.bm25_baseline import word_search
from karat.results.diagnosis.finding import Finding
from karat.results.doubts import warnings_of
from karat.results.queries.lists import ListedHit
from karat.results.queries.shown import Passages, ShownGold, ShownHit, Texts, passage_length
from karat.results.result import Result
from karat.results.saved import origin
from karat.results.summary import number
from karat.retrievers.bm25 import BM25
from karat.scoring.views import Need

DEPTH = 10
Kind = Literal["nothing found", "loss", "nothing lost"]
MISSED, LOSS = f"recall@{DEPTH}", f"ndcg@{DEPTH}"
NOTHING_FOUND = 2.0  # as a shortfall; those of nDCG are at most 1


class Case(msgspec.Struct, frozen=True):
    """One query that failed, or one that did not, if all were requested."""

    query_id: str
    query: str | None
    kind: Kind
    scores: dict[str, float | None]
    tags: dict[str, str]
    gold: list[ShownGold]  # best grades first
    gold_items: int  # relevant items in total
    hits: list[ShownHit]
    bm25: list[ShownHit] | None = None  # what BM25 finds in the corpus; null: no corpus, or a brief case
    bm25_relevant: int | None = None  # relevant hits in BM25's top ten; null: no corpus
    lost: dict[str, int] = {}  # stage → relevant items that it lost, as in the waterfall

    def __repr__(self) -> str:
        return f"{self.query_id}: {self.kind}, {self.gold_items} to find ({shorten(self.query or 'no text', 60)})"


class Triage(SavedOfSystem, frozen=True, kw_only=True):
    """What `karat eval triage` saves."""

    schema: Literal["karat/triage/1"] = "karat/triage/1"
    queries: int  # with relevant items
    nothing_found: int  # queries without a relevant hit in the top ten
    losing: int  # other queries that score below their ceiling
    k: int  # `lost` is about the top k
    cases: list[Case]
    brief: int = 0  # number of brief cases after the worst, without BM25's list
    sampled: int = 0  # number of brief cases at the end that are a random sample of the rest
    notes: list[str]
    warnings: list[Finding] = []  # doubts about the run itself, to be read first


def triage_need(setup: Setup) -> Need:
    """What `triage` needs."""
    waterfall = Waterfall().need(setup)
    return replace(waterfall, metrics=[MISSED, LOSS], lists=DEPTH, texts=True)


def triage(
    result: Result, most: int = 20, *, brief: int = 0, sample: int = 0, letters: int | None = None, good: bool = False
) -> Triage:
    """The failed queries of a result, worst first: those with recall@10 of 0, then the biggest losses of nDCG@10.

    `brief`: how many more to show without BM25's list. `sample`: how many of the rest to sample, by the result's seed.
    `letters`: maximum characters per text; default: as many as stay readable. `good`: also show queries that lost
    nothing, last.
    """
    if result.lists is None:
        raise ConfigError("a saved result has no hits to show", code="no-hits-kept", hint="use the run itself")
    if most < 1:
        raise ConfigError("nothing to show", expected="1 or more queries", got=most)
    measured = result.measure([MISSED, LOSS])
    missed, losing, rest = _failed(measured)
    places = [*missed, *losing, *(rest if good else ())]
    drawn = sample_of(places[most + brief :], sample, result.sampling.seed)
    full, short = places[:most], [*places[most : most + brief], *drawn]
    notes: list[str] = []
    maker = _CaseMaker(measured, full, short, notes, letters)
    return Triage(
        **origin(result),
        queries=int((~np.isnan(measured.values[MISSED])).sum()),
        nothing_found=len(missed),
        losing=len(losing),
        k=result.rules.k,
        cases=[*(maker.case(at) for at in full), *(maker.case(at, brief=True) for at in short)],
        brief=len(short),
        sampled=len(drawn),
        notes=notes,
        warnings=warnings_of(result),
    )


def _failed(result: Result) -> tuple[list[int], list[int], list[int]]:
    """Places of the queries that found nothing, in gold order; of those that lost something, worst first; and of those
    that lost nothing."""
    recall, short = result.values[MISSED], _short(result)
    losing = np.flatnonzero((recall > 0) & (short > 0))
    worst_first = losing[np.argsort(-short[losing], kind="stable")]
    rest = np.flatnonzero((recall > 0) & (short == 0))
    return np.flatnonzero(recall == 0).tolist(), worst_first.tolist(), rest.tolist()


def _short(result: Result) -> Floats:
    """How far each query is below its ceiling, without rounding errors."""
    short = np.nan_to_num(result.ceilings[LOSS] - result.values[LOSS])
    return np.where(short > 1e-9, short, 0.0)


def shortfalls(result: Result) -> Floats:
    """How badly each query failed: 2 if it found nothing, else how far it is below its ceiling; NaN if it has nothing
    to find. Largest first is the order of a triage."""
    measured = result.measure([MISSED, LOSS])
    recall = measured.values[MISSED]
    return np.where(np.isnan(recall), np.nan, np.where(recall == 0, NOTHING_FOUND, _short(measured)))


def kind_of(shortfall: float) -> Kind:
    return "nothing found" if shortfall == NOTHING_FOUND else "loss" if shortfall > 0 else "nothing lost"


def sample_of(places: list[int], size: int, seed: int) -> list[int]:
    if len(places) <= size:
        return places
    drawn = np.random.default_rng(seed).choice(len(places), size, replace=False)
    return [places[i] for i in np.sort(drawn).tolist()]


class _CaseMaker:
    """Makes cases from places of a result. Lists and BM25 are read once for all of them."""

    def __init__(
        self, result: Result, full: Sequence[int], short: Sequence[int], notes: list[str], letters: int | None
    ) -> None:
        self.result, self.gold = result, result.gold
        assert result.lists is not None
        self.lists = result.lists.first({result.queries[i]: DEPTH for i in (*full, *short)}, texts=True)
        self.texts = Texts(result.corpus, self.lists, DocRule(result.rules.doc_of))
        self.search = _word_search(result.corpus, notes)
        self.lost = locate(result).by_query([*full, *short])
        lines = len(full) * (2 * DEPTH if result.corpus is None else 3 * DEPTH)
        self.length = letters or passage_length(lines)
        self.short = _short(result)

    def case(self, place: int, *, brief: bool = False) -> Case:
        query_id, row = self.result.queries[place], int(self.result.rows[place])
        listed, by_words = self.lists.get(query_id, []), self._searched(row)
        passages = Passages(self.gold, row, self.texts, self.length)
        return Case(
            query_id=query_id,
            kind=self._kind(place),
            scores={n: number(float(self.result.values[n][place])) for n in (MISSED, LOSS)},
            **passages.about(listed),
            hits=[passages.hit(hit) for hit in listed],
            bm25=None if brief or by_words is None else [passages.hit(hit) for hit in by_words],
            lost=self.lost.get(query_id, {}),
            bm25_relevant=None if by_words is None else sum((hit.grade or 0) > 0 for hit in by_words),
        )

    def _kind(self, place: int) -> Kind:
        if self.result.values[MISSED][place] == 0:
            return "nothing found"
        return "loss" if self.short[place] else "nothing lost"

    def _searched(self, row: int) -> list[ListedHit] | None:
        """What BM25 finds for a query; None if it is not available."""
        return None if self.search is None else _searched(self.search, self.gold, row, self.texts.rule)


def word_lists(result: Result) -> list[list[ListedHit]] | None:
    """What BM25 finds for every query; None without a corpus, or if it is not available."""
    search = _word_search(result.corpus, [])
    if search is None:
        return None
    rule = DocRule(result.rules.doc_of)
    return [_searched(search, result.gold, row, rule) or [] for row in result.rows.tolist()]


def _searched(search: BM25, gold: Gold, row: int, rule: DocRule) -> list[ListedHit] | None:
    """None for a query without a text."""
    query, language = gold.text(row), language_of(gold, row)
    if query is None:
        return None
    items = range(*gold.offsets[row : row + 2].tolist())
    grades = {gold.ids[i]: float(gold.grades[i]) for i in items}
    return [
        ListedHit(rank, name, rule.doc(name), grades.get(name, grades.get(rule.doc(name))), score)
        for rank, (name, score) in enumerate(search.search(query, DEPTH, language=language), 1)
    ]


def _word_search(corpus: Corpus | None, notes: list[str]) -> BM25 | None:
    """BM25 over the corpus; None with a note if its package is not installed."""
    if corpus is None:
        return None
    try:
        return word_search(corpus)
    except MissingExtra as error:
        notes.append(f"no BM25 results: {error}")
        return None
