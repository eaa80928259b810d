"""What unjudged hits leave open: scores by the gold alone, with a judge's labels, at worst and at best, corrected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.ids import Floats
from karat.results.analyses.base import Analysis, NotAsked, Setup
from karat.results.analyses.calibrated import corrected, open_hits
from karat.results.analyses.with_judge import BY_JUDGE, judged_side, judged_values
from karat.results.strict_bounds import strict_bounds
from karat.results.summary import SummaryRow, mean_of, number
from karat.scoring.extra_labels import Named
from karat.scoring.metrics.base import Metric, Relevance
from karat.scoring.metrics.grammar import parse_metrics
from karat.scoring.metrics.precision import Precision
from karat.scoring.metrics.rbp import RBP
from karat.scoring.unjudged import Lists, OpenLists, OpenPart, PooledItems, no_lists, open_lists
from karat.scoring.views import Level, Need
from karat.statistics.intervals import mean_intervals
from karat.statistics.sums import sum_up

if TYPE_CHECKING:
    from karat.results.result import Result

BOUNDED = ("hit", "precision", "recall", "mrr", "ndcg", "rbp")
LINEAR = (Precision, RBP)

Kind = Literal["gold only", "gold plus judge", "strict bounds", "judge-calibrated estimate"]


class BoundsRow(msgspec.Struct, frozen=True):
    """One metric in one reading. Strict bounds have no value but `lower` and `upper`, between which it lies."""

    metric: str
    kind: Kind
    n: int
    value: float | None = None
    low: float | None = None  # interval: other queries might have been asked
    high: float | None = None
    lower: float | None = None
    upper: float | None = None
    method: str | None = None


class BoundsFound(msgspec.Struct, frozen=True):
    """How much of the lists is judged, and what the rest leaves open."""

    rows: list[BoundsRow]
    k: int
    hits: int  # in the top k of the queries that have an answer
    unjudged: int  # of them, by the gold
    open_items: int  # different things without a grade, found anywhere
    judge_labels: int = 0
    by_judge: int = 0  # unjudged hits of the top k that only the judge has labelled
    by_people: int = 0
    unlabelled: int = 0  # by anybody: they count as irrelevant in the estimate
    overruled: int = 0  # labels of the judge that contradict the gold
    unknown: int = 0  # labels of the judge for queries that the gold set lacks


class BoundsAnalysis(Analysis):
    """Four readings of the same run, each under its own name."""

    name = "bounds"
    title = "What unjudged hits leave open"
    finds = BoundsFound

    def need(self, setup: Setup) -> Need:
        if not setup.labelling.asked:
            raise NotAsked
        metrics = _metrics(setup)
        judged = [metric for metric in metrics if isinstance(metric, BY_JUDGE)]
        return Need(metrics=metrics, views={setup.own.but(labels="judge"): judged}, open_hits=True)

    def find(self, side: Result) -> BoundsFound:
        metrics = [m for m in side.metrics if isinstance(m, Relevance)]
        lists = {level: _lists(side, level) for level in {m.level for m in metrics}}
        rows = [_gold_only(side, str(m)) for m in metrics]
        judged = judged_side(side, [str(m) for m in metrics if isinstance(m, BY_JUDGE)])
        rows += [] if judged is None else _with_judge(side, metrics, judged)
        if side.labelling.bounds:
            rows += [_strict(side, m, lists[m.level]) for m in metrics]
        if side.labelling.human or side.labelling.known:
            rows += [row for m in metrics if (row := _calibrated(side, m, lists[m.level]))]
        order = [str(m) for m in metrics]
        rows.sort(key=lambda row: order.index(row.metric))  # kinds stay in their order
        return _counted(side, rows, lists["chunk"], Audit() if judged is None else judged.audit)


def _metrics(setup: Setup) -> list[Metric]:
    own = [metric for metric in setup.metrics if _bounded(metric)]
    usual = [name if name in ("mrr", "rbp") else f"{name}@{setup.rules.k}" for name in BOUNDED]
    return parse_metrics([*usual, *own])


def _bounded(metric: Metric) -> bool:
    return metric.name in BOUNDED and metric.budget is None and isinstance(metric, Relevance)


def _gold_only(side: Result, name: str) -> BoundsRow:
    return _row(side.row(name), "gold only")


def _row(row: SummaryRow, kind: Kind) -> BoundsRow:
    return BoundsRow(row.metric, kind, row.n, row.mean, row.low, row.high)


def _with_judge(side: Result, metrics: list[Relevance], judged: Result) -> list[BoundsRow]:
    rows = []
    for metric in metrics:
        name = str(metric)
        if isinstance(metric, BY_JUDGE):
            rows.append(_interval(side, name, "gold plus judge", judged_values(side, judged, name)))
        else:
            rows.append(msgspec.structs.replace(_gold_only(side, name), kind="gold plus judge", method="as gold only"))
    return rows


def _interval(side: Result, name: str, kind: Kind, values: Floats) -> BoundsRow:
    low, high = _limits(side, values)
    return BoundsRow(name, kind, int((~np.isnan(values)).sum()), mean_of(values), low, high)


def _limits(side: Result, values: Floats) -> tuple[float | None, float | None]:
    sums = sum_up(values[:, None], None, side.columns.clusters)
    ((low, high),) = mean_intervals(sums, [(0.0, 1.0)], side.sampling).tolist()
    return number(low), number(high)


@dataclass(frozen=True)
class _Lists:
    own: Lists
    open: OpenLists


def _lists(side: Result, level: Level) -> _Lists:
    """The run's lists and all that is open in them, in other systems of the same file, and in the pool."""
    own = side.unjudged_lists(level)
    gold = own.judged.gold
    # Passages are looked for in the chunks of one system, and what other systems hold of them is not known here.
    others = {} if gold.located is not None else side.context.opened
    seen = [
        PooledItems(np.concatenate([np.zeros(0, np.int64), *(part.query for part in parts)]), _all_names(parts))
        for system, levels in others.items()
        if system != side.system and (parts := levels.get(level)) is not None
    ]
    seen.append(_pooled(gold, side.labelling.pooled))
    alone = no_lists(gold, side.rules)
    return _Lists(own, open_lists(alone, own, seen, sorted(set(side.labelling.judge.values()))))


