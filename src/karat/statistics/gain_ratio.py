"""The largest possible ratio of a discounted gain to that of the ideal ranking, while some grades are open.

An open item that gets a grade changes both the gain of the list and that of the ideal list. Three facts make
the search small. Of two open items, the one with more influence gets the higher grade. Gains add up level by level, and
so do the gains of the ideal list (a number of its first places, at each level). And a ratio of a linear and a convex
function is largest at corners where it is negative, while where it is positive Dinkelbach's steps find its maximum, at
each level separately: a lower level has more gold above it, so it never needs fewer open items than a higher one.
"""

from __future__ import annotations

import msgspec
import numpy as np

from karat.statistics.sums import Floats, Ints

_CELLS = 2_000_000  # per block of queries, so that memory does not grow with the set
_STEPS = 60  # far more than ever needed: each step at least doubles the correct digits


class OpenGains(msgspec.Struct, frozen=True):
    """One row per query."""

    known: Floats  # what the items with a grade gain
    influence: Floats  # query × open item: discount of its gain, largest first, padded with 0
    open: Ints  # how many open items there are
    steps: Floats  # what each level of grades gains more than the one below it
    above: Ints  # query × level: gold items with this grade or a higher one
    limit: Ints  # places that count

    def rows(self, part: slice) -> OpenGains:
        return OpenGains(
            self.known[part], self.influence[part], self.open[part], self.steps, self.above[part], self.limit[part]
        )


def largest_ratio(gains: OpenGains) -> Floats:
    """(known gain + gain of the open items) / ideal gain at its largest; NaN where nothing could be gained."""
    wide = max(gains.above.shape[1] * (gains.influence.shape[1] + 1), 1)
    block = max(_CELLS // wide, 1)
    parts = [gains.rows(slice(at, at + block)) for at in range(0, len(gains.known), block)]
    return np.concatenate([_largest(part) for part in parts]) if parts else np.zeros(0)


def _largest(gains: OpenGains) -> Floats:
    size, width = gains.influence.shape
    count = np.arange(width + 1)
    summed = np.zeros((size, width + 1))
    np.cumsum(gains.influence, axis=1, out=summed[:, 1:])
    summed[count > gains.open[:, None]] = -np.inf
    places = np.minimum(count + gains.above[:, :, None], gains.limit[:, None, None])
    discounts = np.concatenate([[0.0], np.cumsum(1 / np.log2(np.arange(places.max(initial=0)) + 2))])
    ideal = discounts[places]  # query × level × open items that reach the level
    most = gains.known + gains.steps.sum() * summed.max(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(most >= 0, _by_steps(gains, summed, ideal), _at_corners(gains, summed, ideal))


def _at_corners(gains: OpenGains, summed: Floats, ideal: Floats) -> Floats:
    """Every open item has the highest grade or the lowest."""
    above = gains.known[:, None] + gains.steps.sum() * summed
    return np.asarray((above / np.einsum("l,qln->qn", gains.steps, ideal)).max(axis=1))


def _by_steps(gains: OpenGains, summed: Floats, ideal: Floats) -> Floats:
    ratio = np.zeros(len(gains.known))
    for _ in range(_STEPS):
        chosen = np.argmax(summed[:, None, :] - ratio[:, None, None] * ideal, axis=2)
        above = gains.known + np.take_along_axis(summed, chosen, axis=1) @ gains.steps
        below = np.take_along_axis(ideal, chosen[:, :, None], axis=2)[:, :, 0] @ gains.steps
        better = np.maximum(above / below, ratio)
        if not (better > ratio).any():
            return np.where(below > 0, better, np.nan)
        ratio = better
    return ratio
