"""How much of the returned list is relevant."""

# No `from __future__ import annotations`: msgspec would have to compile every type of these classes from text.
from typing import ClassVar, Literal

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged, relevance
from karat.scoring.metrics.base import CutoffUse, Relevance
from karat.scoring.unjudged import OpenLists


def _without_documents(judged: Judged, ceiling: Floats) -> Floats:
    """Any number of chunks of a document may count here, so gold that names documents has no ceiling."""
    return ceiling if judged.by_document is None else np.where(judged.by_document, np.nan, ceiling)


class Precision(Relevance, frozen=True, kw_only=True):
    """Share of the top k that is relevant.

    Divides by k, as trec_eval does, so a short list does not score higher for being short. `by=returned` divides by
    the number of hits if that is less than k; without hits it is 0. With a token budget (`precision@2000tok`) there is
    no k, and it divides by the hits that fit. If the gold set names documents, every chunk of a relevant document
    counts.

    >>> import karat
    >>> asked = ["precision@5", "precision@10", "precision(by=returned)@10"]
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, asked).means
    {'precision@5': 0.4, 'precision@10': 0.2, 'precision(by=returned)@10': 0.4}
    """

    name = "precision"
    by_grades = True
    by_text: ClassVar[str | None] = "evidence_precision"
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {"p": "precision"}
    trec_eval: ClassVar[str | None] = "P_{k}"

    by: Literal["k", "returned"] = "k"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        return self.count_found(judged, self.cut(judged), every_chunk=True) / self._places(judged)

    def _places(self, judged: Judged) -> Ints:
        limit = self.limit(judged)
        return np.maximum(limit if self.by == "k" else np.minimum(judged.depth, limit), 1)

    def influence(self, lists: OpenLists) -> Floats | None:
        limit = self.limit(lists.second)
        sides = ((lists.first, lists.first_hits), (lists.second, lists.second_hits))
        first, second = (lists.count(hits, limit) / self._places(judged)[lists.query] for judged, hits in sides)
        return np.asarray(second - first)

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """Every hit adds the same."""
        return self.known_difference(lists) + lists.sum_lowest(influence, labels)

    def ceiling(self, judged: Judged) -> Floats:
        if self.by == "returned":  # a list may end with its last relevant hit
            return np.where(judged.relevant(self.rel) > 0, 1.0, np.nan)
        return _without_documents(judged, super().ceiling(judged))

    def floor(self, judged: Judged, corpus_size: int) -> Floats:
        """G / N: every place holds a relevant item with the same chance; places past the corpus hold none."""
        k = self.limit(judged)
        share = np.minimum(self.relevant_hits(judged) / corpus_size, 1.0)
        if self.by == "k":
            share = share * np.minimum(k, corpus_size) / k
        return np.where(judged.relevant(self.rel) > 0, share, np.nan)


class F1(Relevance, frozen=True, kw_only=True):
    """Harmonic mean of precision@k and recall@k of the query; 0 if both are 0.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9"]}, {"q": ["3", "9"]}, ["f1@2"]).means
    {'f1@2': 0.5}
    """

    name = "f1"
    by_grades = True
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {"f": "f1", "f_measure": "f1"}

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        limit = self.limit(judged)
        precision = self.count_found(judged, limit, every_chunk=True) / np.maximum(limit, 1)
        recall = self.count_found(judged, limit) / relevant
        return np.nan_to_num(2 * precision * recall / (precision + recall))

    def ceiling(self, judged: Judged) -> Floats:
        return _without_documents(judged, super().ceiling(judged))


class RPrecision(Relevance, frozen=True, kw_only=True):
    """Share of the R relevant items that are in the top R.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9"]}, {"q": ["3", "9"]}, ["rprecision"]).means
    {'rprecision': 0.5}
    """

    name = "rprecision"
    by_grades = True
    aliases: ClassVar[dict[str, str]] = {
        "rprec": "rprecision",
        "r-precision": "rprecision",
        "r_precision": "rprecision",
    }
    trec_eval: ClassVar[str | None] = "Rprec"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        return self.count_found(judged, relevant) / relevant


class AveragePrecision(Relevance, frozen=True, kw_only=True):
    """Precision at the rank of each relevant item found, summed and divided by the number of relevant items.

    With a cutoff, it still divides by all relevant items of the gold set, as trec_eval's map_cut does. Tools that
    divide by min(k, relevant) or by the items found score higher. `by=found` divides by the hits found, as ragas does.
    It rewards only the order: one relevant hit at the top is enough for 1, and a second one further down lowers it.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["map", "map@2"]).means
    {'map': 0.5, 'map@2': 0.25}
    """

    name = "map"
    by_grades = True
    by_text: ClassVar[str | None] = "evidence_map"
    cutoff: ClassVar[CutoffUse] = "optional"
    aliases: ClassVar[dict[str, str]] = {"ap": "map", "map_cut": "map", "average_precision": "map"}
    trec_eval: ClassVar[str | None] = "map"

    by: Literal["relevant", "found"] = "relevant"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        found = self.found(judged, self.cut(judged))
        query, rank = judged.hit_query[found], judged.hit_rank[found]
        hits = np.cumsum(judged.once_a_hit(found)[found])  # precision counts hits, however many items one holds
        first = np.searchsorted(query, np.arange(judged.n))
        so_far = hits - np.concatenate([[0], hits])[first[query]]
        whole = relevant if self.by == "relevant" else np.maximum(judged.per_query(query), 1)
        return judged.per_query(query, so_far / rank) / whole


class Bpref(Relevance, frozen=True, kw_only=True):
    """How rarely items judged not relevant are ranked above relevant ones; for gold sets with few labels.

    The mean over relevant items of 1 − (items above it that are judged not relevant) / min(R, N). R is the number of
    relevant items, N that of items judged not relevant; at most R of the latter count. Unjudged hits are ignored. A
    relevant item that was not found adds 0. As in trec_eval.

    >>> import karat
    >>> gold = {"q": {"a": 1, "b": 1, "n": 0, "m": 0}}
    >>> karat.evaluate({"q": ["a", "n", "?", "b"]}, gold, ["bpref"]).means
    {'bpref': 0.75}
    """

    name = "bpref"
    version = 2  # negatives of the gold set are judged
    trec_eval: ClassVar[str | None] = "bpref"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        good = relevance(judged.hit_grade, self.rel)
        query = judged.hit_query
        bad_so_far = np.cumsum(~good & judged.hit_new)  # a document counts once, good or bad
        before = np.concatenate([[0], bad_so_far])[np.searchsorted(query, np.arange(judged.n))]
        bad_above = bad_so_far - before[query]
        bad_judged = np.bincount(judged.gold_query[~relevance(judged.gold_grade, self.rel)], minlength=judged.n)
        worst = np.minimum(relevant, bad_judged)[query]
        share = np.where(bad_above > 0, np.minimum(bad_above, relevant[query]) / np.maximum(worst, 1), 0.0)
        counts = good & judged.hit_new
        return judged.per_query(query[counts], 1.0 - share[counts]) / relevant
