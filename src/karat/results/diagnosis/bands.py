"""Rough bands for recall, from poor to excellent, taken from the seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from karat.data.ids import Floats
from karat.results.summary import SummaryRow, mean_of

CAVEAT = (
    "Typical ranges of well-designed systems. Use them as a rough guide only: they depend heavily on how hard the "
    "queries are, how large the corpus is and how complex the domain is."
)
NAMES = ("poor", "acceptable", "good", "excellent")
# From the seeds' table: end of poor, start of acceptable, start of good, end of good, start of excellent.
EDGES: dict[str, tuple[float, float, float, float, float]] = {
    "recall@1": (0.30, 0.40, 0.50, 0.60, 0.65),
    "recall@3": (0.50, 0.60, 0.70, 0.80, 0.85),
    "recall@5": (0.60, 0.70, 0.80, 0.90, 0.90),
    "recall@10": (0.70, 0.80, 0.85, 0.95, 0.95),
}


class Reading(msgspec.Struct, frozen=True):
    """The band of one metric. `lowest` and `highest`: the bands at the ends of its interval."""

    metric: str
    value: float
    band: str
    lowest: str
    highest: str
    share_of_ceiling: float | None = None  # if not every query can reach 1: the mean of score / ceiling
    band_of_share: str | None = None

    @property
    def certain(self) -> bool:
        return self.lowest == self.highest


def band(metric: str, value: float) -> str:
    """The band of a value, or "between" two bands in the gaps of the table.

    >>> band("recall@5", 0.59), band("recall@5", 0.65), band("recall@5", 0.8), band("recall@1", 0.7)
    ('poor', 'between poor and acceptable', 'good', 'excellent')
    """
    poor, acceptable, good, good_ends, excellent = EDGES[metric]
    if value < poor:
        return "poor"
    if value < acceptable:
        return "between poor and acceptable"
    if value < good:
        return "acceptable"
    if value <= good_ends:
        return "good"
    return "excellent" if value > excellent else "between good and excellent"


def readings(rows: Iterable[SummaryRow], reached: Callable[[str], Floats | None]) -> list[Reading]:
    """The bands of all metrics that have one. `reached`: a metric's share of its ceiling, query by query."""
    return [_reading(row, row.mean, reached) for row in rows if row.metric in EDGES and row.mean is not None]


def _reading(row: SummaryRow, mean: float, reached: Callable[[str], Floats | None]) -> Reading:
    low, high = (mean if limit is None else limit for limit in (row.low, row.high))
    shares = None if row.ceiling is None or row.ceiling >= 1 else reached(row.metric)
    share = None if shares is None else mean_of(shares)
    return Reading(
        metric=row.metric,
        value=mean,
        band=band(row.metric, mean),
        lowest=band(row.metric, low),
        highest=band(row.metric, high),
        share_of_ceiling=share,
        band_of_share=None if share is None else band(row.metric, share),
    )
