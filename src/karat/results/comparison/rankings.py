"""Compare the lists of two results by hashes of their ordered ids."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Bools, Ints
from karat.results.result import Result
from karat.scoring.list_hashes import DEPTHS
from karat.scoring.metrics.base import INFINITE, Metric


def other_lists(first: Result, other: Result, at: Ints, of: Ints, depths: Ints | int) -> Bools | None:
    """Which queries have different first hits. `at` and `of`: places of the same queries in the two results.

    `depths`: how deep to compare. Hashes are kept at 1, 3, 5, 10, 20 and in full; the next deeper one is used. None
    if a side has no hashes.
    """
    before, after = first.data.hashes, other.data.hashes
    if before is None or after is None:
        return None
    column = np.searchsorted(DEPTHS, depths)
    return np.asarray(before[first.rows[at], column] != after[other.rows[of], column])


def same_rankings(first: Result, other: Result, at: Ints, of: Ints, metric: Metric) -> bool:
    """Whether both are known to have the same ids in the same order, down to the metric's cutoff."""
    differ = other_lists(first, other, at, of, _depths(metric, other, of))
    return differ is not None and not differ.any()


def _depths(metric: Metric, result: Result, places: Ints) -> Ints:
    """The cutoff of each query: the metric's, else the query's own, else the configured one; or the whole list.

    Metrics by document use the same cutoff: it counts chunks, and chunk ids are compared.
    """
    if metric.k is not None:
        return np.full(len(places), metric.k, np.int64)
    if metric.budget is not None or metric.cutoff != "required":
        return np.full(len(places), INFINITE)
    own = result.gold.k[result.rows[places]]
    return np.where(own > 0, own, result.rules.k)
