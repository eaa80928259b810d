"""The queries of a run, and those that failed."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from karat.history.keep import triage_of
from karat.history.queries import cases_of, failed_count, scores_of
from karat.history.report import leading
from karat.history.store import Store
from karat.report.blocks import Block, Section, Text
from karat.report.fit import SIGNS
from karat.report.renderers.html import place
from karat.report.triage import triage_blocks
from karat.web.csv_file import csv_link
from karat.web.page import SHOWN, SIZE, AskPage, asked_of, page, score_cells, steps

_CASES = 10  # failed queries per page
_ORDERS = [("given", "as in the gold set"), ("worst", "worst first"), ("best", "best first")]


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
        rows=[(query, score_cells(query.scores, columns)) for query in found.rows],
        total=f"{found.total:,}",
        first=asked.offset + 1,
        last=asked.offset + len(found.rows),
        links=steps(request, asked.offset, SIZE, found.total),
        csv=csv_link(f"/runs/{row.id}/queries.csv", request, found.total),
    )


def triage_page(store: Store, request: Request) -> Response:
    row = store.row(store.find(request.path_params["run"]))
    offset = max(asked_of(request, AskPage).offset, 0)
    cases, total = cases_of(store, row.id, offset=offset, limit=_CASES), failed_count(store, row)
    found = triage_of(store.document(row.id), cases) if cases else None
    blocks: list[Block] = [Text("No failed queries are kept.")]
    if found is not None:
        blocks = [Text(SIGNS, "note"), *triage_blocks(found)[1 if offset else 0 :]]  # the first counts all queries
    return page(
        "triage.html",
        f"Where {row.head.system or row.head.run} fails",
        store,
        row=row,
        first=offset + 1,
        last=offset + len(cases),
        sections=place([Section("triage", "Failed queries", blocks)]),
        total=f"{total:,}",
        links=steps(request, offset, _CASES, total),
    )
