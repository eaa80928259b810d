"""The queries of one run: all of them, and those that failed."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from karat.history.keep import triage_of
from karat.history.queries import cases_of, scores_of
from karat.history.report import leading
from karat.history.store import Store
from karat.report.blocks import Block, Section, Text
from karat.report.fitting import SIGNS
from karat.report.triage import triage_blocks
from karat.results.numbers import written
from karat.scoring.metrics.grammar import parse_metric
from karat.web.pages.asking import SHOWN, SIZE, AskPage, asked_of, steps
from karat.web.rendering import page, place

_CASES = 10  # failed queries of a page

_ORDERS = [("given", "as in the gold set"), ("worst", "worst first"), ("best", "best first")]


def queries_page(store: Store, request: Request) -> Response:
    row = store.row(store.find(request.path_params["run"]))
    asked = asked_of(request, AskPage)
    metrics = list(row.measures)
    shown = [str(metric) for metric in leading([row])[:SHOWN]]
    metric = asked.metric or shown[0]
    found = scores_of(
        store,
        row.id,
        metric=metric,
        order=asked.order or "worst",
        text=asked.text,
        offset=asked.offset,
        limit=SIZE,
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
        orders=_ORDERS,
        order=asked.order or "worst",
        text=asked.text,
        shown=columns,
        rows=rows,
        total=f"{found.total:,}",
        first=asked.offset + 1,
        last=asked.offset + len(rows),
        links=steps(request, asked.offset, SIZE, found.total),
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
        links=steps(request, offset, _CASES, row.head.cases),
    )
