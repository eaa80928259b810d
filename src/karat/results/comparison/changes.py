"""The queries that changed most, and what fell out of their lists and what came in."""

from __future__ import annotations

import msgspec
import numpy as np

from karat.results.differences import SAME, Paired
from karat.results.queries.lists import ListedHit
from karat.results.result import Result
from karat.scoring.metrics.base import Metric


class Moved(msgspec.Struct, frozen=True):
    """A hit that only one of the two lists has."""

    id: str
    rank: int
    grade: float | None  # null: not judged


class Change(msgspec.Struct, frozen=True):
    """One query whose score differs."""

    query_id: str
    query: str | None
    metric: str
    baseline: float
    candidate: float
    delta: float
    k: int  # how deep the lists were compared
    fell_out: list[Moved]  # of the baseline's list, relevant ones first
    came_in: list[Moved]  # into the candidate's


def biggest_changes(
    paired: Paired, metric: Metric, queries: list[str], baseline: Result, candidate: Result, shown: int
) -> list[Change]:
    """The greatest losses, worst first, then the greatest gains, best first."""
    deltas = paired.deltas(metric) * (1 if metric.direction == "higher" else -1)
    moved = np.flatnonzero(np.abs(np.nan_to_num(deltas)) > SAME).tolist()
    losses = sorted((i for i in moved if deltas[i] < 0), key=lambda i: (deltas[i], queries[i]))[:shown]
    gains = sorted((i for i in moved if deltas[i] > 0), key=lambda i: (-deltas[i], queries[i]))[:shown]
    picked = [*losses, *gains]
    depths = {queries[i]: _depth(baseline, metric, queries[i]) for i in picked}
    before, after = _lists(baseline, candidate, depths)
    return [
        Change(
            query_id=queries[i],
            query=baseline.gold.text(baseline.gold.index[queries[i]]),
            metric=str(metric),
            baseline=float(paired.baseline.values[str(metric)][i]),
            candidate=float(paired.candidate.values[str(metric)][i]),
            delta=float(paired.deltas(metric)[i]),
            k=depths[queries[i]],
            fell_out=_only_in(before.get(queries[i], []), after.get(queries[i], [])),
            came_in=_only_in(after.get(queries[i], []), before.get(queries[i], [])),
        )
        for i in picked
    ]


def _depth(result: Result, metric: Metric, query: str) -> int:
    return metric.k or int(result.gold.k[result.gold.index[query]]) or result.rules.k


def _lists(
    baseline: Result, candidate: Result, depths: dict[str, int]
) -> tuple[dict[str, list[ListedHit]], dict[str, list[ListedHit]]]:
    """The hits of both sides. A saved result keeps none, and one list alone would tell of moves that never were."""
    if baseline.lists is None or candidate.lists is None:
        return {}, {}
    return baseline.lists.first(depths), candidate.lists.first(depths)


def _only_in(these: list[ListedHit], those: list[ListedHit]) -> list[Moved]:
    other = {hit.id for hit in those}
    only = sorted((hit for hit in these if hit.id not in other), key=lambda hit: (-(hit.grade or 0.0), hit.rank))
    return [Moved(hit.id, hit.rank, hit.grade) for hit in only]
