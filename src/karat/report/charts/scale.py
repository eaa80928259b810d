"""From values to places on an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Scale:
    """An axis from `low` to `high`."""

    low: float
    high: float
    kind: Literal["linear", "log"] = "linear"

    def share(self, value: float) -> float:
        """How far along the axis a value lies: 0 at its start, 1 at its end, never beyond.

        >>> Scale(0, 4).share(1), Scale(1, 100, "log").share(10), Scale(0, 1).share(7), Scale(3, 3).share(3)
        (0.25, 0.5, 1.0, 0.5)
        """
        low, high, at = self.low, self.high, max(value, self.low)
        if self.kind == "log" and low > 0:
            low, high, at = map(math.log, (low, high, at))
        if not high > low:
            return 0.5
        return min(max((at - low) / (high - low), 0.0), 1.0)

    def ticks(self, most: int = 6) -> list[float]:
        """Round values along the axis.

        >>> Scale(0, 1).ticks(), Scale(-3, 12).ticks(4), Scale(2, 2).ticks()
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 5.0, 10.0], [2])
        """
        span = self.high - self.low
        if not span > 0 or not math.isfinite(span):
            return [self.low]
        rough = span / max(most - 1, 1)
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * nice for nice in (1, 2, 2.5, 5, 10) if power * nice >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [round(i * step, 10) + 0.0 for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def tick(value: float) -> str:
    """
    >>> tick(0.2), tick(-5.0), tick(12_000)
    ('0.2', '−5', '12,000')
    """
    return (f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}").replace("-", "−")
