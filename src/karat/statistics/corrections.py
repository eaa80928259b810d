"""Many comparisons at once: some look good by chance alone."""

from __future__ import annotations

import numpy as np

from karat.statistics.sums import Floats, Ints


def holm(p: Floats) -> Floats:
    """Adjusted so that the chance of even one false find stays under the level: for decisions.

    >>> [float(x) for x in holm(np.array([0.01, 0.04, 0.03])).round(6)]
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p, kind="stable")
    raised = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    return _in_place(np.minimum(raised, 1.0), order)


def benjamini_hochberg(p: Floats) -> Floats:
    """Adjusted so that the share of false finds among all finds stays under the level: for exploration.

    >>> [float(x) for x in benjamini_hochberg(np.array([0.01, 0.04, 0.03])).round(6)]
    [0.03, 0.04, 0.04]
    """
    order = np.argsort(p, kind="stable")
    raised = p[order] * len(p) / np.arange(1, len(p) + 1)
    lowered = np.minimum.accumulate(raised[::-1])[::-1]
    return _in_place(np.minimum(lowered, 1.0), order)


def _in_place(adjusted: Floats, order: Ints) -> Floats:
    found = np.empty(len(adjusted))
    found[order] = adjusted
    return found
