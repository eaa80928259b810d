"""Two runs query by query, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import numpy as np
from starlette.requests import Request

from karat.report.blocks import Scatter
from karat.report.comparison_pictures import LinkedQueries, scatter
from karat.results.numbers import counted
from karat.scoring.metrics.base import Metric
from karat.web.page import link

if TYPE_CHECKING:
    import polars as pl

_LINKED = 20  # queries that lost most


def side_picture(
    found: pl.DataFrame, metric: Metric, names: Sequence[str], request: Request
) -> tuple[Scatter, str] | None:
    """The first run against the last, and a sentence with the counts; None if no query has both values."""
    last = len(names) - 1
    both = found.filter(found["delta"].is_not_null() & found["delta"].is_finite())
    if both.is_empty():
        return None
    before, after = (both[f"value{i}"].cast(float).to_numpy() for i in (0, last))
    sign = 1.0 if metric.direction == "higher" else -1.0
    gains = (after - before) * sign
    worst = [int(i) for i in np.argsort(gains, kind="stable")[:_LINKED] if gains[i] < 0]
    ids = both["query_id"]
    runs = [run for run in request.query_params.getlist("run") if run]
    sides = [("run", runs[0]), ("run", runs[-1])]
    links = {i: (ids[i], "/query?" + urlencode([("query_id", ids[i]), *sides])) for i in worst}
    order = "worst" if sign > 0 else "best"
    several = link("/compare", request, order=order, metric=str(metric), offset=None) + "#beside"
    first, other = (f"{metric} of {names[i]}" for i in (0, last))
    shown = scatter(metric, first, other, before, after, LinkedQueries(links, several))
    counts = {kind: sum(s.count for s in shown.spots if s.kind == kind) for kind in ("gained", "lost", "same")}
    missing = found.height - both.height
    told = (
        f"{counted(counts['gained'])} gained, {counts['lost']:,} lost, {counts['same']:,} the same"
        f"{f'; {missing:,} without a value in both runs' if missing else ''}. "
        f"The dots of the largest losses are links."
    )
    return shown, told
