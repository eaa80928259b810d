"""Estimate nDCG as humans would grade the hits, from judge labels and human labels for some of them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.results.corrected import labels_elsewhere, rows_by_people
from karat.results.drawn_labels import deepest_rank
from karat.results.no_estimate import NoEstimate
from karat.scoring.judged import relevance
from karat.scoring.metrics.discounted import NDCG
from karat.scoring.unjudged import Lists
from karat.statistics.calibration import FEW, CalibratedValue
from karat.statistics.imputed_gain import GradedItems, imputed_ndcg

if TYPE_CHECKING:
    from karat.results.result import Result

IMPUTED = "grades imputed from human grades given the judge's grade"


def calibrated_ndcg(side: Result, judged: Result, metric: NDCG) -> CalibratedValue | NoEstimate | None:
    """Estimate nDCG. `judged`: the same run with judge labels. There is no estimate if human labels are missing, have
    unequal chances, are not a fair sample or are too few (ten per judge grade, or per relevant and not, separately in
    the top k and below it), or if a hit in the top k has no label. None if the metric is undefined."""
    said, table = side.labelling, judged.data.tables.get(judged.view)
    own = side.data.tables[side.view].gold
    defined = side.rows[~np.isnan(side.values[str(metric)])]
    if metric.level != "chunk" or metric.budget or table is None or not len(defined) or own.located is not None:
        return None
    gold, place = table.gold, np.full(len(own.queries), -1)
    place[defined] = np.arange(len(defined))
    lists = side.unjudged_lists("chunk")
    limits = metric.limit(lists.judged)
    hits = (lists.rank <= limits[lists.query]) & (place[lists.query] >= 0)
    refused = partial(NoEstimate, str(metric), hits=int(hits.sum()))
    if not said.human:
        return refused("other-pairs")
    if said.weighted:
        return refused("unequal-chances")
    if _unlabelled(side, lists, hits):
        return refused("unlabelled-hits")
    if labels_elsewhere(side, lists):
        return refused("drawn-elsewhere")
    rows = np.flatnonzero(place[gold.query_of_item] >= 0)
    query = gold.query_of_item[rows]
    added = rows - gold.offsets[query] >= np.diff(own.offsets)[query]
    names = [(gold.queries[q], gold.ids[row]) for q, row in zip(query.tolist(), rows.tolist(), strict=True)]
    human = np.array([said.human.get(name, np.nan) for name in names])
    judge = gold.grades[rows]
    # Human labels that count as gold also show how the judge errs.
    by_people = np.isin(rows, rows_by_people(judged))
    judge[by_people] = [said.judge[names[at]] for at in np.flatnonzero(by_people).tolist()]
    added |= by_people
    rank = table.places[rows]
    inside = (rank > 0) & (rank <= limits[query])
    open_ = added & inside
    if (depth := deepest_rank(rank[open_], ~np.isnan(human[open_]))) is not None:
        return refused("not-shown", depth=depth)
    stratum = _strata(judge, added, inside, ~np.isnan(human), metric.rel)
    if isinstance(stratum, int):
        return refused("few-own-labels", labelled=stratum)
    grade = np.where(added, np.nan_to_num(human), gold.grades[rows])
    levels = np.unique(np.append(0.0, grade))
    clusters = side.columns.clusters
    unit = np.arange(len(defined)) if clusters is None else clusters[np.searchsorted(side.rows, defined)]
    items = GradedItems(
        query=place[query],
        rank=rank,
        level=np.searchsorted(levels, grade),
        stratum=stratum,
        labelled=~np.isnan(human),
        gains=_gains(levels, metric),
        limit=limits[defined],
        unit=np.unique(unit, return_inverse=True)[1],
    )
    return imputed_ndcg(items, side.sampling)


def _unlabelled(side: Result, lists: Lists, hits: Bools) -> bool:
    """Whether some of these hits have no label."""
    queries = lists.judged.gold.queries
    return any((queries[lists.query[i]], lists.names[i]) not in side.labelling.judge for i in np.flatnonzero(hits))


def _strata(grade: Floats, added: Bools, inside: Bools, people: Bools, rel: float | None) -> Ints | int:
    """Strata by judge grade, separately in the top k and below it, where hits differ. Grades with too few labels are
    merged into relevant and not. An int: even then, one has only this many labels."""
    stratum = np.full(len(grade), -1)
    for part in (added & inside, added & ~inside):
        if not (part & ~people).any():
            continue
        _, of = np.unique(grade[part], return_inverse=True)
        if np.bincount(of, people[part]).min() < FEW:
            _, of = np.unique(relevance(grade[part], rel), return_inverse=True)
            if (least := int(np.bincount(of, people[part]).min())) < FEW:
                return least
        stratum[part] = of + stratum.max() + 1
    return stratum


def _gains(levels: Floats, metric: NDCG) -> Floats:
    gains = levels if metric.gain == "linear" else np.exp2(np.minimum(levels, 500.0)) - 1
    return np.where(relevance(levels, metric.rel), gains, 0.0)
