"""The ranking of a query's hits: by rank if given, else by score, else by position.

Hits that are already in order are not sorted, and ties are only resolved where it matters."""

from __future__ import annotations

import re
from itertools import islice
from operator import lt
from typing import Any, TypeAlias

import numpy as np

from karat.data.audit import Audit
from karat.data.hits import Hits
from karat.data.ids import Bools, Floats, Ids, Ints, as_list, take, take_list
from karat.data.packed_ids import Shape
from karat.data.score_order import compared, ties_at
from karat.scoring.options import CountingOptions

_Key: TypeAlias = np.ndarray[Shape, np.dtype[np.floating[Any]]]
_FEW = 16  # moved rows are few if they are less than one in so many
_NEARBY = 64


def rank_order(hits: Hits, rows: Ints, depth: int, rules: CountingOptions) -> Ints | None:
    """The row at each place of the ranking, or None where rows are in ranking order already.

    Exact for the places of `rows` (the judged hits) and for the first `depth` places of every query.
    """
    if hits.rank is None and hits.score is not None:
        scores = hits.score_order(rules.score_width)
        if scores.usual:
            settled = rules.ties == "listed" or not scores.any_ties
            return None if settled else _settle_ties(hits, scores.tied, None, rows, depth)
    if hits.ranked_as_listed:
        return None
    query = hits.query_of_row
    key = _sort_key(hits, rules)
    if key is None:
        return None
    order = _sorted(key, query)
    ordered = key if order is None else key[order]
    tied = _neighbours(query, ordered[1:] == ordered[:-1])
    if tied.any() and (hits.rank is not None or hits.score is None):
        tied &= _scored(hits)[query[1:]]  # equal ranks stay as listed
    if rules.ties == "listed" or not tied.any():
        return order
    return _settle_ties(hits, np.concatenate([[False], tied]), order, rows, depth)


def inspect_order(hits: Hits, audit: Audit, rules: CountingOptions) -> None:
    """Count irregular ranks and scores, before anything is cut or removed."""
    if hits.score is not None:
        hits.score_order(rules.score_width)  # shared by all that follows
    ranked, scored = _ranked(hits), _scored(hits)
    if hits.rank is not None:
        _inspect_ranks(hits, hits.rank, ranked, audit)
    if hits.score is not None and scored.any():
        _inspect_scores(hits, hits.score, scored, audit, rules)
    _inspect_partial(hits, ranked | scored, audit)
    if hits.rowwise:
        _count_queries("row_order", hits, np.flatnonzero(listed_only(hits)), audit, ~(ranked | scored))
    elif rules.scores is not None:
        _count_queries("scores_unused", hits, np.flatnonzero(listed_only(hits)), audit, ~(ranked | scored))


def listed_only(hits: Hits) -> Bools:
    """Queries without any rank or score."""
    found = hits.counts > 0
    for column in (hits.rank, hits.score):
        if column is not None and found.any():
            said = ~np.isnan(column)
            if said.all():
                return np.zeros(len(found), np.bool_)
            found &= np.bincount(hits.query_of_row[said], minlength=len(found)) == 0
    return found


def score_decides(hits: Hits) -> Bools:
    """Queries with hits whose order the score decides."""
    return _scored(hits) & (hits.counts > 0)


def sorted_by_id(hits: Hits, queries: Ints) -> tuple[list[int], int]:
    """For some queries, how many different ids each has whose hits are sorted by id; and how many are not."""
    sizes = []
    for at in queries.tolist():
        ids = take_list(hits.ids, np.arange(hits.offsets[at], hits.offsets[at + 1]))
        if ids == sorted(ids) or ids == sorted(ids, key=_natural):
            sizes.append(len(set(ids)))
    return sizes, len(queries) - len(sizes)


def _natural(item: str) -> list[tuple[int, str]]:
    """A sort key that puts `d10` after `d9`."""
    return [(len(part.lstrip("0")) if part.isdecimal() else 0, part) for part in re.split(r"(\d+)", item)]


def score_slopes(hits: Hits) -> tuple[int, int, Ints]:
    """Queries whose scores only rise down their lists, queries whose scores fall somewhere, and how many different
    scores each of the first has. Only for lists whose order the score decides."""
    if hits.score is None or len(hits.score) < 2:
        return 0, 0, np.zeros(0, np.int64)
    scores, decides = hits.score_order(), _scored(hits)
    only = decides & scores.rises & ~scores.falls
    distinct = np.zeros(0, np.int64)
    if only.any():
        query, score = hits.query_of_row, hits.score
        rises = query[1:][_neighbours(query, score[1:] > score[:-1])]
        distinct = np.bincount(rises, minlength=len(only))[only] + 1
    return int(only.sum()), int((decides & scores.falls).sum()), distinct


