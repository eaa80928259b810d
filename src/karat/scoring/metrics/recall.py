"""How much of what should be found was found."""

from __future__ import annotations

from typing import Literal

import numpy as np

from karat.data.ids import Floats, Ints
from karat.data.passages.passage import Located
from karat.scoring.judged import Judged, relevance
from karat.scoring.metrics.base import Relevance, chance
from karat.scoring.unjudged import OpenLists


class Recall(Relevance, frozen=True, kw_only=True):
    """Share of the relevant items that stand in the top k.

    Divides by all relevant items of the gold set, also where they are more than k (then 1.0 is out of
    reach: the ceiling beside the score tells). `average=micro` counts every relevant item once instead of every
    query: all that was found over all that should be.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["recall@3", "recall@5"]).means
    {'recall@3': 0.5, 'recall@5': 1.0}
    """

    name = "recall"
    cutoff = "required"
    aliases = {"r": "recall"}
    trec_eval = "recall_{k}"

    average: Literal["macro", "micro"] = "macro"

    def votes(self, judged: Judged) -> Floats | None:
        return judged.relevant(self.rel).astype(np.float64) if self.average == "micro" else None

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        return self.count_found(judged, self.limit(judged)) / relevant

    def influence(self, lists: OpenLists) -> Floats | None:
        """Not for micro averages, in which labels also change how much a query counts."""
        if self.budget is not None or self.average == "micro":
            return None
        limit = self.limit(lists.second)[lists.query]
        first, second = (rank <= limit for rank in lists.ranks)
        return second.astype(np.float64) - first

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """Items that only the first list has count against the second; and while the second is ahead, every further
        item that should be found makes its lead a smaller share."""
        most = np.inf if labels is None else labels
        only_first = np.minimum(lists.first.per_query(lists.query[influence < 0]), most)
        neither = np.minimum(lists.first.per_query(lists.query[influence == 0]), most - only_first)
        found = [self.count_found(judged, self.limit(judged)) for judged in (lists.first, lists.second)]
        ahead = found[1] - found[0] - only_first
        relevant = lists.second.relevant(self.rel)
        with np.errstate(divide="ignore", invalid="ignore"):
            lowest = ahead / (relevant + only_first + np.where(ahead > 0, neither, 0))
        return np.where(relevant > 0, lowest, np.nan)

    def floor(self, judged: Judged, corpus_size: int) -> Floats:
        """k / N: every relevant item is drawn with the same chance; a passage by any chunk that holds it."""
        k = np.minimum(self.limit(judged), corpus_size)
        share = k / corpus_size
        if judged.gold.located is not None:
            share = _share_of_passages(judged, judged.gold.located, self.rel, k, corpus_size)
        return np.where(judged.relevant(self.rel) > 0, share, np.nan)


def _share_of_passages(judged: Judged, located: Located, rel: float | None, k: Ints, corpus_size: int) -> Floats:
    """Mean over the relevant items of each query of the chance that k draws bring one of the chunks that hold it."""
    gold, row = judged.gold, np.full(len(judged.gold.queries), -1)
    row[judged.queries] = np.arange(judged.n)
    query = row[gold.query_of_item]
    items = np.flatnonzero(relevance(gold.grades, rel) & (query >= 0))
    holders = np.where(located.settled, [len(chunks) for chunks in located.holders], 1)[items]
    chances = chance(holders, k[query[items]], corpus_size)
    with np.errstate(invalid="ignore"):
        return judged.per_query(query[items], chances) / judged.relevant(rel)


class WeightedRecall(Relevance, frozen=True, kw_only=True):
    """Grades of the relevant items in the top k, divided by the grades of all relevant items.

    Equals recall where all grades are equal.

    >>> import karat
    >>> karat.evaluate({"q": ["a", "x", "b"]}, {"q": {"a": 2, "b": 1, "c": 1}}, ["wrecall@1", "wrecall@3"]).means
    {'wrecall@1': 0.5, 'wrecall@3': 0.75}
    """

    name = "wrecall"
    cutoff = "required"
    aliases = {"weighted_recall": "wrecall", "graded_recall": "wrecall"}

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        found = self.found(judged, self.limit(judged))
        counts = relevance(judged.gold_grade, self.rel)
        total = judged.per_query(judged.gold_query[counts], judged.gold_grade[counts])
        share = judged.per_query(judged.hit_query[found], judged.hit_grade[found]) / total
        return np.minimum(share, 1.0)  # the same grades summed in another order may round to a hair above
