"""HITS + GOLD → Judged: the one place that handles ties, duplicates, missing queries, document-level gold and
thresholds. All decisions are counted in the audit."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from karat.data.bulk import Bulk
from karat.data.gold import Gold
from karat.data.hits import Hits
from karat.data.ids import (
    Bools,
    DocRule,
    Floats,
    Hashes,
    Ints,
    adjoin,
    hashes,
    take,
    take_list,
)
from karat.data.prices import Prices, estimate_tokens
from karat.errors import InputError
from karat.matching import THRESHOLD
from karat.options.option import option
from karat.scoring.options import CountingOptions

_SIZED = ("tokens", "text")
_SHARED = 4  # if one in this many hits is needed, all are hashed, once for all lookups


class Rules(CountingOptions):
    """Options of the user that change what counts."""

    prices: Prices | None = option(None)

    @property
    def needs(self) -> frozenset[str]:
        """Optional columns of hits."""
        versions = frozenset({"doc_version"} if self.no_future else ())
        if not self.forbid:
            return versions
        from karat.data.forbidden import read_rules

        return versions | {rule.column for rule in read_rules(self.forbid)}


class Judged(Bulk, frozen=True):
    """Some queries with the rank and grade of every judged hit: all that an id-based metric needs."""

    gold: Gold
    queries: Ints  # row of each query in the gold set
    present: Bools  # whether the run has the query
    depth: Ints  # hits returned
    k: Ints  # cutoff for metrics without their own
    gold_query: Ints  # items of the gold, by query and then grade, highest first
    gold_grade: Floats
    hit_query: Ints  # judged hits, by query and then rank; one that holds several passages has a row for each
    hit_rank: Ints
    hit_grade: Floats
    hit_new: Bools  # False for a later chunk of a document, or of a passage, that was found already
    by_document: Bools | None = None  # queries with hits matched by document or by passage; None = no query
    hits: Hits | None = None  # the hits themselves, in ranking order as deep as requested
    order: Ints | None = None  # row at each place of the ranking; None = as listed
    doc_rule: DocRule = msgspec.field(default_factory=DocRule)
    fuzzy_threshold: float = THRESHOLD
    hit_item: Ints | None = None  # the gold item that each judged hit is; None = no judged hits
    prices: Prices | None = None
    score_width: int = 32  # bits of scores that were compared
    forbid: tuple[str, ...] = ()  # rules about hits that a query must not get
    zero_without_gold: bool = False  # what queries without relevant gold score: 0, or undefined

    @property
    def n(self) -> int:
        return len(self.queries)

    def relevant(self, rel: float | None) -> Ints:
        """Number of relevant gold items of each query."""
        cache: dict[float | None, Ints] = self.__dict__.setdefault("_relevant", {})
        if rel not in cache:
            cache[rel] = np.bincount(self.gold_query[relevance(self.gold_grade, rel)], minlength=self.n)
        return cache[rel]

    @property
    def without_gold(self) -> Floats | float:
        """Score of a query without relevant gold; a query marked as having no answer stays undefined."""
        return np.where(self.gold.no_answer[self.queries] > 0, np.nan, 0.0) if self.zero_without_gold else np.nan

    def per_query(self, query: Ints, values: Floats | None = None) -> Floats:
        """Sum of values (or count) per query."""
        return np.bincount(query, values, self.n).astype(np.float64, copy=False)

    def within(self, limit: Ints | int) -> Bools:
        """Which judged hits are inside the cutoff: one for each query, or the same for all."""
        return self.hit_rank <= (limit if isinstance(limit, int) else limit[self.hit_query])

    @cached_property
    def perfect(self) -> Judged:
        """The same queries answered by the gold itself, best grades first: the ceiling of every metric."""
        depth = np.bincount(self.gold_query, minlength=self.n)
        first = np.cumsum(depth) - depth
        return Judged(
            gold=self.gold,
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
            zero_without_gold=self.zero_without_gold,
        )

    def once_a_hit(self, rows: Bools) -> Bools:
        """For these rows of judged hits, the first row of each hit, which has its highest grade."""
        if self.gold.located is None:
            return rows
        at = np.flatnonzero(rows)
        query, rank = self.hit_query[at], self.hit_rank[at]
        again = np.flatnonzero((query[1:] == query[:-1]) & (rank[1:] == rank[:-1])) + 1
        kept = rows.copy()
        kept[at[again]] = False
        return kept

    def top(self, k: Ints | int) -> tuple[Ints, Ints]:
        """(query, row) of the first k hits of each query, in ranking order."""
        assert self.hits is not None
        counts = np.minimum(self.depth, k)
        query = np.repeat(np.arange(self.n), counts)
        at = np.arange(len(query)) + (self.hits.offsets[:-1] - (np.cumsum(counts) - counts))[query]
        return query, at if self.order is None else self.order[at]

    def fitting(self, budget: int) -> tuple[Ints, Bools]:
        """How many hits of each query fit into a token budget, and whether that is known.

        The first hit that does not fit ends the list, whatever comes after it. Without tokens and text it is unknown
        whether a hit fits.
        """
        cache: dict[int, tuple[Ints, Bools]] = self.__dict__.setdefault("_fitting", {})
        if budget not in cache:
            cache[budget] = self._fit(budget)
        return cache[budget]

    def _fit(self, budget: int) -> tuple[Ints, Bools]:
        counts, known = np.zeros(self.n, np.int64), np.ones(self.n, np.bool_)
        if self.hits is None:
            return counts, known
        if not np.isnan(self._logged_tokens).any():
            inside = np.cumsum(self._logged_tokens if self.order is None else self._logged_tokens[self.order])
            before = np.concatenate([[0.0], inside])[self.hits.offsets]
            of = np.repeat(np.arange(self.n), self.depth)
            return self.per_query(of[inside - before[of] <= budget]).astype(np.int64), known
        starts = self.hits.offsets.tolist()
        for query in range(self.n):
            left = budget
            for place in range(starts[query], starts[query + 1]):
                size = self._tokens(place if self.order is None else int(self.order[place]))
                known[query] = size is not None
                if size is None or size > left:
                    break
                left -= size
                counts[query] += 1
        return counts, known

    @cached_property
    def _logged_tokens(self) -> Floats:
        """Tokens of every hit as logged, NaN where they are not."""
        assert self.hits is not None
        said = self.hits.columns.get("tokens")
        if said is None:
            return np.full(self.hits.offsets[-1], np.nan)
        if set(map(type, said)) <= {int} and min(said, default=0) >= 0:  # the usual case
            return np.array(said, np.float64)
        return np.array([np.nan if one is None else _whole(one) for one in said], np.float64)

    def tokens_of(self, rows: Ints) -> Floats:
        """Tokens of some hits, NaN where unknown."""
        sizes = self._logged_tokens[rows]
        for at in np.flatnonzero(np.isnan(sizes)).tolist():
            size = self._tokens(int(rows[at]))
            sizes[at] = np.nan if size is None else size
        return sizes

    def _tokens(self, row: int) -> int | None:
        """Tokens of one hit: as logged, else estimated from its text."""
        sizes: dict[int, int | None] = self.__dict__.setdefault("_sizes", {})
        if row not in sizes:
            assert self.hits is not None
            sizes[row] = logged_or_estimated(self.hits, row)
        return sizes[row]

    def doc_codes(self, rows: Ints) -> Hashes:
        """A number for each hit, the same for hits of the same document."""
        assert self.hits is not None
        if self.hits.docs is not None:
            return hashes(self.docs_of(rows))
        if _SHARED * len(rows) >= self.hits.offsets[-1]:
            return self.hits.doc_hashes(self.doc_rule)[rows]
        return self.doc_rule.doc_hashes(take(self.hits.ids, rows))

    def docs_of(self, rows: Ints) -> list[str]:
        assert self.hits is not None
        guessed = [self.doc_rule.doc(i) for i in take_list(self.hits.ids, rows)]
        if self.hits.docs is None:
            return guessed
        return [d or g for d, g in zip(take_list(self.hits.docs, rows), guessed, strict=True)]


def relevance(grade: Floats, rel: float | None) -> Bools:
    """Relevant is any grade above 0, or from the requested level on."""
    return grade > 0 if rel is None else grade >= rel


def judge_places(gold: Gold, queries: Ints, places: Ints, rules: Rules) -> Judged:
    """Queries for which only the rank of each gold item (of the whole set) is known, 0 = not in the list."""
    gold_query, gold_grade = gold_side(gold, queries)
    items = gold.items_of(queries)
    query = np.repeat(np.arange(len(queries)), gold.offsets[queries + 1] - gold.offsets[queries])
    found = np.flatnonzero(places[items])
    found = found[np.lexsort((places[items[found]], query[found]))]
    return Judged(
        gold=gold,
        queries=queries,
        present=np.ones(len(queries), np.bool_),
        depth=np.zeros(len(queries), np.int64),
        k=cutoffs(gold, queries, rules),
        gold_query=gold_query,
        gold_grade=gold_grade,
        hit_query=query[found],
        hit_rank=places[items[found]],
        hit_grade=gold.grades[items[found]],
        hit_new=np.ones(len(found), np.bool_),
        hit_item=items[found],
        zero_without_gold=rules.no_relevant == "zero",
    )


def judge_missing(gold: Gold, queries: Ints, rules: Rules) -> Judged:
    """Queries that the run does not have."""
    return _unanswered(gold, queries, rules, present=False)


def judge_none(gold: Gold, queries: Ints, by_document: Bools | None, rules: Rules) -> Judged:
    """Queries without their hits: enough for the score of a perfect or a random ranking."""
    return _unanswered(gold, queries, rules, present=True, by_document=by_document)


def _unanswered(gold: Gold, queries: Ints, rules: Rules, *, present: bool, by_document: Bools | None = None) -> Judged:
    gold_query, gold_grade = gold_side(gold, queries)
    none: Any = np.zeros(0, np.int64)
    return Judged(
        gold=gold,
        queries=queries,
        present=np.full(len(queries), present),
        depth=np.zeros(len(queries), np.int64),
        k=cutoffs(gold, queries, rules),
        gold_query=gold_query,
        gold_grade=gold_grade,
        hit_query=none,
        hit_rank=none,
        hit_grade=none.astype(np.float64),
        hit_new=none.astype(np.bool_),
        by_document=by_document,
        zero_without_gold=rules.no_relevant == "zero",
    )


def logged_or_estimated(hits: Hits, row: int) -> int | None:
    """Tokens of one hit: as logged, else estimated from its text; None if it has neither."""
    said, text = (hits.columns[name][row] if name in hits.columns else None for name in _SIZED)
    return _whole(said) if said is not None else None if text is None else estimate_tokens(text)


def _whole(tokens: Any) -> int:
    """A number of tokens from any source: a log, a table column, a corpus field."""
    text = str(tokens)
    if isinstance(tokens, bool) or not text.isdecimal():
        raise InputError(
            "not a number of tokens", code="bad-value", field="tokens", expected="a whole number, 0 or more", got=tokens
        )
    return int(text)


def first_of_item(items: Ints) -> Bools:
    """Items come by query and rank: the first row of each item is where it was found."""
    order = np.argsort(items, kind="stable")
    first = np.ones(len(items), np.bool_)
    first[order[1:]] = items[order[1:]] != items[order[:-1]]
    return first


def gold_side(gold: Gold, queries: Ints) -> tuple[Ints, Floats]:
    """The queries of all gold items and their grades, the highest first in each."""
    if adjoin(queries):
        items = slice(int(gold.offsets[queries[0]]), int(gold.offsets[queries[-1] + 1]))
        return gold.query_of_item[items] - queries[0], gold.best_first[items]
    counts = gold.offsets[queries + 1] - gold.offsets[queries]
    return np.repeat(np.arange(len(queries)), counts), gold.best_first[gold.items_of(queries)]


def cutoffs(gold: Gold, queries: Ints, rules: Rules) -> Ints:
    """The cutoff where a metric has none: the query's own k, else the configured one."""
    if not gold.has_cutoffs:
        return np.full(len(queries), rules.k)
    own = gold.k[queries]
    return np.where(own > 0, own, rules.k)
