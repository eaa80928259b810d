"""How much of the relevant gold was found."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged, relevance
from karat.scoring.metrics.base import CutoffUse, Relevance, chance, mean_chance
from karat.scoring.unjudged import OpenLists


class Recall(Relevance, frozen=True, kw_only=True):
    """Share of the relevant items that are in the top k.

    Divides by all relevant items of the gold set, even if there are more than k. Then 1.0 is out of reach, as the
    ceiling next to the score shows. `average=micro` counts every relevant item once instead of every query: all items
    found, divided by all relevant items.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["recall@3", "recall@5"]).means
    {'recall@3': 0.5, 'recall@5': 1.0}
    """

    name = "recall"
    by_grades = True
    by_text: ClassVar[str | None] = "evidence_recall"
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {"r": "recall"}
    trec_eval: ClassVar[str | None] = "recall_{k}"

    average: Literal["macro", "micro"] = "macro"

    def votes(self, judged: Judged) -> Floats | None:
        return judged.relevant(self.rel).astype(np.float64) if self.average == "micro" else None

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        return self.count_found(judged, self.cut(judged)) / relevant

    def influence(self, lists: OpenLists) -> Floats | None:
        """Not for micro averages, where labels also change the weight of a query."""
        if self.average == "micro":
            return None
        limit = self.limit(lists.second)[lists.query]
        first, second = (rank <= limit for rank in lists.ranks)
        return second.astype(np.float64) - first

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """Items that only the first list has count against the second; and while the second is ahead, every further
        relevant item makes its lead a smaller share."""
        most = np.inf if labels is None else labels
        only_first = np.minimum(lists.first.per_query(lists.query[influence < 0]), most)
        neither = np.minimum(lists.first.per_query(lists.query[influence == 0]), most - only_first)
        found = [self.count_found(judged, self.cut(judged)) for judged in (lists.first, lists.second)]
        ahead = found[1] - found[0] - only_first
        relevant = lists.second.relevant(self.rel)
        with np.errstate(divide="ignore", invalid="ignore"):
            lowest = ahead / (relevant + only_first + np.where(ahead > 0, neither, 0))
        return np.where(relevant > 0, lowest, np.nan)

    def floor(self, judged: Judged, corpus_size: int) -> Floats:
        """k / N: every relevant item is drawn with the same chance; a document or a passage by any of its chunks."""
        return self.mean_of_items(judged, lambda wanted, k: chance(wanted, np.minimum(k, corpus_size), corpus_size))


class WeightedRecall(Relevance, frozen=True, kw_only=True):
    """Grades of the relevant items in the top k, divided by the grades of all relevant items.

    Equals recall if all grades are equal.

    >>> import karat
    >>> karat.evaluate({"q": ["a", "x", "b"]}, {"q": {"a": 2, "b": 1, "c": 1}}, ["wrecall@1", "wrecall@3"]).means
    {'wrecall@1': 0.5, 'wrecall@3': 0.75}
    """

    name = "wrecall"
    by_grades = True
    by_text: ClassVar[str | None] = "evidence_recall"
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {"weighted_recall": "wrecall", "graded_recall": "wrecall"}

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        found = self.found(judged, self.cut(judged))
        counts = relevance(judged.gold_grade, self.rel)
        total = judged.per_query(judged.gold_query[counts], judged.gold_grade[counts])
        share = judged.per_query(judged.hit_query[found], judged.hit_grade[found]) / total
        return np.minimum(share, 1.0)  # sums in another order may round to slightly above 1


class AucRecall(Relevance, frozen=True, kw_only=True):
    """Area under recall: the mean of recall@1, recall@2, … recall@k.

    Rewards finding items early, without choosing one depth. It is computed from the ranks: an item at rank r is found
    at k − r + 1 of the k depths.

    >>> import karat
    >>> run, gold = {"q": ["a", "x", "b", "y"]}, {"q": ["a", "b"]}
    >>> karat.evaluate(run, gold, ["recall@1", "recall@2", "recall@3", "recall@4", "auc_recall@4"]).means
    {'recall@1': 0.5, 'recall@2': 0.5, 'recall@3': 1.0, 'recall@4': 1.0, 'auc_recall@4': 0.75}
    """

    name = "auc_recall"
    by_grades = True
    cutoff: ClassVar[CutoffUse] = "required"
    by_tokens = False
    aliases: ClassVar[dict[str, str]] = {"recall_auc": "auc_recall"}

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        limit = self.limit(judged)
        found = self.found(judged, limit)
        query = judged.hit_query[found]
        depths = (limit[query] - judged.hit_rank[found] + 1) / limit[query]
        return np.minimum(judged.per_query(query, depths) / relevant, 1.0)

    def floor(self, judged: Judged, corpus_size: int) -> Floats:
        """The mean of recall's floor over j = 1 … k."""
        return self.mean_of_items(judged, lambda wanted, k: mean_chance(wanted, k, corpus_size))


class AnyHit(Relevance, frozen=True, kw_only=True):
    """1 if at least one relevant item is in the top k, else 0.

    Also called success@k or hit rate. Use it where a single good item is enough to answer.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["hit@1", "hit@5"]).means
    {'hit@1': 0.0, 'hit@5': 1.0}
    """

    name = "hit"
    by_grades = True
    by_text: ClassVar[str | None] = "evidence_hit"
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {
        "hit_rate": "hit",
        "hit-rate": "hit",
        "hitrate": "hit",
        "success": "hit",
        "any_pass": "hit",
    }
    trec_eval: ClassVar[str | None] = "success_{k}"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        return (self.count_found(judged, self.cut(judged)) > 0).astype(np.float64)

    def influence(self, lists: OpenLists) -> Floats | None:
        sides = zip((lists.first, lists.second), lists.ranks, strict=True)
        first, second = (
            np.maximum(rank <= self.limit(s)[lists.query], self.score(s)[lists.query]) for s, rank in sides
        )
        return np.asarray(second - first - self.known_difference(lists)[lists.query])

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """One relevant hit is as good as many."""
        return self.known_difference(lists) + lists.lowest_one(influence, labels)

    def floor(self, judged: Judged, corpus_size: int) -> Floats:
        """1 − C(N−G, k) / C(N, k): at least one of G relevant items in k draws without replacement."""
        relevant, k = self.relevant_hits(judged), np.minimum(self.limit(judged), corpus_size)
        return np.where(judged.relevant(self.rel) > 0, chance(relevant, k, corpus_size), np.nan)


class Complete(Relevance, frozen=True, kw_only=True):
    """1 if every relevant item is in the top k, else 0.

    Use it where an answer needs all of its evidence.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["complete@3", "complete@5"]).means
    {'complete@3': 0.0, 'complete@5': 1.0}
    """

    name = "complete"
    by_text: ClassVar[str | None] = "full_coverage"
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {"success_all": "complete"}

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        return np.equal(self.count_found(judged, self.cut(judged)), relevant).astype(np.float64)
