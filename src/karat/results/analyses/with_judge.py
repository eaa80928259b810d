"""A run against the gold with a judge's labels in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from karat.data.ids import Floats
from karat.scoring.metrics.ndcg import NDCG
from karat.scoring.metrics.precision import Precision
from karat.scoring.metrics.rbp import RBP

if TYPE_CHECKING:
    from karat.results.result import Result

# The others stay with the gold: what a judge calls relevant was found by the very systems that it is to measure.
BY_JUDGE = (Precision, NDCG, RBP)


def judged_side(side: Result, metrics: Sequence[str]) -> Result | None:
    """The same run measured with the labels; None where there are none."""
    return None if side.labelling.with_judge is None else side.measure(metrics, side.view.but(labels="judge"))


def judged_values(side: Result, judged: Result, metric: str) -> Floats:
    """Over the queries of the gold: labels of a judge give no query an answer that it did not have."""
    place = np.searchsorted(judged.rows, side.rows)
    return np.where(np.isnan(side.values[metric]), np.nan, judged.values[metric][place])
