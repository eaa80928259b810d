"""A metric that is not part of Karat."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Relevance


class FirstHit(Relevance, frozen=True, kw_only=True):
    """1 when the first hit is relevant, else 0."""

    name = "first_hit"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        return self.count_found(judged, np.ones(judged.n, np.int64))
