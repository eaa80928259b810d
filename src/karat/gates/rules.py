"""When does a number pass: pure rules over estimates, in which higher is always better."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from karat.gates.criteria import Outcome

Limits = tuple[float | None, float | None]
_ROUNDING = 1e-9  # a mean of thirds that is 0.85 on paper may miss it in the last digit


@dataclass(frozen=True)
class GatedValue:
    """A number, its interval at any level, and how many queries stand behind it."""

    value: float
    limits: Callable[[float], Limits]
    n: int


@dataclass(frozen=True)
class Ruling:
    """What a rule says, and how many queries would settle it where it cannot say."""

    outcome: Outcome
    certain: bool = True  # False: the value decides, and the interval does not bear it out
    needed: int | None = None


@dataclass(frozen=True)
class ConfidenceLevels:
    """How sure it must be that something passes, and that it fails: surer, where it is one of many looked at."""

    passing: float
    failing: float


def floor_on_mean(estimate: GatedValue, floor: float, levels: ConfidenceLevels) -> Ruling:
    """The value decides; whether that is certain is said beside it."""
    low, high = estimate.limits(levels.passing)
    straddles = low is None or high is None or low < floor <= high
    outcome: Outcome = "pass" if estimate.value >= floor - _ROUNDING else "fail"
    return Ruling(outcome, not straddles, _needed(estimate, floor, levels.passing) if straddles else None)


def floor_of_many(estimate: GatedValue, floor: float, levels: ConfidenceLevels) -> Ruling:
    """The value decides, but of many segments only one that is surely under the floor is named as failing."""
    by_value = floor_on_mean(estimate, floor, levels)
    _, high = estimate.limits(levels.failing)
    if by_value.outcome == "pass" or (high is not None and high < floor):
        return by_value
    return Ruling("inconclusive", False, _settled(estimate, floor, levels))


def floor_on_bound(estimate: GatedValue, floor: float, levels: ConfidenceLevels) -> Ruling:
    """The near end of the interval must clear the floor."""
    low, _ = estimate.limits(levels.passing)
    _, high = estimate.limits(levels.failing)
    if low is not None and low >= floor:
        return Ruling("pass")
    if high is not None and high < floor:
        return Ruling("fail")
    return Ruling("inconclusive", False, _settled(estimate, floor, levels))


def regression_on_mean(change: GatedValue, most: float, levels: ConfidenceLevels) -> Ruling:
    """Effect plus evidence: fails when the drop exceeds the limit and is beyond chance."""
    if change.value >= -most - _ROUNDING:
        return Ruling("pass")
    _, high = change.limits(levels.failing)
    if high is not None and high < 0:
        return Ruling("fail")
    return Ruling("inconclusive", False, _needed(change, 0.0, levels.failing))


def regression_on_bound(change: GatedValue, most: float, levels: ConfidenceLevels) -> Ruling:
    """Proof of safety: passes only when a drop over the limit is ruled out."""
    low, _ = change.limits(levels.passing)
    _, high = change.limits(levels.failing)
    if low is not None and low > -most:
        return Ruling("pass")
    if high is not None and high < -most:
        return Ruling("fail")
    return Ruling("inconclusive", False, _settled(change, -most, levels))


def _settled(estimate: GatedValue, line: float, levels: ConfidenceLevels) -> int | None:
    return _needed(estimate, line, levels.passing if estimate.value > line else levels.failing)


def _needed(estimate: GatedValue, line: float, level: float) -> int | None:
    """Queries after which an interval around the same value would clear the line; None where it stands on it."""
    low, high = estimate.limits(level)
    gap = abs(estimate.value - line)
    if low is None or high is None or gap < 1e-12:
        return None
    reach = estimate.value - low if estimate.value > line else high - estimate.value
    return max(estimate.n + 1, math.ceil(estimate.n * (reach / gap) ** 2))


def failing_level(fails: Sequence[Callable[[float], bool]], level: float) -> float:
    """How sure one of many tests must be to be named as failing, by Holm's procedure.

    `fails[i](l)`: does test i fail with certainty l? Each failure found lowers the bar for the rest.
    """
    found: set[int] = set()
    while True:
        bar = 1 - (1 - level) / max(len(fails) - len(found), 1)
        fresh = {i for i, test in enumerate(fails) if i not in found and test(bar)}
        if not fresh:
            return bar
        found |= fresh
