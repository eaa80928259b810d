"""One query across runs."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from karat.history.queries import query_over_time
from karat.history.store import Store
from karat.metrics.grammar import parse_metric
from karat.report.blocks import Block, Chart, Section, Series, Text
from karat.report.history import minute
from karat.report.numbers import written
from karat.web.api import AskQuery
from karat.web.pages.asking import asked_of, link
from karat.web.rendering import page, place


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
    links = [("Older runs", link("/query", request, after=found.after))] if found.after else []
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
