"""Drift between two periods with different queries: what changed because other questions are asked, and what because
the answers changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from karat import __version__
from karat.data.attributes import cluster_keys, label_order, linked_numbers, segment_members, segment_title
from karat.data.audit import Audit
from karat.data.gold import Dataset
from karat.data.ids import Floats, Ints
from karat.data.saved import SavedObject
from karat.errors import ConfigError
from karat.results.comparison.sides import refuse_other_measures, shared_metrics
from karat.results.doubts import judgeable
from karat.results.numbers import counted, difference, size
from karat.results.result import Result
from karat.results.results import names_of
from karat.results.summary import FEW, number
from karat.scoring.metrics.base import Metric
from karat.statistics.decomposition import Observations, PartLimits, decompose, part_limits
from karat.statistics.intervals import OPEN, bounded
from karat.statistics.sampling import Sampling

_ABSENT = ("missing_queries", "missing_skipped", "missing_no_answer")
_NOTHING = 5e-7  # a part that is smaller is due to rounding


class Effect(msgspec.Struct, frozen=True):
    """A difference between the periods, with its interval."""

    value: float
    low: float | None = None  # null: unknown
    high: float | None = None

    @property
    def certain(self) -> bool:
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


class KindDrift(msgspec.Struct, frozen=True):
    """One kind of questions. The mean of a period without questions of this kind is null."""

    kind: str
    queries_before: int
    queries_after: int
    share_before: float
    share_after: float
    share: Effect  # after − before
    before: float | None
    after: float | None
    change: Effect | None  # after − before
    mix: Effect  # what its share adds to the change of the mean
    quality: Effect  # what its mean adds
    few: bool  # too few queries in a period to rely on


class MetricDrift(msgspec.Struct, frozen=True):
    """The change of one metric: `change` = `mix` + `quality`, each the sum over `kinds`."""

    metric: str
    queries_before: int  # on which it is defined
    queries_after: int
    before: float
    after: float
    change: Effect
    mix: Effect
    quality: Effect
    in_words: str
    kinds: list[KindDrift]  # the largest parts first
    narrow: bool = False  # intervals may be too narrow: no upper end, and a kind or period has fewer than 100 queries

    @property
    def few(self) -> bool:
        return min(self.queries_before, self.queries_after) < FEW


class Drift(SavedObject, frozen=True, kw_only=True):
    """What `karat compare --drift` saves: two periods, by one attribute of their questions."""

    schema: Literal["karat/drift/1"] = "karat/drift/1"
    by: str
    before: str
    after: str
    datasets: tuple[Dataset, Dataset]
    statistics: dict[str, Any]
    units: dict[str, str]  # of each metric's difference: pp (of a share, to be written × 100), ms, or empty
    lower_is_better: list[str]
    queries_before: int
    queries_after: int
    metrics: list[MetricDrift]
    notes: list[str]
    invalid: list[str] = []  # metrics that are meaningless: ids do not match, scores may be distances, a run was down


def drift_between(
    sides: Sequence[Result], by: Iterable[str], *, sampling: Sampling | None = None, force: bool = False
) -> list[Drift]:
    """How two periods differ, by each of the attributes. The runs may have different queries and gold sets."""
    first, other = periods = as_periods(sides)
    notes = [*refuse_other_measures(first, other, force), *_notes(sides, periods)]
    metrics = shared_metrics(first, other, notes)
    kept, doubts = judgeable(metrics, first, other, other.queries)
    notes += [note if not force else note.replace("not compared", "compared with --force", 1) for note in doubts]
    usable = [metric for metric in (metrics if force else kept) if metric.aggregate is None]
    quantiles = [str(metric) for metric in metrics if metric.aggregate is not None]
    if quantiles:
        notes.append(f"left out: {', '.join(quantiles)} (a quantile is not a sum over kinds).")
    sampling, names = sampling or first.sampling, names_of(sides)

    def of(name: str) -> Drift:
        also = list(notes)
        found = _by_kind(periods, name, usable, sampling, also)
        return Drift(
            karat=__version__,
            by=segment_title(first.gold, name),
            before=names[0],
            after=names[1],
            datasets=(first.gold.dataset, other.gold.dataset),
            statistics=sampling.saved(first.cluster),
            units={str(m): m.told_in(first.rules) for m in usable},
            lower_is_better=[str(m) for m in usable if m.direction == "lower"],
            queries_before=len(first.rows),
            queries_after=len(other.rows),
            metrics=found,
            notes=also,
            invalid=[] if force else [str(metric) for metric in metrics if metric not in kept],
        )

    return [of(name) for name in by]


def as_periods(sides: Sequence[Result]) -> tuple[Result, Result]:
    """Both results with only the queries of their periods. A query that a run lacks counts as failed, unless the other
    gold set has it too: then it may belong to the other period."""
    if len(sides) != 2:
        raise ConfigError(
            f"a drift is between two periods, not {counted(len(sides), 'run')}",
            code="not-two-runs",
            hint="give two runs; if a file has several systems, choose one with --system",
        )
    first, other = sides
    return _period(first, other), _period(other, first)


def _period(side: Result, other: Result) -> Result:
    lost = side.missing
    own = [i for i, query in enumerate(side.queries) if query not in lost or query not in other.gold.index]
    failed = [side.queries[i] for i in own if side.queries[i] in lost]
    audit, at = Audit.of(entry for entry in side.audit if entry.code not in _ABSENT), np.array(own, np.int64)
    audit.count("missing_queries", len(failed), failed)
    return replace(
        side,
        rows=side.rows[at],
        values={name: values[at] for name, values in side.values.items()},
        votes={name: votes[at] for name, votes in side.votes.items()},
        audit=audit,
        memo={},
    )


def _notes(sides: Sequence[Result], periods: Sequence[Result]) -> list[str]:
    asked = [set(period.queries) for period in periods]
    neither = (sides[0].missing & sides[1].missing) - asked[0] - asked[1]
    notes = []
    if neither:
        verb = "is" if len(neither) == 1 else "are"
        notes.append(f"{counted(len(neither))} of the gold set {verb} in neither run: left out.")
    if asked[0] == asked[1]:
        notes.append("both runs have the same queries: without --drift, they are compared query by query.")
    return notes


def _by_kind(
    periods: tuple[Result, Result], name: str, metrics: list[Metric], sampling: Sampling, notes: list[str]
) -> list[MetricDrift]:
    labels = [_kinds(side, name) for side in periods]
    kinds = sorted({label for some in labels for label in some}, key=label_order)
    numbers = {label: i for i, label in enumerate(kinds)}
    kind = np.array([numbers[label] for some in labels for label in some], np.int64)
    period = np.repeat([0, 1], [len(some) for some in labels])
    unit = _units(periods)
    found = []
    for metric in metrics:
        value, weight = (
            np.concatenate(columns) for columns in zip(*(_column(p, metric) for p in periods), strict=True)
        )
        there = np.flatnonzero(~np.isnan(value))
        if len(np.unique(period[there])) < 2:
            notes.append(f"left out: {metric} (undefined for every query of a period).")
            continue
        seen = Observations(period[there], kind[there], value[there], weight[there], unit[there], len(kinds))
        ends = [side.columns.ends(metric) for side in periods]
        limits = part_limits(seen, (min(e[0] for e in ends), max(e[1] for e in ends)), sampling)
        one = _metric(str(metric), seen, limits, kinds, metric.told_in(periods[0].rules))
        found.append(replace(one, narrow=_is_narrow(one, metric, periods)))
    return found


def _is_narrow(found: MetricDrift, metric: Metric, periods: tuple[Result, Result]) -> bool:
    if all(bounded(side.columns.ends(metric)) for side in periods):
        return False
    small = any(min(kind.queries_before, kind.queries_after) < OPEN for kind in found.kinds)
    return small or any(side.columns.is_narrow(metric) for side in periods)


def _kinds(side: Result, name: str) -> list[str]:
    """The kind of each query. Several values of one query are a kind of their own."""
    rows, labels = segment_members(side.gold, name)
    values: dict[int, list[str]] = {}
    for row, label in zip(rows.tolist(), labels, strict=True):
        values.setdefault(row, []).append(label)
    return [" + ".join(sorted(values[row], key=label_order)) for row in side.rows.tolist()]


def _units(periods: tuple[Result, Result]) -> Ints:
    """Which queries are resampled together. The same query or conversation in both periods is one unit."""
    keys = []
    for side in periods:
        shared = (
            [[query] for query in side.gold.queries] if side.cluster is None else cluster_keys(side.gold, side.cluster)
        )
        keys += [shared[row] for row in side.rows.tolist()]
    return linked_numbers(keys)


def _column(side: Result, metric: Metric) -> tuple[Floats, Floats]:
    values, votes = side.values[str(metric)], side.votes.get(str(metric))
    return values, np.ones(len(values)) if votes is None else votes


def _metric(name: str, seen: Observations, limits: PartLimits, kinds: list[str], unit: str) -> MetricDrift:
    parts, shares, means = decompose(seen.shares, seen.means), seen.shares, seen.means
    queries = [count.astype(np.int64) for count in seen.per_kind(np.ones(len(seen.kind)))]
    rows = []
    for i, kind in enumerate(kinds):
        n = [int(count[i]) for count in queries]
        if not any(n):
            continue
        before, after = (float(mean[i]) if count else None for mean, count in zip(means, n, strict=True))
        rows.append(
            KindDrift(
                kind=kind,
                queries_before=n[0],
                queries_after=n[1],
                share_before=float(shares[0][i]),
                share_after=float(shares[1][i]),
                share=_effect(shares[1][i] - shares[0][i], limits.kind_share[i]),
                before=before,
                after=after,
                change=None if before is None or after is None else _effect(after - before, limits.kind_mean[i]),
                mix=_effect(parts.mix[i], limits.kind_mix[i]),
                quality=_effect(parts.quality[i], limits.kind_quality[i]),
                few=min(n) < FEW,
            )
        )
    rows.sort(key=lambda row: -(abs(row.mix.value) + abs(row.quality.value)))
    before, after = (float((share * mean).sum()) for share, mean in zip(shares, means, strict=True))
    mix, quality = (math.fsum(part.tolist()) for part in parts)
    change = _effect(after - before, limits.change)
    return MetricDrift(
        metric=name,
        queries_before=int(queries[0].sum()),
        queries_after=int(queries[1].sum()),
        before=before,
        after=after,
        change=change,
        mix=_effect(mix, limits.mix),
        quality=_effect(quality, limits.quality),
        in_words=_in_words(name, change, mix, quality, rows, unit),
        kinds=rows,
    )


def _effect(value: float, limits: Any) -> Effect:
    low, high = map(number, limits.tolist())
    return Effect(float(value) + 0.0, low, high)


def _in_words(name: str, change: Effect, mix: float, quality: float, kinds: list[KindDrift], unit: str) -> str:
    """The change and its two parts in one sentence."""
    if abs(change.value) <= _NOTHING:
        start = f"{name} did not change"
    else:
        start = f"{name} {'rose' if change.value > 0 else 'fell'} by {size(change.value, unit)}"
    doubt = "" if change.certain or abs(change.value) <= _NOTHING else " (may be chance)"
    leading = _largest(kinds, mix, lambda row: row.mix.value)
    grew = "" if leading is None else f", mostly {'more' if leading.share.value > 0 else 'less'} {leading.kind}"
    moved = _largest(kinds, quality, lambda row: row.quality.value)
    within = "" if moved is None else f", mostly {moved.kind}"
    return (
        f"{start}{doubt}: {_signed(mix, unit)} because other questions are asked{grew}; "
        f"{_signed(quality, unit)} because the same kinds of questions score differently{within}."
    )


def _largest(kinds: list[KindDrift], total: float, part: Any) -> KindDrift | None:
    """The kind with the largest part in the direction of the total."""
    same = [row for row in kinds if part(row) * total > 0 and abs(total) > _NOTHING]
    return max(same, key=lambda row: abs(part(row)), default=None)


def _signed(value: float, unit: str) -> str:
    return f"{difference(value, unit, (None, None), 1)} {unit}".rstrip()
