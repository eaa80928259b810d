"""How numbers are written in every report: scores with four decimals, times with their unit, intervals in brackets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from karat.data.prices import is_currency, money
from karat.report.blocks import Column, Table
from karat.results.differences import Difference
from karat.results.summary import SummaryRow

Limits: TypeAlias = tuple[float | None, float | None]


_LARGE = 1e7  # past it the digits before the point are too many for a table


def _plain(value: float, digits: int, sign: str = "") -> str:
    return f"{value:{sign}.{digits}f}" if abs(value) < _LARGE else f"{value:{sign}.3g}"


def _measured(value: float, unit: str) -> str:
    return money(value) if is_currency(unit) else _plain(value, 1 if abs(value) >= 10 else 2)


def written(value: float | None, unit: str = "") -> str:
    """A value with its unit.

    >>> written(0.65092), written(12.34, "ms"), written(3.456, "ms"), written(1.5e9, "ms"), written(None)
    ('0.6509', '12.3 ms', '3.46 ms', '1.5e+09 ms', '–')
    >>> written(0.000401, "USD"), written(312.4, "EUR")
    ('0.000401 USD', '312.40 EUR')
    """
    if value is None:
        return "–"
    return f"{_measured(value, unit)} {unit}" if unit else _plain(value, 4)


def interval(low: float | None, high: float | None, unit: str = "") -> str:
    """Limits, with the digits that they deserve.

    >>> interval(0.60123, 0.7), interval(3.1, 12.34, "ms"), interval(None, None)
    ('[0.601, 0.700]', '[3.10, 12.3]', '–')
    """
    if low is None or high is None:
        return "–"
    return "[" + ", ".join(_measured(v, unit) if unit else _plain(v, 3) for v in (low, high)) + "]"


def with_interval(row: SummaryRow, unit: str = "") -> str:
    """Mean and limits in one cell, short enough for several of them in a line; the unit belongs above it.

    >>> with_interval(SummaryRow("recall@5", 30, 0, 0.65092, 0.6, 0.7)), with_interval(SummaryRow("mrr", 0, 9, None))
    ('0.651 [0.60, 0.70]', '–')
    >>> with_interval(SummaryRow("latency", 30, 0, 12.34, 8.125, 20.0), "ms")
    '12.3 [8.12, 20.0]'
    """
    if row.mean is None:
        return "–"
    mean = _measured(row.mean, unit) if unit else _plain(row.mean, 3)
    if row.low is None or row.high is None:
        return mean
    limits = interval(row.low, row.high, unit) if unit else f"[{_plain(row.low, 2)}, {_plain(row.high, 2)}]"
    return f"{mean} {limits}"


def titled(name: str, unit: str) -> str:
    """A heading that says the unit once for all cells under it.

    >>> titled("latency_p50", "ms"), titled("recall@5", "")
    ('latency_p50 (ms)', 'recall@5')
    """
    return f"{name} ({unit})" if unit else name


def points(value: float | None, unit: str = "pp", limits: Limits = (None, None)) -> str:
    """A difference with its sign and its limits: percentage points for shares, the metric's unit for anything else.

    >>> points(0.0312), points(-0.2, "pp", (-0.3, 0.0512)), points(3.25, "ms"), points(0.5, ""), points(None)
    ('+3.12 pp', '−20.00 [−30.00, +5.12] pp', '+3.25 ms', '+0.50', '–')
    """
    return "–" if value is None else f"{difference(value, unit, limits, 2)} {unit}".rstrip()


def difference(value: float | None, unit: str, limits: Limits, digits: int) -> str:
    """The same for a column whose heading has the unit.

    >>> difference(-0.2, "pp", (-0.3, 0.0512), 1), difference(None, "pp", (None, None), 1)
    ('−20.0 [−30.0, +5.1]', '–')
    """
    if value is None:
        return "–"
    low, high = limits
    between = "" if low is None or high is None else f" [{_signed(low, unit, digits)}, {_signed(high, unit, digits)}]"
    return _signed(value, unit, digits) + between


def _signed(value: float, unit: str, digits: int) -> str:
    text = _plain(value * 100 if unit == "pp" else value, digits, "+")
    if is_currency(unit):
        text = f"{'+' if value > 0 else ''}{money(value)}"
    return text[1:] if not text.strip("+-0.") else text.replace("-", "−")


def p_value(p: float | None) -> str:
    """
    >>> p_value(0.0312), p_value(0.00001), p_value(None)
    ('0.031', '<0.001', '–')
    """
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def queries(count: int) -> str:
    """
    >>> queries(1), queries(1200)
    ('1 query', '1,200 queries')
    """
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def share(row: SummaryRow) -> str:
    """A share of queries with its limits, in percent.

    >>> share(SummaryRow("harmed", 30, 0, 0.123, 0.05, 0.2)), share(SummaryRow("captured", 30, 0, -0.5)), share(
    ...     SummaryRow("none", 0, 3, None))
    ('12% [5%, 20%]', '−50%', '–')
    """
    value, low, high = (None if v is None else _percent(v) for v in (row.mean, row.low, row.high))
    if value is None:
        return "–"
    return value if low is None or high is None else f"{value} [{low}, {high}]"


def _percent(value: float) -> str:
    text = f"{value:.0%}"
    return "0%" if text == "-0%" else text.replace("-", "−")


def listed(examples: Sequence[str]) -> str:
    """Examples in one line; where one has a comma in it, semicolons tell where it ends.

    >>> listed(["q1", "q2"]), listed(["a, b", "c"]), listed(["a, b"]), listed([])
    ('q1, q2', 'a, b; c', 'a, b', '')
    """
    return ("; " if any("," in example for example in examples) else ", ").join(examples)


def such_as(examples: Sequence[str]) -> str:
    """
    >>> such_as(["q1", "q2"]), such_as([])
    (' (q1, q2)', '')
    """
    return f" ({listed(examples)})" if examples else ""


def difference_table(found: Sequence[Difference], before: str, after: str) -> Table:
    """Metrics of two kinds of lists beside each other, with what the second changes."""
    rows = [
        [d.metric, written(d.baseline), written(d.candidate), points(d.delta, limits=(d.low, d.high)), p_value(d.p)]
        for d in found
    ]
    return Table([Column(c) for c in ("metric", before, after, "difference", "p")], rows)
