"""Rules that decide whether a number passes, and the sentences that explain it to readers who are not engineers.

The rules are pure functions over estimates in which higher is always better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec

from karat.gates.criteria import Outcome
from karat.results.differences import Difference
from karat.results.numbers import amount, counted, digits_apart, percent, rounded_up, size
from karat.scoring.metrics.base import Metric

Limits = tuple[float | None, float | None]
_ROUNDING = 1e-9  # a mean of thirds that is 0.85 on paper may miss it in the last digit


class GatedValue(msgspec.Struct, frozen=True):
    """A number, its interval at any level, and the number of queries behind it."""

    value: float
    limits: Callable[[float], Limits]
    n: int
    alike: bool = False  # the same on every query: the interval shrinks with n, not with its square root
    certain: Callable[[float], bool] = lambda level: True  # for a difference: whether p confirms the interval


class Ruling(msgspec.Struct, frozen=True):
    """The outcome of a rule and, if it is undecided, how many queries would settle it."""

    outcome: Outcome
    certain: bool = True  # False: the value decides, but the interval does not confirm it
    needed: int | None = None


class Limit(msgspec.Struct, frozen=True):
    """How much worse something may get, and the share of the baseline's value if the limit was given as one."""

    most: float
    share: float | None = None


class ConfidenceLevels(msgspec.Struct, frozen=True):
    """The confidence needed to pass and to fail. To fail, it is higher if the test is one of many."""

    passing: float
    failing: float


def floor_on_mean(estimate: GatedValue, floor: float, levels: ConfidenceLevels) -> Ruling:
    """The value decides; the ruling also says whether that is certain."""
    low, high = estimate.limits(levels.passing)
    straddles = low is None or high is None or low < floor <= high
    outcome: Outcome = "pass" if estimate.value >= floor - _ROUNDING else "fail"
    return Ruling(outcome, not straddles, _needed(estimate, floor, levels.passing) if straddles else None)


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
    """Effect plus evidence: fails when the drop exceeds the limit and is beyond chance, by interval and p."""
    if change.value >= -most - _ROUNDING:
        return Ruling("pass")
    _, high = change.limits(levels.failing)
    if high is not None and high < 0 and change.certain(levels.failing):
        return Ruling("fail")
    return Ruling("inconclusive", False, _needed(change, 0.0, levels.failing))


def regression_on_bound(change: GatedValue, most: float, levels: ConfidenceLevels) -> Ruling:
    """Proof of safety: passes only when a drop over the limit is ruled out."""
    low, _ = change.limits(levels.passing)
    _, high = change.limits(levels.failing)
    if low is not None and low > -most:
        return Ruling("pass")
    if high is not None and high < -most and change.certain(levels.failing):
        return Ruling("fail")
    return Ruling("inconclusive", False, _settled(change, -most, levels))


def _settled(estimate: GatedValue, line: float, levels: ConfidenceLevels) -> int | None:
    return _needed(estimate, line, levels.passing if estimate.value > line else levels.failing)


def _needed(estimate: GatedValue, line: float, level: float) -> int | None:
    """Number of queries at which an interval around the same value would clear the line; None if the value is on it."""
    low, high = estimate.limits(level)
    gap = abs(estimate.value - line)
    if low is None or high is None or gap < 1e-12:
        return None
    reach = estimate.value - low if estimate.value > line else high - estimate.value
    return max(estimate.n + 1, math.ceil(estimate.n * (reach / gap) ** (1 if estimate.alike else 2)))


def failing_level(fails: Sequence[Callable[[float], bool]], level: float) -> float:
    """The confidence that one of many tests needs to count as failing, by Holm's procedure.

    `fails[i](l)`: does test i fail with certainty l? Each failure found lowers the bar for the rest.
    """
    found: set[int] = set()
    while True:
        bar = 1 - (1 - level) / max(len(fails) - len(found), 1)
        fresh = {i for i, test in enumerate(fails) if i not in found and test(bar)}
        if not fresh:
            return bar
        found |= fresh


