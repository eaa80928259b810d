"""All runs, one run, one metric over time, and pins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from karat.history.keep import kept_sections
from karat.history.report import day, leading, minute, several_gold_sets, trend_blocks
from karat.history.rows import Filter, RunRow, TrendPoint
from karat.history.store import Store, short
from karat.report.blocks import Block, Chart, Section, Series, Table, Text
from karat.report.gate import gate_report
from karat.report.renderers.html import Placed, place
from karat.results.numbers import enumerated, interval, written
from karat.scoring.metrics.grammar import parse_metric
from karat.web.api import ListRuns
from karat.web.page import SHOWN, asked_of, kept_verdicts, link, page, sparkline

_SPARK = 30  # runs in a sparkline
_SYSTEMS = 6
_LINES = 4  # colours of a chart


def followed_branch(store: Store, request: Request, only: Filter) -> str | None:
    """The branch of a trend if the address has none; `branch=` means all branches."""
    return None if "branch" in request.query_params else store.main_branch(only)


def runs_page(store: Store, request: Request) -> Response:
    asked = asked_of(request, ListRuns)
    found = store.runs(asked.filter(), limit=asked.limit, after=asked.after)
    units = {str(metric): metric.unit for metric in leading(found.rows)[:SHOWN]}
    means = [{name: measure.mean for name, measure in row.measures.items()} for row in found.rows]
    cells = [[written(own.get(name), unit) for name, unit in units.items()] for own in means]
    links = [("Newest", link("/runs", request, after=None))] if asked.after else []
    links += [("Older", link("/runs", request, after=found.after))] if found.after else []
    systems = _systems(store, found.rows, asked.filter(), units, request)
    return page(
        "runs.html",
        "Runs",
        store,
        sections=[Placed("systems", "Systems"), Placed("list", "Runs")] if found.rows else [],
        asked=asked,
        choices=store.choices(),
        metrics=list(units),
        systems=systems,
        followed=enumerated(branches, most=2) if (branches := list(_branches(systems))) else None,
        rows=list(zip(found.rows, cells, strict=True)),
        links=links,
    )


def _systems(
    store: Store, rows: Sequence[RunRow], only: Filter, units: dict[str, str], request: Request
) -> list[dict[str, Any]]:
    found = []
    for system in list(dict.fromkeys(row.head.system for row in rows))[:_SYSTEMS]:
        own = msgspec.structs.replace(only, system=system)
        branch = followed_branch(store, request, own)
        own = own if branch is None else msgspec.structs.replace(own, branch=branch)
        cells = []
        for name, unit in units.items():
            values = [p.measure.mean for p in store.trend(name, own, limit=_SPARK) if p.measure.mean is not None]
            trend = link("/trend", request, metric=name, system=system, after=None)
            shown = {"spark": sparkline(values), "text": written(values[-1], unit), "link": trend} if values else None
            cells.append(shown)
        to = link("/runs", request, system=system, after=None)
        found.append({"name": system, "link": to, "cells": cells, "branch": branch})
    return found


def _branches(systems: Sequence[dict[str, Any]]) -> dict[str, None]:
    return dict.fromkeys(system["branch"] for system in systems if system["branch"] is not None)


def run_page(store: Store, request: Request) -> Response:
    row = store.row(store.find(request.path_params["run"]))
    judged = store.judgements(row.id)
    verdicts = gate_report(kept_verdicts(judged[0].document)).sections if judged else []
    head, dataset = row.head, row.head.dataset
    facts = {
        "run": row.id,
        "saved (UTC)": minute(row.saved_at),
        "branch": head.branch,
        "code": head.code_version,
        "dataset": " ".join(part for part in (dataset.name, dataset.version) if part),
        "index": head.index_version,
        "tags": ", ".join(row.tags),
        "pinned as": ", ".join(f"{pin.kind} {pin.name}" for pin in row.pins),
    }
    pinned = [pin.name for pin in store.pins() if pin.kind == "baseline" and pin.run_id != row.id]
    return page(
        "run.html",
        head.system or head.run,
        store,
        row=row,
        facts=[(name, str(value)) for name, value in facts.items() if value],
        baseline=pinned[0] if pinned else None,
        sections=place([*verdicts, *kept_sections(store, row.id)]),
    )


def pins_page(store: Store, request: Request) -> Response:
    pins = [(pin, store.row(pin.run_id)) for pin in store.pins()]
    return page("pins.html", "Baselines and anchors", store, pins=pins)


def trend_page(store: Store, request: Request) -> Response:
    asked = asked_of(request, ListRuns)
    followed = followed_branch(store, request, asked.filter())
    if followed is not None:
        asked = msgspec.structs.replace(asked, branch=followed)
    newest = store.runs(asked.filter(), limit=1).rows
    known = list(newest[0].measures) if newest else []
    first = str(leading(newest)[0]) if newest else "recall@5"
    segment = request.query_params.get("segment", "")
    name, _, value = segment.partition("=")
    metric = parse_metric(request.query_params.get("metric") or first)
    points = store.trend(str(metric), asked.filter(), segment=(name, value))
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
        definitions=len({point.measure.definition for point in points}) > 1,
        gold_sets=several_gold_sets(points),
        rows=[
            (p, written(p.measure.mean, metric.unit), interval(p.measure.low, p.measure.high, metric.unit))
            for p in reversed(points)
        ],
        sections=_trend_sections(store, str(metric), segment, points),
    )


def _choices(segments: dict[str, list[str]], asked: str) -> list[tuple[str, str]]:
    """The available segments, plus the requested one even if it is unknown."""
    known = {f"{name}={value}": f"{name}: {value}" for name, values in segments.items() for value in values}
    return list(known.items() if not asked or asked in known else {asked: asked, **known}.items())


def _trend_sections(store: Store, metric: str, segment: str, found: list[TrendPoint]) -> list[Placed]:
    blocks: list[Block] = [block for block in trend_blocks(metric, found, segment) if not isinstance(block, Table)]
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
    ends = [1.0, float(len(found))]
    lines = [Series(name, ends, [limit, limit]) for limit, name in limits.items()]
    return msgspec.structs.replace(chart, series=[*chart.series, *lines[: _LINES - len(chart.series)]])
