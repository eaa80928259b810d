"""Latency of every stage and of the whole query, including the slow tail."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from karat.data.ids import Floats
from karat.results.analyses.base import Analysis, Lacking, Setup
from karat.results.summary import Scores, intervals
from karat.scoring.metrics.cost import Latency, LatencyP50, LatencyP90, LatencyP99
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result

_KINDS = {"mean": Latency, "p50": LatencyP50, "p90": LatencyP90, "p99": LatencyP99}

_RESAMPLES = 1_000


class Measured(msgspec.Struct, frozen=True):
    """A number with its limits, which are null if there are too few queries."""

    value: float
    low: float | None
    high: float | None
    narrow: bool = False  # the interval of a mean may be too narrow: fewer than 100 queries or conversations


class Timing(msgspec.Struct, frozen=True):
    """Milliseconds of one stage over the queries that logged it."""

    stage: str | None  # null: the whole query
    queries: int
    mean: Measured
    p50: Measured
    p90: Measured
    p99: Measured


class Latencies(msgspec.Struct, frozen=True):
    """The whole query first, then its stages, the slowest first."""

    total: Timing
    stages: list[Timing]


class LatencyAnalysis(Analysis):
    """Analyses the times in the run log."""

    name = "latency"
    title = "Latency"
    finds: ClassVar[type[msgspec.Struct]] = Latencies

    def need(self, setup: Setup) -> Need:
        return Need(metrics=["latency"])

    def find(self, side: Result) -> Latencies:
        total = timing(side, None, side.values["latency"])
        if total is None:
            raise Lacking("`latency_ms` in the run log")
        timings = [timing(side, stage, times) for stage, times in side.stages.items() if stage != "total"]
        stages = sorted((t for t in timings if t is not None), key=lambda t: (-t.mean.value, t.stage or ""))
        return Latencies(total, stages)


def timing(side: Result, stage: str | None, times: Floats) -> Timing | None:
    """The times of one stage, or of the whole query, with limits; None if no query logged it."""
    metrics = {name: kind(stage=stage) for name, kind in _KINDS.items()}
    clusters, tallies = side.columns.clusters, side.columns.tallies
    scores = Scores(
        list(metrics.values()), {str(m): times for m in metrics.values()}, clusters=clusters, tallies=tallies
    )
    values = {name: scores.mean(metric) for name, metric in metrics.items()}
    if None in values.values():
        return None
    # All times differ, so a resample costs a hundred times as much as for scores; fewer resamples are precise enough.
    sampling = side.sampling.replace(resamples=min(side.sampling.resamples, _RESAMPLES))
    limits = intervals(scores, sampling)
    found = {
        name: Measured(values[name] or 0.0, low, high, low is not None and scores.is_narrow(metric))
        for name, metric in metrics.items()
        for low, high in [limits[str(metric)]]
    }
    return Timing(stage, int((times == times).sum()), **found)  # only NaN differs from itself
