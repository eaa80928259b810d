"""Estimate precision and RBP as if humans had labelled all hits: judge labels corrected with human labels.

A judge's error rates depend on the queries, ranks and systems it sees. So only labels on the run's own hits correct it.
Error rates from other pairs are an assumption, made only on request and without an interval.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.gold import CHUNK
from karat.data.ids import Bools, Floats, Ints
from karat.results.drawn_labels import RankBands, deepest_rank, drawn_elsewhere, rank_bands
from karat.results.no_estimate import BORROWED, NoEstimate
from karat.scoring.extra_labels import JudgedStratum, Labelling, Named
from karat.scoring.judged import relevance
from karat.scoring.metrics.discounted import RBP, rbp_weight
from karat.scoring.metrics.precision import Precision
from karat.scoring.unjudged import Lists
from karat.statistics.calibration import FEW, JudgedPairs, Strata, no_strata, post_stratified, rogan_gladen

if TYPE_CHECKING:
    from karat.results.result import Result

BY_STRATA = "post-stratification by the judge's grade"
BY_WEIGHTS = "post-stratification by the judge's grade, labels weighted by their chance"


class Estimate(msgspec.Struct, frozen=True):
    """A mean over queries, and how it was estimated."""

    value: float
    low: float | None
    high: float | None
    method: str
    depth: int | None = None  # rank below which no human labels were sampled; the interval allows for anything there


class OpenHits(msgspec.Struct, frozen=True):
    """Unjudged hits within the cutoff, for queries for which the metric is defined."""

    pairs: list[Named]
    query: Ints  # place among the side's queries
    rank: Ints
    weight: Floats  # what each adds to its query's score if it is relevant
    judge: Floats  # grades, NaN if there is none
    human: Floats
    chance: Floats | None  # of being sampled for human labels, if it differs
    counted: Floats  # what each already adds to its query's score, if human labels count as gold

    @property
    def by_judge(self) -> Bools:
        """Hits with only a judge label."""
        return ~np.isnan(self.judge) & np.isnan(self.human)

    @property
    def sampled(self) -> Bools:
        """Hits that show how often the judge is right: they have both labels and were sampled at random."""
        both = ~np.isnan(self.judge) & ~np.isnan(self.human)
        return both if self.chance is None else both & ~np.isnan(self.chance)

    def with_more(self, more: OpenHits) -> OpenHits:
        names = ["query", "rank", "weight", "judge", "human", "counted", *([] if self.chance is None else ["chance"])]
        joined = {name: np.concatenate([getattr(self, name), getattr(more, name)]) for name in names}
        return replace(self, pairs=[*self.pairs, *more.pairs], **joined)


def open_hits(side: Result, metric: Precision | RBP, lists: Lists) -> OpenHits:
    """The unjudged hits, without those that human labels added to the gold."""
    place, limit = _places(side, metric, lists), metric.limit(lists.judged)
    at = np.flatnonzero((lists.rank <= limit[lists.query]) & (place[lists.query] >= 0))
    names = [lists.names[i] for i in at.tolist()]
    return _hits(side, metric, lists, lists.query[at], lists.rank[at], names)


def drawn_hits(side: Result, metric: Precision | RBP, lists: Lists) -> OpenHits:
    """The hits that human labels were sampled from: also those that human labels added to the gold and that the judge
    labelled."""
    hits, rows = open_hits(side, metric, lists), rows_by_people(side)
    if metric.level != "chunk" or not len(rows):
        return hits
    table = side.data.tables[side.view]
    query, rank = table.gold.query_of_item[rows], table.places[rows]
    place, limit = _places(side, metric, lists), metric.limit(lists.judged)
    inside = (rank > 0) & (rank <= limit[query]) & (place[query] >= 0)
    names = [table.gold.ids[row] for row in rows[inside].tolist()]
    more = _hits(side, metric, lists, query[inside], rank[inside], names)
    counted = more.weight * relevance(table.gold.grades[rows[inside]], metric.rel)
    return hits.with_more(replace(more, counted=counted))


def rows_by_people(side: Result) -> Ints:
    """Gold items added by human labels that also have a judge label."""
    gold, said = side.data.tables[side.view].gold, side.labelling
    if gold.by_people is None:
        return np.zeros(0, np.int64)
    rows = np.flatnonzero(gold.by_people & (gold.kinds == CHUNK))
    names = ((gold.queries[gold.query_of_item[row]], gold.ids[row]) for row in rows.tolist())
    return rows[np.array([name in said.human and name in said.judge for name in names], np.bool_)]


def _places(side: Result, metric: Precision | RBP, lists: Lists) -> Ints:
    """The place of each gold query among the side's queries; −1 if the metric is undefined."""
    place, defined = np.full(lists.judged.n, -1), np.flatnonzero(~np.isnan(side.values[str(metric)]))
    place[side.rows[defined]] = defined
    return place


