"""Is that good? Rough bands for recall, from the seeds."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from karat.summary import SummaryRow

CAVEAT = (
    "Typical ranges of well-designed systems, a rough aid only: they depend heavily on how hard the queries are, "
    "how large the corpus is and how complex the domain."
)
NAMES = ("poor", "acceptable", "good", "excellent")
# Of the seeds' table: poor ends below, acceptable begins, good begins, good ends, excellent begins above.
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
    ceiling: float | None = None
    band_of_ceiling: str | None = None  # the band of value / ceiling, where not every query can reach 1

    @property
    def certain(self) -> bool:
        return self.lowest == self.highest


def band(metric: str, value: float) -> str:
    """The band of a value; what the table leaves open lies between two.

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


def readings(rows: Iterable[SummaryRow]) -> list[Reading]:
    """The bands of all metrics that have one."""
    return [_reading(row, row.mean) for row in rows if row.metric in EDGES and row.mean is not None]


def _reading(row: SummaryRow, mean: float) -> Reading:
    low, high = (mean if limit is None else limit for limit in (row.low, row.high))
    capped = row.ceiling is not None and 0 < row.ceiling < 1
    return Reading(
        metric=row.metric,
        value=mean,
        band=band(row.metric, mean),
        lowest=band(row.metric, low),
        highest=band(row.metric, high),
        ceiling=row.ceiling,
        band_of_ceiling=band(row.metric, mean / row.ceiling) if capped and row.ceiling else None,
    )
