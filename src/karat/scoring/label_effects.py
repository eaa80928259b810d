"""What one more label would do to a metric, one label at a time."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from karat.data.ids import Floats, Ints, rows_of
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric


def label_effects(judged: Judged, metric: Metric, query: Ints, rank: Ints, grade: float) -> Floats:
    """The change of a metric for each pair's query, one pair at a time.

    `query`: the pair's query, as a row of `judged`; `rank`: its rank in the list, 0 if it is not there. A query without
    relevant items, and so without a value, counts as 0.
    """
    before = np.nan_to_num(metric.score(judged))
    return np.nan_to_num(metric.score(_supposed(judged, query, rank, grade))) - before[query]


def assume(judged: Judged, query: Ints, rank: Ints, grade: float) -> Judged:
    """The same queries with more relevant items in their gold and, where they have a rank (above 0), in their hits."""
    found = np.flatnonzero(rank)
    gold_query = np.append(judged.gold_query, query)
    gold_grade = np.append(judged.gold_grade, np.full(len(query), grade))
    hit_query, hit_rank = np.append(judged.hit_query, query[found]), np.append(judged.hit_rank, rank[found])
    by_grade, by_rank = np.lexsort((-gold_grade, gold_query)), np.lexsort((hit_rank, hit_query))
    return replace(
        judged,
        gold_query=gold_query[by_grade],
        gold_grade=gold_grade[by_grade],
        hit_query=hit_query[by_rank],
        hit_rank=hit_rank[by_rank],
        hit_grade=np.append(judged.hit_grade, np.full(len(found), grade))[by_rank],
        hit_new=np.append(judged.hit_new, np.ones(len(found), np.bool_))[by_rank],
        hits=None,
        order=None,
        hit_item=None,
    )


def _supposed(judged: Judged, query: Ints, rank: Ints, grade: float) -> Judged:
    """One query per pair: the pair's own, with one more item in its gold and, if it was found, in its hits."""
    gold_of, gold_rows = _repeated(judged.gold_query, judged.n, query)
    hits_of, hit_rows = _repeated(judged.hit_query, judged.n, query)
    alone = replace(
        judged,
        queries=judged.queries[query],
        present=judged.present[query],
        depth=judged.depth[query],
        k=judged.k[query],
        gold_query=gold_of,
        gold_grade=judged.gold_grade[gold_rows],
        hit_query=hits_of,
        hit_rank=judged.hit_rank[hit_rows],
        hit_grade=judged.hit_grade[hit_rows],
        hit_new=judged.hit_new[hit_rows],
        by_document=None if judged.by_document is None else judged.by_document[query],
        hits=None,
        order=None,
        hit_item=None,
    )
    return assume(alone, np.arange(len(query)), rank, grade)


def _repeated(owner: Ints, owners: int, wanted: Ints) -> tuple[Ints, Ints]:
    """(place among the wanted, row) of all rows of the wanted owners; `owner` is sorted."""
    offsets = np.searchsorted(owner, np.arange(owners + 1))
    counts = offsets[wanted + 1] - offsets[wanted]
    return np.repeat(np.arange(len(wanted)), counts), rows_of(offsets, wanted)
