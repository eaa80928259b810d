"""One number for the whole curve of recall over k."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Relevance


class AucRecall(Relevance, frozen=True, kw_only=True):
    """Area under recall: the mean of recall@1, recall@2, … recall@k.

    Rewards finding items early at every depth up to k, without choosing one. Computed from the ranks, not from a few
    points of the curve: an item at rank r is found at k − r + 1 of the k depths.

    >>> import karat
    >>> run, gold = {"q": ["a", "x", "b", "y"]}, {"q": ["a", "b"]}
    >>> karat.evaluate(run, gold, ["recall@1", "recall@2", "recall@3", "recall@4", "auc_recall@4"]).means
    {'recall@1': 0.5, 'recall@2': 0.5, 'recall@3': 1.0, 'recall@4': 1.0, 'auc_recall@4': 0.75}
    """

    name = "auc_recall"
    cutoff = "required"
    by_tokens = False
    aliases = {"recall_auc": "auc_recall"}

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        limit = self.limit(judged)
        found = self.found(judged, limit)
        query = judged.hit_query[found]
        depths = (limit[query] - judged.hit_rank[found] + 1) / limit[query]
        return np.minimum(judged.per_query(query, depths) / relevant, 1.0)

    def floor(self, judged: Judged, corpus_size: int) -> Floats:
        """The mean of min(j, N) / N over j = 1 … k; of passages, which several chunks or none may hold, not known."""
        if judged.gold.located is not None:
            return np.full(judged.n, np.nan)
        k = self.limit(judged).astype(np.float64)
        inside = np.minimum(k, corpus_size)
        area = (inside * (inside + 1) / 2 + (k - inside) * corpus_size) / (k * corpus_size)
        return np.where(judged.relevant(self.rel) > 0, area, np.nan)