def _all_names(parts: list[OpenPart]) -> list[str]:
    return [name for part in parts for name in part.names]


def _pooled(gold: Gold, pairs: Sequence[Named]) -> PooledItems:
    known = set(zip((gold.queries[q] for q in gold.query_of_item.tolist()), gold.ids, strict=True)) if pairs else set()
    fresh = [(gold.index[query], item) for query, item in pairs if query in gold.index and (query, item) not in known]
    return PooledItems(np.array([query for query, _ in fresh], np.int64), [item for _, item in fresh])


def _strict(side: Result, metric: Relevance, lists: _Lists) -> BoundsRow:
    found = strict_bounds(metric, lists.open)
    name = str(metric)
    if found is None:
        return BoundsRow(name, "strict bounds", 0)
    worst, best = (np.clip(values[side.rows], 0, 1) for values in found)
    return BoundsRow(
        name,
        "strict bounds",
        int((~np.isnan(worst)).sum()),
        low=_limits(side, worst)[0],
        high=_limits(side, best)[1],
        lower=mean_of(worst),
        upper=mean_of(best),
    )


def _calibrated(side: Result, metric: Relevance, lists: _Lists) -> BoundsRow | None:
    """Only of metrics to which every hit adds for itself."""
    if not isinstance(metric, LINEAR):
        return None
    found = corrected(side, metric, lists.own)
    if found is None:
        return None
    estimate, method = found
    defined = int((~np.isnan(side.values[str(metric)])).sum())
    value, low, high = map(number, estimate)
    return BoundsRow(str(metric), "judge-calibrated estimate", defined, value, low, high, method=method)


def _counted(side: Result, rows: list[BoundsRow], lists: _Lists, audit: Audit) -> BoundsFound:
    k = side.rules.k
    metric = Precision(k=k)
    depths = np.minimum(lists.own.judged.depth, k)[side.rows]
    hits = open_hits(side, metric, lists.own)
    answered = ~np.isnan(side.values[str(metric)])
    by_people = ~np.isnan(hits.human)
    return BoundsFound(
        rows=rows,
        k=k,
        hits=int(depths[answered].sum()),
        unjudged=len(hits.query),
        open_items=len(lists.open.query),
        judge_labels=len(side.labelling.judge),
        by_judge=int(hits.by_judge.sum()),
        by_people=int(by_people.sum()),
        overruled=audit["labels_overruled"],
        unknown=audit["labels_unknown"],
        unlabelled=int((~hits.by_judge & ~by_people).sum()),
    )
