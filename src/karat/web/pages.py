"""The pages: each asks the history for what it shows, and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from karat.comparison.compare import compare_results
from karat.errors import ConfigError, InputError, KaratError
from karat.gates.verdicts import Verdicts
from karat.history.queries import Order, cases_of, query_over_time, scores_of, side_by_side
from karat.history.rows import Filter, Measure, RunRow, TrendPoint
from karat.history.store import NotThere, Store, StoreError
from karat.keeping import kept_sections, restored, triage_of
from karat.metrics.base import Metric
from karat.metrics.grammar import parse_metric
from karat.report.blocks import Block, Chart, Section, Series, Table, Text
from karat.report.comparison import comparison_report
from karat.report.fitting import SIGNS
from karat.report.gate import gate_report
from karat.report.history import leading, minute, trend_blocks
from karat.report.numbers import interval, points, written
from karat.report.triage import triage_blocks
from karat.web.api import AskQuery, ListRuns
from karat.web.rendering import Placed, page, place, sparkline, static

_S = TypeVar("_S", bound=msgspec.Struct)
_SHOWN = 3  # metrics of a list
_SPARK = 30  # runs of a small line
_SYSTEMS = 6
_CASES = 10  # failed queries of a page
_SIZE = 50
_ORDERS = {
    "given": [("given", "as in the gold set"), ("worst", "worst first"), ("best", "best first")],
    "changed": [
        ("changed", "greatest difference first"),
        ("worst", "losses first"),
        ("best", "gains first"),
        ("given", "as in the gold set"),
    ],
}


class AskPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of queries."""

    metric: str | None = None
    order: Order | None = None
    text: str = ""
    offset: int = 0


def asked_of(request: Request, kind: type[_S]) -> _S:
    """What the address asks for; a field of a form that was left empty asks for nothing."""
    names = {field.name for field in msgspec.structs.fields(kind)}
    given = {name: value for name, value in request.query_params.items() if name in names and value}
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InputError(str(error)) from error


def runs_page(store: Store, request: Request) -> Response:
    asked = asked_of(request, ListRuns)
    found = store.runs(asked.filter(), limit=asked.limit, after=asked.after)
    metrics = leading(found.rows)[:_SHOWN]
    names = [str(metric) for metric in metrics]
    units = [metric.unit for metric in metrics]
    rows = [
        {
            "id": row.id,
            "saved": minute(row.saved_at),
            "system": row.head.system or row.head.run,
            "branch": row.head.branch,
            "code": row.head.code_version,
            "outcome": row.outcome,
            "tags": row.tags,
            "pins": row.pins,
            "cells": [_mean(row.measures.get(name), unit) for name, unit in zip(names, units, strict=True)],
        }
        for row in found.rows
    ]
    links = []
    if asked.after:
        links.append(("Newest", _link("/runs", request, after=None)))
    if found.after:
        links.append(("Older", _link("/runs", request, after=found.after)))
    headings = [Placed("systems", "Systems"), Placed("list", "Runs")] if rows else []
    return page(
        "runs.html",
        "Runs",
        place="runs",
        store=store.label,
        sections=headings,
        asked=asked,
        choices=store.choices(),
        metrics=names,
        systems=_systems(store, found.rows, asked.filter(), names, units, request),
        rows=rows,
        links=links,
    )


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


def run_page(store: Store, request: Request) -> Response:
    row = store.row(store.find(request.path_params["run"]))
    sections = [*_verdicts(store, row), *kept_sections(store, row.id)]
    head, dataset = row.head, row.head.dataset
    facts = {
        "run": row.id[:16],
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
        place="runs",
        store=store.label,
        row=row,
        facts=[(name, str(value)) for name, value in facts.items() if value],
        baseline=pinned[0] if pinned else None,
        sections=place(sections),
    )


def queries_page(store: Store, request: Request) -> Response:
    row = store.row(store.find(request.path_params["run"]))
    asked = asked_of(request, AskPage)
    metrics = list(row.measures)
    shown = [str(metric) for metric in leading([row])[:_SHOWN]]
    metric = asked.metric or shown[0]
    found = scores_of(
        store,
        row.id,
        metric=metric,
        order=asked.order or "worst",
        text=asked.text,
        offset=asked.offset,
        limit=_SIZE,
    )
    columns = list(dict.fromkeys([metric, *shown]))
    units = [parse_metric(name).unit for name in columns]
    rows = [
        {
            "query_id": query.query_id,
            "query": query.query,
            "first_rank": query.first_rank,
            "link": f"/query?{urlencode({'query_id': query.query_id})}",
            "cells": [written(query.scores.get(name), unit) for name, unit in zip(columns, units, strict=True)],
        }
        for query in found.rows
    ]
    return page(
        "queries.html",
        f"Queries of {row.head.system or row.head.run}",
        place="runs",
        store=store.label,
        row=row,
        metrics=metrics,
        metric=metric,
        orders=_ORDERS["given"],
        order=asked.order or "worst",
        text=asked.text,
        shown=columns,
        rows=rows,
        total=f"{found.total:,}",
        first=asked.offset + 1,
        last=asked.offset + len(rows),
        links=_steps(request, asked.offset, _SIZE, found.total),
    )


