"""Queries without an answer: how many get hits anyway, and whether scores separate them from the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import msgspec
import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.results.analyses.base import Analysis, Lacking, Setup
from karat.results.summary import SummaryRow, mean_of, number
from karat.scoring.views import Need
from karat.statistics.intervals import mean_intervals
from karat.statistics.sampling import Sampling
from karat.statistics.sums import sum_up

if TYPE_CHECKING:
    from karat.results.result import Result

_NONE = "`no_answer: true` on queries of the gold set (or `--no-answer FIELD=VALUE`)"
_POINTS = 10  # of a curve: thresholds that exclude none, a tenth, … nine tenths of the queries


class Share(msgspec.Struct, frozen=True):
    """A share of some queries, with its interval; null if there are none."""

    n: int
    value: float | None
    low: float | None = None
    high: float | None = None


class ThresholdPoint(msgspec.Struct, frozen=True):
    """What happens if hits below a score are not shown."""

    threshold: float | None  # null: everything is shown
    false_evidence: Share  # of the queries without an answer, those that still get a hit
    miss: Share  # of the queries with an answer, those that are shown no relevant hit
    coverage: float  # share of all these queries that are shown a hit
    risk: Share  # of the queries that are shown a hit, those that are shown no relevant one


class Separation(msgspec.Struct, frozen=True):
    """The chance that a query with an answer has a higher top score than one without (AUROC). 0.5 is chance."""

    n: int  # queries of both kinds
    area: float
    low: float
    high: float


class Unanswerable(msgspec.Struct, frozen=True):
    """Queries without an answer, compared with those that have one."""

    k: int
    no_answer: int
    answerable: int
    missing: int  # queries without an answer that are missing from the run: they got no hit
    false_evidence: SummaryRow
    miss: SummaryRow
    unscored: int  # queries whose hits have no scores; left out of the fields below
    target: float  # share of the queries without an answer that may get a hit
    separation: Separation | None = None  # null if the run has no scores
    everything: ThresholdPoint | None = None  # without a threshold
    chosen: ThresholdPoint | None = None  # the lowest threshold that meets the target; null if none is needed
    curve: list[ThresholdPoint] = []


class NoAnswer(Analysis):
    """Measures false evidence and misses at k, and over score thresholds."""

    name = "no_answer"
    title = "No answer"
    finds: ClassVar[type[msgspec.Struct]] = Unanswerable

    def need(self, setup: Setup) -> Need:
        if not setup.gold.no_answer.any():
            raise Lacking(_NONE)
        return Need(metrics=_metrics(setup.rules.k))

    def find(self, side: Result) -> Unanswerable:
        false_evidence, miss, top, relevant = _metrics(side.rules.k)
        without = side.gold.no_answer[side.rows] > 0
        if not without.any():
            raise Lacking(_NONE)
        missing = int(sum(query in side.missing for query, none in zip(side.queries, without, strict=True) if none))
        if missing == without.sum():
            raise Lacking(f"the queries without an answer in the run: it has none of the {missing:,}")
        found = Unanswerable(
            k=side.rules.k,
            no_answer=int(without.sum()),
            answerable=side.row(miss).n,
            missing=missing,
            false_evidence=side.row(false_evidence),
            miss=side.row(miss),
            unscored=0,
            target=side.rules.target_false_evidence,
        )
        asked = without | ~np.isnan(side.values[miss])
        unscored = asked & (side.depths > 0) & np.isnan(side.values[top])
        told = asked & ~unscored
        if not (told & (side.depths > 0)).any():
            return found
        clusters = side.columns.clusters
        scored = _Scored(
            without[told],
            np.nan_to_num(side.values[top][told], nan=-np.inf),
            np.nan_to_num(side.values[relevant][told], nan=-np.inf),
            None if clusters is None else clusters[told],
            side.sampling,
        )
        return msgspec.structs.replace(
            found,
            unscored=int(unscored.sum()),
            separation=scored.separation(),
            everything=scored.points([None])[0],
            chosen=scored.chosen(found.target),
            curve=scored.points(scored.thresholds()),
        )


def _metrics(k: int) -> list[str]:
    return [f"false_evidence@{k}", f"miss@{k}", f"top_score@{k}", f"top_score(of=relevant)@{k}"]


class _Scored(msgspec.Struct, frozen=True, dict=True):
    """Queries with and without an answer, and their scores; −∞ if a query has no such hit."""

    without: Bools
    top: Floats
    relevant: Floats  # the best score of a relevant hit
    clusters: Ints | None
    sampling: Sampling

    def separation(self) -> Separation | None:
        if self.without.all() or not self.without.any():
            return None
        from karat.statistics.auroc import auroc, auroc_interval

        limits = auroc_interval(self.top, ~self.without, self.sampling, self.clusters)
        return Separation(len(self.top), auroc(self.top, ~self.without), *limits)

    def points(self, thresholds: Sequence[float | None]) -> list[ThresholdPoint]:
        columns: list[Floats] = []
        for threshold in thresholds:
            at = -math.inf if threshold is None else threshold
            shown = (self.top >= at) & (self.top > -math.inf)
            useless = ~((self.relevant >= at) & (self.relevant > -math.inf))
            columns += [
                np.where(self.without, shown, np.nan),
                np.where(self.without, np.nan, useless),
                np.where(shown, useless, np.nan),
            ]
        values = np.column_stack(columns)
        limits = mean_intervals(sum_up(values, None, self.clusters), [(0.0, 1.0)] * len(columns), self.sampling)
        shares = [
            Share(int((~np.isnan(column)).sum()), mean_of(column), number(low), number(high))
            for column, (low, high) in zip(columns, limits.tolist(), strict=True)
        ]
        return [
            ThresholdPoint(threshold, shares[i], shares[i + 1], shares[i + 2].n / len(self.top), shares[i + 2])
            for i, threshold in zip(range(0, len(shares), 3), thresholds, strict=True)
        ]

    @cached_property
    def scores(self) -> Floats:
        """Every score at which something changes, in order."""
        both = np.concatenate([self.top, self.relevant])
        return np.unique(both[both > -math.inf])

    def thresholds(self) -> list[float | None]:
        """At most `_POINTS` scores, which divide the queries into groups of the same size."""
        top = np.sort(self.top[self.top > -math.inf])
        at = np.unique(np.quantile(top, np.arange(_POINTS) / _POINTS, method="higher"))
        return [self._short(self.scores[self.scores < score], score) for score in at.tolist()]

    def chosen(self, target: float) -> ThresholdPoint | None:
        """The lowest threshold at which at most the target share of the queries without an answer get a hit."""
        top = np.sort(self.top[self.without])[::-1]
        allowed = math.floor(target * len(top) + 1e-9)
        if not len(top) or top[allowed] == -math.inf:
            return None
        above = self.scores[self.scores > top[allowed]]
        up_to = float(above[0]) if len(above) else math.inf
        return self.points([self._short(np.array([top[allowed]]), up_to)])[0]

    def _short(self, below: Floats, up_to: float) -> float:
        """The shortest number above all of `below` that has the same effect as `up_to` on every query."""
        return up_to if not len(below) else shortest_between(float(below[-1]), up_to)


def shortest_between(low: float, high: float) -> float:
    """The number with the fewest decimals that is above `low` and not above `high`.

    >>> shortest_between(14.21, 14.414287), shortest_between(0.0, 0.7), shortest_between(9.5, float("inf"))
    (14.3, 0.1, 10.0)
    """
    for digits in range(17):
        found = round(math.floor(low * 10.0**digits + 1) / 10.0**digits, digits)
        if low < found <= high:
            return found
    return high if math.isfinite(high) else math.nextafter(low, math.inf)
