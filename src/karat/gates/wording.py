"""Verdicts in words that a reader who is no engineer understands."""

from __future__ import annotations

import math

from karat.data.prices import is_currency, money
from karat.gates.rules import Limits, Ruling
from karat.results.differences import Difference
from karat.scoring.metrics.base import Metric

_MOST_DIGITS = 6


def amount(value: float, unit: str, digits: int = 1) -> str:
    """
    >>> amount(0.8712, "pp"), amount(61.25, "ms"), amount(3.0, ""), amount(0.84996, "pp", 2), amount(0.0040123, "USD")
    ('87.1%', '61.2 ms', '3.00', '85.00%', '0.00401 USD')
    """
    if is_currency(unit):
        return f"{money(value, digits + 2)} {unit}"
    if unit == "pp":
        return f"{value * 100:.{digits}f}%"
    return f"{value:.{digits}f} {unit}" if unit else f"{value:.{digits + 1}f}"


def size(value: float, unit: str, digits: int = 1) -> str:
    """A difference without its sign.

    >>> size(0.0612, "pp"), size(-2.5, "ms")
    ('6.1 pp', '2.5 ms')
    """
    return amount(abs(value), unit, digits).replace("%", " pp")


def _digits(value: float, line: float, unit: str) -> int:
    """As many as it takes to see on which side of the line a value stands: 85.0% is not under 85.0%.

    >>> _digits(0.8496, 0.85, "pp"), _digits(0.81, 0.85, "pp"), _digits(0.85, 0.85, "pp")
    (2, 1, 1)
    """
    if abs(value - line) < 1e-9:
        return 1
    enough = (d for d in range(1, _MOST_DIGITS) if amount(value, unit, d) != amount(line, unit, d))
    return next(enough, _MOST_DIGITS)


def floor_reason(
    metric: Metric, unit: str, value: float, limits: Limits, line: float, is_max: bool, on: str, ruling: Ruling
) -> str:
    """One sentence: `recall@5 is 87.1%, at least 85.0% wanted.`"""
    low, high = limits
    near = (high if is_max else low) if on == "bound" else value
    digits = max(_digits(v, line, unit) for v in (value, near) if v is not None)
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
        digits = _digits(abs(change.delta), most, unit)
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
    queries = "query" if change.losses == 1 else "queries"
    if metric.direction == "lower":
        return f"{change.losses} {queries} got worse, {change.wins} better."
    return f"{change.losses} {queries} lost, {change.wins} gained."


def _settle(ruling: Ruling) -> str:
    return "" if ruling.needed is None else f"; about {_round(ruling.needed):,} queries would settle it"


def _round(count: int) -> int:
    """Up to two digits that count: it is an estimate, and not to be read as more.

    >>> _round(41), _round(1237), _round(98_001)
    (41, 1300, 99000)
    """
    step = int(10 ** max(len(str(count)) - 2, 0))
    return math.ceil(count / step) * step
