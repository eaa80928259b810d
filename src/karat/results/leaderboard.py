"""Compare many runs on one gold set: systems × metrics, with letters for differences beyond noise."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_lowercase
from typing import Any, Literal

import msgspec
import numpy as np

from karat import __version__
from karat.data.gold import Dataset
from karat.data.saved import SavedObject
from karat.errors import ConfigError
from karat.results.comparison.compare import paired_sides
from karat.results.differences import ROUNDING
from karat.results.doubts import read_first
from karat.results.result import Result
from karat.results.results import names_of
from karat.results.saved import SavedResult
from karat.results.summary import is_outage
from karat.scoring.metrics.base import Metric
from karat.statistics.significance import holm

DEFAULT = ("recall@5", "recall@10", "ndcg@10", "mrr", "map")
_PERMUTATIONS = 10  # per resample


class MetricStanding(msgspec.Struct, frozen=True):
    """One metric of one system."""

    metric: str
    value: float | None
    low: float | None
    high: float | None
    beats: str = ""  # letters of the systems that it is better than, beyond noise
    best: bool = False  # no other system has a better value
    few: bool = False  # too few queries to rely on
    narrow: bool = False  # the interval may be too narrow: no upper end, and fewer than 100 queries or conversations


class Standing(msgspec.Struct, frozen=True):
    """One row of the table."""

    letter: str
    system: str
    run: str
    queries: int
    missing: int
    metrics: list[MetricStanding]


class Leaderboard(SavedObject, frozen=True, kw_only=True):
    """What `karat eval` saves for several runs."""

    schema: Literal["karat/leaderboard/1"] = "karat/leaderboard/1"
    gold: str
    dataset: Dataset
    statistics: dict[str, Any]
    tests: int  # number of comparisons that the p-values of a metric are adjusted for; fewer where values are left out
    metrics: list[str]
    units: dict[str, str]
    lower_is_better: list[str]
    systems: list[Standing]
    notes: list[str] = []  # why some values are not shown


class SavedLeaderboard(Leaderboard, frozen=True, kw_only=True):
    """The file of several runs: the table, and the results behind it."""

    results: list[SavedResult] = []


def rank_systems(results: Sequence[Result]) -> Leaderboard:
    """Compare every pair of systems, metric by metric, on the queries that both have.

    A difference counts if it is beyond chance as in `compare` (interval and p agree), and p (sign flips of paired
    differences) is still at most 1 − level after Holm's adjustment over all pairs of systems whose values are believed.
    """
    if len(results) > len(ascii_lowercase):
        most = len(ascii_lowercase)
        raise ConfigError(
            f"too many systems to compare: {len(results)}", code="too-many-runs", expected=f"at most {most} runs"
        )
    first = results[0]
    metrics = [metric for metric in first.metrics if all(metric in other.metrics for other in results)]
    pairs = [(i, j) for i in range(len(results)) for j in range(i)]
    p = np.ones((len(pairs), len(metrics)))
    better, beyond = np.zeros_like(p), np.zeros(p.shape, np.bool_)  # by how much the first of a pair is
    tested = np.zeros(p.shape, np.bool_)
    for row, (i, j) in enumerate(pairs):
        found = {d.metric: d for d in _differences(results[j], results[i])}
        for column, metric in enumerate(metrics):
            difference = found[str(metric)]
            doubted = any(_is_doubted(side, metric) for side in (results[i], results[j]))
            tested[row, column] = difference.n > 0 and not doubted
            p[row, column] = 1.0 if difference.p is None else difference.p
            beyond[row, column] = difference.certain and metric.is_quality
            better[row, column] = (difference.delta or 0.0) * (1 if metric.direction == "higher" else -1)
    for column in range(len(metrics)):
        p[tested[:, column], column] = holm(p[tested[:, column], column])
    certain = beyond & tested & (p <= 1 - first.sampling.level + ROUNDING)
    letters = ascii_lowercase[: len(results)]
    beats = {(system, column): "" for system in range(len(results)) for column in range(len(metrics))}
    for row, (i, j) in enumerate(pairs):
        for column in np.flatnonzero(certain[row]).tolist():
            winner, loser = (i, j) if better[row, column] > 0 else (j, i)
            beats[winner, column] += letters[loser]
    return Leaderboard(
        karat=__version__,
        gold=first.gold.label,
        dataset=first.gold.dataset,
        statistics=first.sampling.saved(first.cluster),
        tests=int(tested.sum(axis=0).max(initial=0)),
        metrics=list(map(str, metrics)),
        units={str(metric): metric.unit_by(first.rules) for metric in metrics},
        lower_is_better=[str(metric) for metric in metrics if metric.direction == "lower"],
        systems=[
            Standing(
                letter=letters[at],
                system=name,
                run=result.run,
                queries=len(result.rows),
                missing=len(result.missing),
                metrics=[
                    _standing(result, metric, "".join(sorted(beats[at, column])), _best(results, metric))
                    for column, metric in enumerate(metrics)
                ],
            )
            for at, (result, name) in enumerate(zip(results, names_of(results), strict=True))
        ],
        notes=[
            f"{name}: {text}"
            for result, name in zip(results, names_of(results), strict=True)
            for text in read_first(result)
        ],
    )


def _differences(before: Result, after: Result) -> Any:
    paired = paired_sides(before, after)
    return paired.differences(before.sampling, _PERMUTATIONS * before.sampling.resamples)


def _is_doubted(result: Result, metric: Metric) -> bool:
    """Whether a value says too little about the retriever to be compared."""
    lost = bool(metric.rests_on) and is_outage(result.audit, len(result.rows))
    return lost or result.doubts.about(metric) is not None


def _standing(result: Result, metric: Metric, beats: str, best: float | None) -> MetricStanding:
    row = result.row(metric)
    if _is_doubted(result, metric):
        return MetricStanding(row.metric, None, None, None)
    best_of_all = metric.is_quality and row.mean is not None and row.mean == best
    return MetricStanding(row.metric, row.mean, row.low, row.high, beats, best_of_all, row.few, row.narrow)


def _best(results: Sequence[Result], metric: Metric) -> float | None:
    believed = [result.row(metric).mean for result in results if not _is_doubted(result, metric)]
    means = [mean for mean in believed if mean is not None]
    return (max if metric.direction == "higher" else min)(means, default=None)