def _hits(
    side: Result, metric: Precision | RBP, lists: Lists, query: Ints, rank: Ints, names: Sequence[str]
) -> OpenHits:
    said, queries = side.labelling, lists.judged.gold.queries
    pairs = [(queries[q], name) for q, name in zip(query.tolist(), names, strict=True)]
    weight = rbp_weight(metric.p, rank) if isinstance(metric, RBP) else 1 / metric.limit(lists.judged)[query]
    return OpenHits(
        pairs,
        _places(side, metric, lists)[query],
        rank,
        np.asarray(weight, np.float64),
        looked_up(said.judge, pairs),
        looked_up(said.human, pairs),
        looked_up(said.probability, pairs) if said.weighted else None,
        np.zeros(len(pairs)),
    )


def looked_up(values: Mapping[Named, float], pairs: Iterable[Named]) -> Floats:
    """The values of pairs; NaN for pairs without one."""
    return np.array([values.get(pair, np.nan) for pair in pairs], np.float64)


def told_relevance(grades: Floats, rel: float | None) -> Floats:
    """1 relevant, 0 not, NaN without a grade."""
    return np.where(np.isnan(grades), np.nan, relevance(np.nan_to_num(grades), rel))


def judged_pairs(
    judge: Mapping[Named, float],
    human: Mapping[Named, float],
    chance: Mapping[Named, float] | None,
    rel: float | None,
) -> JudgedPairs:
    """All pairs of a judge. The unit is a query, since pairs of one query are not independent."""
    grades, grade = np.unique(list(judge.values()), return_inverse=True)
    queries, unit = np.unique([query for query, _ in judge], return_inverse=True)
    return JudgedPairs(
        unit=unit,
        units=len(queries),
        grade=grade,
        positive=relevance(grades, rel),
        people=told_relevance(looked_up(human, judge), rel),
        chance=None if chance is None else looked_up(chance, judge),
    )


def judge_strata(judge: Mapping[Named, float], human: Mapping[Named, float], rel: float | None) -> list[JudgedStratum]:
    """The pairs of a judge by grade, lowest first, with counts of human labels."""
    grades, at = np.unique(list(judge.values()), return_inverse=True)
    said = looked_up(human, judge)
    people = ~np.isnan(said)
    right = people & relevance(np.nan_to_num(said), rel)
    counts = (np.bincount(at[which], minlength=len(grades)) for which in (people | True, people, right))
    columns = (grades.tolist(), *(count.tolist() for count in counts))
    return [JudgedStratum(*row) for row in zip(*columns, strict=True)]


def corrected(side: Result, metric: Precision | RBP, lists: Lists) -> Estimate | NoEstimate | None:
    """The mean over queries as if humans had labelled all hits; None if the metric is undefined."""
    if np.isnan(side.values[str(metric)]).all():
        return None
    own = _OwnHits(side, metric, drawn_hits(side, metric, lists))
    unfair = own.unfair(lists)
    if unfair is None and own.enough:
        return own.estimate()
    if side.labelling.borrow and (share := own.borrowed()) is not None:
        return Estimate(own.mean(share), None, None, BORROWED)
    return own.refusal() if unfair is None or side.labelling.borrow else unfair


