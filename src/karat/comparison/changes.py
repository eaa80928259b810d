"""The queries that changed most, and what fell out of their lists and what came in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import msgspec
import numpy as np

from karat.audit import Audit
from karat.comparison.differences import Paired
from karat.gold import Gold
from karat.hits import Ungrouped
from karat.ids import take_list
from karat.judged import judge
from karat.metrics.base import Metric
from karat.result import Result


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
    order = sorted(np.flatnonzero(np.abs(np.nan_to_num(deltas)) > 1e-9).tolist(), key=lambda i: (deltas[i], queries[i]))
    losses = [i for i in order if deltas[i] < 0][:shown]
    gains = [i for i in reversed(order) if deltas[i] > 0][:shown]
    picked = [*losses, *gains]
    k = metric.k or baseline.rules.k
    names = [queries[i] for i in picked]
    before, after = (_top(side, names, k) for side in (baseline, candidate))
    texts = dict(zip(baseline.gold.queries, range(len(baseline.gold.queries)), strict=True))
    return [
        Change(
            query_id=queries[i],
            query=baseline.gold.text(texts[queries[i]]),
            metric=str(metric),
            baseline=float(paired.baseline.values[str(metric)][i]),
            candidate=float(paired.candidate.values[str(metric)][i]),
            delta=float(paired.deltas(metric)[i]),
            k=k,
            fell_out=_only_in(before.get(queries[i], []), after.get(queries[i], []), queries[i], baseline.gold),
            came_in=_only_in(after.get(queries[i], []), before.get(queries[i], []), queries[i], candidate.gold),
        )
        for i in picked
    ]


def _top(result: Result, queries: Iterable[str], k: int) -> dict[str, list[str]]:
    """The first k hits of some queries, read again from the run; a saved result keeps no hits."""
    if result.source is None:
        return {}
    try:
        return _read_top(result, set(queries), k)
    except Ungrouped:
        return _read_top(replace(result, source=result.source.grouped()), set(queries), k)


def _read_top(result: Result, wanted: set[str], k: int) -> dict[str, list[str]]:
    assert result.source is not None
    found: dict[str, list[str]] = {}
    for hits in result.source.slices(frozenset(), Audit()):
        keep = np.array([q in wanted for q in hits.queries], np.bool_)
        if hits.system != result.system or not keep.any():
            continue
        judged = judge(hits.select_queries(keep), result.gold, result.rules, Audit(), depth=k)
        assert judged.hits is not None
        of, rows = judged.top(k)
        names = take_list(judged.hits.ids, rows)
        for query, name in zip(of.tolist(), names, strict=True):
            found.setdefault(judged.hits.queries[query], []).append(name)
    return found


def _only_in(these: list[str], those: list[str], query: str, gold: Gold) -> list[Moved]:
    items = range(*gold.offsets[gold.index[query] :][:2].tolist())
    grades = {gold.ids[i]: float(gold.grades[i]) for i in items}
    other = set(those)
    moved = [Moved(name, rank, grades.get(name)) for rank, name in enumerate(these, 1) if name not in other]
    return sorted(moved, key=lambda m: (-(m.grade or 0.0), m.rank))
