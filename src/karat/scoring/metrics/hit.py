"""Did it find anything, did it find everything."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Relevance, chance
from karat.scoring.unjudged import OpenLists


class AnyHit(Relevance, frozen=True, kw_only=True):
    """1 when at least one relevant item stands in the top k, else 0.

    Also called success@k or hit rate. Use it where a single good item is enough to answer.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["hit@1", "hit@5"]).means
    {'hit@1': 0.0, 'hit@5': 1.0}
    """

    name = "hit"
    cutoff = "required"
    aliases = {"hit_rate": "hit", "hit-rate": "hit", "success": "hit", "any_pass": "hit"}
    trec_eval = "success_{k}"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        return (self.count_found(judged, self.limit(judged)) > 0).astype(np.float64)

    def influence(self, lists: OpenLists) -> Floats | None:
        if self.budget is not None:
            return None
        sides = zip((lists.first, lists.second), lists.ranks, strict=True)
        first, second = (
            np.maximum(rank <= self.limit(s)[lists.query], self.score(s)[lists.query]) for s, rank in sides
        )
        return np.asarray(second - first - self.known_difference(lists)[lists.query])

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """One relevant hit is as good as many."""
        return self.known_difference(lists) + lists.lowest_one(influence, labels)

    def floor(self, judged: Judged, corpus_size: int) -> Floats:
        """1 − C(N−G, k) / C(N, k): at least one of G relevant items in k draws without replacement."""
        relevant, k = self.relevant_hits(judged), np.minimum(self.limit(judged), corpus_size)
        return np.where(judged.relevant(self.rel) > 0, chance(relevant, k, corpus_size), np.nan)


class Complete(Relevance, frozen=True, kw_only=True):
    """1 when every relevant item stands in the top k, else 0.

    Use it where an answer needs all of its evidence.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["complete@3", "complete@5"]).means
    {'complete@3': 0.0, 'complete@5': 1.0}
    """

    name = "complete"
    cutoff = "required"
    aliases = {"success_all": "complete"}

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        return np.equal(self.count_found(judged, self.limit(judged)), relevant).astype(np.float64)
