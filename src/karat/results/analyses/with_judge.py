"""A run against the gold with a judge's labels in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from karat.data.ids import Floats
from karat.results.analyses.base import Side
from karat.scoring.metrics.ndcg import NDCG
from karat.scoring.metrics.precision import Precision
from karat.scoring.metrics.rbp import RBP

# The others stay with the gold: what a judge calls relevant was found by the very systems that it is to measure.
BY_JUDGE = (Precision, NDCG, RBP)


def judged_side(side: Side, metrics: Sequence[str]) -> Side | None:
    """The same run measured with the labels; None where there are none."""
    return None if side.labelling.with_judge is None else side.measure(metrics, with_judge=True)


def judged_values(side: Side, judged: Side, metric: str) -> Floats:
    """Over the queries of the gold: labels of a judge give no query an answer that it did not have."""
    place = np.searchsorted(judged.rows, side.rows)
    return np.where(np.isnan(side.values[metric]), np.nan, judged.values[metric][place])
