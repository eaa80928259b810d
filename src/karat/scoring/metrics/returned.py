"""How much is returned."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric


class Returned(Metric, frozen=True, kw_only=True):
    """Number of hits in the top k; with a budget of tokens, how many fit into it.

    Repeats are removed before. Undefined for a query that the run lacks.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "tokens": 900}, {"chunk_id": "b", "tokens": 800}, {"chunk_id": "c", "tokens": 400}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], {"q": ["a"]}, ["returned@5", "returned@2000tok"]).means
    {'returned@5': 3.0, 'returned@2000tok': 2.0}
    """

    name = "returned"
    range = (0.0, float("inf"))
    cutoff = "required"

    def score(self, judged: Judged) -> Floats:
        return np.where(judged.present, np.minimum(judged.depth, self.limit(judged)).astype(np.float64), np.nan)
