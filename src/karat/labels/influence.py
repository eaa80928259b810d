"""How much a label for each pair could change a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from karat.data.gold import Gold
from karat.data.ids import Bools, Floats, Ints, take_list
from karat.errors import ConfigError
from karat.labels.files import HIGHEST
from karat.results.result import Result
from karat.scoring.judged import Judged
from karat.scoring.label_effects import assume, label_effects
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


class ChangesInWorlds(msgspec.Struct, frozen=True):
    """What labels do to one run, if other labels are given too."""

    effects: Floats  # of a label that says relevant, by pair; the mean over worlds in which the others are drawn
    values: dict[str, float]  # query → its mean score over the worlds


def changes_in_worlds(
    result: Result, pairs: Sequence[FoundPair], metric: Metric, grade: float, drawn: Bools
) -> ChangesInWorlds:
    """The mean effect of each pair's label and the mean score of each of their queries. `drawn`: pair × world, whether
    it is relevant there. One label at a time would not do: the first relevant item of a query changes nDCG much more
    than the tenth."""
    at_query: dict[str, list[int]] = {}
    for at, pair in enumerate(pairs):
        at_query.setdefault(pair.query, []).append(at)
    depth = metric.k or _DEEP
    effects, values = np.zeros(len(pairs)), dict[str, float]()
    for judged in () if result.lists is None else result.lists.judged(at_query, depth):
        assert judged.hits is not None
        query, places, rank = _places(judged, pairs, at_query, depth)
        summed, means = np.zeros(len(places)), np.zeros(judged.n)
        for world in range(drawn.shape[1]):
            there = drawn[places, world]
            assumed = assume(judged, query[there], rank[there], grade)
            means += np.nan_to_num(metric.score(assumed))
            summed[~there] += label_effects(assumed, metric, query[~there], rank[~there], grade)
        times = (~drawn[places]).sum(axis=1)
        alone = label_effects(judged, metric, query, rank, grade)
        effects[places] = np.where(times > 0, summed / np.maximum(times, 1), alone)
        values.update(zip(judged.hits.queries, (means / drawn.shape[1]).tolist(), strict=True))
    return ChangesInWorlds(effects, values)


def _places(
    judged: Judged, pairs: Sequence[FoundPair], at_query: dict[str, list[int]], depth: int
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
