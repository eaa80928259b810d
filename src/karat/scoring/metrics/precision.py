"""How much of what was returned is worth returning."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Relevance
from karat.scoring.unjudged import OpenLists


def _without_documents(judged: Judged, ceiling: Floats) -> Floats:
    """Any number of chunks of a document may count here, so gold that names documents sets no ceiling."""
    return ceiling if judged.by_document is None else np.where(judged.by_document, np.nan, ceiling)


class Precision(Relevance, frozen=True, kw_only=True):
    """Share of the top k that is relevant.

    Always divides by k, as trec_eval does: a list shorter than k does not score higher for being short.
    Under a budget of tokens (`precision@2000tok`) there is no k, and it divides by the hits that fit.
    Where gold names documents, every chunk of a relevant document counts.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9", "2"]}, {"q": ["3", "9"]}, ["precision@5", "precision@10"]).means
    {'precision@5': 0.4, 'precision@10': 0.2}
    """

    name = "precision"
    cutoff = "required"
    aliases = {"p": "precision"}
    trec_eval = "P_{k}"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        limit = self.limit(judged)
        return self.count_found(judged, limit, every_chunk=True) / np.maximum(limit, 1)

    def influence(self, lists: OpenLists) -> Floats | None:
        if self.budget is not None:
            return None
        limit = self.limit(lists.second)
        more = lists.count(lists.second_hits, limit) - lists.count(lists.first_hits, limit)
        return more / limit[lists.query]

    def lowest(self, lists: OpenLists, influence: Floats, labels: int | None = None) -> Floats:
        """Every hit adds the same."""
        return self.known_difference(lists) + lists.sum_lowest(influence, labels)

    def ceiling(self, judged: Judged) -> Floats:
        return _without_documents(judged, super().ceiling(judged))

    def floor(self, judged: Judged, corpus_size: int) -> Floats:
        """G / N: every place holds a relevant item with the same chance; places past the corpus hold none."""
        k = self.limit(judged)
        share = np.minimum(self.relevant_hits(judged) / corpus_size, 1.0) * np.minimum(k, corpus_size) / k
        return np.where(judged.relevant(self.rel) > 0, share, np.nan)


class F1(Relevance, frozen=True, kw_only=True):
    """Harmonic mean of precision@k and recall@k of the query; 0 where both are 0.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9"]}, {"q": ["3", "9"]}, ["f1@2"]).means
    {'f1@2': 0.5}
    """

    name = "f1"
    cutoff = "required"
    aliases = {"f": "f1", "f_measure": "f1"}

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        limit = self.limit(judged)
        precision = self.count_found(judged, limit, every_chunk=True) / np.maximum(limit, 1)
        recall = self.count_found(judged, limit) / relevant
        return np.nan_to_num(2 * precision * recall / (precision + recall))

    def ceiling(self, judged: Judged) -> Floats:
        return _without_documents(judged, super().ceiling(judged))


class RPrecision(Relevance, frozen=True, kw_only=True):
    """Share of the R relevant items that stand in the top R.

    >>> import karat
    >>> karat.evaluate({"q": ["7", "3", "1", "9"]}, {"q": ["3", "9"]}, ["rprecision"]).means
    {'rprecision': 0.5}
    """

    name = "rprecision"
    aliases = {"rprec": "rprecision", "r-precision": "rprecision", "r_precision": "rprecision"}
    trec_eval = "Rprec"

    def compute(self, judged: Judged, relevant: Ints) -> Floats:
        return self.count_found(judged, relevant) / relevant
