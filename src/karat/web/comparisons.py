"""Comparisons for pages: a quick one first, all of it where somebody asks, and none of them twice."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from karat.errors import ConfigError
from karat.history.keep import scored
from karat.history.report import leading
from karat.history.rows import RunRow
from karat.history.store import Store, short
from karat.report.blocks import Report
from karat.report.comparison import comparison_report
from karat.results.comparison.compare import compare_results
from karat.results.result import Result

_HEADLINE = 3  # metrics of a quick look
_QUICK = 1000  # resamples of one
_LARGE = 10_000  # queries from which on segments are left for those who wait
_KEPT = 64  # comparisons, of some hundred kilobytes each


class Comparisons:
    """Reports of comparisons by what was compared: the ids of runs say all of their scores."""

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
    """The most telling of them."""
    shared, told = shared_metrics(runs), [str(metric) for metric in leading(runs)]
    return [*(name for name in told if name in shared), *(name for name in shared if name not in told)][:_HEADLINE]


def is_large(runs: Sequence[RunRow]) -> bool:
    """So many queries that a quick look leaves the segments out."""
    return max(run.head.queries for run in runs) > _LARGE


def _compared(store: Store, runs: Sequence[RunRow], *, whole: bool) -> Report:
    shared = shared_metrics(runs)
    metrics = shared if whole else headline(runs)
    known = [name for name in shared if name.startswith("judged@") and name not in metrics]
    # Two runs of one system are told apart by what the page calls them.
    sides = [_side(store, run, metrics, known) for run in runs]
    large = is_large(runs)
    own = sides[0].sampling
    resamples = min(own.resamples, _QUICK) if large or not whole else own.resamples
    found = compare_results(
        sides,
        segments=sides[0].telling_tags() if whole or not large else (),
        sampling=msgspec.structs.replace(own, resamples=resamples),
        changes=0,  # the page has them query by query
        test=whole,
    )
    return comparison_report(found)


def _side(store: Store, run: RunRow, metrics: list[str], known: list[str]) -> Result:
    """`known`: judged@k, which is not compared but says whether the gold favours one of the runs."""
    found = scored(store, run.id, [*metrics, *known])
    return replace(found, metrics=found.metrics[: len(metrics)], run=short(run.id, 6))
