"""Differences in time per stage."""

from __future__ import annotations

from karat.data.ids import Ints
from karat.results.analyses.latency import Latencies, Measured, Timing, timing
from karat.results.differences import Difference, Paired
from karat.results.result import Result
from karat.results.summary import FEW, Scores
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.cost import LatencyP50, LatencyP90
from karat.statistics.sampling import Sampling

_KINDS = (LatencyP50, LatencyP90)
_WHOLE = "total"  # the whole query, which some logs have as a stage


def stage_differences(first: Result, other: Result, at: Ints, of: Ints, sampling: Sampling) -> list[Difference]:
    """Median and 90th percentile of each stage that both runs logged.

    Query by query if both sides have times per query. A saved result only has totals over all queries; then the limits
    come from the far ends of the two intervals, which is conservative.
    """
    if first.stages and other.stages:
        shared = [stage for stage in first.stages if stage in other.stages and stage != _WHOLE]
        metrics: list[Metric] = [kind(stage=stage) for stage in shared for kind in _KINDS]
        stages = [stage for stage in shared for _ in _KINDS]
        sides = [
            Scores(metrics, {str(m): side.stages[s][rows] for m, s in zip(metrics, stages, strict=True)})
            for side, rows in ((first, at), (other, of))
        ]
        return Paired(*sides).differences(sampling, 0)
    before, after = _timings(first), _timings(other)
    return [d for stage in before if stage in after for d in _apart(stage, before[stage], after[stage])]


def _timings(side: Result) -> dict[str, Timing]:
    if side.stages:
        found = [timing(side, stage, times) for stage, times in side.stages.items() if stage != _WHOLE]
        return {t.stage: t for t in found if t is not None and t.stage is not None}
    told = None if side.known is None or side.known.analyses is None else side.known.analyses.found.get("latency")
    return {t.stage: t for t in told.stages if t.stage is not None} if isinstance(told, Latencies) else {}


def _apart(stage: str, before: Timing, after: Timing) -> list[Difference]:
    pairs = ((LatencyP50, before.p50, after.p50), (LatencyP90, before.p90, after.p90))
    return [
        _difference(kind(stage=stage), one, other, min(before.queries, after.queries)) for kind, one, other in pairs
    ]


def _difference(metric: Metric, before: Measured, after: Measured, n: int) -> Difference:
    return Difference(
        metric=str(metric),
        n=n,
        baseline=before.value,
        candidate=after.value,
        delta=after.value - before.value,
        low=None if after.low is None or before.high is None else after.low - before.high,
        high=None if after.high is None or before.low is None else after.high - before.low,
        few=n < FEW,
    )