def labels_elsewhere(side: Result, lists: Lists) -> bool:
    """Whether the human labels come from the hits of another run."""
    said, gold, mine = side.labelling, lists.judged.gold, side.data.tables[side.view].gold
    if said.weighted:  # each label's weight says how many hits it represents
        return False
    by_people = set(rows_by_people(side).tolist())
    own = {(gold.queries[q], name) for q, name in zip(lists.query.tolist(), lists.names, strict=True)}
    places = zip(mine.query_of_item.tolist(), mine.ids, side.data.tables[side.view].places.tolist(), strict=True)
    known = []
    for row, (query, name, rank) in enumerate(places):
        if row not in by_people:
            known.append((mine.queries[query], name))
        elif rank > 0:
            own.add((mine.queries[query], name))
    return drawn_elsewhere(said.judge, said.human, own, known)


class _OwnHits(msgspec.Struct, frozen=True, dict=True):
    """The unjudged hits of one run, and what human labels on some of them imply for the others."""

    side: Result
    metric: Precision | RBP
    hits: OpenHits

    @property
    def said(self) -> Labelling:
        return self.side.labelling

    @cached_property
    def people(self) -> Floats:
        return told_relevance(self.hits.human, self.metric.rel)

    @cached_property
    def estimated(self) -> Bools:
        """Hits with a judge grade for which some hits have no human label. The others are known."""
        return ~np.isnan(self.hits.judge) & np.isin(self.hits.judge, self.hits.judge[self.hits.by_judge])

    @cached_property
    def depth(self) -> int | None:
        """The rank below which no hits were sampled for human labels, if there is one."""
        return deepest_rank(self.hits.rank[self.estimated], self.hits.sampled[self.estimated])

    @cached_property
    def inside(self) -> Bools:
        return self.estimated & (self.hits.rank <= self.depth) if self.depth is not None else self.estimated

    @cached_property
    def unit(self) -> Ints:
        """The unit of each query (the query or its conversation), numbered among the defined ones."""
        defined = ~np.isnan(self.side.values[str(self.metric)])
        clusters = self.side.columns.clusters
        numbers = np.arange(len(defined)) if clusters is None else clusters
        unit = np.full(len(defined), -1)
        unit[defined] = np.unique(numbers[defined], return_inverse=True)[1]
        return unit

    @cached_property
    def strata(self) -> Strata:
        at, hits = self.inside, self.hits
        units = int(self.unit.max()) + 1
        if not at.any():
            return no_strata(units)
        grades, grade = np.unique(hits.judge[at], return_inverse=True)
        positive = relevance(grades, self.metric.rel)
        if (bands := self.bands.of) is not None:
            kinds, grade = np.unique(2 * bands + positive[grade], return_inverse=True)
            positive = kinds % 2 == 1
        return JudgedPairs(
            unit=self.unit[hits.query[at]],
            units=units,
            grade=grade,
            positive=positive,
            people=self.people[at],
            weight=hits.weight[at],
            chance=None if hits.chance is None else hits.chance[at],
        ).strata()

    def unfair(self, lists: Lists) -> NoEstimate | None:
        """Why the human labels are not a fair sample of these hits, as far as the data shows."""
        if not self.said.human or not self.hits.sampled.any() or not self.estimated.any():
            return None
        name, hits = str(self.metric), int(self.hits.by_judge.sum())
        if labels_elsewhere(self.side, lists):
            return NoEstimate(name, "drawn-elsewhere", hits, labelled=int(self.hits.sampled.sum()))
        if not self.bands.fair:
            return NoEstimate(name, "uneven-ranks", hits, labelled=int(self.hits.sampled.sum()))
        return None

    @cached_property
    def bands(self) -> RankBands:
        """Rank bands. Labels sampled with known chances are weighted; others should be even over the ranks."""
        at, hits = self.inside, self.hits
        if self.said.weighted or not at.any():
            return RankBands(None)
        return rank_bands(hits.rank[at], relevance(hits.judge[at], self.metric.rel), hits.sampled[at])

    @property
    def enough(self) -> bool:
        asked = bool(self.said.human) and bool((self.strata.labels >= FEW).all())
        return asked or not self.estimated.any()

    @cached_property
    def known(self) -> Floats:
        """The score from gold and human labels, summed by unit."""
        values = self.side.values[str(self.metric)]
        defined = ~np.isnan(values)
        told = ~self.estimated & (self.people > 0)
        by_people = self._by_unit(self.hits.query[told], self.hits.weight[told])
        twice = self._by_unit(self.hits.query, self.hits.counted)
        return self._by_unit(np.flatnonzero(defined), values[defined]) + by_people - twice

    def _by_unit(self, query: Ints, values: Floats) -> Floats:
        return np.bincount(self.unit[query], values, len(self.strata.size)).astype(np.float64)

    def estimate(self) -> Estimate:
        hits, strata = self.hits, self.strata
        beyond = self.estimated & ~self.inside
        unlabelled = np.isnan(hits.judge) & np.isnan(hits.human)
        loose = np.where(beyond | unlabelled, hits.weight, 0.0)  # may be relevant or not
        found = post_stratified(
            self.known,
            self._by_unit(np.flatnonzero(self.unit >= 0), np.ones((self.unit >= 0).sum())),
            strata,
            self.side.sampling,
            self._by_unit(hits.query, loose),
            float((hits.weight * self._guessed(strata))[beyond].sum()),
        )
        return Estimate(*found, BY_WEIGHTS if self.said.weighted else BY_STRATA, self.depth)

    def mean(self, share: Floats) -> float:
        """The mean with this share of relevance for each estimated hit."""
        told = np.where(np.isnan(self.people), share, self.people)
        rest = (self.hits.weight * told)[self.estimated].sum()
        return float((self.known.sum() + rest) / (self.unit >= 0).sum())

    def _guessed(self, strata: Strata) -> Floats:
        """The estimated relevance of each hit, given the judge's grade."""
        labelled, relevant = strata.labelled.sum(axis=0), strata.relevant.sum(axis=0)
        no, yes = (relevant[kind].sum() / max(labelled[kind].sum(), 1) for kind in (~strata.positive, strata.positive))
        return np.asarray(np.where(relevance(np.nan_to_num(self.hits.judge), self.metric.rel), yes, no), np.float64)

    def borrowed(self) -> Floats | None:
        """The share of relevant pairs of each hit's kind among other pairs; None if unknown."""
        said, rel = self.said, self.metric.rel
        if said.human:
            every = judged_pairs(said.judge, said.human, said.probability if said.weighted else None, rel).strata()
            return self._guessed(every) if (every.labels >= FEW).all() else None
        if said.known is None or said.known.rel != rel:
            return None
        weight, judge = self.hits.weight[self.estimated], self.hits.judge[self.estimated]
        called = float((weight * relevance(judge, rel)).sum() / weight.sum())
        return np.full(len(self.hits.judge), rogan_gladen(called, said.known.sensitivity, said.known.specificity))

    def refusal(self) -> NoEstimate:
        name, hits = str(self.metric), int(self.hits.by_judge.sum())
        if self.said.borrow:
            return NoEstimate(name, "nothing-to-borrow", hits)
        if not self.said.human or not len(self.strata.labels):
            return NoEstimate(name, "other-pairs", hits)
        least = int(self.strata.labels.argmin())
        called: Literal["relevant", "irrelevant"] = "relevant" if self.strata.positive[least] else "irrelevant"
        return NoEstimate(name, "few-own-labels", hits, called, int(self.strata.labels[least]))
