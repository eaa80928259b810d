"""Fuses or cuts the lists of runs, for all queries at once, and judges what comes out by rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from karat.data.bulk import Bulk
from karat.data.gold import Gold
from karat.data.hits import Hits
from karat.data.ids import Bools, Floats, Ints, as_list
from karat.scoring.judged import Judged, Rules, cutoffs, first_of_item, gold_side, logged_or_estimated
from karat.scoring.table import JudgedTable

_Cube = NDArray[np.float64]


class Candidates(Bulk, frozen=True):
    """Every hit of every list, once per query. Arrays are list × query × place; places are ordered by id, descending,
    which settles ties."""

    gold: Gold
    rows: Ints  # of the queries in the gold set
    present: Bools  # queries that some list has
    size: Ints  # hits of each query
    ids: list[str]  # by query and place
    docs: list[str] | None  # "": not given
    ranks: _Cube  # infinite where a list does not have the hit
    scores: _Cube | None  # NaN where a list does not have the hit; None: a list has no scores
    tokens: Floats | None  # query × place, NaN where unknown
    hit_query: Ints  # judged hits
    hit_place: Ints
    hit_item: Ints  # of the gold set

    @property
    def width(self) -> int:
        return int(self.ranks.shape[2])

    def reciprocal_ranks(self, constant: float) -> _Cube:
        """What each list adds to a hit's score in reciprocal rank fusion."""
        return 1 / (constant + self.ranks)

    def scaled_scores(self) -> _Cube:
        """Scores of each list, from 0 for the lowest to 1 for the highest of a query; 1 if all are equal."""
        assert self.scores is not None
        with np.errstate(invalid="ignore"):
            low = np.nanmin(np.where(np.isnan(self.scores), np.inf, self.scores), axis=2, keepdims=True)
            high = np.nanmax(np.where(np.isnan(self.scores), -np.inf, self.scores), axis=2, keepdims=True)
            scaled = np.where(high > low, (self.scores - low) / np.where(high > low, high - low, 1), 1.0)
        return np.where(np.isnan(self.scores), 0.0, scaled)

    def fused(self, parts: _Cube, weights: Sequence[float]) -> Floats:
        """Query × place: weighted sums, −∞ where no list with a weight has the hit. Lists are added in their order."""
        total, there = np.zeros(parts.shape[1:]), np.zeros(parts.shape[1:], np.bool_)
        for part, ranks, weight in zip(parts, self.ranks, weights, strict=True):
            if weight:
                total += part if weight == 1 else weight * part
                there |= np.isfinite(ranks)
        return np.where(there, total, -np.inf)

    def listed(self, at: int, min_score: float | None = None) -> Floats:
        """One list as it is, without hits below a score."""
        keep = np.isfinite(self.ranks[at])
        if min_score is not None:
            assert self.scores is not None
            with np.errstate(invalid="ignore"):
                keep = keep & ~(self.scores[at] < min_score)
        return np.where(keep, -self.ranks[at], -np.inf)


class Ranked(Bulk, frozen=True):
    """Candidates in an order."""

    candidates: Candidates
    order: Ints  # place of the hit at each rank
    depth: Ints  # hits of each query

    @classmethod
    def by(cls, candidates: Candidates, score: Floats) -> Ranked:
        """Highest score first, ties by place."""
        order = np.argsort(-score, axis=1, kind="stable")
        return cls(candidates, order, np.isfinite(score).sum(axis=1))

    def cut(self, top_k: int | None) -> Ranked:
        return self if top_k is None else Ranked(self.candidates, self.order, np.minimum(self.depth, top_k))

    def _tokens_up_to(self) -> Floats:
        """Query × rank: tokens of the first hits together, NaN from the first that is unknown."""
        if "_up_to" not in self.__dict__:
            assert self.candidates.tokens is not None
            self.__dict__["_up_to"] = np.cumsum(np.take_along_axis(self.candidates.tokens, self.order, axis=1), axis=1)
        return self.__dict__["_up_to"]  # type: ignore[no-any-return]

    def spent(self, top_k: int | None = None) -> Floats:
        """Tokens of each list, or of its first hits."""
        depth = self.depth if top_k is None else np.minimum(self.depth, top_k)
        up_to = np.concatenate([np.zeros((len(depth), 1)), self._tokens_up_to()], axis=1)
        return np.asarray(np.take_along_axis(up_to, depth[:, None], axis=1)[:, 0])

    def fitting(self, budget: int) -> tuple[Ints, Bools]:
        """How many hits of each query fit into a budget, and whether that is known."""
        inside = np.arange(self.candidates.width) < self.depth[:, None]
        up_to = self._tokens_up_to()
        with np.errstate(invalid="ignore"):
            counts = ((up_to <= budget) & inside).sum(axis=1)
            over = ((up_to > budget) & inside).any(axis=1)
        unknown = (np.isnan(up_to) & inside).any(axis=1) & ~over
        return counts, np.asarray(~unknown)

    def judged(self, rules: Rules, budget: int | None = None) -> Judged:
        """In the form that metrics use."""
        own = self.candidates
        rank_of = np.empty_like(self.order)
        np.put_along_axis(rank_of, self.order, np.arange(1, own.width + 1)[None, :], axis=1)
        rank = rank_of[own.hit_query, own.hit_place]
        kept = np.flatnonzero(rank <= self.depth[own.hit_query])
        query, rank, items = own.hit_query[kept], rank[kept], own.hit_item[kept]
        order = np.lexsort((-own.gold.grades[items], rank, query))
        query, rank, items = query[order], rank[order], items[order]
        gold_query, gold_grade = gold_side(own.gold, own.rows)
        found = Judged(
            gold=own.gold,
            queries=own.rows,
            present=own.present,
            depth=self.depth,
            k=cutoffs(own.gold, own.rows, rules),
            gold_query=gold_query,
            gold_grade=gold_grade,
            hit_query=query,
            hit_rank=rank,
            hit_grade=own.gold.grades[items],
            hit_new=first_of_item(items),
            hit_item=items,
            zero_without_gold=rules.no_relevant == "zero",
        )
        if budget is not None:
            found.__dict__["_fitting"] = {budget: self.fitting(budget)}
        return found


