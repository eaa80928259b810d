"""Format numbers for tables, with intervals in brackets, and for sentences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol

from karat.data.prices import is_currency, money
from karat.results.summary import Limits, SummaryRow

_LARGE = 1e7  # larger numbers have too many digits for a table
_MOST_DIGITS = 6


class _Estimated(Protocol):
    """A value with limits."""

    @property
    def value(self) -> float: ...
    @property
    def limits(self) -> tuple[float, float]: ...


# In tables


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
    """Limits with sensible digits.

    >>> interval(0.60123, 0.7), interval(3.1, 12.34, "ms"), interval(None, None)
    ('[0.601, 0.700]', '[3.10, 12.3]', '–')
    """
    if low is None or high is None:
        return "–"
    return "[" + ", ".join(_measured(v, unit) if unit else _plain(v, 3) for v in (low, high)) + "]"


def with_interval(row: SummaryRow, unit: str = "") -> str:
    """Mean and limits in one short cell. The unit belongs in the heading.

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
    """A heading with the unit of the cells below it.

    >>> titled("latency_p50", "ms"), titled("recall@5", "")
    ('latency_p50 (ms)', 'recall@5')
    """
    return f"{name} ({unit})" if unit else name


def points(value: float | None, unit: str = "pp", limits: Limits = (None, None)) -> str:
    """A difference with sign and limits: in percentage points for shares, else in the metric's unit.

    >>> points(0.0312), points(-0.2, "pp", (-0.3, 0.0512)), points(3.25, "ms"), points(0.5, ""), points(None)
    ('+3.12 pp', '−20.00 [−30.00, +5.12] pp', '+3.25 ms', '+0.500', '–')
    """
    return "–" if value is None else f"{difference(value, unit, limits, 2)} {unit}".rstrip()


def difference(value: float | None, unit: str, limits: Limits, digits: int) -> str:
    """A difference for a column whose heading has the unit.

    >>> difference(-0.2, "pp", (-0.3, 0.0512), 1), difference(None, "pp", (None, None), 1)
    ('−20.0 [−30.0, +5.1]', '–')
    """
    if value is None:
        return "–"
    low, high = limits
    between = "" if low is None or high is None else f" [{_signed(low, unit, digits)}, {_signed(high, unit, digits)}]"
    return _signed(value, unit, digits) + between


def _signed(value: float, unit: str, digits: int) -> str:
    text = _plain(value * 100 if unit == "pp" else value, digits if unit else digits + 1, "+")
    if is_currency(unit):
        text = f"{'+' if value > 0 else ''}{money(value)}"
    return text[1:] if not text.strip("+-0.") else text.replace("-", "−")


def p_value(p: float | None) -> str:
    """A p-value with three digits.

    >>> p_value(0.0312), p_value(0.00001), p_value(None)
    ('0.031', '<0.001', '–')
    """
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def counted(count: int, noun: str = "query") -> str:
    """A count with its noun, singular or plural.

    >>> counted(1), counted(1200), counted(0, "hit")
    ('1 query', '1,200 queries', '0 hits')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{count:,} {noun if count == 1 else plural}"


def share(row: SummaryRow) -> str:
    """A share of queries with limits, in percent.

    >>> share(SummaryRow("harmed", 30, 0, 0.123, 0.05, 0.2)), share(SummaryRow("captured", 30, 0, -0.5)), share(
    ...     SummaryRow("none", 0, 3, None))
    ('12% [5%, 20%]', '−50%', '–')
    """
    value, low, high = (None if v is None else percent(v, 0) for v in (row.mean, row.low, row.high))
    if value is None:
        return "–"
    return value if low is None or high is None else f"{value} [{low}, {high}]"


def listed(examples: Sequence[str]) -> str:
    """Examples in one line, separated by semicolons if one contains a comma.

    >>> listed(["q1", "q2"]), listed(["a, b", "c"]), listed(["a, b"]), listed([])
    ('q1, q2', 'a, b; c', 'a, b', '')
    """
    return ("; " if any("," in example for example in examples) else ", ").join(examples)


def such_as(examples: Sequence[str]) -> str:
    """Examples in parentheses, or nothing.

    >>> such_as(["q1", "q2"]), such_as([])
    (' (q1, q2)', '')
    """
    return f" ({listed(examples)})" if examples else ""


# In sentences


def percent(value: float, digits: int | None = None) -> str:
    """A share in percent. By default, small shares have one digit.

    >>> percent(0.3712), percent(0.0071), percent(-0.2), percent(0.0071, 0), percent(-0.001, 0)
    ('37%', '0.7%', '−20%', '1%', '0%')
    """
    if digits is None:
        digits = 1 if abs(value) < 0.0995 and value else 0
    text = f"{value:.{digits}%}"
    return text[1:] if not text.strip("-0.%") and text[0] == "-" else text.replace("-", "−")


def _between(estimate: _Estimated, form: Callable[[float], str], unit: str = "") -> str:
    low, high = estimate.limits
    return f"{form(estimate.value)}{unit} ({form(low)} to {form(high)})"


share_of: Final = partial(_between, form=percent)  # 37% (34% to 40%)
points_of: Final = partial(_between, form=lambda value: f"{value * 100:.0f}", unit=" points")  # 12 points (9 to 15)
ms_of: Final = partial(_between, form="{:.0f}".format, unit=" ms")  # 320 ms (290 to 350)
decimal_of: Final = partial(_between, form="{:.2f}".format)  # 0.71 (0.66 to 0.76)


def enumerated(names: Sequence[str], last: str = "and", most: int = 3) -> str:
    """Names in a sentence; those after the first `most` are counted.

    >>> enumerated(["a"]), enumerated(["a", "b"], "or"), enumerated(["a", "b", "c", "d", "e"])
    ('a', 'a or b', 'a, b, c and 2 more')
    """
    shown = [*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} {last} {shown[-1]}"


def amount(value: float, unit: str, digits: int = 1) -> str:
    """A value with its unit.

    >>> amount(0.8712, "pp"), amount(61.25, "ms"), amount(3.0, ""), amount(0.84996, "pp", 2), amount(0.0040123, "USD")
    ('87.1%', '61.2 ms', '3.000', '85.00%', '0.00401 USD')
    """
    if is_currency(unit):
        return f"{money(value, digits + 2)} {unit}"
    if unit == "pp":
        return f"{value * 100:.{digits}f}%"
    return f"{value:.{digits}f} {unit}" if unit else f"{value:.{digits + 2}f}"


def size(value: float, unit: str, digits: int = 1) -> str:
    """A difference without its sign.

    >>> size(0.0612, "pp"), size(-2.5, "ms")
    ('6.1 pp', '2.5 ms')
    """
    return amount(abs(value), unit, digits).replace("%", " pp")


def digits_apart(value: float, line: float, unit: str) -> int:
    """The number of digits that shows on which side of the line a value is: 85.0% is not below 85.0%.

    >>> digits_apart(0.8496, 0.85, "pp"), digits_apart(0.81, 0.85, "pp"), digits_apart(0.85, 0.85, "pp")
    (2, 1, 1)
    """
    if abs(value - line) < 1e-9:
        return 1
    enough = (d for d in range(1, _MOST_DIGITS) if amount(value, unit, d) != amount(line, unit, d))
    return next(enough, _MOST_DIGITS)


def rounded_up(count: int) -> int:
    """Round up to two significant digits, since the count is an estimate.

    >>> rounded_up(41), rounded_up(1237), rounded_up(98_001)
    (41, 1300, 99000)
    """
    step = int(10 ** max(len(str(count)) - 2, 0))
    return math.ceil(count / step) * step
