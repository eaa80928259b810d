"""Metrics for queries without an answer: does the system return nothing for them, and only for them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np

from karat.data.ids import Bools, Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import CutoffUse, Direction, Metric, Relevance

Threshold = Annotated[float, msgspec.Meta(gt=-1e300, lt=1e300)]  # not NaN, not infinite


def _relevant(judged: Judged, inside: Bools) -> tuple[Ints, Ints]:
    """(query, row) of judged hits."""
    assert judged.hits is not None
    query = judged.hit_query[inside]
    places = judged.hits.offsets[query] + judged.hit_rank[inside] - 1
    return query, places if judged.order is None else judged.order[places]


def _any_shown(judged: Judged, query: Ints, rows: Ints, min_score: float | None) -> Bools:
    """Queries where one of the given hits reaches the threshold."""
    scores = None if judged.hits is None else judged.hits.score
    if min_score is not None and scores is not None:
        query = query[~(scores[rows] < min_score)]
    return np.asarray(judged.per_query(query) > 0)


class TopScore(Metric, frozen=True, kw_only=True):
    """Highest score among the hits (of the top k, if k is given); with `of=relevant` among the relevant ones.

    Score thresholds are compared with it. It is the system's own number: it says nothing about how good the hits are,
    and cannot be compared between systems. Undefined without such a hit, or if none has a score.

    >>> import karat
    >>> result = karat.evaluate({"q": {"a": 7.5, "b": 4.0}}, {"q": ["b"]}, ["top_score", "top_score(of=relevant)@5"])
    >>> result.means
    {'top_score': 7.5, 'top_score(of=relevant)@5': 4.0}
    """

    name = "top_score"
    is_quality = False
    range: ClassVar[tuple[float, float]] = (float("-inf"), float("inf"))
    cutoff: ClassVar[CutoffUse] = "optional"
    uses_hits = True

    of: Literal["all", "relevant"] = "all"

    def lacks(self, judged: Judged) -> str | None:
        scores = None if judged.hits is None else judged.hits.score
        return "the hits have no score" if scores is None or np.isnan(scores).all() else None

    def score(self, judged: Judged) -> Floats:
        best = np.full(judged.n, np.nan)
        if judged.hits is None or judged.hits.score is None:
            return best
        limit = self.limit(judged)
        inside = (judged.hit_grade > 0) & (judged.hit_rank <= limit[judged.hit_query])
        query, rows = judged.top(limit) if self.of == "all" else _relevant(judged, inside)
        np.fmax.at(best, query, judged.hits.score[rows])
        return best


class FalseEvidence(Metric, frozen=True, kw_only=True):
    """1 if a query without an answer gets a hit in the top k (with a score of at least `min_score`), else 0.

    Undefined for queries with an answer. 0 for a query that is missing from the run. Hits without a score pass every
    threshold, as with `--min-score`.

    >>> import karat
    >>> run = {"a": {"x": 0.9}, "b": {"x": 0.3}, "c": {"x": 0.8}}
    >>> gold = [{"query_id": q, "no_answer": True} for q in "ab"] + [{"query_id": "c", "gold": ["x"]}]
    >>> karat.evaluate(run, gold, ["false_evidence@5", "false_evidence(min_score=0.5)@5"]).means
    {'false_evidence@5': 1.0, 'false_evidence(min_score=0.5)@5': 0.5}
    """

    name = "false_evidence"
    direction: ClassVar[Direction] = "lower"
    cutoff: ClassVar[CutoffUse] = "required"
    uses_hits = True
    aliases: ClassVar[dict[str, str]] = {
        "false_evidence_rate": "false_evidence",
        "false-evidence-rate": "false_evidence",
    }

    min_score: Threshold | None = None

    def lacks(self, judged: Judged) -> str | None:
        return None if judged.gold.no_answer.any() else "no query is marked as having no answer"

    def score(self, judged: Judged) -> Floats:
        got = np.zeros(judged.n, np.bool_)
        if judged.hits is not None:
            got = _any_shown(judged, *judged.top(self.limit(judged)), self.min_score)
        return self._without_answer(judged, got.astype(np.float64))

    def ceiling(self, judged: Judged) -> Floats:
        return self._without_answer(judged, np.zeros(judged.n))

    def _without_answer(self, judged: Judged, values: Floats) -> Floats:
        return np.where(judged.gold.no_answer[judged.queries] > 0, values, np.nan)


class Miss(Relevance, frozen=True, kw_only=True):
    """1 if no relevant item is in the top k (with a score of at least `min_score`), else 0.

    Shows what a score threshold costs. Without a threshold it is 1 − hit@k. Undefined for queries without an answer; 1
    for a query that is missing from the run. Hits without a score pass every threshold, as with `--min-score`.

    >>> import karat
    >>> run, gold = {"a": {"x": 0.9}, "b": {"x": 0.3}}, {"a": ["x"], "b": ["x"]}
    >>> karat.evaluate(run, gold, ["miss@5", "miss(min_score=0.5)@5"]).means
    {'miss@5': 0.0, 'miss(min_score=0.5)@5': 0.5}
    """

    name = "miss"
    direction: ClassVar[Direction] = "lower"
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {"miss_rate": "miss"}

    min_score: Threshold | None = None

    @property
    def needs_hits(self) -> bool:
        return self.min_score is not None or self.budget is not None

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        # All chunks of a document: a later one may reach the threshold.
        inside = self.found(judged, self.limit(judged), every_chunk=True)
        if judged.hits is None:
            shown = judged.per_query(judged.hit_query[inside]) > 0
        else:
            shown = _any_shown(judged, *_relevant(judged, inside), self.min_score)
        return np.where(shown, 0.0, 1.0)

    def ceiling(self, judged: Judged) -> Floats:
        """With a threshold it depends on scores, which the gold does not have."""
        return super().ceiling(judged) if self.min_score is None else np.full(judged.n, np.nan)