def triage_page(store: Store, request: Request) -> Response:
    row = store.row(store.find(request.path_params["run"]))
    offset = max(asked_of(request, AskPage).offset, 0)
    cases = cases_of(store, row.id, offset=offset, limit=_CASES)
    found = triage_of(store.document(row.id), cases) if cases else None
    blocks: list[Block] = [Text("Nothing is kept here.")]
    if found is not None:
        blocks = [Text(SIGNS, "note"), *triage_blocks(found)]
    return page(
        "triage.html",
        f"Where {row.head.system or row.head.run} fails",
        place="runs",
        store=store.label,
        row=row,
        first=offset + 1,
        last=offset + len(cases),
        sections=place([Section("triage", "Failed queries", blocks)]),
        links=_steps(request, offset, _CASES, row.head.cases),
    )


def compare_page(store: Store, request: Request) -> Response:
    names = [name for name in request.query_params.getlist("run") if name]
    runs = [store.row(store.find(name)) for name in names]
    if request.query_params.get("first") == "oldest":  # picked in a list; from here on the address says the order
        ordered = sorted(runs, key=lambda run: run.saved_at)
        return RedirectResponse("/compare?" + urlencode([("run", run.id[:16]) for run in ordered]))
    context: dict[str, Any] = {"place": "compare", "store": store.label, "runs": runs, "side": None}
    if len(runs) < 2:
        return page("compare.html", "Compare runs", names=[*names, "", ""][:2], **context)
    if len(runs) > 6:
        raise ConfigError("too many runs to compare", expected="at most 6")
    asked = asked_of(request, AskPage)
    sides = [restored(store.kept(run.id)) for run in runs]
    report = comparison_report(compare_results(sides, segments=sides[0].telling_tags()))
    shared = [name for name in runs[0].measures if all(name in run.measures for run in runs)]
    preferred = [str(metric) for metric in leading(runs[:1]) if str(metric) in shared]
    metric = asked.metric or [*preferred, *shared][0]
    unit = parse_metric(metric).unit
    order_ = asked.order or "changed"
    found = side_by_side(
        store, [run.id for run in runs], metric, order=order_, text=asked.text, offset=asked.offset, limit=_SIZE
    )
    rows = [
        {
            "query_id": query.query_id,
            "query": query.query,
            "link": f"/query?{urlencode({'query_id': query.query_id})}",
            "cells": [written(value, unit) for value in query.values],
            "delta": points(query.delta, unit or "pp"),
            "ranks": " → ".join("–" if rank is None else str(rank) for rank in query.first_ranks),
        }
        for query in found.rows
    ]
    return page(
        "compare.html",
        report.title,
        names=names,
        metrics=shared,
        orders=_ORDERS["changed"],
        order=order_,
        text=asked.text,
        rows=rows,
        links=_steps(request, asked.offset, _SIZE, found.total),
        sections=[*place(report.sections), Placed("beside", "Query by query")],
        **{**context, "side": found},
    )


def query_page(store: Store, request: Request) -> Response:
    context: dict[str, Any] = {"place": "query", "store": store.label, "choices": store.choices()}
    if not request.query_params.get("query_id"):
        return page("query.html", "One query across runs", asked=AskQuery(query_id=""), text=None, rows=[], **context)
    asked = asked_of(request, AskQuery)
    found = query_over_time(store, asked.query_id, asked.filter(), limit=asked.limit, after=asked.after)
    names = list(dict.fromkeys(name for point in found.points for name in point.scores))[:6]
    units = [parse_metric(name).unit for name in names]
    rows = [
        {
            "run_id": point.run_id,
            "saved": minute(point.saved_at),
            "system": point.system,
            "branch": point.branch,
            "rank": "missing" if point.missing else point.first_rank or "–",
            "cells": [written(point.scores.get(name), unit) for name, unit in zip(names, units, strict=True)],
        }
        for point in found.points
    ]
    ranks = [None if p.first_rank is None else float(p.first_rank) for p in reversed(found.points)]
    blocks: list[Block] = [] if rows else [Text("None of these runs has it.")]
    if len([rank for rank in ranks if rank is not None]) > 1:
        line = Series("first relevant hit", [float(i) for i in range(1, len(ranks) + 1)], ranks)
        blocks.append(
            Chart("Rank of the first relevant hit, the oldest run first; lower is better", "run", "rank", [line])
        )
    links = [("Older runs", _link("/query", request, after=found.after))] if found.after else []
    return page(
        "query.html",
        f"Query {found.query_id}",
        asked=asked,
        text=found.query,
        shown=names,
        rows=rows,
        links=links,
        sections=place([Section("rank", "How its rank moved", blocks)]),
        **context,
    )


