"""Precision at every place where something relevant stands."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Relevance


class AveragePrecision(Relevance, frozen=True, kw_only=True):
    """Sum of the precision at the rank of each relevant item found, divided by all relevant items.

    Divides by the number of relevant gold items also with a cutoff, as trec_eval's map_cut does; tools that
    divide by min(k, relevant) or by the items found score higher.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["map", "map@2"]).means
    {'map': 0.5, 'map@2': 0.25}
    """

    name = "map"
    cutoff = "optional"
    aliases = {"ap": "map", "map_cut": "map", "average_precision": "map"}
    trec_eval = "map"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        found = self.found(judged, self.limit(judged))
        query, rank = judged.hit_query[found], judged.hit_rank[found]
        hits = np.cumsum(judged.once_a_hit(found)[found])  # precision is of hits, however many items one holds
        first = np.searchsorted(query, np.arange(judged.n))
        so_far = hits - np.concatenate([[0], hits])[first[query]]
        return judged.per_query(query, so_far / rank) / relevant
