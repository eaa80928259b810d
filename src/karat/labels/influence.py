"""How much a label for each pair could change a comparison."""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.gold import Gold
from karat.data.ids import Floats, Ints, rows_of, take_list
from karat.errors import ConfigError
from karat.labels.files import HIGHEST
from karat.results.result import Result
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric, Relevance

_SAME = 1e-12  # smaller changes are floating-point noise
_PRIOR = 10.0  # weight of the overall share of relevant hits at each rank, in judged hits
_DEEP = 1 << 40


class FoundPair(msgspec.Struct):
    """A pair that some run found."""

    query: str
    item: str
    ranks: dict[str, int] = {}  # run → place
    text: str | None = None
    grade: float | None = None  # null: not judged
    near_duplicate_of: str | None = None
    possible: float | None = None  # the most its label can change the comparison, if requested
    expected: float | None = None  # the expected change


def find_influence(
    results: dict[str, Result], pairs: list[FoundPair], judged: list[tuple[int, float]], metric: Metric, gold: Gold
) -> None:
    """Set the influence of each pair on the means of a metric. `judged`: rank and grade of all judged hits.

    A label that calls a pair highly relevant changes the metric of its query by a different amount in each run. The
    possible change of a comparison is the largest difference between two of these amounts (for a single run, the
    amount), divided by the number of queries. The expected change is that times the chance of being relevant: the share
    of relevant hits among the judged hits at the same rank, shrunk towards the overall share if few are judged.
    """
    check_metric(metric)
    highest = float(gold.grades.max(initial=0)) or HIGHEST
    effects = np.array([_effects(result, pairs, metric, highest) for result in results.values()])
    span = np.abs(effects[0]) if len(effects) == 1 else effects.max(axis=0) - effects.min(axis=0)
    possible = np.where(span > _SAME, span, 0.0) / max(len(gold.queries) - int(gold.no_answer.sum()), 1)
    counted, relevant = Counter(rank for rank, _ in judged), Counter(rank for rank, grade in judged if grade > 0)
    overall = (relevant.total() + 1) / (len(judged) + 2)
    for pair, change in zip(pairs, possible.tolist(), strict=True):
        rank = min(pair.ranks.values())
        chance = (relevant[rank] + _PRIOR * overall) / (counted[rank] + _PRIOR)
        pair.possible, pair.expected = change, change * chance


def _effects(result: Result, pairs: list[FoundPair], metric: Metric, grade: float) -> Floats:
    """The change of each pair's query in one run; 0 if the query is missing from the run, since it fails anyway."""
    at_query: dict[str, list[int]] = {}
    for at, pair in enumerate(pairs):
        at_query.setdefault(pair.query, []).append(at)
    depth = metric.k or _DEEP
    effects = np.zeros(len(pairs))
    for judged in () if result.lists is None else result.lists.judged(at_query, depth):
        query, places, rank = _places(judged, pairs, at_query, depth)
        effects[places] = label_effects(judged, metric, query, rank, grade)
    return effects


def _places(
    judged: Judged, pairs: list[FoundPair], at_query: dict[str, list[int]], depth: int
) -> tuple[Ints, Ints, Ints]:
    """(row of the query, place among the pairs, rank or 0) of all pairs of these queries."""
    assert judged.hits is not None
    of, rows = judged.top(depth)
    first = np.searchsorted(of, np.arange(judged.n + 1)).tolist()
    names = take_list(judged.hits.ids, rows)
    found = []
    for row, name in enumerate(judged.hits.queries):
        listed = {item: rank for rank, item in enumerate(names[first[row] : first[row + 1]], 1)}
        found += [(row, place, listed.get(pairs[place].item, 0)) for place in at_query.get(name, ())]
    query, at, rank = np.array(found, np.int64).reshape(-1, 3).T
    return query, at, rank


def check_metric(metric: Metric) -> None:
    """Raise for a metric that does not depend on judged chunks alone."""
    if not isinstance(metric, Relevance) or metric.level == "doc" or metric.budget is not None:
        what, expected = f"{metric} does not use chunk labels", "such as ndcg@10, precision@5, recall@10 or mrr"
        raise ConfigError(what, code="unsuitable-metric", expected=expected)


def label_effects(judged: Judged, metric: Metric, query: Ints, rank: Ints, grade: float) -> Floats:
    """The change of a metric for each pair's query, one pair at a time.

    `query`: the pair's query, as a row of `judged`; `rank`: its rank in the list, 0 if it is not there. A query without
    relevant items, and so without a value, counts as 0.
    """
    before = np.nan_to_num(metric.score(judged))
    return np.nan_to_num(metric.score(_supposed(judged, query, rank, grade))) - before[query]


def _supposed(judged: Judged, query: Ints, rank: Ints, grade: float) -> Judged:
    """One query per pair: the pair's own, with one more item in its gold and, if it was found, in its hits."""
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
