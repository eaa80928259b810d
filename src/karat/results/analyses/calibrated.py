"""Metrics to which every hit adds for itself, with the labels of a judge corrected by those of people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.scoring.extra_labels import JudgedStratum, KnownJudge, Labelling, Named
from karat.scoring.judged import relevance
from karat.scoring.metrics.base import Relevance
from karat.scoring.metrics.precision import Precision
from karat.scoring.metrics.rbp import RBP
from karat.scoring.unjudged import Lists
from karat.statistics.calibration import (
    FEW,
    CalibratedValue,
    Strata,
    post_stratified,
    prediction_powered,
    rogan_gladen,
    strata_by,
)

if TYPE_CHECKING:
    from karat.results.result import Result

BY_STRATA = "post-stratification by the judge's grade"
BY_WEIGHTS = "PPI++, labels weighted by their chance"
BY_RATES = "Rogan–Gladen, the judge known from another set"
_FEWEST = 2  # weighted labels, without which there is no spread to look at


@dataclass(frozen=True)
class OpenHits:
    """Hits that the gold does not know, within the cutoff, of queries on which the metric is defined."""

    pairs: list[Named]
    query: Ints  # place among the side's queries
    weight: Floats  # what each adds to its query's score if it is relevant
    judge: Floats  # grades, NaN where there is none
    human: Floats

    @property
    def by_judge(self) -> Bools:
        """Which have only a judge's label."""
        return ~np.isnan(self.judge) & np.isnan(self.human)


def open_hits(side: Result, metric: Precision | RBP, lists: Lists) -> OpenHits:
    place = np.full(lists.judged.n, -1)
    place[side.rows[~np.isnan(side.values[str(metric)])]] = np.flatnonzero(~np.isnan(side.values[str(metric)]))
    limit = metric.limit(lists.judged)
    at = np.flatnonzero((lists.rank <= limit[lists.query]) & (place[lists.query] >= 0))
    query = lists.query[at]
    queries = lists.judged.gold.queries
    pairs = [(queries[q], lists.names[i]) for q, i in zip(query.tolist(), at.tolist(), strict=True)]
    weight = metric.weight(lists.rank[at]) if isinstance(metric, RBP) else 1 / limit[query]
    said = side.labelling
    return OpenHits(
        pairs,
        place[query],
        np.asarray(weight, np.float64),
        _looked_up(said.judge, pairs),
        _looked_up(said.human, pairs),
    )


def _looked_up(grades: Mapping[Named, float], pairs: list[Named]) -> Floats:
    return np.array([grades.get(pair, np.nan) for pair in pairs], np.float64)


def corrected(side: Result, metric: Precision | RBP, lists: Lists) -> tuple[CalibratedValue, str] | None:
    """The mean over queries as people would have labelled all hits, and how it was reached; None: cannot be told."""
    if np.isnan(side.values[str(metric)]).all():
        return None
    said, hits = side.labelling, open_hits(side, metric, lists)
    if said.human and said.weighted:
        found = _by_weights(side, metric, hits)
        return None if found is None else (found, BY_WEIGHTS)
    known = said.known if said.known is not None and said.known.rel == metric.rel else None
    if said.human or (known is not None and known.same_labels):
        counted = _own_strata(said, hits, metric.rel) if known is None else known.strata
        return _by_strata(side, metric, hits, counted), BY_STRATA
    return None if known is None else (_by_rates(side, metric, hits, known), BY_RATES)


def _own_strata(said: Labelling, hits: OpenHits, rel: float | None) -> list[JudgedStratum]:
    """Of the run's own hits, which are not like all that was pooled; of all pairs where too few of its are labelled."""
    counted = judge_strata({pair: said.judge[pair] for pair in hits.pairs if pair in said.judge}, said.human, rel)
    strata, _, _ = as_strata(counted, rel)
    enough = len(strata.pairs) > 1 and strata.labelled.min() >= FEW
    return counted if enough else judge_strata(said.judge, said.human, rel)


