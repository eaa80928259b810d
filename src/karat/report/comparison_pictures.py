"""Pictures of a comparison: what changed, both sides, and query by query."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np

from karat.data.ids import Floats
from karat.report.blocks import Block, Dot, Dots, Scatter, Spot
from karat.report.cells import around, difference_cell
from karat.report.sections.panel import panel_picture
from karat.results.comparison.compare import CandidateComparison, Comparison, headline_metric, paired_sides
from karat.results.differences import SAME
from karat.results.result import Result
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric

_SPOTS = 400  # more are drawn on a grid
_GRID = 40


def differences_picture(comparison: Comparison, pair: CandidateComparison) -> list[Block]:
    """The differences of all shares on one axis that includes zero."""
    rows = [Dot(d.metric, difference_cell(d, "pp")) for d in pair.differences if comparison.units[d.metric] == "pp"]
    shown = [row for row in rows if row.value.value is not None]
    ends = around((v for row in shown for v in (row.value.low, row.value.high) if v is not None), zero=True)
    title = f"What changed, with {comparison.statistics['level'] * 100:g} % intervals"
    reach = max(*map(abs, ends), 1.0) * 1.05
    axis = f"percentage points ({comparison.baseline} = 0)"
    return [Dots(title, axis, shown, (-reach, reach), told=True)] if shown else []


def sides_pictures(pair: CandidateComparison, baseline: Result, candidate: Result) -> list[Block]:
    """The scores of both sides, and query by query in the headline metric."""
    blocks = panel_picture(candidate, baseline)
    if metric := headline_metric([parse_metric(d.metric) for d in pair.differences]):
        blocks.append(_scatter(metric, baseline, candidate))
    return blocks


def _scatter(metric: Metric, baseline: Result, candidate: Result) -> Scatter:
    paired = paired_sides(baseline, candidate, force=True)  # already checked by the comparison
    before, after = (side.values[str(metric)] for side in (paired.baseline, paired.candidate))
    defined = ~(np.isnan(before) | np.isnan(after))
    first, other = (f"{metric} of {side.system or side.run}" for side in (baseline, candidate))
    return Scatter(
        f"{metric}, query by query",
        first,
        other,
        _spots(before[defined], after[defined], metric.direction == "higher"),
        around([*before[defined].tolist(), *after[defined].tolist(), *(e for e in metric.range if np.isfinite(e))]),
    )


def _spots(before: Floats, after: Floats, higher: bool) -> list[Spot]:
    """Groups queries with the same pair of values; many different pairs are drawn on a grid."""
    places = Counter(zip(before.round(4).tolist(), after.round(4).tolist(), strict=True))
    if len(places) > _SPOTS:
        step = max(float(np.ptp(np.concatenate([before, after]))), SAME) / _GRID
        grid = zip(*((np.round(values / step) * step).round(4).tolist() for values in (before, after)), strict=True)
        places = Counter(grid)
    return [Spot(x, y, count, _kind(y - x, higher)) for (x, y), count in sorted(places.items())]


def _kind(delta: float, higher: bool) -> Literal["gained", "lost", "same"]:
    if abs(delta) <= SAME:
        return "same"
    return "gained" if (delta > 0) == higher else "lost"
