"""HITS + GOLD → Judged: the one place where ties, duplicates, missing queries, document-level gold and
thresholds are settled. What was settled is counted in the audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np

from karat.audit import Audit
from karat.gold import DOC, Gold
from karat.hits import Hits
from karat.ids import (
    Bools,
    DocRule,
    Floats,
    Hashes,
    Ints,
    as_list,
    find,
    hashes_if_needed,
    like,
    may_repeat,
    take,
    take_list,
)
from karat.ranking import drop_repeats, inspect_order, places_of, rank_order

if TYPE_CHECKING:
    from karat.ids import Ids


class Rules(msgspec.Struct, frozen=True):
    """Choices that change what counts, made by the user."""

    missing: Literal["worst", "skip"] = "worst"
    min_score: float | None = None
    doc_of: str = "#"
    k: int = 5


@dataclass(frozen=True)
class Judged:
    """Some queries with the rank and grade of every judged hit: all that an id-based metric needs."""

    queries: Ints  # row of each query in the gold set
    present: Bools  # does the run have the query
    depth: Ints  # hits returned
    k: Ints  # cutoff for metrics that name none
    gold_query: Ints  # items of the gold, by query and then grade, highest first
    gold_grade: Floats
    hit_query: Ints  # judged hits, by query and then rank
    hit_rank: Ints
    hit_grade: Floats
    hit_new: Bools  # False for a later chunk of a document that was found already
    by_document: Bools | None = None  # queries with hits that were matched by document; None = no query
    hits: Hits | None = None  # the hits themselves, in ranking order as deep as was asked for
    order: Ints | None = None  # row at each place of the ranking; None = as listed
    doc_rule: DocRule = field(default_factory=DocRule)

    @property
    def n(self) -> int:
        return len(self.queries)

    def relevant(self, rel: float | None) -> Ints:
        """Number of relevant gold items of each query."""
        cache: dict[float | None, Ints] = self.__dict__.setdefault("_relevant", {})
        if rel not in cache:
            cache[rel] = np.bincount(self.gold_query[relevance(self.gold_grade, rel)], minlength=self.n)
        return cache[rel]

    def per_query(self, query: Ints, values: Floats | None = None) -> Floats:
        """Sum of values (or count) by query."""
        return np.bincount(query, values, self.n).astype(np.float64)

    @cached_property
    def perfect(self) -> Judged:
        """The same queries answered by the gold itself, best grades first: the ceiling of every metric."""
        first = np.searchsorted(self.gold_query, np.arange(self.n))
        depth = np.bincount(self.gold_query, minlength=self.n)
        return Judged(
            queries=self.queries,
            present=np.ones(self.n, np.bool_),
            depth=depth,
            k=self.k,
            gold_query=self.gold_query,
            gold_grade=self.gold_grade,
            hit_query=self.gold_query,
            hit_rank=np.arange(len(self.gold_query)) - first[self.gold_query] + 1,
            hit_grade=self.gold_grade,
            hit_new=np.ones(len(self.gold_query), np.bool_),
            by_document=self.by_document,
        )

    def top(self, k: Ints | int) -> tuple[Ints, Ints]:
        """(query, row) of the first k hits of each query, in ranking order."""
        assert self.hits is not None
        counts = np.minimum(self.depth, k)
        query = np.repeat(np.arange(self.n), counts)
        at = np.arange(len(query)) + (self.hits.offsets[:-1] - (np.cumsum(counts) - counts))[query]
        return query, at if self.order is None else self.order[at]

    def docs_of(self, rows: Ints) -> list[str]:
        assert self.hits is not None
        guessed = [self.doc_rule.doc(i) for i in take_list(self.hits.ids, rows)]
        if self.hits.docs is None:
            return guessed
        return [d or g for d, g in zip(take_list(self.hits.docs, rows), guessed, strict=True)]


def relevance(grade: Floats, rel: float | None) -> Bools:
    """Relevant is any grade above 0, or from the asked level on."""
    return grade > 0 if rel is None else grade >= rel


def judge(hits: Hits, gold: Gold, rules: Rules, audit: Audit, depth: int = 0) -> Judged:
    """Settle one slice. `depth`: how many places of each ranking must be exact also for unjudged hits."""
    hits, queries = _known_queries(hits, gold, audit)
    count_states(hits, audit)
    inspect_order(hits, audit)
    hits = _prune(hits, rules, audit)
    doc_rule = DocRule(rules.doc_of)
    hashed = hashes_if_needed(hits.ids)
    if may_repeat(hits.ids, hits.offsets, hashed):
        hits = drop_repeats(hits, audit)
        hashed = None
    query = hits.query_of_row
    rows, items, by_document = _match(hits, gold, queries, query, doc_rule, audit, hashed)
    order = rank_order(hits, query, rows, depth)
    rank = _ranks(hits, query, rows, order)
    by_place = np.lexsort((rank, query[rows]))
    rows, items, rank = rows[by_place], items[by_place], rank[by_place]
    gold_query, gold_grade = _gold_side(gold, queries)
    return Judged(
        queries=queries,
        present=np.ones(len(queries), np.bool_),
        depth=np.diff(hits.offsets),
        k=_cutoffs(gold, queries, rules),
        gold_query=gold_query,
        gold_grade=gold_grade,
        hit_query=query[rows],
        hit_rank=rank,
        hit_grade=gold.grades[items],
        hit_new=np.ones(len(rows), np.bool_) if by_document is None else _first_of_item(items),
        by_document=by_document,
        hits=hits,
        order=order,
        doc_rule=doc_rule,
    )


def judge_missing(gold: Gold, queries: Ints, rules: Rules) -> Judged:
    """Queries that the run does not have."""
    gold_query, gold_grade = _gold_side(gold, queries)
    none: Any = np.zeros(0, np.int64)
    return Judged(
        queries=queries,
        present=np.zeros(len(queries), np.bool_),
        depth=np.zeros(len(queries), np.int64),
        k=_cutoffs(gold, queries, rules),
        gold_query=gold_query,
        gold_grade=gold_grade,
        hit_query=none,
        hit_rank=none,
        hit_grade=none.astype(np.float64),
        hit_new=none.astype(np.bool_),
    )


def _known_queries(hits: Hits, gold: Gold, audit: Audit) -> tuple[Hits, Ints]:
    start = gold.index.get(hits.queries[0], 0) if hits.queries else 0
    end = start + len(hits.queries)
    if gold.queries[start:end] == hits.queries:  # in the same order: nothing to look up
        return hits, np.arange(start, end)
    queries = np.fromiter(map(gold.index.get, hits.queries, repeat(-1)), np.int64, len(hits.queries))
    known = queries >= 0
    if known.all():
        return hits, queries
    unknown = np.flatnonzero(~known)
    audit.count("unknown_queries", len(unknown), (hits.queries[i] for i in unknown[:3]))
    return hits.select_queries(known), queries[known]


def count_states(hits: Hits, audit: Audit) -> None:
    """Queries that came back empty or failed."""
    empty = np.flatnonzero(np.diff(hits.offsets) == 0)
    audit.count("empty_results", len(empty), (hits.queries[i] for i in empty[:3]))
    failed = [q for q, e in zip(hits.queries, hits.fields.get("error", ()), strict=False) if e]
    audit.count("failed_queries", len(failed), failed)


def _prune(hits: Hits, rules: Rules, audit: Audit) -> Hits:
    if rules.min_score is None or hits.score is None:
        return hits
    low = hits.score < rules.min_score
    if not low.any():
        return hits
    audit.count("pruned_hits", int(low.sum()))
    return hits.select_rows(np.flatnonzero(~low))


def _match(
    hits: Hits,
    gold: Gold,
    queries: Ints,
    query: Ints,
    doc_rule: DocRule,
    audit: Audit,
    hashed: Hashes | None,
) -> tuple[Ints, Ints, Bools | None]:
    """(row, gold item) of every judged hit. The exact id wins; gold that names a document takes its chunks."""
    items = gold.items_of(queries)
    gold_query = queries[query]
    named_exactly = items[gold.kinds[items] != DOC]
    rows, matched = _find(hits.ids, gold_query, gold, named_exactly, hashed)
    of_document = items[gold.names_document(doc_rule)[items]]
    if not len(of_document) or not _has_documents(hits, gold, of_document, doc_rule):
        return rows, matched, None
    left = np.ones(len(query), np.bool_)
    left[rows] = False
    rest = np.flatnonzero(left)
    more, by_doc = _find(_docs(hits, doc_rule, rest), gold_query[rest], gold, of_document)
    if not len(more):
        return rows, matched, None
    documents = np.unique(by_doc)
    audit.count("doc_level_gold", len(documents), (gold.ids[i] for i in documents[:3]))
    by_document = np.zeros(len(queries), np.bool_)
    by_document[query[rest[more]]] = True
    return np.concatenate([rows, rest[more]]), np.concatenate([matched, by_doc]), by_document


def _find(ids: Ids, gold_query: Ints, gold: Gold, items: Ints, hashed: Hashes | None = None) -> tuple[Ints, Ints]:
    names = gold.packed[items] if isinstance(ids, np.ndarray) else take_list(gold.ids, items)
    rows, at = find(ids, gold_query, names, gold.query_of_item[items], hashed)
    return rows, items[at]


def _has_documents(hits: Hits, gold: Gold, of_document: Ints, doc_rule: DocRule) -> bool:
    """Whether a hit's document can differ from its id at all."""
    return hits.docs is not None or bool((gold.kinds[of_document] == DOC).any()) or doc_rule.any_chunk(hits.ids)


