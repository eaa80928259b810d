"""In which order do the hits of a query stand: rank where given, else score, else position.

Nothing is sorted that stands in order already, and ties are settled only where somebody looks."""

from __future__ import annotations

import numpy as np

from karat.audit import Audit
from karat.hits import Hits
from karat.ids import Bools, Floats, Ints, take_list


def rank_order(hits: Hits, query: Ints, rows: Ints, depth: int, audit: Audit) -> Ints | None:
    """The row at each place of the ranking, or None where rows stand in ranking order already.

    Exact for the places of `rows` (the judged hits) and for the first `depth` places of every query.
    """
    if hits.rank is not None and not np.isnan(hits.rank).any():
        _count_contradictions(hits, query, audit)
        return _by_rank(hits, query, hits.rank, audit)
    if hits.rank is None and hits.score is not None and not np.isnan(hits.score).any():
        return _by_score(hits, query, hits.score, rows, depth, audit)
    if hits.rank is None and (hits.score is None or np.isnan(hits.score).all()):
        return None
    return _by_best_of_each(hits, query, audit)


def drop_repeats(hits: Hits, audit: Audit) -> Hits:
    """Keep the first place of every id in its query."""
    query = hits.query_of_row
    order = rank_order(hits, query, np.arange(len(query)), 0, Audit())
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


def _by_rank(hits: Hits, query: Ints, rank: Floats, audit: Audit) -> Ints | None:
    place = np.arange(len(query)) - hits.offsets[query] + 1
    if (rank == place).all():
        return None
    same_query = query[1:] == query[:-1]
    _count_queries("rank_order", hits, query[1:][same_query & (rank[1:] < rank[:-1])], audit)
    order = np.lexsort((rank, query))
    ordered = rank[order]
    _count_queries("rank_ties", hits, query[1:][same_query & (ordered[1:] == ordered[:-1])], audit)
    _count_queries("rank_gaps", hits, query[ordered != place], audit)
    return order


def _count_contradictions(hits: Hits, query: Ints, audit: Audit) -> None:
    """Queries in which a lower rank has a higher score. Looked for in listed order: repairs come later."""
    if hits.score is None or hits.rank is None:
        return
    rank, score = hits.rank, hits.score
    against = (query[1:] == query[:-1]) & (rank[1:] > rank[:-1]) & (score[1:] > score[:-1])
    _count_queries("rank_against_score", hits, query[1:][against], audit)


def _by_score(hits: Hits, query: Ints, score: Floats, rows: Ints, depth: int, audit: Audit) -> Ints | None:
    same_query = query[1:] == query[:-1]
    order: Ints | None = None
    ordered = score
    if (same_query & (score[1:] > score[:-1])).any():
        order = np.lexsort((-score, query))
        ordered = score[order]
    tied = same_query & (ordered[1:] == ordered[:-1])
    if not tied.any():
        return order
    _count_queries("score_ties", hits, query[1:][tied], audit)
    return _settle_ties(hits, query, tied, order, rows, depth)


def _settle_ties(hits: Hits, query: Ints, tied: Bools, order: Ints | None, rows: Ints, depth: int) -> Ints | None:
    """Sort by id, descending, inside the runs of equal score that hold a judged hit or reach the top.

    `tied[i]`: places i and i + 1 of the ranking have the same query and score.
    """
    n = len(query)
    edges = np.concatenate([[False], tied, [False]])
    looked_at = np.concatenate([places_of(order, rows), _top_places(hits, depth)])
    looked_at = looked_at[edges[looked_at] | edges[looked_at + 1]]
    if not len(looked_at):
        return order
    breaks = np.flatnonzero(~edges)
    last = np.unique(np.searchsorted(breaks, looked_at, "right"))
    starts, ends = breaks[last - 1], breaks[last]
    sizes = ends - starts
    run = np.repeat(np.arange(len(starts)), sizes)
    places = np.arange(len(run)) + (starts - (np.cumsum(sizes) - sizes))[run]
    order = np.arange(n) if order is None else order
    ids = take_list(hits.ids, order[places])
    # Python orders text by code point, which is the order of its UTF-8 bytes, and so trec_eval's.
    by_id = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)
    by_id.sort(key=run.tolist().__getitem__)
    order[places] = order[places[np.array(by_id)]]
    return order


def places_of(order: Ints | None, rows: Ints) -> Ints:
    """Where in the ranking the given rows stand."""
    if order is None:
        return rows
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return inverse[rows]


def _top_places(hits: Hits, depth: int) -> Ints:
    """The first `depth` places of every query."""
    counts = np.minimum(np.diff(hits.offsets), depth)
    first = np.repeat(hits.offsets[:-1] - (np.cumsum(counts) - counts), counts)
    return first + np.arange(counts.sum())


def _by_best_of_each(hits: Hits, query: Ints, audit: Audit) -> Ints | None:
    """Some hits have a rank or score and some have not: each query goes by what all of its hits have."""
    n, size = len(query), len(hits.queries)

    def complete(column: Floats | None) -> Bools:
        if column is None:
            return np.zeros(size, np.bool_)
        gaps: Ints = np.bincount(query[np.isnan(column)], minlength=size)
        return np.equal(gaps, 0)

    ranked, scored = complete(hits.rank), complete(hits.score)
    position = np.arange(n, dtype=np.float64)
    by_score = position if hits.score is None else -hits.score
    by_rank = position if hits.rank is None else hits.rank
    key = np.where(ranked[query], by_rank, np.where(scored[query], by_score, position))
    partial = ~ranked & ~scored & (np.diff(hits.offsets) > 0)
    said = np.zeros(size, np.bool_)
    for column in (hits.rank, hits.score):
        if column is not None:
            said[query[~np.isnan(column)]] = True
    _count_queries("partial_order", hits, np.flatnonzero(partial & said), audit)
    # Descending id inside equal keys of scored queries; listed order inside equal ranks.
    order = np.lexsort((key, query))
    tied = (query[1:] == query[:-1]) & (key[order][1:] == key[order][:-1]) & ~ranked[query[1:]]
    if not tied.any():
        return order
    _count_queries("score_ties", hits, query[1:][tied], audit)
    return _settle_ties(hits, query, tied, order, np.arange(n), 0)


def _count_queries(code: str, hits: Hits, queries: Ints, audit: Audit) -> None:
    found = np.flatnonzero(np.bincount(queries, minlength=1))
    audit.count(code, len(found), (hits.queries[i] for i in found[:3]))
