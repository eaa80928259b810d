"""Which hits cover which evidences: matched once for all metrics of some queries, only as deep as these look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from karat.data.ids import Bools, Ints, take_list
from karat.matching.cover import Cover, Rule, TooLong, cover, normalise
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import INFINITE

LOOKED = "evidence_covered"  # what analyses ask for as a fact of each query: what `Covering.looked` tells


def _copy(judged: Judged) -> Judged:
    """What is kept on these queries must not lead back to them: without the garbage collector, which is off while a
    run is read, slice after slice would stay in memory."""
    return replace(judged)


class HitTexts:
    """The texts of the hits of some queries, each made ready for matching once."""

    def __init__(self, judged: Judged) -> None:
        self._judged = judged = _copy(judged)
        self._texts = [] if judged.hits is None else judged.hits.columns.get("text", [])
        self._plain: dict[str, str] = {}

    @classmethod
    def of(cls, judged: Judged) -> HitTexts:
        found: HitTexts = judged.__dict__.setdefault("_hit_texts", cls(judged))
        return found

    def plain(self, row: int) -> str | None:
        """The normalised text of a hit; None where the run has none."""
        text = self._texts[row] if self._texts else None
        if text is None:
            return None
        known = self._plain.get(text)
        if known is None:
            known = self._plain[text] = normalise(text)
        return known

    @cached_property
    def there(self) -> Bools:
        """Which hits have a text."""
        hits = int(self._judged.depth.sum())
        return np.fromiter((t is not None for t in self._texts or [None] * hits), np.bool_, hits)

    def known(self, limit: Ints) -> Bools:
        """Queries of which something can be said: one hit in the top has a text, or there is no hit at all."""
        judged = self._judged
        if judged.hits is None:
            return np.ones(judged.n, np.bool_)
        query, rows = judged.top(limit)
        known: Bools = (judged.depth == 0) | (np.bincount(query[self.there[rows]], minlength=judged.n) > 0)
        return known

    @property
    def lacks(self) -> str | None:
        return None if self.there.any() else "the hits have no text; give the corpus, or log it"


class CoveredEvidence(msgspec.Struct, frozen=True):
    """A hit that covers an evidence, and why."""

    query_id: str
    evidence: int  # place among the query's evidences, from 0
    rank: int
    chunk_id: str
    rule: Rule
    ratio: float | None = None  # difflib's, where it was asked


class Looked(NamedTuple):
    """What was seen of one query."""

    covered: list[CoveredEvidence]
    hits: int = 0  # looked at
    without_text: int = 0
    too_long: int = 0  # pairs of texts that were not compared letter by letter
    longest: int = 0  # characters of the longest text


@dataclass(frozen=True)
class Coverings:
    """What covers what in the top of each query, in columns: one entry for each evidence and hit that covers it."""

    evidences: Ints  # how many each query has
    query: Ints
    rank: Ints
    evidence: Ints  # numbered over all queries

    @cached_property
    def query_of_evidence(self) -> Ints:
        return np.repeat(np.arange(len(self.evidences)), self.evidences)

    @cached_property
    def first(self) -> Ints:
        """Rank of the first hit that covers each evidence, INFINITE where none does."""
        first = np.full(len(self.query_of_evidence), INFINITE)
        np.minimum.at(first, self.evidence, self.rank)
        return first

    @cached_property
    def covered(self) -> Ints:
        """How many evidences of each query are covered."""
        return np.bincount(self.query_of_evidence[self.first < INFINITE], minlength=len(self.evidences))


class _Pair(NamedTuple):
    query: int
    rank: int
    evidence: int  # which of the query's, from 0
    row: int  # of the hits
    cover: Cover


class Covering:
    """Which hits of some queries cover which of their evidences. A question about more hits looks at those only."""

    def __init__(self, judged: Judged, threshold: float) -> None:
        self._judged, self._threshold, self._texts = _copy(judged), threshold, HitTexts.of(judged)
        column = judged.gold.fields.get("evidence")
        self._wanted: list[list[str]] = [[] for _ in range(judged.n)]
        if column is not None:
            for place, row in enumerate(judged.queries.tolist()):
                if not judged.gold.no_answer[row]:
                    self._wanted[place] = [normalise(text) for text in column[row] or ()]
        self.evidences = np.fromiter(map(len, self._wanted), np.int64, judged.n)
        self._before = np.cumsum(self.evidences) - self.evidences
        self._looked = np.zeros(judged.n, np.int64)
        self._pairs: list[_Pair] = []
        self._too_long: Counter[int] = Counter()

    @classmethod
    def of(cls, judged: Judged, threshold: float | None = None) -> Covering:
        """The one for these queries, by their own threshold where no other is asked for."""
        asked = judged.fuzzy_threshold if threshold is None else threshold
        known: dict[float, Covering] = judged.__dict__.setdefault("_covering", {})
        if asked not in known:
            known[asked] = cls(judged, asked)
        return known[asked]

    def within(self, limit: Ints) -> Coverings:
        """What the first hits of each query cover."""
        self._look(limit)
        columns = np.array([pair[:3] for pair in self._pairs], np.int64).reshape(-1, 3)
        query, rank, evidence = columns[columns[:, 1] <= limit[columns[:, 0]]].T
        return Coverings(self.evidences, query, rank, self._before[query] + evidence)

    def _look(self, limit: Ints) -> None:
        judged = self._judged
        end = np.where(self.evidences > 0, np.minimum(judged.depth, limit), 0)
        if judged.hits is None or (end <= self._looked).all():
            return
        query, rows = judged.top(end)
        rank = np.arange(len(query)) - np.searchsorted(query, query) + 1
        fresh = rank > self._looked[query]
        for place in zip(query[fresh].tolist(), rank[fresh].tolist(), rows[fresh].tolist(), strict=True):
            self._pairs += self._covered_by(*place)
        self._looked = np.maximum(self._looked, end)

    def _covered_by(self, query: int, rank: int, row: int) -> Iterator[_Pair]:
        chunk = self._texts.plain(row)
        if not chunk:
            return
        for at, evidence in enumerate(self._wanted[query]):
            try:
                found = cover(evidence, chunk, self._threshold)
            except TooLong:
                self._too_long[query] += 1
                continue
            if found is not None:
                yield _Pair(query, rank, at, row, found)

    def looked(self) -> list[Looked]:
        """All that was seen so far, query by query, best hits first."""
        judged, count = self._judged, self._judged.n
        if judged.hits is None:
            return []
        covered: list[list[CoveredEvidence]] = [[] for _ in range(count)]
        ids = take_list(judged.hits.ids, np.array([pair.row for pair in self._pairs], np.int64))
        for pair, chunk_id in sorted(zip(self._pairs, ids, strict=True)):
            query_id = judged.gold.queries[judged.queries[pair.query]]
            covered[pair.query].append(CoveredEvidence(query_id, pair.evidence, pair.rank, chunk_id, *pair.cover))
        without, longest = [0] * count, [0] * count
        for query, row in zip(*(a.tolist() for a in judged.top(self._looked)), strict=True):
            text = self._texts.plain(row)
            without[query] += text is None
            longest[query] = max(longest[query], len(text or ""))
        too_long = [self._too_long[query] for query in range(count)]
        return list(map(Looked, covered, self._looked.tolist(), without, too_long, longest))
