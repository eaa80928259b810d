"""One metric over time."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from karat.history.report import Lines, day, leading, several_definitions, several_gold_sets, trend_picture
from karat.history.rows import TrendPoint
from karat.history.store import Store, short
from karat.report.blocks import Chart, Section, Series, Text
from karat.report.renderers.html import Placed, place
from karat.report.time_axis import seconds
from karat.results.numbers import interval, written
from karat.scoring.metrics.grammar import parse_metric
from karat.web.api import ListRuns
from karat.web.page import asked_of, kept_verdicts, link, page

_STYLES = 6  # of lines in a chart
_ROWS = 50  # runs below the chart; the list of runs has all of them
_LINES: tuple[tuple[Lines, str], ...] = (("branch", "branches"), ("system", "systems"))


def trend_page(store: Store, request: Request) -> Response:
    asked = asked_of(request, ListRuns)
    # The branch if the address has none; `branch=` means all branches.
    followed = None if "branch" in request.query_params else store.main_branch(asked.filter())
    if followed is not None:
        asked = msgspec.structs.replace(asked, branch=followed)
    newest = store.runs(asked.filter(), limit=1).rows
    known = list(newest[0].measures) if newest else []
    first = str(leading(newest)[0]) if newest else "recall@5"
    segment = request.query_params.get("segment", "")
    name, _, value = segment.partition("=")
    metric = parse_metric(request.query_params.get("metric") or first)
    points = store.trend(str(metric), asked.filter(), segment=(name, value))
    lines = _lines(request, points)
    return page(
        "trend.html",
        f"{metric} over time" + (f", {segment}" if segment else ""),
        store,
        asked=asked,
        followed=followed,
        everything=link("/trend", request, branch=""),
        choices=store.choices(),
        metric=str(metric),
        metrics=list(dict.fromkeys([str(metric), *known])),
        segment=segment,
        segments=_choices(store.segments(newest[0].id) if newest else {}, segment),
        definitions=several_definitions(points),
        gold_sets=several_gold_sets(points),
        rows=[
            (p, written(p.measure.mean, metric.unit), interval(p.measure.low, p.measure.high, metric.unit))
            for p in points[: -_ROWS - 1 : -1]
        ],
        points=len(points),
        listed=link("/runs", request, branch=asked.branch, columns=str(metric), metric=None, segment=None, lines=None),
        lines=request.query_params.get("lines"),
        kinds=_LINES,
        sections=_trend_sections(store, str(metric), segment, points, lines),
    )


def _choices(segments: dict[str, list[str]], asked: str) -> list[tuple[str, str]]:
    """The available segments, plus the requested one even if it is unknown."""
    known = {f"{name}={value}": f"{name}: {value}" for name, values in segments.items() for value in values}
    return list(known.items() if not asked or asked in known else {asked: asked, **known}.items())


def _lines(request: Request, points: Sequence[TrendPoint]) -> Lines:
    """What the lines are: as requested, otherwise branches if there are several."""
    asked = request.query_params.get("lines")
    usual: Lines = "branch" if len({point.branch for point in points}) > 1 else "system"
    return next((name for name, _ in _LINES if name == asked), usual)


def _trend_sections(store: Store, metric: str, segment: str, found: list[TrendPoint], lines: Lines) -> list[Placed]:
    blocks = trend_picture(metric, found, segment, lines)
    if blocks and isinstance(blocks[0], Chart):
        blocks[0] = _with_gates(store, metric, segment, found, blocks[0])
    told = place([Section("trend", "Trend", blocks or [Text("There is only one run so far.")])])
    return [*told, Placed("runs", "Runs")] if found else told


def _with_gates(store: Store, metric: str, segment: str, found: list[TrendPoint], chart: Chart) -> Chart:
    """Adds the limits of the gates of the newest judged run as lines."""
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
    ends = [seconds(found[0].saved_at), seconds(found[-1].saved_at)]
    gates = [Series(name, ends, [limit, limit]) for limit, name in limits.items()]
    return msgspec.structs.replace(chart, series=[*chart.series, *gates[: _STYLES - len(chart.series)]])
