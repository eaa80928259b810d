"""Rank-biased precision: a reader who goes on to the next hit with probability p."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Relevance
from karat.scoring.unjudged import OpenLists

Persistence = Annotated[float, msgspec.Meta(gt=0, lt=1)]


def _weight(p: float, rank: Ints) -> Floats:
    return np.float64(1 - p) * np.power(np.float64(p), rank - 1)


class RBP(Relevance, frozen=True, kw_only=True):
    """(1 − p) · Σ p^(rank − 1) over the relevant hits.

    Needs no count of the relevant items, so gaps in the gold do not inflate it; how much the unjudged hits
    could add is `rbp_residual`. Never reaches 1 for a finite gold set.

    >>> import karat
    >>> round(karat.evaluate({"q": ["a", "x", "b"]}, {"q": ["a", "b"]}, ["rbp(p=0.5)"]).means["rbp(p=0.5)"], 4)
    0.625
    """

    name = "rbp"
    cutoff = "optional"
    trec_eval = "rbp (p=0.9, binary gold)"

    p: Persistence = 0.8

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        found = judged.once_a_hit(self.found(judged, self.limit(judged)))
        weight = _weight(self.p, judged.hit_rank[found])
        return np.minimum(judged.per_query(judged.hit_query[found], weight), 1.0)  # sums may round to a hair above

    def weight(self, rank: Ints) -> Floats:
        """What a relevant hit at each rank adds."""
        return _weight(self.p, rank)

    def influence(self, lists: OpenLists) -> Floats | None:
        if self.budget is not None:
            return None
        limit = self.limit(lists.second)[lists.query]
        first, second = (np.where(rank <= limit, _weight(self.p, np.minimum(rank, 2**31)), 0.0) for rank in lists.ranks)
        return np.asarray(second - first)

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """Every place adds its weight; what would come after the end of a list nobody has seen, and no label tells."""
        unseen = np.zeros(lists.first.n)
        if self.k is None and labels is None:
            unseen = np.where(lists.first.present, np.power(np.float64(self.p), lists.first.depth), 0.0)
        return self.known_difference(lists) + lists.sum_lowest(influence, labels) - unseen


class RBPResidual(Relevance, frozen=True, kw_only=True):
    """What RBP could still gain: the weight of all places that hold no judged hit, those past the end included.

    >>> import karat
    >>> result = karat.evaluate({"q": ["a", "?"]}, {"q": ["a"]}, ["rbp_residual(p=0.5)"])
    >>> result.means
    {'rbp_residual(p=0.5)': 0.5}
    """

    name = "rbp_residual"
    direction = "lower"
    aliases = {"rbp_resid": "rbp_residual"}

    p: Persistence = 0.8

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        rows = judged.once_a_hit(np.ones(len(judged.hit_rank), np.bool_))
        known = judged.per_query(judged.hit_query[rows], _weight(self.p, judged.hit_rank[rows]))
        return np.where(judged.present, np.maximum(1.0 - known, 0.0), 1.0)

    def ceiling(self, judged: Judged) -> Floats:
        return np.full(judged.n, np.nan)
