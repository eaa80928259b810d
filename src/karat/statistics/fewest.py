"""The fewest changes that reduce a sum by a given amount, where each group of changes has its own returns."""

from __future__ import annotations

import msgspec
import numpy as np

from karat.statistics.sums import Floats, Ints

_ROUNDING = 1e-12


class Fewest(msgspec.Struct, frozen=True):
    """How many changes of each group; `exact`: no smaller number is possible, otherwise one may be."""

    changes: Ints
    exact: bool


def fewest_changes(lowered: Floats, needed: float) -> Fewest | None:
    """The fewest changes that reduce the sum by `needed`; None where all of them are not enough.

    `lowered`: group × number of changes (0, 1, 2 …), how far they reduce the sum at best.
    Changes are taken by what each adds, largest first, which is exact wherever the returns of a group diminish. Where
    they do not, a group's changes are taken by their average, and the same order gives a lower bound
    for any choice.
    """
    gains = np.maximum.accumulate(lowered, axis=1)
    slack = _ROUNDING * max(abs(needed), 1.0)
    if gains[:, -1].sum() < needed - slack:
        return None
    steps = np.diff(_hull(gains), axis=1)
    group, number = (part.ravel() for part in np.indices(steps.shape))
    order = np.lexsort((number, group, -steps.ravel()))
    taken = np.zeros(len(gains), np.int64)
    total = float(gains[:, 0].sum())
    reached = gains[:, 0].sum() + np.concatenate([[0.0], np.cumsum(steps.ravel()[order])])
    least = int(np.argmax(reached >= needed - slack))
    for at in [-1, *order.tolist()]:
        if at >= 0:
            row = group[at]
            total += float(gains[row, taken[row] + 1] - gains[row, taken[row]])
            taken[row] += 1
        if total >= needed - slack:
            break
    taken = _spare(gains, taken, total - needed + slack)
    return Fewest(taken, bool(taken.sum() == least))


def _spare(gains: Floats, taken: Ints, spare: float) -> Ints:
    """Without changes that turned out to be unnecessary."""
    for row in np.flatnonzero(taken).tolist():
        while taken[row] and gains[row, taken[row]] - gains[row, taken[row] - 1] <= spare:
            spare -= float(gains[row, taken[row]] - gains[row, taken[row] - 1])
            taken[row] -= 1
    return taken


def _hull(gains: Floats) -> Floats:
    """The smallest concave curves above each row."""
    steps = np.diff(gains, axis=1)
    found = gains.copy()
    for row in np.flatnonzero((np.diff(steps, axis=1) > _ROUNDING).any(axis=1)).tolist():
        found[row] = _hull_of(gains[row])
    return found


def _hull_of(values: Floats) -> Floats:
    corners = [0]
    for at in range(1, len(values)):
        while len(corners) > 1 and _turns_up(values, corners[-2], corners[-1], at):
            corners.pop()
        corners.append(at)
    return np.interp(np.arange(len(values)), corners, values[corners])


def _turns_up(values: Floats, first: int, middle: int, last: int) -> bool:
    return bool((values[middle] - values[first]) * (last - first) <= (values[last] - values[first]) * (middle - first))
