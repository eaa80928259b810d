"""The same run read four ways: gold only, gold plus judge, strict bounds, judge-calibrated estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.ids import Floats
from karat.results.analyses.bounds import BY_JUDGE, BoundsFound, BoundsRow, Kind, judged_side, judged_values
from karat.results.corrected import Estimate, corrected, judged_pairs, open_hits
from karat.results.judged_ndcg import IMPUTED, calibrated_ndcg
from karat.results.no_estimate import NoEstimate
from karat.results.strict_bounds import strict_bounds
from karat.results.summary import SummaryRow, mean_row, number
from karat.scoring.extra_labels import Named
from karat.scoring.metrics.base import Relevance
from karat.scoring.metrics.discounted import NDCG, RBP
from karat.scoring.metrics.precision import Precision
from karat.scoring.unjudged import Lists, OpenLists, PooledItems, no_lists, open_lists
from karat.scoring.views import Level
from karat.statistics.calibration import CalibratedValue, rates
from karat.statistics.intervals import Range

if TYPE_CHECKING:
    from karat.results.result import Result

LINEAR = (Precision, RBP)


def four_readings(side: Result) -> BoundsFound:
    """`side`: has the metrics of the analysis."""
    metrics = [m for m in side.metrics if isinstance(m, Relevance)]
    lists = {level: _lists(side, level) for level in {m.level for m in metrics}}
    rows = [_gold_only(side, str(m)) for m in metrics]
    judged = judged_side(side, [str(m) for m in metrics if isinstance(m, BY_JUDGE)])
    rows += [] if judged is None else _with_judge(side, metrics, judged)
    people = bool(side.labelling.human or side.labelling.known)
    graded = (
        {}
        if judged is None or not people
        else {m: calibrated_ndcg(side, judged, m) for m in metrics if isinstance(m, NDCG)}
    )
    rows += [_calibrated_ndcg(side, m, found) for m, found in graded.items() if isinstance(found, CalibratedValue)]
    if side.labelling.bounds:
        rows += [_strict(side, m, lists[m.level]) for m in metrics]
    linear = {m: corrected(side, m, lists[m.level].own) for m in metrics if isinstance(m, LINEAR)} if people else {}
    rows += [_estimate(side, str(m), found) for m, found in linear.items() if isinstance(found, Estimate)]
    refused = [found for found in (*linear.values(), *graded.values()) if isinstance(found, NoEstimate)]
    order = [str(m) for m in metrics]
    rows.sort(key=lambda row: order.index(row.metric))  # kinds stay in their order
    counted = _counted(side, rows, lists["chunk"], Audit() if judged is None else judged.audit)
    return msgspec.structs.replace(counted, refused=refused)


def _gold_only(side: Result, name: str) -> BoundsRow:
    return _row(side.row(name), "gold only")


def _row(row: SummaryRow, kind: Kind) -> BoundsRow:
    return BoundsRow(row.metric, kind, row.n, row.mean, row.low, row.high)


def _with_judge(side: Result, metrics: list[Relevance], judged: Result) -> list[BoundsRow]:
    rows = []
    for metric in metrics:
        name = str(metric)
        if isinstance(metric, BY_JUDGE):
            mean = _mean(side, name, judged_values(side, judged, name), judged.columns.ends(metric))
            rows.append(_row(mean, "gold plus judge"))
        else:
            rows.append(msgspec.structs.replace(_gold_only(side, name), kind="gold plus judge", method="as gold only"))
    return rows


def _calibrated_ndcg(side: Result, metric: NDCG, found: CalibratedValue) -> BoundsRow:
    defined = int((~np.isnan(side.values[str(metric)])).sum())
    value, low, high = map(number, found)
    return BoundsRow(str(metric), "judge-calibrated estimate", defined, value, low, high, method=IMPUTED)


def _mean(side: Result, name: str, values: Floats, ends: Range = (0.0, 1.0)) -> SummaryRow:
    return mean_row(name, values, side.columns.clusters, side.sampling, ends)


class _Lists(msgspec.Struct, frozen=True):
    own: Lists
    open: OpenLists


def _lists(side: Result, level: Level) -> _Lists:
    """The run's lists, and all unjudged items in them, in other systems of the same file, and in the pool."""
    own = side.unjudged_lists(level)
    gold = own.judged.gold
    # Passages are located in the chunks of one system; where other systems have them is unknown here.
    others = {} if gold.located is not None else side.context.opened
    seen = [
        PooledItems(
            np.concatenate([np.zeros(0, np.int64), *(part.query for part in parts)]),
            [name for part in parts for name in part.names],
        )
        for system, levels in others.items()
        if system != side.system and (parts := levels.get(level)) is not None
    ]
    seen.append(_pooled(gold, side.labelling.pooled))
    alone = no_lists(gold, side.rules)
    return _Lists(own, open_lists(alone, own, seen, side.labelling.levels))


def _pooled(gold: Gold, pairs: Sequence[Named]) -> PooledItems:
    known = set(zip((gold.queries[q] for q in gold.query_of_item.tolist()), gold.ids, strict=True)) if pairs else set()
    fresh = [(gold.index[query], item) for query, item in pairs if query in gold.index and (query, item) not in known]
    return PooledItems(np.array([query for query, _ in fresh], np.int64), [item for _, item in fresh])


def _strict(side: Result, metric: Relevance, lists: _Lists) -> BoundsRow:
    found = strict_bounds(metric, lists.open)
    name = str(metric)
    if found is None:
        return BoundsRow(name, "strict bounds", 0)
    worst, best = (_mean(side, name, np.clip(values[side.rows], 0, 1)) for values in found)
    return BoundsRow(name, "strict bounds", worst.n, low=worst.low, high=best.high, lower=worst.mean, upper=best.mean)


def _estimate(side: Result, name: str, found: Estimate) -> BoundsRow:
    defined = int((~np.isnan(side.values[name])).sum())
    value, low, high = (None if part is None else number(part) for part in (found.value, found.low, found.high))
    kind: Kind = "judge-calibrated estimate"
    return BoundsRow(name, kind, defined, value, low, high, method=found.method, depth=found.depth)


def _inverted(side: Result) -> bool:
    said = side.labelling
    if not any(pair in said.judge for pair in said.human):
        return False
    pairs = judged_pairs(said.judge, said.human, said.probability if said.weighted else None, None)
    return rates(pairs.strata(), side.sampling).kappa.below_zero


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
        source=side.labelling.source,
        by_judge=int(hits.by_judge.sum()),
        by_people=int(by_people.sum()),
        overruled=audit["labels_overruled"],
        unknown=audit["labels_unknown"],
        unlabelled=int((~hits.by_judge & ~by_people).sum()),
        other_scale=side.audit["gold_scale"],
        below_scale=side.audit["labels_below_scale"],
        inverted=_inverted(side),
    )