def _docs(hits: Hits, doc_rule: DocRule, rows: Ints) -> Ids:
    guessed = doc_rule.docs(take(hits.ids, rows))
    if hits.docs is None:
        return guessed
    said = take_list(hits.docs, rows)
    return like(guessed, [s or g for s, g in zip(said, as_list(guessed), strict=True)])


def _ranks(hits: Hits, query: Ints, rows: Ints, order: Ints | None) -> Ints:
    return places_of(order, rows) - hits.offsets[query[rows]] + 1


def _first_of_item(items: Ints) -> Bools:
    """Items come by query and rank: the first row of each item is where it was found."""
    order = np.argsort(items, kind="stable")
    first = np.ones(len(items), np.bool_)
    first[order[1:]] = items[order[1:]] != items[order[:-1]]
    return first


def _gold_side(gold: Gold, queries: Ints) -> tuple[Ints, Floats]:
    items = gold.items_of(queries)
    counts = gold.offsets[queries + 1] - gold.offsets[queries]
    query = np.repeat(np.arange(len(queries)), counts)
    grade = gold.grades[items]
    order = np.lexsort((-grade, query))
    return query[order], grade[order]


def _cutoffs(gold: Gold, queries: Ints, rules: Rules) -> Ints:
    own = gold.k[queries]
    return np.where(own > 0, own, rules.k)
