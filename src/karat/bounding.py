"""Strict bounds: how low and how high a score, or a difference of two, could be once every hit had a label."""

from __future__ import annotations

import numpy as np

from karat.ids import Floats
from karat.metrics.base import Metric
from karat.unjudged import OpenLists

Bounds = tuple[Floats, Floats]


def strict_bounds(metric: Metric, lists: OpenLists) -> Bounds | None:
    """(low, high) of `second − first` for every query, NaN where undefined; None for a metric without such bounds."""
    influence = metric.influence(lists)
    if influence is None:
        return None
    low, high = metric.lowest(lists, influence), -metric.lowest(lists.swapped, -influence)
    ends = metric.range[1] - metric.range[0]
    return np.clip(low, -ends, ends) + 0.0, np.clip(high, -ends, ends) + 0.0  # rounding may leave a hair, or a −0