def _inspect_scores(hits: Hits, score: Floats, scored: Bools, audit: Audit, rules: CountingOptions) -> None:
    scores = hits.score_order(rules.score_width)
    if scores.usual and not scores.any_ties:
        return
    tied, rounded = np.flatnonzero(scores.has_ties), np.flatnonzero(scores.rounded)
    if scores.unsorted.any():
        query, key = hits.query_of_row, -compared(score, rules.score_width)
        order = np.lexsort((key, query))
        ordered, exact = key[order], score[order]
        rows = np.flatnonzero(_neighbours(query, ordered[1:] == ordered[:-1]))
        tied, rounded = query[1:][rows], query[1:][rows[exact[rows + 1] != exact[rows]]]
    if len(tied):
        _count_queries("score_ties" if rules.ties == "id" else "listed_ties", hits, tied, audit, scored)
        _count_queries("score_width", hits, rounded, audit, scored)


def _inspect_ranks(hits: Hits, rank: Floats, ranked: Bools, audit: Audit) -> None:
    if hits.ranked_as_listed:
        if hits.score is not None:
            _count_queries("rank_against_score", hits, np.flatnonzero(hits.score_order().rises), audit, ranked)
        return
    query = hits.query_of_row
    place = np.arange(len(query)) - hits.offsets[query] + 1
    order = None
    if not (rank == place).all():
        _count_queries("rank_order", hits, query[1:][_neighbours(query, rank[1:] < rank[:-1])], audit, ranked)
        order = _sorted(rank, query)
        ordered = rank if order is None else rank[order]
        _count_queries("rank_ties", hits, query[1:][_neighbours(query, ordered[1:] == ordered[:-1])], audit, ranked)
        _count_queries("rank_gaps", hits, query[ordered != place], audit, ranked)
    if hits.score is not None:
        score = hits.score if order is None else hits.score[order]
        rises = _neighbours(query, score[1:] > score[:-1])
        _count_queries("rank_against_score", hits, query[1:][rises], audit, ranked)


def _inspect_partial(hits: Hits, settled: Bools, audit: Audit) -> None:
    if settled.all():
        return
    said = np.zeros(len(hits.queries), np.bool_)
    for column in (hits.rank, hits.score):
        if column is not None:
            said[hits.query_of_row[~np.isnan(column)]] = True
    _count_queries("partial_order", hits, np.flatnonzero(said), audit, ~settled)


def drop_repeats(hits: Hits, audit: Audit, rules: CountingOptions) -> Hits:
    """Keep the first occurrence of every id in its query."""
    query = hits.query_of_row
    order = rank_order(hits, np.arange(len(query)), 0, rules)
    ids = take_list(hits.ids, np.arange(len(query)))
    seen: set[tuple[int, str]] = set()
    keep = np.ones(len(query), np.bool_)
    for row in range(len(query)) if order is None else order.tolist():
        key = (int(query[row]), ids[row])
        keep[row] = key not in seen
        seen.add(key)
    repeats = np.flatnonzero(~keep)
    audit.count("duplicate_hits", len(repeats), (f"{hits.queries[query[i]]}: {ids[i]}" for i in repeats[:3]))
    return hits.select_rows(np.flatnonzero(keep))


def _sort_key(hits: Hits, rules: CountingOptions) -> _Key | None:
    """The sort key of each hit, lowest first: its rank, its negated score, or its position. None: as listed.

    Each query uses what all of its hits have.
    """
    ranked, scored = _ranked(hits), _scored(hits)
    if hits.rank is not None and ranked.all():
        return hits.rank
    if hits.score is not None and scored.all():
        return -compared(hits.score, rules.score_width)
    if not (ranked.any() or scored.any()):
        return None
    query = hits.query_of_row
    position = np.arange(len(query), dtype=np.float64)
    by_score = position if hits.score is None else -compared(hits.score, rules.score_width)
    by_rank = position if hits.rank is None else hits.rank
    return np.where(ranked[query], by_rank, np.where(scored[query], by_score, position))


def _ranked(hits: Hits) -> Bools:
    """Queries all of whose hits have a rank."""
    size = len(hits.queries)
    if hits.rank is None:
        return np.zeros(size, np.bool_)
    if hits.ranked_as_listed:
        return np.ones(size, np.bool_)
    gaps = np.isnan(hits.rank)
    if not gaps.any():
        return np.ones(size, np.bool_)
    return np.asarray(np.bincount(hits.query_of_row[gaps], minlength=size) == 0)


