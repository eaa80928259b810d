"""Relevant before judged not relevant: a metric that holes in the gold do not hurt."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged, relevance
from karat.scoring.metrics.base import Relevance


class Bpref(Relevance, frozen=True, kw_only=True):
    """Mean over relevant items of 1 − (judged not relevant ranked above) / min(R, N).

    R relevant and N judged not relevant items; at most R of the latter count. Unjudged hits are passed
    over; a relevant item that was not found adds 0. As trec_eval computes it.

    >>> import karat
    >>> gold = {"q": {"a": 1, "b": 1, "n": 0, "m": 0}}
    >>> karat.evaluate({"q": ["a", "n", "?", "b"]}, gold, ["bpref"]).means
    {'bpref': 0.75}
    """

    name = "bpref"
    trec_eval = "bpref"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        good = relevance(judged.hit_grade, self.rel)
        query = judged.hit_query
        bad_so_far = np.cumsum(~good & judged.hit_new)  # a document counts once, good or bad
        before = np.concatenate([[0], bad_so_far])[np.searchsorted(query, np.arange(judged.n))]
        bad_above = bad_so_far - before[query]
        bad_judged = np.bincount(judged.gold_query[~relevance(judged.gold_grade, self.rel)], minlength=judged.n)
        worst = np.minimum(relevant, bad_judged)[query]
        share = np.where(bad_above > 0, np.minimum(bad_above, relevant[query]) / np.maximum(worst, 1), 0.0)
        counts = good & judged.hit_new
        return judged.per_query(query[counts], 1.0 - share[counts]) / relevant
