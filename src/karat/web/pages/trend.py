"""One metric over time."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from karat.history.rows import TrendPoint
from karat.history.store import Store
from karat.metrics.base import Metric
from karat.metrics.grammar import parse_metric
from karat.report.blocks import Block, Chart, Section, Series, Table, Text
from karat.report.history import leading, minute, trend_blocks
from karat.report.numbers import interval, written
from karat.web.api import ListRuns
from karat.web.pages.asking import asked_of
from karat.web.pages.verdicts import kept_verdicts
from karat.web.rendering import page, place


def trend_page(store: Store, request: Request) -> Response:
    newest = store.runs(limit=1).rows
    known = list(newest[0].measures) if newest else []
    first = str(leading(newest)[0]) if newest else "recall@5"
    segment = request.query_params.get("segment", "")
    name, _, value = segment.partition("=")
    plain = asked_of(request, ListRuns)
    metric = str(parse_metric(request.query_params.get("metric") or first))
    points_ = store.trend(metric, plain.filter(), segment=(name, value))
    segments = store.segments(newest[0].id) if newest else {}
    title = f"{metric} over time" + (f", {segment}" if segment else "")
    return page(
        "trend.html",
        title,
        place="trend",
        store=store.label,
        asked=plain,
        choices=store.choices(),
        metric=metric,
        metrics=list(dict.fromkeys([metric, *known])),
        segment=segment,
        segments=[(f"{n}={v}", f"{n}: {v}") for n, values in segments.items() for v in values],
        rows=[_trend_row(point, parse_metric(metric)) for point in reversed(points_)],
        sections=place([Section("trend", metric, _with_gates(store, metric, segment, points_))]),
    )


def _with_gates(store: Store, metric: str, segment: str, found: list[TrendPoint]) -> list[Block]:
    """The trend, with what the gates asked of the newest run as lines."""
    blocks: list[Block] = [block for block in trend_blocks(metric, found) if not isinstance(block, Table)]
    if not found or segment or not (blocks and isinstance(blocks[0], Chart)):
        return blocks or [Text("One run is not a trend yet.")]
    limits: dict[str, float] = {}
    for judgement in store.judgements(found[-1].run_id)[:1]:
        for verdict in kept_verdicts(judgement.document).verdicts:
            if verdict.metric == metric and verdict.segment is None and verdict.limit is not None:
                limits[f"gate {verdict.gate}"] = verdict.limit
    ends = [1.0, float(len(found))]
    lines = [Series(name, ends, [limit, limit]) for name, limit in limits.items()]
    chart = msgspec.structs.replace(blocks[0], series=[*blocks[0].series, *lines[:3]])
    return [chart, *blocks[1:]]


def _trend_row(point: TrendPoint, metric: Metric) -> dict[str, Any]:
    found = point.measure
    return {
        "id": point.run_id,
        "saved": minute(point.saved_at),
        "system": point.system,
        "branch": point.branch,
        "code": point.code_version,
        "value": written(found.mean, metric.unit),
        "limits": interval(found.low, found.high, metric.unit),
        "queries": f"{point.queries:,}",
        "definition": found.definition,
        "pins": point.pins,
    }
