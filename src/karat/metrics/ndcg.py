"""Graded gain, discounted by rank, against the best that the gold allows."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
from typing import Literal

import numpy as np

from karat.ids import Floats, Ints
from karat.judged import Judged, relevance
from karat.metrics.base import INFINITE, Relevance

_LARGEST = 500.0


class NDCG(Relevance, frozen=True, kw_only=True):
    """Discounted gain of the top k divided by that of the ideal ranking of the whole gold set.

    The gain of grade g is 2^g − 1, or g with gain=linear (trec_eval's choice); for binary gold both are equal.
    The discount is 1 / log2(rank + 1). The ideal comes from the gold, never from what was retrieved: tools
    that sort the retrieved list give a perfect score to a run that found one item of ten. Under a budget of
    tokens (`ndcg@2000tok`) the ideal is not cut: which items would fit, the gold does not say. A hit that holds
    several passages gains all of them; more than 1 is never given.

    >>> import karat
    >>> result = karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["ndcg@5"])
    >>> round(result.means["ndcg@5"], 4)
    0.6509
    """

    name = "ndcg"
    cutoff = "required"
    aliases = {
        "ndcg_cut": "ndcg(gain=linear)",
        "retrieval-ndcg": "ndcg(gain=linear)",
        "retrieval_ndcg": "ndcg(gain=linear)",
        "ndcg_exp": "ndcg",
        "ndcg_linear": "ndcg(gain=linear)",
    }
    trec_eval = "ndcg_cut_{k} (gain=linear)"

    gain: Literal["exp", "linear"] = "exp"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        limit = self.limit(judged)
        found = self.found(judged, limit)
        actual = self._dcg(judged, judged.hit_query[found], judged.hit_grade[found], judged.hit_rank[found])
        share = actual / self._ideal(judged, limit if self.budget is None else np.full(judged.n, INFINITE))
        return share if judged.gold.located is None else np.minimum(share, 1.0)

    def _ideal(self, judged: Judged, limit: Ints) -> Floats:
        counts = relevance(judged.gold_grade, self.rel)
        query, grade = judged.gold_query[counts], judged.gold_grade[counts]
        rank = np.arange(len(query)) - np.searchsorted(query, np.arange(judged.n))[query] + 1
        inside = rank <= limit[query]
        return self._dcg(judged, query[inside], grade[inside], rank[inside])

    def _dcg(self, judged: Judged, query: Ints, grade: Floats, rank: Ints) -> Floats:
        gain = grade if self.gain == "linear" else _exponential(grade, judged, query)
        return judged.per_query(query, gain / np.log2(rank + 1))


def _exponential(grade: Floats, judged: Judged, query: Ints) -> Floats:
    """2^grade − 1. Grades too large for that are scaled down for the whole query, which leaves the ratio as it is."""
    if judged.gold_grade.max(initial=0) <= _LARGEST:
        return np.exp2(grade) - 1
    highest = np.zeros(judged.n)
    np.maximum.at(highest, judged.gold_query, judged.gold_grade)
    down = np.maximum(highest - _LARGEST, 0)[query]
    return np.exp2(grade - down) - np.exp2(-down)
