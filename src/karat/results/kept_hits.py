"""Gold and hits of every query of a result, as columns: large runs can keep them without a Python object per hit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from karat.data.bulk import Bulk
from karat.data.ids import DocRule, Floats, Ints, Packed, as_list, joined_ids, take
from karat.errors.redaction import redact_texts
from karat.results.analyses.waterfall import locate
from karat.results.evaluation import KEEP_IDS, KEEP_LISTS
from karat.results.queries.lists import ListedHit
from karat.results.queries.shown import GOLD, Texts
from karat.results.queries.triage import DEPTH, shortfalls, word_lists
from karat.results.result import Result
from karat.scoring.judged import Judged

if TYPE_CHECKING:
    from karat.data.ids import Ids

LONGEST_TEXT = 2_000  # characters kept of a text; pages show 400 of them, where most words are shared with the query
ALL_TEXTS = 64_000_000  # characters kept of all texts of a run
WORD_SEARCHES = 2_000  # up to this many queries, BM25's hits are kept of all


class KeptLists(Bulk, frozen=True):
    """A list of ids per query, with two numbers and a text for each id."""

    counts: Ints  # ids of each query
    ids: list[str] | Packed
    first: Floats  # score of a hit, grade of a gold item; NaN: none
    second: Floats  # grade of a hit, rank of a gold item; NaN: none
    texts: Ints  # number of its text among `KeptHits.texts`, from 1; 0: none

    def select(self, queries: Ints) -> KeptLists:
        """The lists of these queries, in this order."""
        counts = self.counts[queries]
        starts = np.cumsum(self.counts)[queries] - counts
        rows = np.arange(counts.sum()) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
        ids = self.ids[rows] if isinstance(self.ids, np.ndarray) else [self.ids[row] for row in rows.tolist()]
        return KeptLists(counts, ids, self.first[rows], self.second[rows], self.texts[rows])


class KeptHits(Bulk, frozen=True):
    """All queries of a result, in its order."""

    failed: Floats  # the shortfall of each query (`queries/triage.py`); NaN: nothing to find
    hits: KeptLists  # score and grade
    gold: KeptLists  # grade and rank; relevant items, best grades first
    gold_items: Ints  # relevant items in total
    bm25: KeptLists | None  # score and grade; None: not searched for every query
    lost: dict[str, Ints]  # stage → relevant items that it lost
    tags: list[str]  # names of the tags to show
    texts: list[tuple[str, str]]  # id and text


def kept_hits(result: Result) -> KeptHits | None:
    """None if the hits cannot be read, or there are too many queries."""
    if result.lists is None or len(result.queries) > KEEP_IDS:
        return None
    few = len(result.queries) <= KEEP_LISTS
    place = np.full(len(result.gold.queries), -1)
    place[result.rows] = np.arange(len(result.rows))
    texts = _Texts(result)
    collected = _Collected(len(result.rows))
    for judged in result.lists.judged(result.queries, DEPTH, texts=few):
        collected.add(judged, place, texts)
    return KeptHits(
        failed=shortfalls(result),
        hits=collected.lists(),
        gold=_gold(result, place, texts),
        gold_items=np.bincount(place[_relevant(result, place)[0]], minlength=len(result.rows)),
        bm25=_by_words(result, texts),
        lost=locate(result).counts(),
        tags=list(result.gold.tags),
        texts=texts.shortened(),
    )


class _Texts:
    """Numbers texts, each once; those beyond a limit get the number 0."""

    def __init__(self, result: Result) -> None:
        self.source = Texts(result.corpus, {}, DocRule(result.rules.doc_of))
        self._numbers: dict[tuple[str, str], int] = {}
        self._left = ALL_TEXTS

    def of(self, ids: Ids, said: Iterable[str | None] | None = None) -> Ints:
        """`said`: the texts that the run has."""
        if said is None and self.source.corpus is None and not self.source.seen:
            return np.zeros(len(ids), np.int64)
        names = as_list(ids)
        own = [None] * len(names) if said is None else said
        return np.array([self._number(name, text) for name, text in zip(names, own, strict=True)], np.int64)

    def _number(self, name: str, text: str | None) -> int:
        if text:
            self.source.seen.setdefault(name, text)
        else:
            text = self.source.of(name)
        if not text:
            return 0
        found = self._numbers.get((name, text))
        if found is None:
            self._left -= min(len(text), LONGEST_TEXT)
            if self._left < 0:
                return 0
            found = self._numbers[name, text] = len(self._numbers) + 1
        return found

    def shortened(self) -> list[tuple[str, str]]:
        """All texts by number, without secrets."""
        names, texts = [name for name, _ in self._numbers], redact_texts([text for _, text in self._numbers])
        return [(name, (text or "")[:LONGEST_TEXT]) for name, text in zip(names, texts, strict=True)]


class _Collected:
    """The first hits of some queries after the other."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.owners: list[Ints] = []
        self.ids: list[list[str] | Packed] = []
        self.numbers: list[tuple[Floats, Floats, Ints]] = []

    def add(self, judged: Judged, place: Ints, texts: _Texts) -> None:
        hits = judged.hits
        assert hits is not None
        of, rows = judged.top(DEPTH)
        ids = take(hits.ids, rows)
        grade, near = np.full(len(rows), np.nan), judged.hit_rank <= DEPTH
        grade[np.searchsorted(of, judged.hit_query[near]) + judged.hit_rank[near] - 1] = judged.hit_grade[near]
        said = hits.columns.get("text")
        numbers = texts.of(ids, None if said is None else [said[row] for row in rows.tolist()])
        self.owners.append(place[judged.queries[of]])
        self.ids.append(ids if isinstance(ids, np.ndarray) else as_list(ids))
        self.numbers.append((np.full(len(rows), np.nan) if hits.score is None else hits.score[rows], grade, numbers))

    def lists(self) -> KeptLists:
        if not self.owners:
            return _lists(self.size, np.zeros(0, np.int64), [], *(np.zeros(0),) * 2, np.zeros(0, np.int64))
        score, grade, texts = (np.concatenate(one) for one in zip(*self.numbers, strict=True))
        return _lists(self.size, np.concatenate(self.owners), joined_ids(self.ids), score, grade, texts)


