"""All runs: chosen columns, sorted and filtered. The address holds the whole view."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from karat.errors import ConfigError
from karat.history.report import leading
from karat.history.rows import Filter, Page, RunRow
from karat.history.sorting import COLUMNS
from karat.history.store import Store
from karat.report.renderers.html import Placed
from karat.results.numbers import counted, enumerated, written
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric
from karat.web.api import ListRuns
from karat.web.csv_file import csv_file
from karat.web.page import SHOWN, asked_of, link, page, sparkline

_SPARK = 30  # runs in a sparkline
_SYSTEMS = 6
_MOST_COLUMNS = 40
_MOST_ROWS = 10_000  # runs in a CSV file
_AT_ONCE = 500
_BETWEEN = re.compile(r",(?![^(]*\))")  # not a comma between parentheses, which is part of a name
_DIGITS = re.compile(r"(\d+)")
_TITLES = {"saved": "saved (UTC)", "system": "system, tags, pins", "branch": "branch, code"}


class Heading(msgspec.Struct, frozen=True):
    """A heading that sorts. `sorted`: asc or desc, if the list is sorted by it."""

    title: str
    link: str
    sorted: str | None
    is_number: bool


class Choice(msgspec.Struct, frozen=True):
    """A metric that can be a column; the links move it."""

    name: str
    is_shown: bool
    left: str | None = None
    right: str | None = None


def runs_page(store: Store, request: Request) -> Response:
    asked, choices = asked_of(request, ListRuns), store.choices()
    found = _found(store, asked, asked.after, asked.limit)
    columns = _columns(request, found.rows)
    units = {name: metric.unit if (metric := _metric(name)) else "" for name in columns}
    means = [{name: measure.mean for name, measure in row.measures.items()} for row in found.rows]
    systems = _systems(store, found.rows, asked.filter(), dict([*units.items()][:SHOWN]), request)
    total = store.count(asked.filter())
    return page(
        "runs.html",
        "Runs",
        store,
        sections=[Placed("systems", "Systems"), Placed("list", "Runs")] if found.rows else [],
        asked=asked,
        choices=choices,
        metrics=columns[:SHOWN],
        shown=columns,
        systems=systems,
        followed=enumerated(branches, most=2) if (branches := list(_branches(systems))) else None,
        rows=[
            (row, [written(own.get(n), u) for n, u in units.items()])
            for row, own in zip(found.rows, means, strict=True)
        ],
        headings=_headings(request, asked, columns),
        authors=any(row.head.author for row in found.rows),
        offered=_offered(request, columns, choices.metrics, found.rows),
        is_choosing="choose" in request.query_params,
        usual=link("/runs", request, columns=None, choose=1),
        kept=[(name, value) for name, value in request.query_params.items() if name in ListRuns.__struct_fields__],
        view={
            "columns": ",".join(columns) if "columns" in request.query_params else None,
            "sort": request.query_params.get("sort"),
            "order": asked.order,
        },
        total=counted(total, "run"),
        csv=link("/runs.csv", request, columns=",".join(columns), after=None, choose=None, limit=None),
        csv_rows=f"{_MOST_ROWS:,}" if total > _MOST_ROWS else None,
        links=_links(request, asked, found.after),
    )


def runs_csv(store: Store, request: Request) -> Response:
    """All runs of a view."""
    asked = asked_of(request, ListRuns)
    first = _found(store, asked, None, _AT_ONCE)
    columns = _columns(request, first.rows)
    told = (
        "run",
        "title",
        "saved_at",
        "system",
        "branch",
        "author",
        "code_version",
        "dataset",
        "dataset_version",
        "queries",
    )
    titles = [*told, "tags", "pins", "gates", *columns]
    return csv_file("runs", titles, _lines(store, asked, first, columns), store.count(asked.filter()), _MOST_ROWS)


def _lines(store: Store, asked: ListRuns, page: Page, columns: Sequence[str]) -> Iterator[list[object]]:
    while True:
        for row in page.rows:
            head, means = row.head, {name: measure.mean for name, measure in row.measures.items()}
            told = [
                row.id,
                row.title,
                row.saved_at,
                head.system or head.run,
                head.branch,
                head.author,
                head.code_version,
            ]
            about = [head.dataset.name, head.dataset.version, head.queries, " ".join(row.tags)]
            pins = " ".join(pin.name for pin in row.pins)
            yield [*told, *about, pins, row.outcome, *(means.get(name) for name in columns)]
        if page.after is None:
            return
        page = _found(store, asked, page.after, _AT_ONCE)


def _found(store: Store, asked: ListRuns, after: str | None, limit: int) -> Page:
    return store.runs(asked.filter(), limit=limit, after=after, sort=asked.sorting())


def _columns(request: Request, rows: Sequence[RunRow]) -> list[str]:
    """The metrics to show: `columns=recall@5,ndcg@10`, or several times `columns=`; else the key metrics."""
    given = [name.strip() for text in request.query_params.getlist("columns") for name in _BETWEEN.split(text)]
    found = list(dict.fromkeys(name for name in given if name))
    if len(found) > _MOST_COLUMNS:
        raise ConfigError("too many columns", code="bad-value", expected=f"at most {_MOST_COLUMNS}")
    return found or [str(metric) for metric in leading(rows)[:SHOWN]]


def _metric(name: str) -> Metric | None:
    try:
        return parse_metric(name)
    except ConfigError:  # from a plug-in that is not installed, or no metric
        return None


def _headings(request: Request, asked: ListRuns, metrics: Sequence[str]) -> dict[str, Heading]:
    sort = asked.sorting()
    found = {}
    for name in (*COLUMNS, *metrics):
        now = sort.direction if name == sort.by else None
        metric = None if name in COLUMNS else _metric(name)
        best = "asc" if metric is not None and metric.direction == "lower" else None  # the best runs first
        order = best if now is None else "asc" if now == "desc" else "desc"
        to = link("/runs", request, sort=name, order=order, after=None, choose=None) + "#list"
        found[name] = Heading(_TITLES.get(name, name), to, now, name in metrics)
    return found


def _offered(request: Request, shown: Sequence[str], known: Sequence[str], rows: Sequence[RunRow]) -> list[Choice]:
    """The chosen columns in their order, then all others: first those of these runs."""

    def moved(place: int, by: int) -> str | None:
        if not 0 <= place + by < len(shown):
            return None
        order = list(shown)
        order.insert(place + by, order.pop(place))
        return link("/runs", request, columns=",".join(order), choose=1) + "#columns"

    chosen = [Choice(name, True, moved(i, -1), moved(i, 1)) for i, name in enumerate(shown)]
    near = dict.fromkeys(name for row in rows for name in row.measures)
    rest = [*near, *sorted((name for name in known if name not in near), key=_natural)]
    return [*chosen, *(Choice(name, False) for name in rest if name not in shown)]


def _natural(name: str) -> list[tuple[int, str]]:
    """
    >>> sorted(["recall@10", "recall@5", "mrr"], key=_natural)
    ['mrr', 'recall@5', 'recall@10']
    """
    return [(int(part) if part.isdecimal() else 0, part) for part in _DIGITS.split(name)]


def _links(request: Request, asked: ListRuns, following: str | None) -> list[tuple[str, str]]:
    usual = asked.sort == "saved" and asked.order != "asc"
    first, more = ("Newest", "Older") if usual else ("First page", "Next page")
    found = [(first, link("/runs", request, after=None))] if asked.after else []
    return found + ([(more, link("/runs", request, after=following))] if following else [])


def _systems(
    store: Store, rows: Sequence[RunRow], only: Filter, units: dict[str, str], request: Request
) -> list[dict[str, Any]]:
    names = list(dict.fromkeys(row.head.system for row in rows))[:_SYSTEMS]
    own = [msgspec.structs.replace(only, system=name) for name in names]
    branches = [None] * len(own) if "branch" in request.query_params else store.main_branches(own)
    own = [
        one if branch is None else msgspec.structs.replace(one, branch=branch)
        for one, branch in zip(own, branches, strict=True)
    ]
    means = iter(store.recent_means([(metric, one) for one in own for metric in units], _SPARK))
    found = []
    for system, branch in zip(names, branches, strict=True):
        cells = []
        for name, unit in units.items():
            values = next(means)
            trend = link("/trend", request, metric=name, system=system, after=None)
            shown = {"spark": sparkline(values), "text": written(values[-1], unit), "link": trend} if values else None
            cells.append(shown)
        to = link("/runs", request, system=system, after=None)
        found.append({"name": system or "(unnamed)", "link": to, "cells": cells, "branch": branch})
    return found


def _branches(systems: Sequence[dict[str, Any]]) -> dict[str, None]:
    return dict.fromkeys(system["branch"] for system in systems if system["branch"] is not None)
