"""When does a number pass: pure rules over estimates, in which higher is always better."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from karat.gates.criteria import Outcome

Limits = tuple[float | None, float | None]


@dataclass(frozen=True)
class Estimate:
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


def floor_on_mean(estimate: Estimate, floor: float, level: float) -> Ruling:
    """The value decides; whether that is certain is said beside it."""
    low, high = estimate.limits(level)
    straddles = low is None or high is None or low < floor <= high
    outcome: Outcome = "pass" if estimate.value >= floor else "fail"
    return Ruling(outcome, not straddles, _needed(estimate, floor, level) if straddles else None)


def floor_on_bound(estimate: Estimate, floor: float, level: float, failing_level: float | None = None) -> Ruling:
    """The near end of the interval must clear the floor. `failing_level`: how sure a failure must be, if another."""
    low, _ = estimate.limits(level)
    _, high = estimate.limits(failing_level or level)
    if low is not None and low >= floor:
        return Ruling("pass")
    if high is not None and high < floor:
        return Ruling("fail")
    return Ruling("inconclusive", False, _needed(estimate, floor, level))


def regression_on_mean(change: Estimate, most: float, level: float, failing_level: float | None = None) -> Ruling:
    """Effect plus evidence: fails when the drop exceeds the limit and is beyond chance."""
    if change.value >= -most:
        return Ruling("pass")
    _, high = change.limits(failing_level or level)
    if high is not None and high < 0:
        return Ruling("fail")
    return Ruling("inconclusive", False, _needed(change, 0.0, level))


def regression_on_bound(change: Estimate, most: float, level: float, failing_level: float | None = None) -> Ruling:
    """Proof of safety: passes only when a drop over the limit is ruled out."""
    low, _ = change.limits(level)
    _, high = change.limits(failing_level or level)
    if low is not None and low > -most:
        return Ruling("pass")
    if high is not None and high < -most:
        return Ruling("fail")
    return Ruling("inconclusive", False, _needed(change, -most, level))


def _needed(estimate: Estimate, line: float, level: float) -> int | None:
    """Queries after which an interval around the same value would clear the line; None where it stands on it."""
    low, high = estimate.limits(level)
    gap = abs(estimate.value - line)
    if low is None or high is None or gap < 1e-12:
        return None
    reach = estimate.value - low if estimate.value > line else high - estimate.value
    return max(estimate.n + 1, math.ceil(estimate.n * (reach / gap) ** 2))


def named_failures(fails: Sequence[Callable[[float], bool]], level: float) -> list[bool]:
    """Which of many tests fail when all of them are looked at together, by Holm's procedure.

    `fails[i](l)`: does test i fail with certainty l? Each failure found lowers the bar for the rest.
    """
    found = [False] * len(fails)
    while not all(found):
        left = found.count(False)
        stricter = 1 - (1 - level) / left
        fresh = [i for i, test in enumerate(fails) if not found[i] and test(stricter)]
        if not fresh:
            break
        for i in fresh:
            found[i] = True
    return found
