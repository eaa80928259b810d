"""All runs, one run, and the names that lead to runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from karat.history.keep import kept_sections
from karat.history.report import leading, minute
from karat.history.rows import Filter, Measure, RunRow
from karat.history.store import Store
from karat.report.blocks import Section
from karat.report.gate import gate_report
from karat.results.numbers import written
from karat.web.api import ListRuns
from karat.web.pages.common import SHOWN, asked_of, kept_verdicts, link
from karat.web.rendering import Placed, page, place, sparkline

_SPARK = 30  # runs of a small line
_SYSTEMS = 6


def runs_page(store: Store, request: Request) -> Response:
    asked = asked_of(request, ListRuns)
    found = store.runs(asked.filter(), limit=asked.limit, after=asked.after)
    metrics = leading(found.rows)[:SHOWN]
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
        links.append(("Newest", link("/runs", request, after=None)))
    if found.after:
        links.append(("Older", link("/runs", request, after=found.after)))
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


def _systems(
    store: Store, rows: Sequence[RunRow], only: Filter, names: list[str], units: list[str], request: Request
) -> list[dict[str, Any]]:
    found = []
    for system in list(dict.fromkeys(row.head.system for row in rows))[:_SYSTEMS]:
        own = msgspec.structs.replace(only, system=system)
        cells = []
        for name, unit in zip(names, units, strict=True):
            values = [p.measure.mean for p in store.trend(name, own, limit=_SPARK) if p.measure.mean is not None]
            trend = link("/trend", request, metric=name, system=system, after=None)
            shown = {"spark": sparkline(values), "text": written(values[-1], unit), "link": trend} if values else None
            cells.append(shown)
        found.append({"name": system, "link": link("/runs", request, system=system, after=None), "cells": cells})
    return found


def _mean(measure: Measure | None, unit: str) -> str:
    return "–" if measure is None else written(measure.mean, unit)


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


def _verdicts(store: Store, row: RunRow) -> list[Section]:
    judged = store.judgements(row.id)
    return list(gate_report(kept_verdicts(judged[0].document)).sections) if judged else []


def pins_page(store: Store, request: Request) -> Response:
    pins = [(pin, store.row(pin.run_id)) for pin in store.pins()]
    return page("pins.html", "Baselines and anchors", place="pins", store=store.label, pins=pins)