def _scored(hits: Hits) -> Bools:
    """Queries whose order is decided by score."""
    if hits.score is None:
        return np.zeros(len(hits.queries), np.bool_)
    complete = hits.score_order().complete
    return complete if hits.rank is None else complete & ~_ranked(hits)


def _sorted(key: _Key, query: Ints) -> Ints | None:
    """Rows by query and key, equal ones as listed; None where they are in order already."""
    return np.lexsort((key, query)) if _neighbours(query, key[1:] < key[:-1]).any() else None


def _neighbours(query: Ints, holds: Bools) -> Bools:
    """Where a condition holds for a row and the one before it, both of the same query."""
    together: Bools = query[1:] == query[:-1]
    return together & holds


def _settle_ties(hits: Hits, tied: Bools, order: Ints | None, rows: Ints, depth: int) -> Ints | None:
    """Sort by id, descending, inside the runs of equal score that hold a judged hit or reach the top.

    `tied[i]`: places i − 1 and i of the ranking have the same query and score.
    """
    looked_at = np.concatenate([places_of(order, rows), _top_places(hits, depth)])
    looked_at = looked_at[tied[looked_at] | (tied.take(looked_at + 1, mode="clip") & (looked_at + 1 < len(tied)))]
    if not len(looked_at):
        return order
    starts, ends = ties_at(tied, looked_at)
    sizes = ends - starts
    run = np.repeat(np.arange(len(starts)), sizes)
    places = np.arange(len(run)) + (starts - (np.cumsum(sizes) - sizes))[run]
    ids = take(hits.ids, places if order is None else order[places])
    wrong = _lower(ids) & (run[1:] == run[:-1])
    if wrong.any():
        order = np.arange(len(tied)) if order is None else order
        unsorted = np.bincount(run[1:][wrong], minlength=len(starts)).astype(np.bool_)
        pairs = starts[unsorted & (sizes == 2)]  # most ties are of two hits
        order[pairs], order[pairs + 1] = order[pairs + 1], order[pairs]
        longer = np.flatnonzero((unsorted & (sizes > 2))[run])
        if len(longer):
            _sort_by_id(order, places, as_list(ids), run, longer)
    return order


def _lower(ids: Ids) -> Bools:
    """Whether each id is lower than the next one. Python orders text by code point, as bytes of UTF-8 are ordered."""
    if isinstance(ids, np.ndarray):
        return np.asarray(ids[:-1] < ids[1:])
    names = as_list(ids)
    return np.fromiter(map(lt, names, islice(names, 1, None)), np.bool_, len(names) - 1)


def _sort_by_id(order: Ints, places: Ints, ids: list[str], run: Ints, among: Ints) -> None:
    # Python orders text by code point, which is the order of its UTF-8 bytes, and so trec_eval's.
    by_id = sorted(among.tolist(), key=ids.__getitem__, reverse=True)
    by_id.sort(key=run.tolist().__getitem__)
    order[places[among]] = order[places[np.array(by_id, np.int64)]]


def places_of(order: Ints | None, rows: Ints) -> Ints:
    """The places of the given rows in the ranking."""
    if order is None:
        return rows
    wrong = np.flatnonzero(order[rows] != rows)
    if len(wrong) < _NEARBY:  # ties move hits by a few places
        places = rows.copy()
        for nth in wrong.tolist():
            row = int(rows[nth])
            begin = max(0, row - _NEARBY)
            near = np.flatnonzero(order[begin : row + _NEARBY] == row)
            if not len(near):
                break
            places[nth] = begin + near[0]
        else:
            return places
    moved = np.flatnonzero(order != np.arange(len(order)))
    if len(moved) < len(order) // _FEW:  # mostly tied hits only
        moved = moved[np.argsort(order[moved])]
        at = np.minimum(np.searchsorted(order[moved], rows), len(moved) - 1)
        return np.where(order[moved[at]] == rows, moved[at], rows) if len(moved) else rows
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return inverse[rows]


def _top_places(hits: Hits, depth: int) -> Ints:
    """The first `depth` places of every query."""
    counts = np.minimum(hits.counts, depth)
    first = np.repeat(hits.offsets[:-1] - (np.cumsum(counts) - counts), counts)
    return first + np.arange(counts.sum())


def _count_queries(code: str, hits: Hits, queries: Ints, audit: Audit, among: Bools) -> None:
    if not len(queries):
        return
    found = np.flatnonzero(np.bincount(queries, minlength=len(among)).astype(np.bool_) & among)
    audit.count(code, len(found), (hits.queries[i] for i in found[:3]))
