"""Verdicts in words that a reader who is no engineer understands."""

from __future__ import annotations

from karat.comparison.differences import Difference
from karat.gates.rules import Limits, Ruling
from karat.metrics.base import Metric


def amount(value: float, unit: str) -> str:
    """
    >>> amount(0.8712, "pp"), amount(61.25, "ms"), amount(3.0, "")
    ('87.1%', '61.2 ms', '3.00')
    """
    if unit == "pp":
        return f"{value * 100:.1f}%"
    return f"{value:.1f} {unit}" if unit else f"{value:.2f}"


def size(value: float, unit: str) -> str:
    """A difference without its sign.

    >>> size(0.0612, "pp"), size(-2.5, "ms")
    ('6.1 pp', '2.5 ms')
    """
    value = abs(value)
    return f"{value * 100:.1f} pp" if unit == "pp" else f"{value:.1f} {unit}" if unit else f"{value:.2f}"


def floor_reason(
    metric: Metric, unit: str, value: float, limits: Limits, line: float, is_max: bool, on: str, ruling: Ruling
) -> str:
    """One sentence: `recall@5 is 87.1%, at least 85.0% wanted.`"""
    wanted = f"at {'most' if is_max else 'least'} {amount(line, unit)} wanted"
    low, high = limits
    between = "" if low is None or high is None else f" ({amount(low, unit)} to {amount(high, unit)})"
    if on == "mean":
        doubt = "" if ruling.certain else "; not certain, the interval holds the limit"
        return f"{metric} is {amount(value, unit)}{between}, {wanted}{doubt}{_settle(ruling) if doubt else ''}."
    proof = {"pass": "proven", "fail": "ruled out"}.get(ruling.outcome, "not proven")
    return f"{metric} is {amount(value, unit)}{between}, {wanted}: {proof}{_settle(ruling)}."


def regression_reason(
    metric: Metric, unit: str, change: Difference, most: float, on: str, ruling: Ruling, other: str | None = None
) -> str:
    """One sentence: `recall@5 dropped from 87% to 81% (−6 pp, limit −3): …`; `other`: not the usual baseline."""
    assert change.delta is not None
    assert change.baseline is not None
    assert change.candidate is not None
    against = "" if other is None else f" against {other}"
    worse = change.delta < 0 if metric.direction == "higher" else change.delta > 0
    if abs(change.delta) < 1e-12:
        said = f"{metric} stays at {amount(change.candidate, unit)}{against}"
    else:
        verb = ("dropped" if change.delta < 0 else "rose") if worse else ("rose" if change.delta > 0 else "dropped")
        sign = "−" if change.delta < 0 else "+"
        limit = f", limit {'−' if metric.direction == 'higher' else '+'}{size(most, unit)}" if worse else ""
        said = (
            f"{metric} {verb} from {amount(change.baseline, unit)} to {amount(change.candidate, unit)}{against} "
            f"({sign}{size(change.delta, unit)}{limit})"
        )
    return f"{said}{_meaning(ruling, on)}{_settle(ruling)}. {_queries(change)}".rstrip()


def _meaning(ruling: Ruling, on: str) -> str:
    if ruling.outcome == "inconclusive":
        return ": could be chance" if on == "mean" else ": a larger drop is not ruled out"
    if ruling.outcome == "fail":
        return ": beyond chance"
    return ""


def _queries(change: Difference) -> str:
    if not change.wins and not change.losses:
        return ""
    return f"{change.losses} {'query' if change.losses == 1 else 'queries'} lost, {change.wins} gained."


def _settle(ruling: Ruling) -> str:
    return "" if ruling.needed is None else f"; about {ruling.needed:,} queries would settle it"
