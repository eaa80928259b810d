"""The judged table: the gold items in a view of a run's lists. Every id-based metric is a function of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.bulk import Bulk
from karat.data.gold import Gold
from karat.data.ids import Bools, DocRule, Ints, as_slice
from karat.scoring.judged import Judged, Rules, cutoffs, first_of_item, gold_side


class TablePart(Bulk, frozen=True):
    """The judged hits of some queries. Items are counted from the first item of their query."""

    queries: Ints  # rows of the gold set
    depth: Ints  # hits of each query
    query: Ints  # of each judged hit, a row of the gold set; by query and then rank
    rank: Ints
    item: Ints
    by_document: Bools | None = None  # queries with hits matched by document or by passage

    @classmethod
    def of(cls, judged: Judged) -> TablePart:
        assert judged.hit_item is not None
        query = judged.queries[judged.hit_query]
        return cls(
            queries=judged.queries,
            depth=judged.depth,
            query=query,
            rank=judged.hit_rank,
            item=judged.hit_item - judged.gold.offsets[query],
            by_document=judged.by_document,
        )


class JudgedTable(Bulk, frozen=True):
    """Query, rank and gold item of every judged hit, for all queries of a gold set."""

    gold: Gold
    present: Bools  # queries that the run has a list for
    depth: Ints  # hits of each query
    query: Ints  # judged hits by query and rank
    rank: Ints
    item: Ints  # row among the items of the gold set
    by_document: Bools | None = None
    audit: Audit = msgspec.field(default_factory=Audit)  # decisions while these lists were judged

    @classmethod
    def joined(cls, gold: Gold, parts: Sequence[TablePart], audit: Audit) -> JudgedTable:
        size = len(gold.queries)
        present, depth = np.zeros(size, np.bool_), np.zeros(size, np.int64)
        by_document: Bools | None = None
        for part in parts:
            rows = as_slice(part.queries)
            present[rows] = True
            depth[rows] = part.depth
            if part.by_document is not None:
                by_document = np.zeros(size, np.bool_) if by_document is None else by_document
                by_document[rows] = part.by_document
        query, rank, item = (
            np.concatenate([np.zeros(0, np.int64), *(getattr(part, name) for part in parts)])
            for name in ("query", "rank", "item")
        )
        if (query[1:] < query[:-1]).any():
            order = np.argsort(query, kind="stable")  # within a query they are ordered by rank already
            query, rank, item = query[order], rank[order], item[order]
        return cls(gold, present, depth, query, rank, gold.offsets[query] + item, by_document, audit)

    @cached_property
    def new(self) -> Bools:
        """False for a later chunk of a document, or of a passage, that was found already."""
        if self.by_document is None:
            return np.ones(len(self.item), np.bool_)
        return first_of_item(self.item)

    @cached_property
    def undated(self) -> bool:
        """Whether newer hits should have been removed, but no hit has a version."""
        unknown = self.audit["undated_hits"] + self.audit["odd_versions"]
        dated = np.array([as_of is not None for as_of in self.gold.as_of], np.bool_)
        return bool(unknown and unknown == self.depth[dated].sum() + self.audit["future_hits"])

    @cached_property
    def unscored(self) -> bool:
        """Whether hits below a score should have been removed, but no hit has a score."""
        unknown, removed = self.audit["unscored_hits"], self.audit["duplicate_hits"] + self.audit["future_hits"]
        return bool(unknown and unknown == self.depth.sum() + removed and not self.audit["pruned_hits"])

    @cached_property
    def places(self) -> Ints:
        """Rank of each item of the gold set in the list of its query, 0 = not in it."""
        places = np.zeros(len(self.gold.grades), np.int64)
        places[self.item[self.new]] = self.rank[self.new]
        return places

    def judged(self, rows: Ints, rules: Rules) -> Judged:
        """These queries in the form that metrics use, without the hits."""
        hit_query, kept = self.query, slice(None)
        if len(rows) < len(self.present):
            place = np.full(len(self.present), -1)
            place[rows] = np.arange(len(rows))
            found = place[self.query]
            kept = np.flatnonzero(found >= 0)  # type: ignore[assignment]
            hit_query = found[kept]
        gold_query, gold_grade = gold_side(self.gold, rows)
        return Judged(
            gold=self.gold,
            queries=rows,
            present=self.present[rows],
            depth=self.depth[rows],
            k=cutoffs(self.gold, rows, rules),
            gold_query=gold_query,
            gold_grade=gold_grade,
            hit_query=hit_query,
            hit_rank=self.rank[kept],
            hit_grade=self.gold.grades[self.item[kept]],
            hit_new=self.new[kept],
            by_document=None if self.by_document is None else self.by_document[rows],
            doc_rule=DocRule(rules.doc_of),
            fuzzy_threshold=rules.fuzzy_threshold,
            hit_item=self.item[kept],
            prices=rules.prices,
            zero_without_gold=rules.no_relevant == "zero",
        )