def judge_strata(judge: Mapping[Named, float], human: Mapping[Named, float], rel: float | None) -> list[JudgedStratum]:
    """The pairs of a judge by its grades, lowest first, with what people say of some of them."""
    grades, at = np.unique(list(judge.values()), return_inverse=True)
    said = _looked_up(human, list(judge))
    people = ~np.isnan(said)
    right = people & relevance(np.nan_to_num(said), rel)
    counts = (np.bincount(at[which], minlength=len(grades)) for which in (people | True, people, right))
    columns = (grades.tolist(), *(count.tolist() for count in counts))
    return [JudgedStratum(*row) for row in zip(*columns, strict=True)]


def as_strata(counted: list[JudgedStratum], rel: float | None) -> tuple[Strata, Ints, Floats]:
    """Strata for reckoning, the stratum of each grade, and the grades."""
    grades = np.array([stratum.grade for stratum in counted])
    pairs, labelled, relevant = (
        np.array([getattr(stratum, name) for stratum in counted], np.int64)
        for name in ("pairs", "labelled", "relevant")
    )
    return *strata_by(relevance(grades, rel), pairs, labelled, relevant), grades


def _by_strata(side: Result, metric: Relevance, hits: OpenHits, counted: list[JudgedStratum]) -> CalibratedValue:
    """Hits that people labelled are known; of the others the share of their stratum counts."""
    values = side.values[str(metric)]
    size = len(values)
    people = ~np.isnan(hits.human) & relevance(np.nan_to_num(hits.human), metric.rel)
    known = values + np.bincount(hits.query[people], hits.weight[people], size)
    strata, place, grades = as_strata(counted, metric.rel)
    table = np.zeros((size, len(strata.pairs)))
    of = hits.by_judge
    np.add.at(table, (hits.query[of], place[np.searchsorted(grades, hits.judge[of])]), hits.weight[of])
    defined = ~np.isnan(values)
    clusters = side.columns.clusters
    return post_stratified(
        known[defined], table[defined], strata, side.sampling, None if clusters is None else clusters[defined]
    )


def _by_weights(side: Result, metric: Relevance, hits: OpenHits) -> CalibratedValue | None:
    """Of all hits with a judge's label the share that is relevant, corrected on the pairs that people labelled."""
    said = side.labelling
    shared = [pair for pair in said.human if pair in said.judge and pair in said.probability]
    own = set(hits.pairs).intersection(shared)
    if len(own) >= 2 * FEW:  # else the run's hits are taken to be like all that was pooled
        shared = [pair for pair in shared if pair in own]
    judged = ~np.isnan(hits.judge)
    if len(shared) < _FEWEST or not judged.any():
        return None
    judge, human = (
        relevance(np.array([grades[pair] for pair in shared]), metric.rel).astype(np.float64)
        for grades in (said.judge, said.human)
    )
    probability = np.array([said.probability[pair] for pair in shared])
    all_ = relevance(hits.judge[judged], metric.rel).astype(np.float64)
    share = prediction_powered(all_, judge, human, probability, side.sampling)
    return _with_known(side, metric, hits.weight[judged], share)


def _by_rates(side: Result, metric: Relevance, hits: OpenHits, known: KnownJudge) -> CalibratedValue:
    judged = ~np.isnan(hits.judge)
    weight, said = hits.weight[judged], relevance(hits.judge[judged], metric.rel)
    pairs = int(judged.sum())
    if not pairs:
        return _with_known(side, metric, weight, CalibratedValue(0.0, 0.0, 0.0))
    positive = pairs * float((weight * said).sum() / weight.sum())  # hits further down may count less
    share = rogan_gladen(
        positive, pairs, known.sensitivity, known.relevant, known.specificity, known.irrelevant, side.sampling.level
    )
    return _with_known(side, metric, weight, share)


def _with_known(side: Result, metric: Relevance, weight: Floats, share: CalibratedValue) -> CalibratedValue:
    """What the gold knows, and the share of the rest."""
    values = side.values[str(metric)]
    known, rest = float(np.nanmean(values)), float(weight.sum()) / int((~np.isnan(values)).sum())
    return CalibratedValue(*(known + rest * part for part in share))