class ListOfRun(Bulk, frozen=True):
    """The first hits of each query of one run, in ranking order, and which of them are judged."""

    name: str
    hits: list[Hits]
    table: JudgedTable


def candidates_of(lists: Sequence[ListOfRun], rows: Ints, depth: int) -> Candidates:
    """The first `depth` hits of each list, matched by id."""
    gold = lists[0].table.gold
    at = np.full(len(gold.queries), -1)
    at[rows] = np.arange(len(rows))
    parts = [_flat(one, at, depth) for one in lists]
    query = np.concatenate([part.query for part in parts])
    ids = [item for part in parts for item in part.ids]
    names = sorted(set(ids), reverse=True)
    number = {name: i for i, name in enumerate(names)}
    code = np.fromiter(map(number.__getitem__, ids), np.int64, len(ids))
    keys, where = np.unique(query * max(len(names), 1) + code, return_inverse=True)
    where = where.reshape(-1)
    of, named = np.divmod(keys, max(len(names), 1))
    size = np.bincount(of, minlength=len(rows))
    start = np.append(0, np.cumsum(size))
    shape = (len(lists), len(rows), max(int(size.max(initial=0)), 1))
    ranks, scores = np.full(shape, np.inf), np.full(shape, np.nan)
    tokens: Floats = np.full(shape[1:], np.nan)
    docs, has_docs, judged, begin = [""] * len(keys), False, [], 0
    for number_of_list, (part, one) in enumerate(zip(parts, lists, strict=True)):
        mine = where[begin : begin + len(part.ids)]
        begin += len(part.ids)
        place = mine - start[part.query]
        ranks[number_of_list, part.query, place] = part.rank
        scores[number_of_list, part.query, place] = part.score
        known = ~np.isnan(part.tokens)
        tokens[part.query[known], place[known]] = part.tokens[known]
        for row, doc in zip(mine.tolist(), part.docs, strict=False):
            docs[row], has_docs = docs[row] or doc, has_docs or bool(doc)
        judged.append(_judged_places(one.table, at, part, place, depth))
    triples = np.unique(np.concatenate(judged, axis=1), axis=1)
    scored = ~(np.isfinite(ranks) & np.isnan(scores)).any()
    return Candidates(
        gold=gold,
        rows=rows,
        present=np.any([one.table.present[rows] for one in lists], axis=0),
        size=size,
        ids=[names[i] for i in named.tolist()],
        docs=docs if has_docs else None,
        ranks=ranks,
        scores=scores if scored else None,
        tokens=None if np.isnan(tokens).all() else tokens,
        hit_query=triples[0],
        hit_place=triples[1],
        hit_item=triples[2],
    )


class _Flat(Bulk, frozen=True):
    """Hits of one list, by query and rank."""

    query: Ints
    rank: Ints
    ids: list[str]
    score: Floats
    tokens: Floats
    docs: list[str]
    begin: Ints  # where the hits of each query begin


def _flat(one: ListOfRun, at: Ints, depth: int) -> _Flat:
    index = one.table.gold.index
    query, rank, ids, docs, score, tokens = [], [], [], [], [], []
    for hits in one.hits:
        row = at[np.array([index[name] for name in hits.queries], np.int64)][hits.query_of_row]
        place = np.arange(len(row)) - hits.offsets[hits.query_of_row]
        keep = np.flatnonzero((place < depth) & (row >= 0))
        query.append(row[keep])
        rank.append(place[keep] + 1)
        score.append(np.full(len(keep), np.nan) if hits.score is None else hits.score[keep])
        names = as_list(hits.ids)
        ids += [names[i] for i in keep.tolist()]
        of = [] if hits.docs is None else as_list(hits.docs)
        docs += [of[i] for i in keep.tolist()] if of else [""] * len(keep)
        tokens.append(_sizes(hits, keep))
    none = np.zeros(0, np.int64)
    queries = np.concatenate([none, *query])
    by_query = np.argsort(queries, kind="stable")
    queries = queries[by_query]
    listed = by_query.tolist()
    return _Flat(
        query=queries,
        rank=np.concatenate([none, *rank])[by_query],
        ids=[ids[i] for i in listed],
        score=np.concatenate([none.astype(np.float64), *score])[by_query],
        tokens=np.concatenate([none.astype(np.float64), *tokens])[by_query],
        docs=[docs[i] for i in listed],
        begin=np.searchsorted(queries, np.arange(int(at.max(initial=-1)) + 1)),
    )


def _sizes(hits: Hits, rows: Ints) -> Floats:
    if not hits.columns.keys() & {"tokens", "text"}:
        return np.full(len(rows), np.nan)
    sizes = [logged_or_estimated(hits, row) for row in rows.tolist()]
    return np.array([np.nan if size is None else size for size in sizes], np.float64)


def _judged_places(table: JudgedTable, at: Ints, part: _Flat, place: Ints, depth: int) -> NDArray[np.int64]:
    """Query, place and item of the judged hits of one list."""
    query = at[table.query]
    kept = np.flatnonzero((query >= 0) & (table.rank <= depth))
    rows = part.begin[query[kept]] + table.rank[kept] - 1
    return np.stack([query[kept], place[rows], table.item[kept]])
