"""The first hits of some queries, in judged order: kept during the pass, or read again from the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.bulk import Bulk
from karat.data.gold import Gold
from karat.data.hits import Hits, Run
from karat.data.ids import Ints, take_list
from karat.scoring.judge import judge
from karat.scoring.judged import Judged, Rules


class ListedHit(msgspec.Struct, frozen=True):
    """One place of a list."""

    rank: int
    id: str
    doc: str  # the document of the hit
    grade: float | None  # null: not judged
    score: float | None = None
    text: str | None = None


class ListReader(Bulk, frozen=True):
    """Reads the hits of one system after the pass."""

    run: Run
    system: str
    gold: Gold
    rules: Rules
    kept: list[Hits]  # the first hits of the queries, in ranking order
    depth: int  # how many of each
    texts: bool  # with their texts
    places: Ints | None  # where each query can be read again

    def judged(self, queries: Iterable[str], depth: int, *, texts: bool = False) -> Iterator[Judged]:
        """These queries with their first hits, some at a time."""
        wanted = set(queries)
        if depth <= self.depth and (self.texts or not texts):
            # Filters and duplicates were handled during the pass.
            rules = self.rules.replace(min_score=None, top_k=None, no_future=False)
            slices: Iterable[Hits] = self.kept
        else:
            slices, rules = self._look(wanted, texts), self.rules
        for hits in slices:
            keep = np.array([query in wanted for query in hits.queries], np.bool_)
            if keep.any():
                some = hits if keep.all() else hits.select_queries(keep)
                yield judge(some, self.gold, rules, Audit(), depth=depth)

    def _look(self, wanted: set[str], texts: bool) -> Iterable[Hits]:
        columns = self.rules.needs | ({"text"} if texts else set())
        index = self.gold.index
        rows = np.array(sorted(index[query] for query in wanted if query in index), np.int64)
        if self.places is not None:
            rows = rows[self.places[rows] >= 0]
        places = None if self.places is None else self.places[rows]
        queries = [self.gold.queries[row] for row in rows.tolist()]
        return self.run.look(self.system, queries, places, columns)

    def first(self, depths: Mapping[str, int], *, texts: bool = False) -> dict[str, list[ListedHit]]:
        """Query → its first hits, as many as `depths` says."""
        found: dict[str, list[ListedHit]] = {}
        if depths:
            for judged in self.judged(depths, max(depths.values()), texts=texts):
                _add(found, judged, depths)
        return found


def _add(found: dict[str, list[ListedHit]], judged: Judged, depths: Mapping[str, int]) -> None:
    hits = judged.hits
    assert hits is not None
    places = zip(judged.hit_query.tolist(), judged.hit_rank.tolist(), strict=True)
    grades = dict(zip(places, judged.hit_grade.tolist(), strict=True))
    of, rows = judged.top(np.array([depths[q] for q in hits.queries]))
    texts: list[Any] | None = hits.columns.get("text")
    names, docs = take_list(hits.ids, rows), judged.docs_of(rows)
    for query, row, name, doc in zip(of.tolist(), rows.tolist(), names, docs, strict=True):
        listed = found.setdefault(hits.queries[query], [])
        rank = len(listed) + 1
        score = None if hits.score is None or np.isnan(hits.score[row]) else float(hits.score[row])
        text = None if texts is None else texts[row]
        listed.append(ListedHit(rank, name, doc, grades.get((query, rank)), score, text))
