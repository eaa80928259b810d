"""What a label could do: by how much a metric would change if a pair that nobody has judged had some grade."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from karat.data.ids import Floats, Ints, rows_of
from karat.errors import ConfigError
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric, Relevance


def check_metric(metric: Metric) -> None:
    """Only metrics that go by judged items alone can be asked what a label would do to them."""
    if not isinstance(metric, Relevance) or metric.level == "doc" or metric.budget is not None:
        what, expected = f"{metric} does not go by labels of chunks", "such as ndcg@10, precision@5, recall@10 or mrr"
        raise ConfigError(what, code="unsuitable-metric", expected=expected)


def label_effects(judged: Judged, metric: Metric, query: Ints, rank: Ints, grade: float) -> Floats:
    """The change of a metric of each pair's query, one pair at a time, all others as they are.

    `query`: the pair's query, as a row of `judged`; `rank`: its place in the list, 0 where it is not there. A query
    that has no relevant item, and so no value, counts as 0.
    """
    before = np.nan_to_num(metric.score(judged))
    return np.nan_to_num(metric.score(_supposed(judged, query, rank, grade))) - before[query]


def _supposed(judged: Judged, query: Ints, rank: Ints, grade: float) -> Judged:
    """One query a pair: the pair's own, with one more item in its gold and, where it was found, in its hits."""
    pairs = np.arange(len(query))
    gold_of, gold_rows = _repeated(judged.gold_query, judged.n, query)
    hits_of, hit_rows = _repeated(judged.hit_query, judged.n, query)
    found = np.flatnonzero(rank)
    gold_query, gold_grade = np.append(gold_of, pairs), np.append(judged.gold_grade[gold_rows], [grade] * len(pairs))
    hit_query, hit_rank = np.append(hits_of, found), np.append(judged.hit_rank[hit_rows], rank[found])
    by_grade, by_rank = np.lexsort((-gold_grade, gold_query)), np.lexsort((hit_rank, hit_query))
    return replace(
        judged,
        queries=judged.queries[query],
        present=judged.present[query],
        depth=judged.depth[query],
        k=judged.k[query],
        gold_query=gold_query[by_grade],
        gold_grade=gold_grade[by_grade],
        hit_query=hit_query[by_rank],
        hit_rank=hit_rank[by_rank],
        hit_grade=np.append(judged.hit_grade[hit_rows], [grade] * len(found))[by_rank],
        hit_new=np.append(judged.hit_new[hit_rows], np.ones(len(found), np.bool_))[by_rank],
        by_document=None if judged.by_document is None else judged.by_document[query],
        hits=None,
        order=None,
        hit_item=None,
    )


def _repeated(owner: Ints, owners: int, wanted: Ints) -> tuple[Ints, Ints]:
    """(place among the wanted, row) of all rows of the wanted owners; `owner` is sorted."""
    offsets = np.searchsorted(owner, np.arange(owners + 1))
    counts = offsets[wanted + 1] - offsets[wanted]
    return np.repeat(np.arange(len(wanted)), counts), rows_of(offsets, wanted)
