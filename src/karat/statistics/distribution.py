"""What a mean hides: quartiles, and how many queries stand at the ends."""

from __future__ import annotations

import msgspec
import numpy as np

from karat.statistics.sums import Floats


class Distribution(msgspec.Struct, frozen=True):
    """Of the scores of one metric over the queries on which it is defined."""

    q1: float
    median: float
    q3: float
    zeros: float  # share of queries
    ones: float  # share of queries


def describe(values: Floats) -> Distribution | None:
    """None where nothing is defined.

    >>> describe(np.array([0.0, 0.5, 1.0, 1.0]))
    Distribution(q1=0.375, median=0.75, q3=1.0, zeros=0.25, ones=0.5)
    """
    if not len(values):
        return None
    q1, median, q3 = np.quantile(values, [0.25, 0.5, 0.75]).tolist()
    return Distribution(q1, median, q3, float(np.mean(values == 0)), float(np.mean(values == 1)))
