"""Verdicts in words that a reader who is no engineer understands."""

from __future__ import annotations

from karat.gates.rules import Limits, Ruling
from karat.results.differences import Difference
from karat.results.numbers import amount, counted, digits_apart, rounded_up, size
from karat.scoring.metrics.base import Metric


def floor_reason(
    metric: Metric, unit: str, value: float, limits: Limits, line: float, is_max: bool, on: str, ruling: Ruling
) -> str:
    """One sentence: `recall@5 is 87.1%, at least 85.0% wanted.`"""
    low, high = limits
    near = (high if is_max else low) if on == "bound" else value
    digits = max(digits_apart(v, line, unit) for v in (value, near) if v is not None)
    wanted = f"at {'most' if is_max else 'least'} {amount(line, unit, digits)} wanted"
    between = "" if low is None or high is None else f" ({amount(low, unit, digits)} to {amount(high, unit, digits)})"
    said = f"{metric} is {amount(value, unit, digits)}{between}, {wanted}"
    few = low is None or high is None
    if on == "mean":
        why = "too few queries for an interval" if few else "the interval holds the limit"
        return f"{said}." if ruling.certain else f"{said}; not certain, {why}{_settle(ruling)}."
    proof = {"pass": "proven", "fail": "ruled out"}.get(ruling.outcome, "not proven")
    return f"{said}: {proof}{', too few queries for an interval' if few else ''}{_settle(ruling)}."


def regression_reason(
    metric: Metric, unit: str, change: Difference, most: float, on: str, ruling: Ruling, other: str | None = None
) -> str:
    """One sentence: `recall@5 dropped from 87% to 81% (−6 pp, limit −3): …`; `other`: not the usual baseline."""
    assert change.delta is not None
    assert change.baseline is not None
    assert change.candidate is not None
    against = "" if other is None else f" against {other}"
    falls = change.delta < 0
    worse = falls == (metric.direction == "higher")
    if abs(change.delta) < 1e-12:
        said = f"{metric} stays at {amount(change.candidate, unit)}{against}"
    else:
        digits = digits_apart(abs(change.delta), most, unit)
        limit = f", limit {'−' if falls else '+'}{size(most, unit, digits)}" if worse else ""
        said = (
            f"{metric} {'dropped' if falls else 'rose'} from {amount(change.baseline, unit)} "
            f"to {amount(change.candidate, unit)}{against} "
            f"({'−' if falls else '+'}{size(change.delta, unit, digits)}{limit})"
        )
    return f"{said}{_meaning(metric, ruling, on)}{_settle(ruling)}. {_queries(metric, change)}".rstrip()


def _meaning(metric: Metric, ruling: Ruling, on: str) -> str:
    if ruling.outcome == "inconclusive":
        worse = "drop" if metric.direction == "higher" else "rise"
        return ": could be chance" if on == "mean" else f": a {worse} over the limit is not ruled out"
    return ": beyond chance" if ruling.outcome == "fail" else ""


def _queries(metric: Metric, change: Difference) -> str:
    if not change.wins and not change.losses:
        return ""
    losses = counted(change.losses)
    if metric.direction == "lower":
        return f"{losses} got worse, {change.wins:,} better."
    return f"{losses} lost, {change.wins:,} gained."


def _settle(ruling: Ruling) -> str:
    return "" if ruling.needed is None else f"; about {rounded_up(ruling.needed):,} queries would settle it"
