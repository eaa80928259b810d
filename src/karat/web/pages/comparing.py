"""Two runs or more beside each other."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from karat.comparison.compare import compare_results
from karat.errors import ConfigError
from karat.history.queries import side_by_side
from karat.history.store import Store
from karat.keeping import restored
from karat.metrics.grammar import parse_metric
from karat.report.comparison import comparison_report
from karat.report.history import leading
from karat.report.numbers import points, written
from karat.web.pages.asking import SIZE, AskPage, asked_of, steps
from karat.web.rendering import Placed, page, place

_ORDERS = [
    ("changed", "greatest difference first"),
    ("worst", "losses first"),
    ("best", "gains first"),
    ("given", "as in the gold set"),
]


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
        store, [run.id for run in runs], metric, order=order_, text=asked.text, offset=asked.offset, limit=SIZE
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
        orders=_ORDERS,
        order=order_,
        text=asked.text,
        rows=rows,
        links=steps(request, asked.offset, SIZE, found.total),
        sections=[*place(report.sections), Placed("beside", "Query by query")],
        **{**context, "side": found},
    )
