"""Pictures of a comparison: what changed, both sides, and query by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from karat.data.ids import Floats, Ints
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
_KINDS: dict[int, Literal["gained", "lost", "same"]] = {1: "gained", 0: "same", -1: "lost"}


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
    kinds = np.where(np.abs(delta) <= SAME, 0, np.sign(delta)).astype(int)
    x, y = before.round(4), after.round(4)
    first, place, counts = _places(x, y, kinds)
    if len(first) <= _SPOTS:
        own: list[list[int]] = [[] for _ in first]
        for query in linked.links:
            own[place[query]].append(query)
        groups = [(i, n, *_link(queries, n, linked)) for i, n, queries in zip(first, counts, own, strict=True)]
        return [_spot(x, y, kinds, *group) for group in groups]
    step = max(float(np.ptp(np.concatenate([before, after]))), SAME) / _GRID
    rest = np.delete(np.arange(len(before)), list(linked.links))
    grid_x, grid_y = ((np.round(values[rest] / step) * step).round(4) for values in (before, after))
    others = kinds[rest]
    cells, _, counts = _places(grid_x, grid_y, others)
    spots = [_spot(grid_x, grid_y, others, i, n) for i, n in zip(cells, counts, strict=True)]
    alone: dict[int, list[int]] = {}
    for query in linked.links:
        alone.setdefault(place[query], []).append(query)
    return spots + [_spot(x, y, kinds, q[0], len(q), *_link(q, len(q), linked)) for q in alone.values()]


def _places(x: Floats, y: Floats, kinds: Ints) -> tuple[list[int], list[int], list[int]]:
    """Distinct places: a query of each, the place of every query, and how many queries each has."""
    columns = (np.unique(values, return_inverse=True)[1] for values in (x, y))
    keys = next(columns) * len(x) + next(columns)
    _, first, place, counts = np.unique(
        keys * len(_KINDS) + kinds, return_index=True, return_inverse=True, return_counts=True
    )
    return first.tolist(), place.tolist(), counts.tolist()


def _spot(x: Floats, y: Floats, kinds: Ints, query: int, count: int, name: str = "", link: str = "") -> Spot:
    return Spot(float(x[query]), float(y[query]), count, _KINDS[int(kinds[query])], link, name)


def _link(queries: Sequence[int], count: int, linked: LinkedQueries) -> tuple[str, str]:
    """Name and link of a spot, if it has linked queries."""
    if not queries:
        return "", ""
    return linked.links[queries[0]] if count == 1 else ("", linked.several)
