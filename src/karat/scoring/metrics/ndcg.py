"""Graded gain, discounted by rank, against the best that the gold allows."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
from typing import Literal

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged, relevance
from karat.scoring.metrics.base import INFINITE, Relevance
from karat.scoring.unjudged import OpenLists
from karat.statistics.gain_ratio import OpenGains, largest_ratio

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

    def influence(self, lists: OpenLists) -> Floats | None:
        if self.budget is not None:
            return None
        limit = self.limit(lists.second)[lists.query]
        first, second = (np.where(rank <= limit, 1 / np.log2(rank + 1), 0.0) for rank in lists.ranks)
        return np.asarray(second - first)

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """Both lists are divided by the same ideal, which open items change as well."""
        limit = self.limit(lists.second)
        gains = self._gains(lists.levels)
        known = [self._known(judged, limit, lists.levels, gains) for judged in (lists.first, lists.second)]
        most = limit if labels is None else np.minimum(limit, labels)  # more than the limit change nothing
        item, place = lists.place(influence)
        kept = place < most[lists.query[item]]
        item, place = item[kept], place[kept]
        table = np.zeros((lists.second.n, int(place.max(initial=-1)) + 1))
        table[lists.query[item], place] = -influence[item]
        found = largest_ratio(
            OpenGains(
                known=known[0] - known[1],
                influence=table,
                open=np.bincount(lists.query[item], minlength=lists.second.n),
                steps=np.diff(gains),
                above=self._above(lists.second, lists.levels),
                limit=limit,
            )
        )
        return np.where(lists.second.relevant(self.rel) > 0, -found, np.nan)

    def _gains(self, levels: Floats) -> Floats:
        """Of each level, scaled down where grades are too large; the ratio is the same."""
        down = max(float(levels[-1]) - _LARGEST, 0.0)
        gains = levels if self.gain == "linear" else np.exp2(levels - down) - np.exp2(-down)
        return np.where(relevance(levels, self.rel), gains, 0.0)

    def _known(self, judged: Judged, limit: Ints, levels: Floats, gains: Floats) -> Floats:
        found = self.found(judged, limit)
        gain = gains[np.searchsorted(levels, judged.hit_grade[found])]
        return judged.per_query(judged.hit_query[found], gain / np.log2(judged.hit_rank[found] + 1))

    def _above(self, judged: Judged, levels: Floats) -> Ints:
        """How many gold items of each query reach each level above the lowest."""
        level = np.searchsorted(levels, judged.gold_grade)
        counts = np.zeros((judged.n, len(levels)), np.int64)
        np.add.at(counts, (judged.gold_query, level), 1)
        return counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]

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