def pins_page(store: Store, request: Request) -> Response:
    pins = [(pin, store.row(pin.run_id)) for pin in store.pins()]
    return page("pins.html", "Baselines and anchors", place="pins", store=store.label, pins=pins)


def front_page(store: Store, request: Request) -> Response:
    return RedirectResponse("/runs")


def static_file(store: Store, request: Request) -> Response:
    found = static(request.path_params["name"])
    if found is None:
        return page("problem.html", "Not found", status=404, store="", error="There is no such file.", hint=None)
    return Response(found[0], media_type=found[1], headers={"Cache-Control": "no-cache"})


PAGES: dict[str, Callable[[Store, Request], Response]] = {
    "/": front_page,
    "/runs": runs_page,
    "/trend": trend_page,
    "/runs/{run}": run_page,
    "/runs/{run}/queries": queries_page,
    "/runs/{run}/triage": triage_page,
    "/compare": compare_page,
    "/query": query_page,
    "/pins": pins_page,
    "/static/{name}": static_file,
}


def problem_page(store: Store, error: KaratError) -> Response:
    status = 404 if isinstance(error, NotThere) else 503 if isinstance(error, StoreError) else 400
    said = str(error).partition("\nhint: ")[0]
    title = "Not there" if status == 404 else "That did not work"
    return page("problem.html", title, status=status, store=store.label, error=said, hint=error.hint)


def _systems(
    store: Store, rows: Sequence[RunRow], only: Filter, names: list[str], units: list[str], request: Request
) -> list[dict[str, Any]]:
    found = []
    for system in list(dict.fromkeys(row.head.system for row in rows))[:_SYSTEMS]:
        own = msgspec.structs.replace(only, system=system)
        cells = []
        for name, unit in zip(names, units, strict=True):
            values = [p.measure.mean for p in store.trend(name, own, limit=_SPARK) if p.measure.mean is not None]
            link = _link("/trend", request, metric=name, system=system, after=None)
            shown = {"spark": sparkline(values), "text": written(values[-1], unit), "link": link} if values else None
            cells.append(shown)
        found.append({"name": system, "link": _link("/runs", request, system=system, after=None), "cells": cells})
    return found


def _with_gates(store: Store, metric: str, segment: str, found: list[TrendPoint]) -> list[Block]:
    """The trend, with what the gates asked of the newest run as lines."""
    blocks: list[Block] = [block for block in trend_blocks(metric, found) if not isinstance(block, Table)]
    if not found or segment or not (blocks and isinstance(blocks[0], Chart)):
        return blocks or [Text("One run is not a trend yet.")]
    limits: dict[str, float] = {}
    for judgement in store.judgements(found[-1].run_id)[:1]:
        for verdict in _read_verdicts(judgement.document).verdicts:
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


def _verdicts(store: Store, row: RunRow) -> list[Section]:
    judged = store.judgements(row.id)
    return list(gate_report(_read_verdicts(judged[0].document)).sections) if judged else []


def _read_verdicts(document: str) -> Verdicts:
    try:
        return msgspec.json.decode(document, type=Verdicts)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise InputError(f"the verdict was kept by a Karat that wrote it in another way: {error}") from error


def _mean(measure: Measure | None, unit: str) -> str:
    return "–" if measure is None else written(measure.mean, unit)


def _steps(request: Request, offset: int, size: int, total: int) -> list[tuple[str, str]]:
    path, found = request.url.path, []
    if offset > 0:
        found.append(("Earlier", _link(path, request, offset=max(offset - size, 0))))
    if offset + size < total:
        found.append(("Later", _link(path, request, offset=offset + size)))
    return found


def _link(path: str, request: Request, **changes: Any) -> str:
    """The same question with some answers changed; None takes one away."""
    kept = [(n, v) for n, v in request.query_params.multi_items() if n not in changes and v]
    more = [(name, value) for name, value in changes.items() if value is not None]
    query = urlencode([*kept, *more])
    return f"{path}?{query}" if query else path
