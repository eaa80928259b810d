"""Numbers as a reader who is no engineer says them."""

from __future__ import annotations

from collections.abc import Sequence

from karat.diagnosis.evidence import Estimate
from karat.diagnosis.finding import Number
from karat.differences import Difference
from karat.prices import money
from karat.summary import SummaryRow


def percent(value: float) -> str:
    """
    >>> percent(0.3712), percent(0.0071), percent(-0.2)
    ('37%', '0.7%', '−20%')
    """
    text = f"{value:.1%}" if abs(value) < 0.0995 and value else f"{value:.0%}"
    return text.replace("-", "−")


def share(estimate: Estimate) -> str:
    """`37% (34% to 40%)`."""
    low, high = estimate.limits
    return f"{percent(estimate.value)} ({percent(low)} to {percent(high)})"


def points(estimate: Estimate) -> str:
    """`12 points (9 to 15)`."""
    low, high = estimate.limits
    return f"{estimate.value * 100:.0f} points ({low * 100:.0f} to {high * 100:.0f})"


def milliseconds(estimate: Estimate) -> str:
    low, high = estimate.limits
    return f"{estimate.value:.0f} ms ({low:.0f} to {high:.0f})"


def listed(names: Sequence[str], last: str = "and", most: int = 3) -> str:
    """
    >>> listed(["a"]), listed(["a", "b"], "or"), listed(["a", "b", "c", "d", "e"])
    ('a', 'a or b', 'a, b, c and 2 more')
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def moved(change: Difference) -> str:
    """`ndcg@5 went from 0.81 to 0.76 (change between −0.07 and −0.03)`."""
    values = (change.baseline, change.candidate, change.low, change.high)
    digits, unit = (1, " ms") if change.metric.startswith("latency") else (2, "")
    texts = (money(value or 0.0) if change.metric == "cost" else f"{value:.{digits}f}" for value in values)
    before, after, low, high = (text.replace("-", "−") for text in texts)
    return f"{change.metric} went from {before} to {after}{unit} (change between {low} and {high})"


def number_of(change: Difference) -> Number:
    assert change.delta is not None
    return Number(f"{change.metric}, difference", change.delta, change.low, change.high)


def sure_of(change: Difference) -> int:
    """How sure a difference is whose interval leaves no doubt: 1 likely, 2 strong."""
    return 2 if change.p is not None and change.p < 0.01 else 1


def share_of(row: SummaryRow) -> str:
    """As `share`, of a row that a table shows too."""
    assert row.mean is not None
    if row.low is None or row.high is None:
        return percent(row.mean)
    return f"{percent(row.mean)} ({percent(row.low)} to {percent(row.high)})"
