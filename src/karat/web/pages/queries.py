"""The queries of a run, those that failed, and one query in several runs."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from karat.history.keep import triage_of
from karat.history.queries import QueryHistory, QueryPoint, case_of, cases_of, query_over_time, scores_of
from karat.history.report import day, leading
from karat.history.store import Store, short
from karat.report.blocks import Block, Chart, Example, Section, Series, Text
from karat.report.fit import SIGNS
from karat.report.renderers.html import Placed, place
from karat.report.triage import triage_blocks
from karat.results.numbers import written
from karat.scoring.metrics.grammar import parse_metric
from karat.web.api import AskQuery
from karat.web.csv_file import csv_link
from karat.web.page import SHOWN, SIZE, AskPage, asked_of, link, page, steps

_CASES = 10  # failed queries per page
_ORDERS = [("given", "as in the gold set"), ("worst", "worst first"), ("best", "best first")]
_LINES = 4  # systems in a chart
_DEPTH = 5  # ranks, at least


def queries_page(store: Store, request: Request) -> Response:
    row = store.row(store.find(request.path_params["run"]))
    asked = asked_of(request, AskPage)
    shown = [str(metric) for metric in leading([row])[:SHOWN]]
    metric, order = asked.metric or shown[0], asked.order or "worst"
    found = scores_of(store, row.id, metric=metric, order=order, text=asked.text, offset=asked.offset, limit=SIZE)
    columns = list(dict.fromkeys([metric, *shown]))
    return page(
        "queries.html",
        f"Queries of {row.head.system or row.head.run}",
        store,
        row=row,
        metrics=list(row.measures),
        metric=metric,
        orders=_ORDERS,
        order=order,
        text=asked.text,
        shown=columns,
        rows=[(query, _cells(query.scores, columns)) for query in found.rows],
        total=f"{found.total:,}",
        first=asked.offset + 1,
        last=asked.offset + len(found.rows),
        links=steps(request, asked.offset, SIZE, found.total),
        csv=csv_link(f"/runs/{row.id}/queries.csv", request, found.total),
    )


def _cells(scores: dict[str, float | None], names: Sequence[str]) -> list[str]:
    return [written(scores.get(name), parse_metric(name).unit) for name in names]


def triage_page(store: Store, request: Request) -> Response:
    row = store.row(store.find(request.path_params["run"]))
    offset = max(asked_of(request, AskPage).offset, 0)
    cases = cases_of(store, row.id, offset=offset, limit=_CASES)
    found = triage_of(store.document(row.id), cases) if cases else None
    blocks: list[Block] = [Text("No failed queries are kept.")]
    if found is not None:
        blocks = [Text(SIGNS, "note"), *triage_blocks(found)]
    return page(
        "triage.html",
        f"Where {row.head.system or row.head.run} fails",
        store,
        row=row,
        first=offset + 1,
        last=offset + len(cases),
        sections=place([Section("triage", "Failed queries", blocks)]),
        links=steps(request, offset, _CASES, row.head.cases),
    )


def query_page(store: Store, request: Request) -> Response:
    choices = store.choices()
    if not request.query_params.get("query_id"):
        nothing = AskQuery(query_id="")
        return page("query.html", "One query across runs", store, choices=choices, asked=nothing, text=None, rows=[])
    asked = asked_of(request, AskQuery)
    found = query_over_time(store, asked.query_id, asked.filter(), limit=asked.limit, after=asked.after)
    names = _metrics(store, found.points)
    return page(
        "query.html",
        f"Query {found.query_id}",
        store,
        choices=choices,
        asked=asked,
        text=found.query,
        shown=names,
        rows=[(point, _cells(point.scores, names)) for point in found.points],
        links=[("Older runs", link("/query", request, after=found.after))] if found.after else [],
        sections=[*_sections(store, found), *([Placed("runs", "In each run")] if found.points else [])],
    )


def _metrics(store: Store, points: Sequence[QueryPoint]) -> list[str]:
    """The key metrics that the newest run has for this query."""
    if not points:
        return []
    told = [str(metric) for metric in leading([store.row(points[0].run_id)])]
    return [name for name in told if name in points[0].scores][:SHOWN]


def _sections(store: Store, found: QueryHistory) -> list[Placed]:
    moved = Section("rank", "Rank over time", _rank_blocks(found))
    seen = next((point for point in found.points if point.has_case), None)
    case = None if seen is None else case_of(store, seen.run_id, found.query_id)
    if seen is None or case is None:
        return place([moved])
    made = triage_of(store.document(seen.run_id), [case])
    shown = [] if made is None else [block for block in triage_blocks(made) if isinstance(block, Example)]
    told = Text(
        f"From run {short(seen.run_id)} of {seen.system}, {day(seen.saved_at)}: the newest that failed on this query."
    )
    return place([moved, Section("hits", "Gold and hits", [told, Text(SIGNS, "note"), *shown])])


def _rank_blocks(found: QueryHistory) -> list[Block]:
    points = found.points
    if not points:
        return [Text(f"No run has a query with the id {found.query_id}.")]
    ranks = [point.first_rank for point in points if point.first_rank is not None]
    if not ranks:
        return [Text("No run returned a relevant hit for this query.")]
    if len(points) == 1:
        return [Text("There is only one run so far.")]
    oldest_first = list(reversed(points))
    systems = sorted({point.system for point in points})[:_LINES]
    chart = Chart(
        "Rank of its first relevant hit by run, oldest first (lower is better; a gap: none found)",
        "run",
        "rank",
        [_line(system, oldest_first) for system in systems],
        y_range=(0.0, float(max(*ranks, _DEPTH))),
        x_words=[day(point.saved_at) for point in oldest_first],
        told=True,
    )
    return [chart]


def _line(system: str, points: Sequence[QueryPoint]) -> Series:
    own = [(float(place), point.first_rank) for place, point in enumerate(points, 1) if point.system == system]
    return Series(system, [at for at, _ in own], [None if rank is None else float(rank) for _, rank in own])
