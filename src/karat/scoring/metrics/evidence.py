"""Was the evidence found, by its text and not by an id."""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import INFINITE, Metric
from karat.scoring.metrics.covering import Covering, Coverings, HitTexts


class EvidenceMetric(Metric, frozen=True, kw_only=True):
    """A metric of texts that should be found: 0 for a query that the run lacks, undefined for one without evidence."""

    uses_hits = True
    needs = frozenset({"text"})

    threshold: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None  # default: that of the evaluation

    def lacks(self, judged: Judged) -> str | None:
        if not any(judged.gold.fields.get("evidence", ())):
            return "the gold set has no evidence"
        return HitTexts.of(judged).lacks

    def score(self, judged: Judged) -> Floats:
        limit = self.limit(judged)
        found = Covering.of(judged, self.threshold).within(limit)
        with np.errstate(divide="ignore", invalid="ignore"):
            values = self.compute(found, limit)
        return np.where((found.evidences > 0) & HitTexts.of(judged).known(limit), values, np.nan)

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        """One value a query; whatever it gives for a query without evidence is not looked at."""
        raise NotImplementedError


class Coverage(EvidenceMetric, frozen=True, kw_only=True):
    """Share of a query's evidences that some chunk in the top k covers, averaged over queries.

    A chunk covers an evidence when one contains the other, or when they are alike: `difflib`'s ratio reaches the
    threshold (0.7, or `--fuzzy-threshold`). Both are lower-cased and white space is collapsed. Evidences that are equal
    then count once. Undefined for a query without evidence or without an answer, and where no hit in the top k has a
    text.

    >>> import karat
    >>> run = [{"query_id": "q", "topk": [{"chunk_id": "a", "text": "Refunds take\\nfive days."}]}]
    >>> gold = [{"query_id": "q", "evidence": ["refunds take five days", "cards ship in two weeks"]}]
    >>> karat.evaluate(run, gold, ["coverage@3"]).means
    {'coverage@3': 0.5}
    """

    name = "coverage"
    cutoff = "required"
    aliases = {"perquerycoverage": "coverage", "per_query_coverage": "coverage"}

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        return found.covered / found.evidences


class EvidenceRecall(Coverage, frozen=True, kw_only=True):
    """Share of all evidences of all queries that some chunk in the top k of their query covers (micro).

    Every evidence counts once, so a query with many counts for more; `coverage` counts every query once.

    >>> import karat
    >>> run = {"q": [], "r": [{"chunk_id": "a", "text": "cards ship in two weeks"}]}
    >>> run = [{"query_id": query, "topk": hits} for query, hits in run.items()]
    >>> gold = {"q": ["five days", "by card", "in cash"], "r": ["Cards ship"]}
    >>> gold = [{"query_id": query, "evidence": texts} for query, texts in gold.items()]
    >>> karat.evaluate(run, gold, ["evidence_recall@3", "coverage@3"]).means
    {'evidence_recall@3': 0.25, 'coverage@3': 0.5}
    """

    name = "evidence_recall"
    aliases = {"evidencerecall": "evidence_recall"}

    def votes(self, judged: Judged) -> Floats:
        return Covering.of(judged, self.threshold).evidences.astype(np.float64)


class FullCoverage(EvidenceMetric, frozen=True, kw_only=True):
    """1 when chunks in the top k cover every evidence of the query, else 0.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "text": "refunds take five days"}, {"chunk_id": "b", "text": "paid by card"}]
    >>> gold = [{"query_id": "q", "evidence": ["five days", "by card"]}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["full_coverage@1", "full_coverage@2"]).means
    {'full_coverage@1': 0.0, 'full_coverage@2': 1.0}
    """

    name = "full_coverage"
    cutoff = "required"
    aliases = {"fullcoverage": "full_coverage", "fullcoveragerate": "full_coverage"}

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        return np.equal(found.covered, found.evidences).astype(np.float64)


class EvidenceHit(EvidenceMetric, frozen=True, kw_only=True):
    """1 when at least one chunk in the top k covers an evidence, else 0.

    `HitRate@10`, in one word, is this metric; `hit_rate@10` and `hit@10` go by ids.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "text": "nothing of use"}, {"chunk_id": "b", "text": "refunds take five days"}]
    >>> gold = [{"query_id": "q", "evidence": ["five days", "by card"]}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["evidence_hit@1", "HitRate@10"]).means
    {'evidence_hit@1': 0.0, 'evidence_hit@10': 1.0}
    """

    name = "evidence_hit"
    cutoff = "required"
    aliases = {"hitrate": "evidence_hit", "evidence_hit_rate": "evidence_hit"}

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        return (found.covered > 0).astype(np.float64)


class EvidencePrecision(EvidenceMetric, frozen=True, kw_only=True):
    """Share of the top k that covers an evidence.

    Always divides by k. Every chunk that covers an evidence counts, also one that covers what was covered before.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "text": "refunds take five days"}, {"chunk_id": "b", "text": "in five days"}]
    >>> gold = [{"query_id": "q", "evidence": ["five days"]}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["evidence_precision@4"]).means
    {'evidence_precision@4': 0.5}
    """

    name = "evidence_precision"
    cutoff = "required"

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        places = np.unique(np.column_stack([found.query, found.rank]), axis=0)
        return np.bincount(places[:, 0], minlength=len(limit)) / np.maximum(limit, 1)  # no hit may fit into a budget


class EvidenceReciprocalRank(EvidenceMetric, frozen=True, kw_only=True):
    """1 / rank of the first chunk that covers an evidence, 0 where there is none (in the top k, if k is given).

    >>> import karat
    >>> hits = [{"chunk_id": "a", "text": "nothing of use"}, {"chunk_id": "b", "text": "refunds take five days"}]
    >>> gold = [{"query_id": "q", "evidence": ["five days", "by card"]}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["evidence_mrr", "evidence_mrr@1"]).means
    {'evidence_mrr': 0.5, 'evidence_mrr@1': 0.0}
    """

    name = "evidence_mrr"
    cutoff = "optional"
    aliases = {"evidence_rr": "evidence_mrr"}

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        first = np.full(len(limit), INFINITE)
        np.minimum.at(first, found.query, found.rank)
        return np.where(first < INFINITE, 1.0 / first, 0.0)


class EvidenceAveragePrecision(EvidenceMetric, frozen=True, kw_only=True):
    """Sum of the precision at the rank at which each evidence is first covered, divided by all evidences.

    For the precision a chunk is relevant when it covers an evidence that no chunk above it covers: repeats gain
    nothing. A chunk that covers several evidences at once is one relevant chunk, and brings all of them.

    >>> import karat
    >>> texts = ["refunds take five days", "nothing of use", "refunds take five days.", "cards ship in two weeks"]
    >>> hits = [{"chunk_id": str(i), "text": text} for i, text in enumerate(texts)]
    >>> gold = [{"query_id": "q", "evidence": ["refunds take five days", "ship in two weeks"]}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["evidence_map", "evidence_map@3"]).means
    {'evidence_map': 0.75, 'evidence_map@3': 0.5}
    """

    name = "evidence_map"
    cutoff = "optional"
    aliases = {"evidence_ap": "evidence_map"}

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        covered = found.first < INFINITE
        query, rank = found.query_of_evidence[covered], found.first[covered]
        places, at = np.unique(np.column_stack([query, rank]), axis=0, return_inverse=True)
        so_far = np.arange(len(places)) - np.searchsorted(places[:, 0], places[:, 0]) + 1
        precision = so_far / places[:, 1]
        return np.bincount(query, precision[at.reshape(-1)], len(limit)) / found.evidences