def floor_reason(
    metric: Metric,
    unit: str,
    value: float,
    limits: Limits,
    line: float,
    is_max: bool,
    on: str,
    ruling: Ruling,
    queries: int | None = None,
) -> str:
    """Explain a floor: `recall@5 is 87.1% (83.2% to 90.4%); at least 85.0% is required.` `queries`: how many it is of,
    if the comparison is of others."""
    low, high = limits
    near = (high if is_max else low) if on == "bound" else value
    digits = max(digits_apart(v, line, unit) for v in (value, near) if v is not None)
    line_text = amount(line, unit, digits)
    wanted = f"at most {line_text} is allowed" if is_max else f"at least {line_text} is required"
    between = "" if low is None or high is None else f" ({amount(low, unit, digits)} to {amount(high, unit, digits)})"
    of = "" if queries is None else f" on all {counted(queries)}"
    said = f"{metric} is {amount(value, unit, digits)}{between}{of}; {wanted}."
    few = low is None or high is None
    if on == "mean":
        why = "too few queries that differ for an interval" if few else "the interval includes the limit"
        if metric.exact and is_max and value == line and high is not None:
            why = f"with none among these queries, up to {amount(high, unit, digits)} of all queries may have one"
        return said if ruling.certain else f"{said} Not certain: {why}.{_settle(ruling)}"
    proof = {"pass": "Proven", "fail": "Ruled out"}.get(ruling.outcome, "Not proven")
    return f"{said} {proof}{': too few queries that differ for an interval' if few else ''}.{_settle(ruling)}"


def regression_reason(
    metric: Metric,
    unit: str,
    change: Difference,
    limit: Limit,
    on: str,
    ruling: Ruling,
    other: str | None = None,
    *,
    shared: bool = False,
) -> str:
    """Explain a change: `recall@5 dropped from 87% to 81% (−6 pp, limit −3): …`; `other`: not the usual baseline;
    `shared`: it is measured on fewer queries than the candidate's value, those of the baseline. The candidate may have
    failed on some of them."""
    assert change.delta is not None
    assert change.baseline is not None
    assert change.candidate is not None
    against = "" if other is None else f" compared with {other}"
    against += f" on the {counted(change.n)} that the baseline has" if shared else ""
    falls = change.delta < 0
    worse = falls == (metric.direction == "higher")
    if abs(change.delta) < 1e-12:
        said = f"{metric} stayed at {amount(change.candidate, unit)}{against}"
    else:
        digits = max(digits_apart(abs(change.delta), limit.most, unit), digits_apart(limit.most, 0.0, unit))
        allowed = f", limit {_limit(limit, falls, unit, digits)}" if worse else ""
        said = (
            f"{metric} {'dropped' if falls else 'rose'} from {amount(change.baseline, unit)} "
            f"to {amount(change.candidate, unit)}{against} "
            f"({'−' if falls else '+'}{size(change.delta, unit, digits)}{allowed})"
        )
    return f"{said}{_meaning(metric, ruling, on)}.{_settle(ruling)}{_queries(change)}"


def _limit(limit: Limit, falls: bool, unit: str, digits: int) -> str:
    said = f"{'−' if falls else '+'}{size(limit.most, unit, digits)}" if limit.most else "0"
    return said if limit.share is None else f"{said}, {percent(limit.share)} of the baseline"


def _meaning(metric: Metric, ruling: Ruling, on: str) -> str:
    if ruling.outcome == "inconclusive":
        worse = "drop" if metric.direction == "higher" else "rise"
        return ": could be chance" if on == "mean" else f": a {worse} beyond the limit cannot be ruled out"
    return ": beyond chance" if ruling.outcome == "fail" else ""


def _queries(change: Difference) -> str:
    if not change.wins and not change.losses:
        return ""
    return f" {counted(change.losses)} got worse, {change.wins:,} got better."


def _settle(ruling: Ruling) -> str:
    return "" if ruling.needed is None else f" About {rounded_up(ruling.needed):,} queries in total would settle it."
