"""Two runs or more beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from karat.errors import ConfigError
from karat.history.queries import SidePage, side_by_side
from karat.history.report import minute
from karat.history.rows import RunRow
from karat.history.store import Store
from karat.report.numbers import points, written
from karat.scoring.metrics.grammar import parse_metric
from karat.web.comparisons import Comparisons, headline, is_large, shared_metrics
from karat.web.pages.asking import SIZE, AskPage, asked_of, link, steps
from karat.web.rendering import Placed, page, place

_MOST = 6  # runs beside each other
_ORDERS = [
    ("changed", "greatest difference first"),
    ("worst", "losses first"),
    ("best", "gains first"),
    ("given", "as in the gold set"),
]
_COMPARISONS = Comparisons()


def compare_page(store: Store, request: Request) -> Response:
    names = [name for name in request.query_params.getlist("run") if name]
    runs = [store.row(store.find(name)) for name in names]
    if request.query_params.get("first") == "oldest":  # picked in a list; from here on the address says the order
        ordered = sorted(runs, key=lambda run: run.saved_at)
        return RedirectResponse("/compare?" + urlencode([("run", run.id[:16]) for run in ordered]))
    context: dict[str, Any] = {"place": "compare", "store": store.label, "runs": runs, "side": None, "sides": []}
    if len(runs) < 2:
        return page("compare.html", "Compare runs", names=[*names, "", ""][:2], **context)
    if len(runs) > _MOST:
        raise ConfigError("too many runs to compare", code="too-many-runs", expected=f"at most {_MOST}")
    whole = request.query_params.get("all") == "1"
    report = _COMPARISONS.report(store, runs, whole=whole)
    return page(
        "compare.html",
        report.title,
        names=names,
        whole=whole,
        large=is_large(runs),
        other=link("/compare", request, all=None if whole else 1),
        sections=[*place(report.sections), Placed("beside", "Query by query")],
        **context | {"sides": [_side(run) for run in runs]} | _beside(store, request, runs),
    )


def _side(run: RunRow) -> dict[str, Any]:
    return {
        "id": run.id,
        "saved": minute(run.saved_at),
        "system": run.head.system or run.head.run,
        "branch": run.head.branch,
        "code": run.head.code_version,
        "outcome": run.outcome,
        "named": [*(f"{pin.kind} {pin.name}" for pin in run.pins), *run.tags],
    }


def _beside(store: Store, request: Request, runs: Sequence[RunRow]) -> dict[str, Any]:
    """One metric, query by query."""
    asked = asked_of(request, AskPage)
    metric, order = asked.metric or headline(runs)[0], asked.order or "changed"
    ids = [run.id for run in runs]
    found = side_by_side(store, ids, metric, order=order, text=asked.text, offset=asked.offset, limit=SIZE)
    return {
        "side": found,
        "metrics": shared_metrics(runs),
        "orders": _ORDERS,
        "order": order,
        "text": asked.text,
        "rows": _rows(found, parse_metric(metric).unit),
        "links": steps(request, asked.offset, SIZE, found.total),
    }


def _rows(found: SidePage, unit: str) -> list[dict[str, Any]]:
    return [
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
