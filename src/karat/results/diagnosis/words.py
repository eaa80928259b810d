"""Numbers as a reader who is no engineer says them."""

from __future__ import annotations

from collections.abc import Sequence

from karat.results.diagnosis.evidence import LazyInterval


def percent(value: float) -> str:
    """
    >>> percent(0.3712), percent(0.0071), percent(-0.2)
    ('37%', '0.7%', '−20%')
    """
    text = f"{value:.1%}" if abs(value) < 0.0995 and value else f"{value:.0%}"
    return text.replace("-", "−")


def share(estimate: LazyInterval) -> str:
    """`37% (34% to 40%)`."""
    low, high = estimate.limits
    return f"{percent(estimate.value)} ({percent(low)} to {percent(high)})"


def points(estimate: LazyInterval) -> str:
    """`12 points (9 to 15)`."""
    low, high = estimate.limits
    return f"{estimate.value * 100:.0f} points ({low * 100:.0f} to {high * 100:.0f})"


def milliseconds(estimate: LazyInterval) -> str:
    low, high = estimate.limits
    return f"{estimate.value:.0f} ms ({low:.0f} to {high:.0f})"


def listed(names: Sequence[str], last: str = "and", most: int = 3) -> str:
    """
    >>> listed(["a"]), listed(["a", "b"], "or"), listed(["a", "b", "c", "d", "e"])
    ('a', 'a or b', 'a, b, c and 2 more')
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def decimal(estimate: LazyInterval) -> str:
    """`0.71 (0.66 to 0.76)`."""
    low, high = estimate.limits
    return f"{estimate.value:.2f} ({low:.2f} to {high:.2f})"