def _lists(size: int, owners: Ints, ids: list[str] | Packed, first: Floats, second: Floats, texts: Ints) -> KeptLists:
    """Lists whose queries come in any order."""
    first, second = first.astype(np.float64), second.astype(np.float64)
    if (np.diff(owners) < 0).any():
        order = np.argsort(owners, kind="stable")
        ids = ids[order] if isinstance(ids, np.ndarray) else [ids[row] for row in order.tolist()]
        first, second, texts = first[order], second[order], texts[order]
    return KeptLists(np.bincount(owners, minlength=size), ids, first, second, texts)


def _relevant(result: Result, place: Ints) -> tuple[Ints, Ints]:
    """(row of the query, item) of every relevant item, best grades first within a query."""
    gold = result.gold
    query = gold.query_of_item
    items = np.flatnonzero((gold.grades > 0) & (place[query] >= 0))
    items = items[np.lexsort((-gold.grades[items], place[query[items]]))]
    return query[items], items


def _gold(result: Result, place: Ints, texts: _Texts) -> KeptLists:
    query, items = _relevant(result, place)
    near = np.arange(len(items)) - np.searchsorted(place[query], place[query]) < GOLD
    query, items = query[near], items[near]
    ids, rank = take(result.gold.items, items), result.places[items].astype(np.float64)
    numbers = texts.of(ids)
    names = ids if isinstance(ids, np.ndarray) else as_list(ids)
    grades = result.gold.grades[items]
    return _lists(len(result.rows), place[query], names, grades, np.where(rank > 0, rank, np.nan), numbers)


def _by_words(result: Result, texts: _Texts) -> KeptLists | None:
    if len(result.rows) > WORD_SEARCHES:
        return None
    found = word_lists(result)
    if found is None:
        return None
    hits: list[ListedHit] = [hit for listed in found for hit in listed]
    owners = np.repeat(np.arange(len(found)), [len(listed) for listed in found])
    grades = np.array([np.nan if hit.grade is None else hit.grade for hit in hits])
    ids, scores = [hit.id for hit in hits], np.array([hit.score for hit in hits], np.float64)
    return _lists(len(found), owners, ids, scores, grades, texts.of(ids))
