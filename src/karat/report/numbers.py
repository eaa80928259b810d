"""How numbers are written in every report: scores with four decimals, times with their unit, intervals in brackets."""

from __future__ import annotations

from karat.summary import SummaryRow


def written(value: float | None, unit: str = "") -> str:
    """A value with its unit.

    >>> written(0.65092), written(12.34, "ms"), written(3.456, "ms"), written(None)
    ('0.6509', '12.3 ms', '3.46 ms', '–')
    """
    if value is None:
        return "–"
    if not unit:
        return f"{value:.4f}"
    return f"{value:.1f} {unit}" if abs(value) >= 10 else f"{value:.2f} {unit}"


def interval(low: float | None, high: float | None, unit: str = "") -> str:
    """Limits, with the digits that they deserve.

    >>> interval(0.60123, 0.7), interval(3.1, 12.34, "ms"), interval(None, None)
    ('[0.601, 0.700]', '[3.10, 12.3]', '–')
    """
    if low is None or high is None:
        return "–"
    if not unit:
        return f"[{low:.3f}, {high:.3f}]"
    return "[" + ", ".join(f"{v:.1f}" if abs(v) >= 10 else f"{v:.2f}" for v in (low, high)) + "]"


def with_interval(row: SummaryRow, unit: str = "") -> str:
    """Mean and limits in one cell, short enough for several of them in a line.

    >>> with_interval(SummaryRow("recall@5", 30, 0, 0.65092, 0.6, 0.7)), with_interval(SummaryRow("mrr", 0, 9, None))
    ('0.651 [0.60, 0.70]', '–')
    """
    if row.mean is None:
        return "–"
    if unit:
        return f"{written(row.mean, unit)} {interval(row.low, row.high, unit) if row.low is not None else ''}".strip()
    limits = "" if row.low is None or row.high is None else f" [{row.low:.2f}, {row.high:.2f}]"
    return f"{row.mean:.3f}{limits}"


def points(value: float | None, unit: str = "pp", limits: tuple[float | None, float | None] = (None, None)) -> str:
    """A difference with its sign and its limits: percentage points for shares, the metric's unit for anything else.

    >>> points(0.0312), points(-0.2, "pp", (-0.3, 0.0512)), points(3.25, "ms"), points(0.5, ""), points(None)
    ('+3.12 pp', '−20.00 [−30.00, +5.12] pp', '+3.25 ms', '+0.50', '–')
    """
    if value is None:
        return "–"
    low, high = limits
    between = "" if low is None or high is None else f" [{_signed(low, unit)}, {_signed(high, unit)}]"
    return f"{_signed(value, unit)}{between} {unit}".rstrip()


def _signed(value: float, unit: str) -> str:
    text = f"{value * 100 if unit == 'pp' else value:+.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else text.replace("-", "−")


def p_value(p: float | None) -> str:
    """
    >>> p_value(0.0312), p_value(0.00001), p_value(None)
    ('0.031', '<0.001', '–')
    """
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"
