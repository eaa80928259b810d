"""Pictures of a comparison: what changed, both sides, and query by query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
    return scatter(metric, first, other, before[defined], after[defined])


class LinkedQueries(NamedTuple):
    """Queries that a picture links to, by their place; `several`: the link of a spot that has more than one query."""

    links: Mapping[int, tuple[str, str]]  # name and link
    several: str


def scatter(
    metric: Metric, first: str, other: str, before: Floats, after: Floats, linked: LinkedQueries | None = None
) -> Scatter:
    """Two values of each query. `first`, `other`: titles of the axes."""
    ends = [end for values in (before, after) if values.size for end in (float(values.min()), float(values.max()))]
    return Scatter(
        f"{metric}, query by query",
        first,
        other,
        _spots(before, after, metric.direction == "higher", linked or LinkedQueries({}, "")),
        around([*ends, *(e for e in metric.range if np.isfinite(e))]),
    )


def _spots(before: Floats, after: Floats, higher: bool, linked: LinkedQueries) -> list[Spot]:
    """Groups queries with the same pair of values; many different pairs are drawn on a grid, except linked queries."""
    delta = after - before if higher else before - after
    kinds = np.where(np.abs(delta) <= SAME, "same", np.where(delta > 0, "gained", "lost")).tolist()
    pairs = list(zip(before.round(4).tolist(), after.round(4).tolist(), kinds, strict=True))
    places, apart = Counter(pairs), dict[tuple[float, float, str], list[int]]()
    for query in linked.links:
        apart.setdefault(pairs[query], []).append(query)
    if len(places) > _SPOTS:
        step = max(float(np.ptp(np.concatenate([before, after]))), SAME) / _GRID
        x, y = ((np.round(values / step) * step).round(4).tolist() for values in (before, after))
        grid = zip(x, y, kinds, strict=True)
        places = Counter(place for query, place in enumerate(grid) if query not in linked.links)
        drawn = [(*place, count, "", "") for place, count in sorted(places.items())]
        drawn += [(*place, len(queries), *_link(queries, len(queries), linked)) for place, queries in apart.items()]
    else:
        drawn = [(*place, n, *_link(apart.get(place, []), n, linked)) for place, n in sorted(places.items())]
    return [Spot(x, y, count, kind, link, name) for x, y, kind, count, name, link in drawn]


def _link(queries: Sequence[int], count: int, linked: LinkedQueries) -> tuple[str, str]:
    """Name and link of a spot, if it has linked queries."""
    if not queries:
        return "", ""
    return linked.links[queries[0]] if count == 1 else ("", linked.several)
