"""One metric over time."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from karat.history.report import day, gold_set, leading, minute, several_gold_sets, trend_blocks
from karat.history.rows import TrendPoint
from karat.history.store import Store, short
from karat.report.blocks import Block, Chart, Section, Series, Table, Text
from karat.results.numbers import interval, written
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric
from karat.web.api import ListRuns
from karat.web.pages.common import asked_of, kept_verdicts
from karat.web.rendering import Placed, page, place

_LINES = 4  # colours of a chart


def trend_page(store: Store, request: Request) -> Response:
    plain = asked_of(request, ListRuns)
    newest = store.runs(plain.filter(), limit=1).rows
    known = list(newest[0].measures) if newest else []
    first = str(leading(newest)[0]) if newest else "recall@5"
    segment = request.query_params.get("segment", "")
    name, _, value = segment.partition("=")
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
        segments=_choices(segments, segment),
        definitions=len({point.measure.definition for point in points_}) > 1,
        gold_sets=several_gold_sets(points_),
        rows=[_trend_row(point, parse_metric(metric)) for point in reversed(points_)],
        sections=_sections(store, metric, segment, points_),
    )


def _choices(segments: dict[str, list[str]], asked: str) -> list[tuple[str, str]]:
    """What can be asked for, and what was: a choice must not fall back to all queries without a word."""
    known = [(f"{name}={value}", f"{name}: {value}") for name, values in segments.items() for value in values]
    return known if not asked or any(asked == value for value, _ in known) else [(asked, asked), *known]


def _sections(store: Store, metric: str, segment: str, found: list[TrendPoint]) -> list[Placed]:
    blocks: list[Block] = [block for block in trend_blocks(metric, found, segment) if not isinstance(block, Table)]
    if blocks and isinstance(blocks[0], Chart):
        blocks[0] = _with_gates(store, metric, segment, found, blocks[0])
    told = place([Section("trend", "Trend", blocks or [Text("One run is not a trend yet.")])])
    return [*told, Placed("runs", "Runs")] if found else told


def _with_gates(store: Store, metric: str, segment: str, found: list[TrendPoint], chart: Chart) -> Chart:
    """With what the gates asked of the newest run that has any as lines."""
    judged = store.judged([point.run_id for point in found])
    newest = next((point for point in reversed(found) if point.run_id in judged), None)
    if newest is None:
        return chart
    limits, group = dict[float, str](), segment.replace("=", " ", 1)
    asked = "" if newest is found[-1] else f" (of {day(newest.saved_at)}, {short(newest.run_id)})"
    for judgement in store.judgements(newest.run_id)[:1]:
        for verdict in kept_verdicts(judgement.document).verdicts:
            if verdict.metric == metric and (verdict.segment or "") == group and verdict.limit is not None:
                limits.setdefault(verdict.limit, f"gate {verdict.gate}{asked}")
    ends = [1.0, float(len(found))]
    lines = [Series(name, ends, [limit, limit]) for limit, name in limits.items()]
    return msgspec.structs.replace(chart, series=[*chart.series, *lines[: _LINES - len(chart.series)]])


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
        "gold_set": gold_set(point.dataset),
        "definition": found.definition,
        "pins": point.pins,
        "tags": point.tags,
    }
