"""Where does the first relevant item stand."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import INFINITE, Relevance
from karat.scoring.unjudged import OpenLists


def first_rank(metric: Relevance, judged: Judged) -> Ints:
    """Rank of the first relevant hit of each query, INFINITE where there is none inside the cutoff."""
    found = metric.found(judged, metric.limit(judged))
    first = np.full(judged.n, INFINITE)
    np.minimum.at(first, judged.hit_query[found], judged.hit_rank[found])
    return first


class ReciprocalRank(Relevance, frozen=True, kw_only=True):
    """1 / rank of the first relevant item, 0 where there is none (in the top k, if k is given).

    Without a cutoff it looks as deep as the run goes.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["mrr", "mrr@1"]).means
    {'mrr': 0.5, 'mrr@1': 0.0}
    """

    name = "mrr"
    cutoff = "optional"
    aliases = {"rr": "mrr", "recip_rank": "mrr", "reciprocal_rank": "mrr"}
    trec_eval = "recip_rank"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        first = first_rank(self, judged)
        return np.where(first < INFINITE, 1.0 / first, 0.0)

    def influence(self, lists: OpenLists) -> Floats | None:
        if self.budget is not None:
            return None
        sides = zip((lists.first, lists.second), lists.ranks, strict=True)
        first, second = (self._with(judged, lists.query, rank) for judged, rank in sides)
        return np.asarray(second - first - self.known_difference(lists)[lists.query])

    def _with(self, judged: Judged, query: Ints, rank: Ints) -> Floats:
        """The score of the query of each open item if that item were relevant."""
        there = np.where(rank <= self.limit(judged)[query], 1.0 / rank, 0.0)
        return np.maximum(there, self.score(judged)[query])

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """Only the first relevant hit of a list counts, and any other may help the other list."""
        return self.known_difference(lists) + lists.lowest_one(influence, labels)


class TargetRank(Relevance, frozen=True, kw_only=True):
    """Rank of the first relevant item; undefined where it was not found.

    Meant for sets with a single target. The mean is over the queries that found it: read it beside hit@k.

    >>> import karat
    >>> result = karat.evaluate({"a": ["x", "t"], "b": ["x"]}, {"a": ["t"], "b": ["t"]}, ["target_rank"])
    >>> result.score("target_rank")
    {'a': 2.0, 'b': None}
    """

    name = "target_rank"
    direction = "lower"
    range = (1.0, float("inf"))
    cutoff = "optional"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        first = first_rank(self, judged)
        return np.where(first < INFINITE, first.astype(np.float64), np.nan)
