"""Runs side by side, with a cache of recent comparisons."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from urllib.parse import urlencode

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from karat.errors import ConfigError
from karat.history.keep import scored
from karat.history.queries import SidePage, SideRow, side_frame, side_page
from karat.history.report import day, leading, minute
from karat.history.rows import RunRow
from karat.history.store import Store, short
from karat.report.blocks import Report
from karat.report.comparison import comparison_page
from karat.report.renderers.html import Placed, place
from karat.results.comparison.compare import compare_results
from karat.results.numbers import points, written
from karat.results.result import Result
from karat.scoring.judged import Rules
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric
from karat.web.csv_file import csv_link
from karat.web.page import SIZE, AskPage, asked_of, link, page, steps
from karat.web.pages.compare_picture import side_picture

_HEADLINE = 3  # metrics of a quick comparison
_QUICK = 1000  # resamples of a quick comparison
_LARGE = 10_000  # queries above which a quick comparison skips segments
_OFFERED = 50  # newest runs to choose from
_KEPT = 64  # comparisons of some hundred kilobytes each


class Comparisons:
    """A cache of comparison reports. The id of a run is a hash of its scores, so entries never expire."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept, self._lock = kept, threading.Lock()
        self._working = threading.Lock()  # one at a time: two would only take twice as long
        self._known: OrderedDict[tuple[str, ...], Report] = OrderedDict()

    def report(self, store: Store, runs: Sequence[RunRow], *, whole: bool) -> Report:
        key = ("whole" if whole else "quick", *(run.id for run in runs))
        found = self._get(key)
        if found is None:
            with self._working:
                found = self._get(key) or self._keep(key, _compared(store, runs, whole=whole))
        return found

    def _get(self, key: tuple[str, ...]) -> Report | None:
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def _keep(self, key: tuple[str, ...], report: Report) -> Report:
        with self._lock:
            self._known[key] = report
            while len(self._known) > self._kept:
                self._known.popitem(last=False)
        return report


def shared_metrics(runs: Sequence[RunRow]) -> list[str]:
    """Metrics that all of them have."""
    found = [name for name in runs[0].measures if all(name in run.measures for run in runs)]
    if not found:
        raise ConfigError("the runs have no metric in common", code="no-common-metric")
    return found


def headline(runs: Sequence[RunRow]) -> list[str]:
    """The key metrics that all runs have."""
    shared, told = shared_metrics(runs), [str(metric) for metric in leading(runs)]
    return [*(name for name in told if name in shared), *(name for name in shared if name not in told)][:_HEADLINE]


def is_large(runs: Sequence[RunRow]) -> bool:
    """Whether a quick comparison skips segments."""
    return max(run.head.queries for run in runs) > _LARGE


def _compared(store: Store, runs: Sequence[RunRow], *, whole: bool) -> Report:
    shared = shared_metrics(runs)
    metrics = shared if whole else headline(runs)
    known = [name for name in shared if name.startswith("judged@") and name not in metrics]
    sides = [_scored(store, run, name, metrics, known) for run, name in zip(runs, run_labels(runs), strict=True)]
    large = is_large(runs)
    own = sides[0].sampling
    resamples = min(own.resamples, _QUICK) if large or not whole else own.resamples
    found = compare_results(
        sides,
        segments=sides[0].telling_tags() if whole or not large else (),
        sampling=own.replace(resamples=resamples),
        changes=0,  # the page has them query by query
        test=whole,
    )
    return comparison_page(found, gold=sides[0].gold.label)


def _scored(store: Store, run: RunRow, name: str, metrics: list[str], known: list[str]) -> Result:
    """`known`: judged@k, which is not compared but shows whether the gold set favours one of the runs."""
    found = scored(store, run.id, [*metrics, *known])
    return replace(found, metrics=found.metrics[: len(metrics)], run=name)


def run_labels(runs: Sequence[RunRow]) -> list[str]:
    """Distinct labels for runs of one system: the day, the minute or the id."""
    for when in (day, minute):
        names = [when(run.saved_at) for run in runs]
        if len(set(names)) == len(names):
            return names
    return [short(run.id, 6) for run in runs]


