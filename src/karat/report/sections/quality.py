"""Whether the metrics track a quality signal from users."""

from __future__ import annotations

from typing import Any

from karat.report.blocks import Block, Cell, Interval, Text
from karat.report.cells import count, table
from karat.report.sections.base import AnalysisSection
from karat.results.analyses.quality import QualityFound, Tracking

_HOW = (
    "Spearman's rank correlation over queries, with interval: 1 if metric and signal order the queries the same "
    "way, 0 if they are unrelated."
)
_TRIGGER = (
    "{metric} does not track this signal beyond chance ({n:,} queries). A gate on it may pass what users dislike: use "
    "a metric that does track it, or graded labels with ndcg@10."
)


class QualitySection(AnalysisSection):
    """Correlations by metric and by segment; a warning where the gated metric does not track the signal."""

    name = "quality"
    title = "Does it track quality?"
    order = 32

    def in_short(self, found: Any) -> None:
        """It was requested, so a terminal shows all of it."""

    def show(self, found: QualityFound) -> list[Block]:
        heads = (count("queries"), "rank correlation", "reading")
        whole = [row for row in found.rows if row.segment is None]
        parts = [row for row in found.rows if row.segment is not None]
        blocks: list[Block] = [table(["metric", *heads], [[row.metric, *_cells(row)] for row in whole], _HOW)]
        if parts:
            rows: list[list[Cell]] = [[row.segment, *_cells(row)] for row in parts]
            blocks.append(table([f"{found.metric} in", *heads], rows))
        gated = next((row for row in whole if row.metric == found.metric), None)
        if gated is not None and gated.reading in ("not shown", "opposite"):
            blocks.append(Text(_TRIGGER.format(metric=gated.metric, n=gated.n), "warning"))
        return blocks


def _cells(row: Tracking) -> list[Cell]:
    if row.rho is None or row.low is None or row.high is None:
        return [row.n, None, row.reading]
    return [row.n, Interval(f"{row.rho:.2f} [{row.low:.2f}, {row.high:.2f}]", row.rho, row.low, row.high), row.reading]
