"""Metrics with a rank discount: nDCG, reciprocal rank and rank-biased precision."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged, relevance
from karat.scoring.metrics.base import INFINITE, CutoffUse, Direction, Level, Relevance
from karat.scoring.unjudged import OpenLists

_LARGEST = 500.0


class NDCG(Relevance, frozen=True, kw_only=True):
    """Gain of the top k, where higher ranks count more, divided by the gain of a perfect ranking.

    The gain of grade g is 2^g − 1, or g with `gain=linear` (as in trec_eval). If all grades are 0 or 1, both are
    equal. The gain at a rank is divided by log2(rank + 1). The perfect ranking comes from the gold set, never from the
    retrieved list: tools that sort the retrieved list give a perfect score to a run that found one item of ten. With a
    token budget (`ndcg@2000tok`) the perfect ranking is not cut, since the gold set does not say which items would
    fit. A hit that holds several passages gains all of them; the score is at most 1.

    >>> import karat
    >>> result = karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["ndcg@5"])
    >>> round(result.means["ndcg@5"], 4)
    0.6509
    """

    name = "ndcg"
    by_grades = True
    by_text: ClassVar[str | None] = "evidence_map"
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {
        "ndcg_cut": "ndcg(gain=linear)",
        "retrieval-ndcg": "ndcg(gain=linear)",
        "retrieval_ndcg": "ndcg(gain=linear)",
        "ndcg_exp": "ndcg",
        "ndcg_burges": "ndcg",
        "ndcg_linear": "ndcg(gain=linear)",
    }
    trec_eval: ClassVar[str | None] = "ndcg_cut_{k} (gain=linear)"

    gain: Literal["exp", "linear"] = "exp"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        limit = self.cut(judged)
        found = np.flatnonzero(self.found(judged, limit))
        actual = self._dcg(judged, judged.hit_query[found], judged.hit_grade[found], judged.hit_rank[found])
        share = actual / self._ideal(judged, limit if self.budget is None else int(INFINITE))
        return share if judged.gold.located is None else np.minimum(share, 1.0)

    def influence(self, lists: OpenLists) -> Floats | None:
        limit = self.limit(lists.second)[lists.query]
        first, second = (np.where(rank <= limit, 1 / np.log2(rank + 1), 0.0) for rank in lists.ranks)
        return np.asarray(second - first)

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """Both lists are divided by the same ideal, which open items also change."""
        from karat.statistics.gain_ratio import OpenGains, largest_ratio

        limit = self.limit(lists.second)
        gains = self._gains(lists.levels)
        known = [self._known(judged, limit, lists.levels, gains) for judged in (lists.first, lists.second)]
        most = limit if labels is None else np.minimum(limit, labels)  # more than the limit changes nothing
        item, place = lists.place(influence)
        kept = place < most[lists.query[item]]
        item, place = item[kept], place[kept]
        table = np.zeros((lists.second.n, int(place.max(initial=-1)) + 1))
        table[lists.query[item], place] = -influence[item]
        found = largest_ratio(
            OpenGains(
                known=known[0] - known[1],
                influence=table,
                open=np.bincount(lists.query[item], minlength=lists.second.n),
                steps=np.diff(gains),
                above=self._above(lists.second, lists.levels),
                limit=limit,
            )
        )
        return np.where(lists.second.relevant(self.rel) > 0, -found, np.nan)

    def _gains(self, levels: Floats) -> Floats:
        """The gain of each level, scaled down where grades are too large; the ratio is the same."""
        down = max(float(levels[-1]) - _LARGEST, 0.0)
        gains = levels if self.gain == "linear" else np.exp2(levels - down) - np.exp2(-down)
        return np.where(relevance(levels, self.rel), gains, 0.0)

    def _known(self, judged: Judged, limit: Ints, levels: Floats, gains: Floats) -> Floats:
        found = self.found(judged, limit)
        gain = gains[np.searchsorted(levels, judged.hit_grade[found])]
        return judged.per_query(judged.hit_query[found], gain / np.log2(judged.hit_rank[found] + 1))

    def _above(self, judged: Judged, levels: Floats) -> Ints:
        """How many gold items of each query reach each level above the lowest."""
        level = np.searchsorted(levels, judged.gold_grade)
        counts = np.zeros((judged.n, len(levels)), np.int64)
        np.add.at(counts, (judged.gold_query, level), 1)
        return counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]

    def _ideal(self, judged: Judged, limit: Ints | int) -> Floats:
        query, grade = judged.gold_query, judged.gold_grade
        counted = relevance(grade, self.rel)
        if not counted.all():
            query, grade = query[counted], grade[counted]
        counts = judged.relevant(self.rel)
        rank = np.arange(1, len(query) + 1) - (np.cumsum(counts) - counts)[query]
        inside = rank <= (limit if isinstance(limit, int) else limit[query])
        if not inside.all():
            query, grade, rank = query[inside], grade[inside], rank[inside]
        return self._dcg(judged, query, grade, rank)

    def _dcg(self, judged: Judged, query: Ints, grade: Floats, rank: Ints) -> Floats:
        gain = grade if self.gain == "linear" else _exponential(grade, judged, query)
        return judged.per_query(query, gain / _discounts(rank))


def _exponential(grade: Floats, judged: Judged, query: Ints) -> Floats:
    """2^grade − 1. Grades too large for that are scaled down for the whole query, which keeps the ratio."""
    if judged.gold_grade.max(initial=0) <= _LARGEST:
        return np.exp2(grade) - 1
    highest = np.zeros(judged.n)
    np.maximum.at(highest, judged.gold_query, judged.gold_grade)
    down = np.maximum(highest - _LARGEST, 0)[query]
    return np.exp2(grade - down) - np.exp2(-down)


def _discounts(rank: Ints) -> Floats:
    """log2(rank + 1). Ranks are few, so each logarithm is computed once."""
    deepest = int(rank.max(initial=0))
    return np.log2(np.arange(deepest + 1) + 1)[rank] if deepest < len(rank) else np.log2(rank + 1)


def first_rank(metric: Relevance, judged: Judged) -> Ints:
    """Rank of the first relevant hit of each query, INFINITE where there is none inside the cutoff."""
    found = np.flatnonzero(metric.found(judged, metric.cut(judged)))
    first = np.full(judged.n, INFINITE)
    np.minimum.at(first, judged.hit_query[found], judged.hit_rank[found])
    return first


class ReciprocalRank(Relevance, frozen=True, kw_only=True):
    """1 / rank of the first relevant item, or 0 if there is none.

    With k, only the top k count; without, the whole list.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["mrr", "mrr@1"]).means
    {'mrr': 0.5, 'mrr@1': 0.0}
    """

    name = "mrr"
    by_grades = True
    by_text: ClassVar[str | None] = "evidence_mrr"
    is_share = False
    cutoff: ClassVar[CutoffUse] = "optional"
    aliases: ClassVar[dict[str, str]] = {"rr": "mrr", "recip_rank": "mrr", "reciprocal_rank": "mrr"}
    trec_eval: ClassVar[str | None] = "recip_rank"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        first = first_rank(self, judged)
        return np.where(first < INFINITE, 1.0 / first, 0.0)

    def influence(self, lists: OpenLists) -> Floats | None:
        sides = zip((lists.first, lists.second), lists.ranks, strict=True)
        first, second = (self._with(judged, lists.query, rank) for judged, rank in sides)
        return np.asarray(second - first - self.known_difference(lists)[lists.query])

    def _with(self, judged: Judged, query: Ints, rank: Ints) -> Floats:
        """The score of the query of each open item if that item were relevant."""
        there = np.where(rank <= self.limit(judged)[query], 1.0 / rank, 0.0)
        return np.maximum(there, self.score(judged)[query])

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """Only the first relevant hit of a list counts, and any other may help the other list."""
        return self.known_difference(lists) + lists.lowest_one(influence, labels)


class TargetRank(Relevance, frozen=True, kw_only=True):
    """Rank of the first relevant item; undefined if it was not found.

    For gold sets with one target per query. The mean covers only the queries that found it, so read it together with
    hit@k.

    >>> import karat
    >>> result = karat.evaluate({"a": ["x", "t"], "b": ["x"]}, {"a": ["t"], "b": ["t"]}, ["target_rank"])
    >>> result.score("target_rank")
    {'a': 2.0, 'b': None}
    """

    name = "target_rank"
    direction: ClassVar[Direction] = "lower"
    range: ClassVar[tuple[float, float]] = (1.0, float("inf"))
    cutoff: ClassVar[CutoffUse] = "optional"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        first = first_rank(self, judged)
        return np.where(first < INFINITE, first.astype(np.float64), np.nan)


Persistence = Annotated[float, msgspec.Meta(gt=0, lt=1)]


def rbp_weight(p: float, rank: Ints) -> Floats:
    """What a relevant hit at each rank adds."""
    return np.float64(1 - p) * np.power(np.float64(p), rank - 1)


class RBP(Relevance, frozen=True, kw_only=True):
    """Rank-biased precision: (1 − p) · Σ p^(rank − 1) over the relevant hits.

    p is how likely a reader is to go on to the next hit. It does not depend on the number of relevant items, so gaps
    in the gold set do not inflate it. `rbp_residual` is what unjudged hits could add. It never reaches 1 for a finite
    gold set. With grades: `top=3` gives a hit of grade g the share g / 3 of its place, and one of grade 3 or more the
    full place (Moffat and Zobel 2008). `top` is the best grade of your scale, not that of the query's items.

    >>> import karat
    >>> asked = ["rbp(p=0.5)", "rbp(p=0.5,top=2)"]
    >>> karat.evaluate({"q": ["a", "x", "b"]}, {"q": {"a": 2, "b": 1}}, asked).means
    {'rbp(p=0.5)': 0.625, 'rbp(p=0.5,top=2)': 0.5625}
    """

    name = "rbp"
    by_grades = True
    cutoff: ClassVar[CutoffUse] = "optional"
    trec_eval: ClassVar[str | None] = "rbp (p=0.9, binary gold)"

    p: Persistence = 0.8
    top: Level | None = None  # the grade that gains the full place; default: every relevant hit does

    @property
    def by_grade(self) -> bool:
        return self.rel is not None or self.top is not None

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        found = judged.once_a_hit(self.found(judged, self.cut(judged)))
        weight = rbp_weight(self.p, judged.hit_rank[found]) * self._gain(judged.hit_grade[found])
        return np.minimum(judged.per_query(judged.hit_query[found], weight), 1.0)  # sums may round to slightly above 1

    def influence(self, lists: OpenLists) -> Floats | None:
        limit = self.limit(lists.second)[lists.query]
        first, second = (
            np.where(rank <= limit, rbp_weight(self.p, np.minimum(rank, 2**31)), 0.0) for rank in lists.ranks
        )
        return np.asarray(second - first) * self._gain(lists.levels[-1:])

    def _gain(self, grades: Floats) -> Floats:
        return np.ones(len(grades)) if self.top is None else np.minimum(grades / self.top, 1.0)

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """Every place adds its weight; hits beyond the end of a list are unknown, and no label can cover them."""
        unseen = np.zeros(lists.first.n)
        if self.k is None and labels is None:
            unseen = np.where(lists.first.present, np.power(np.float64(self.p), lists.first.depth), 0.0)
        return self.known_difference(lists) + lists.sum_lowest(influence, labels) - unseen


class RBPResidual(Relevance, frozen=True, kw_only=True):
    """What RBP could still gain: the weight of all ranks without a judged hit, also after the end of the list.

    >>> import karat
    >>> result = karat.evaluate({"q": ["a", "?"]}, {"q": ["a"]}, ["rbp_residual(p=0.5)"])
    >>> result.means
    {'rbp_residual(p=0.5)': 0.5}
    """

    name = "rbp_residual"
    version = 2  # negatives of the gold set are judged
    direction: ClassVar[Direction] = "lower"
    aliases: ClassVar[dict[str, str]] = {"rbp_resid": "rbp_residual"}

    p: Persistence = 0.8

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        rows = judged.once_a_hit(np.ones(len(judged.hit_rank), np.bool_))
        known = judged.per_query(judged.hit_query[rows], rbp_weight(self.p, judged.hit_rank[rows]))
        return np.where(judged.present, np.maximum(1.0 - known, 0.0), 1.0)

    def ceiling(self, judged: Judged) -> Floats:
        return np.full(judged.n, np.nan)