def _named(runs: Sequence[RunRow], labels: Sequence[str]) -> list[str]:
    return [f"{run.head.system or run.head.run}, {label}" for run, label in zip(runs, labels, strict=True)]


def run_options(store: Store, runs: Sequence[RunRow], names: Sequence[str]) -> list[tuple[str, str]]:
    """Runs to choose from: the requested ones, baselines and anchors, and the newest, by name and date."""
    told = {pin.name: f"{pin.name}: {_described(store.row(pin.run_id))}" for pin in store.pins()}
    for name, run in zip(names, runs, strict=True):
        told.setdefault(name, _described(run))
    asked = {run.id for run in runs}
    told |= {run.id[:16]: _described(run) for run in store.runs(limit=_OFFERED).rows if run.id not in asked}
    return list(told.items())


def _described(run: RunRow) -> str:
    """`hybrid, 2025-10-14 05:30, main (ae0e1e217a)`"""
    branch = f", {run.head.branch}" if run.head.branch else ""
    return f"{run.head.system or run.head.run}, {minute(run.saved_at)}{branch} ({short(run.id)})"


_MOST = 6  # runs side by side
_ORDERS = [
    ("changed", "largest difference first"),
    ("worst", "losses first"),
    ("best", "gains first"),
    ("given", "as in the gold set"),
]
_COMPARISONS = Comparisons()


def asked_runs(store: Store, request: Request) -> tuple[list[RunRow], list[str]]:
    """The runs of an address, and their names there."""
    names = [name for name in request.query_params.getlist("run") if name]
    if len(names) > _MOST:
        raise ConfigError("too many runs to compare", code="too-many-runs", expected=f"at most {_MOST}")
    return [store.row(store.find(name)) for name in names], names


def compare_page(store: Store, request: Request) -> Response:
    runs, names = asked_runs(store, request)
    if request.query_params.get("first") == "oldest":  # chosen in a list; redirect to an address with the order
        ordered = sorted(runs, key=lambda run: run.saved_at)
        return RedirectResponse("/compare?" + urlencode([("run", run.id[:16]) for run in ordered]))
    options = run_options(store, runs, names)
    if len(runs) < 2:
        two = [*names, "", ""][:2]
        return page("compare.html", "Compare runs", store, names=two, options=options, runs=runs, side=None)
    whole = request.query_params.get("all") == "1"
    report = _COMPARISONS.report(store, runs, whole=whole)
    asked = asked_of(request, AskPage)
    metric, order, ids = asked.metric or headline(runs)[0], asked.order or "changed", [run.id for run in runs]
    frame = side_frame(store, ids, metric, order=order, text=asked.text)
    side, labels = side_page(frame, ids, metric, asked.offset, SIZE), run_labels(runs)
    return page(
        "compare.html",
        report.title,
        store,
        names=names,
        options=options,
        labels=labels,
        picture=side_picture(frame, parse_metric(metric), _named(runs, labels), request),
        runs=runs,
        whole=whole,
        large=is_large(runs),
        quick=f"{_QUICK:,}",
        other=link("/compare", request, all=None if whole else 1),
        sections=[*place(report.sections), Placed("beside", "Query by query")],
        side=side,
        metrics=shared_metrics(runs),
        orders=_ORDERS,
        order=order,
        text=asked.text,
        rows=_rows(side, parse_metric(metric)),
        links=steps(request, asked.offset, SIZE, side.total),
        csv=csv_link("/compare.csv", request, side.total),
    )


def _rows(found: SidePage, metric: Metric) -> list[tuple[SideRow, list[str], str, str]]:
    """Each query with its values, their difference, and its first ranks."""
    told = metric.told_in(Rules())
    return [
        (
            query,
            [written(value, metric.unit) for value in query.values],
            points(query.delta, told),
            " → ".join("–" if rank is None else str(rank) for rank in query.first_ranks),
        )
        for query in found.rows
    ]
