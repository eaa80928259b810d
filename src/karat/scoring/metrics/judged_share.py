"""How much of the ranking does the gold know about."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric


class JudgedShare(Metric, frozen=True, kw_only=True):
    """Share of the top k hits that the gold has a grade for, 0 included.

    Low values mean that the other scores are lower bounds: an unjudged hit counts as not relevant. Divides
    by the hits returned where they are fewer than k; undefined without hits or without gold.

    >>> import karat
    >>> karat.evaluate({"q": ["a", "x", "n", "y"]}, {"q": {"a": 1, "n": 0}}, ["judged@4"]).means
    {'judged@4': 0.5}
    """

    name = "judged"
    cutoff = "required"

    def score(self, judged: Judged) -> Floats:
        limit = self.limit(judged)
        inside = judged.once_a_hit(judged.hit_rank <= limit[judged.hit_query])
        shown = np.minimum(judged.depth, limit)
        has_gold = np.bincount(judged.gold_query, minlength=judged.n) > 0
        with np.errstate(divide="ignore", invalid="ignore"):
            share = judged.per_query(judged.hit_query[inside]) / shown
        return np.where((shown > 0) & has_gold, share, np.nan)
