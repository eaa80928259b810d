"""Whether evidence was found, by text instead of id, and whether the answer appears."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.ids import Bools, Floats, Ints, take_list
from karat.matching.cover import Cover, Rule, TooLong, cover, normalise
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import INFINITE, CutoffUse, Metric

LOOKED = "evidence_covered"  # a fact of each query that analyses request: see `Covering.looked`


def _copy(judged: Judged) -> Judged:
    """A copy, so that cached objects do not refer back to the queries: garbage collection is off while a run is read,
    so cycles would keep every slice in memory."""
    return replace(judged)


class HitTexts:
    """The texts of the hits of some queries, each prepared for matching once."""

    def __init__(self, judged: Judged) -> None:
        self._judged = judged = _copy(judged)
        self._texts = [] if judged.hits is None else judged.hits.columns.get("text", [])
        self._plain: dict[str, str] = {}

    @classmethod
    def of(cls, judged: Judged) -> HitTexts:
        found: HitTexts = judged.__dict__.setdefault("_hit_texts", cls(judged))
        return found

    def plain(self, row: int) -> str | None:
        """The normalised text of a hit; None where the run has none."""
        text = self._texts[row] if self._texts else None
        if text is None:
            return None
        known = self._plain.get(text)
        if known is None:
            known = self._plain[text] = normalise(text)
        return known

    @cached_property
    def there(self) -> Bools:
        """Which hits have a text."""
        hits = int(self._judged.depth.sum())
        return np.fromiter((t is not None for t in self._texts or [None] * hits), np.bool_, hits)

    def known(self, limit: Ints) -> Bools:
        """Queries that can be scored: a hit in the top has a text, or there is no hit at all."""
        judged = self._judged
        if judged.hits is None:
            return np.ones(judged.n, np.bool_)
        query, rows = judged.top(limit)
        known: Bools = (judged.depth == 0) | (np.bincount(query[self.there[rows]], minlength=judged.n) > 0)
        return known

    @property
    def lacks(self) -> str | None:
        return None if self.there.any() else "the hits have no text; add --corpus, or log the text"


class CoveredEvidence(msgspec.Struct, frozen=True):
    """A hit that covers an evidence, and why."""

    query_id: str
    evidence: int  # position among the query's evidences, from 0
    rank: int
    chunk_id: str
    rule: Rule
    ratio: float | None = None  # difflib's, where it was computed


class Looked(NamedTuple):
    """What was found for one query."""

    covered: list[CoveredEvidence]
    hits: int = 0  # number checked
    without_text: int = 0
    too_long: int = 0  # pairs of texts that were too long to compare letter by letter
    longest: int = 0  # characters of the longest text


class Coverings(msgspec.Struct, frozen=True, dict=True):
    """What covers what in the top of each query, in columns: one entry per pair of evidence and covering hit."""

    evidences: Ints  # how many each query has
    query: Ints
    rank: Ints
    evidence: Ints  # numbered over all queries

    @cached_property
    def query_of_evidence(self) -> Ints:
        return np.repeat(np.arange(len(self.evidences)), self.evidences)

    @cached_property
    def first(self) -> Ints:
        """Rank of the first hit that covers each evidence, INFINITE where none does."""
        first = np.full(len(self.query_of_evidence), INFINITE)
        np.minimum.at(first, self.evidence, self.rank)
        return first

    @cached_property
    def covered(self) -> Ints:
        """How many evidences of each query are covered."""
        return np.bincount(self.query_of_evidence[self.first < INFINITE], minlength=len(self.evidences))


class _Pair(NamedTuple):
    query: int
    rank: int
    evidence: int  # which of the query's, from 0
    row: int  # of the hits
    cover: Cover


class Covering:
    """Which hits of some queries cover which of their evidences. Asking for more hits checks only the new ones."""

    def __init__(self, judged: Judged, threshold: float) -> None:
        self._judged, self._threshold, self._texts = _copy(judged), threshold, HitTexts.of(judged)
        column = judged.gold.fields.get("evidence")
        self._wanted: list[list[str]] = [[] for _ in range(judged.n)]
        if column is not None:
            for place, row in enumerate(judged.queries.tolist()):
                if not judged.gold.no_answer[row]:
                    self._wanted[place] = [normalise(text) for text in column[row] or ()]
        self.evidences: Ints = np.fromiter(map(len, self._wanted), np.int64, judged.n)
        self._before = np.cumsum(self.evidences) - self.evidences
        self._looked = np.zeros(judged.n, np.int64)
        self._pairs: list[_Pair] = []
        self._too_long: Counter[int] = Counter()

    @classmethod
    def of(cls, judged: Judged, threshold: float | None = None) -> Covering:
        """The instance for these queries, with their own threshold unless another is given."""
        asked = judged.fuzzy_threshold if threshold is None else threshold
        known: dict[float, Covering] = judged.__dict__.setdefault("_covering", {})
        if asked not in known:
            known[asked] = cls(judged, asked)
        return known[asked]

    def within(self, limit: Ints) -> Coverings:
        """What the first hits of each query cover."""
        self._look(limit)
        columns = np.array([pair[:3] for pair in self._pairs], np.int64).reshape(-1, 3)
        query, rank, evidence = columns[columns[:, 1] <= limit[columns[:, 0]]].T
        return Coverings(self.evidences, query, rank, self._before[query] + evidence)

    def _look(self, limit: Ints) -> None:
        judged = self._judged
        end = np.where(self.evidences > 0, np.minimum(judged.depth, limit), 0)
        if judged.hits is None or (end <= self._looked).all():
            return
        query, rows = judged.top(end)
        rank = np.arange(len(query)) - np.searchsorted(query, query) + 1
        fresh = rank > self._looked[query]
        for place in zip(query[fresh].tolist(), rank[fresh].tolist(), rows[fresh].tolist(), strict=True):
            self._pairs += self._covered_by(*place)
        self._looked = np.maximum(self._looked, end)

    def _covered_by(self, query: int, rank: int, row: int) -> Iterator[_Pair]:
        chunk = self._texts.plain(row)
        if not chunk:
            return
        for at, evidence in enumerate(self._wanted[query]):
            try:
                found = cover(evidence, chunk, self._threshold)
            except TooLong:
                self._too_long[query] += 1
                continue
            if found is not None:
                yield _Pair(query, rank, at, row, found)

    def looked(self) -> list[Looked]:
        """Everything found so far, query by query, best hits first."""
        judged, count = self._judged, self._judged.n
        if judged.hits is None:
            return []
        covered: list[list[CoveredEvidence]] = [[] for _ in range(count)]
        ids = take_list(judged.hits.ids, np.array([pair.row for pair in self._pairs], np.int64))
        for pair, chunk_id in sorted(zip(self._pairs, ids, strict=True)):
            query_id = judged.gold.queries[judged.queries[pair.query]]
            why = pair.cover.rule, pair.cover.ratio
            covered[pair.query].append(CoveredEvidence(query_id, pair.evidence, pair.rank, chunk_id, *why))
        without, longest = [0] * count, [0] * count
        for query, row in zip(*(a.tolist() for a in judged.top(self._looked)), strict=True):
            text = self._texts.plain(row)
            without[query] += text is None
            longest[query] = max(longest[query], len(text or ""))
        too_long = [self._too_long[query] for query in range(count)]
        return list(map(Looked, covered, self._looked.tolist(), without, too_long, longest))


class EvidenceMetric(Metric, frozen=True, kw_only=True):
    """A metric of texts that should be found: 0 for a query that the run lacks, undefined for one without evidence."""

    uses_hits = True
    needs: ClassVar[frozenset[str]] = frozenset({"text"})

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
        """One value per query; values of queries without evidence are ignored."""
        raise NotImplementedError


class Coverage(EvidenceMetric, frozen=True, kw_only=True):
    """Share of a query's evidence texts that some chunk in the top k covers.

    Every query counts once. A chunk covers an evidence text if one contains the other, or if they are similar:
    `difflib`'s ratio reaches the threshold (0.7, or `--fuzzy-threshold`). Case and white space do not matter. Equal
    evidence texts count once. Undefined for a query without evidence or without an answer, and if no hit in the top k
    has a text.

    >>> import karat
    >>> run = [{"query_id": "q", "topk": [{"chunk_id": "a", "text": "Refunds take\\nfive days."}]}]
    >>> gold = [{"query_id": "q", "evidence": ["refunds take five days", "cards ship in two weeks"]}]
    >>> karat.evaluate(run, gold, ["coverage@3"]).means
    {'coverage@3': 0.5}
    """

    name = "coverage"
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {"perquerycoverage": "coverage", "per_query_coverage": "coverage"}

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        return found.covered / found.evidences


class EvidenceRecall(Coverage, frozen=True, kw_only=True):
    """Share of all evidence texts, over all queries, that some chunk in the top k of their query covers.

    Every evidence text counts once, so queries with many of them weigh more. In `coverage`, every query counts once.

    >>> import karat
    >>> run = {"q": [], "r": [{"chunk_id": "a", "text": "cards ship in two weeks"}]}
    >>> run = [{"query_id": query, "topk": hits} for query, hits in run.items()]
    >>> gold = {"q": ["five days", "by card", "in cash"], "r": ["Cards ship"]}
    >>> gold = [{"query_id": query, "evidence": texts} for query, texts in gold.items()]
    >>> karat.evaluate(run, gold, ["evidence_recall@3", "coverage@3"]).means
    {'evidence_recall@3': 0.25, 'coverage@3': 0.5}
    """

    name = "evidence_recall"
    aliases: ClassVar[dict[str, str]] = {"evidencerecall": "evidence_recall"}

    def votes(self, judged: Judged) -> Floats:
        return Covering.of(judged, self.threshold).evidences.astype(np.float64)


class FullCoverage(EvidenceMetric, frozen=True, kw_only=True):
    """1 if chunks in the top k cover every evidence text of the query, else 0.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "text": "refunds take five days"}, {"chunk_id": "b", "text": "paid by card"}]
    >>> gold = [{"query_id": "q", "evidence": ["five days", "by card"]}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["full_coverage@1", "full_coverage@2"]).means
    {'full_coverage@1': 0.0, 'full_coverage@2': 1.0}
    """

    name = "full_coverage"
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {"fullcoverage": "full_coverage", "fullcoveragerate": "full_coverage"}

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        return np.equal(found.covered, found.evidences).astype(np.float64)


class EvidenceHit(EvidenceMetric, frozen=True, kw_only=True):
    """1 if at least one chunk in the top k covers an evidence text, else 0.

    `hit@10` compares ids instead, and so do its other names `hit_rate@10` and `HitRate@10`.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "text": "nothing of use"}, {"chunk_id": "b", "text": "refunds take five days"}]
    >>> gold = [{"query_id": "q", "evidence": ["five days", "by card"]}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["evidence_hit@1", "evidence_hit@10"]).means
    {'evidence_hit@1': 0.0, 'evidence_hit@10': 1.0}
    """

    name = "evidence_hit"
    cutoff: ClassVar[CutoffUse] = "required"
    aliases: ClassVar[dict[str, str]] = {"evidence_hit_rate": "evidence_hit", "evidencehitrate": "evidence_hit"}

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        return (found.covered > 0).astype(np.float64)


class EvidencePrecision(EvidenceMetric, frozen=True, kw_only=True):
    """Share of the top k that covers an evidence text.

    Always divides by k. Every chunk that covers an evidence text counts, even if a chunk above covers the same text.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "text": "refunds take five days"}, {"chunk_id": "b", "text": "in five days"}]
    >>> gold = [{"query_id": "q", "evidence": ["five days"]}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["evidence_precision@4"]).means
    {'evidence_precision@4': 0.5}
    """

    name = "evidence_precision"
    cutoff: ClassVar[CutoffUse] = "required"

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        places = np.unique(np.column_stack([found.query, found.rank]), axis=0)
        return np.bincount(places[:, 0], minlength=len(limit)) / np.maximum(limit, 1)  # no hit may fit into a budget


class EvidenceReciprocalRank(EvidenceMetric, frozen=True, kw_only=True):
    """1 / rank of the first chunk that covers an evidence text, or 0 if there is none (in the top k, if k is given).

    >>> import karat
    >>> hits = [{"chunk_id": "a", "text": "nothing of use"}, {"chunk_id": "b", "text": "refunds take five days"}]
    >>> gold = [{"query_id": "q", "evidence": ["five days", "by card"]}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["evidence_mrr", "evidence_mrr@1"]).means
    {'evidence_mrr': 0.5, 'evidence_mrr@1': 0.0}
    """

    name = "evidence_mrr"
    is_share = False
    cutoff: ClassVar[CutoffUse] = "optional"
    aliases: ClassVar[dict[str, str]] = {"evidence_rr": "evidence_mrr"}

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        first = np.full(len(limit), INFINITE)
        np.minimum.at(first, found.query, found.rank)
        return np.where(first < INFINITE, 1.0 / first, 0.0)


class EvidenceAveragePrecision(EvidenceMetric, frozen=True, kw_only=True):
    """Sum of the precision at the rank where each evidence text is first covered, divided by all evidence texts.

    For the precision, a chunk is relevant if it covers an evidence text that no chunk above it covers: repeats add
    nothing. A chunk that covers several evidence texts is one relevant chunk, and counts for all of them.

    >>> import karat
    >>> texts = ["refunds take five days", "nothing of use", "refunds take five days.", "cards ship in two weeks"]
    >>> hits = [{"chunk_id": str(i), "text": text} for i, text in enumerate(texts)]
    >>> gold = [{"query_id": "q", "evidence": ["refunds take five days", "ship in two weeks"]}]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, ["evidence_map", "evidence_map@3"]).means
    {'evidence_map': 0.75, 'evidence_map@3': 0.5}
    """

    name = "evidence_map"
    cutoff: ClassVar[CutoffUse] = "optional"
    aliases: ClassVar[dict[str, str]] = {"evidence_ap": "evidence_map"}

    def compute(self, found: Coverings, limit: Ints) -> Floats:
        covered = found.first < INFINITE
        query, rank = found.query_of_evidence[covered], found.first[covered]
        places, at = np.unique(np.column_stack([query, rank]), axis=0, return_inverse=True)
        so_far = np.arange(len(places)) - np.searchsorted(places[:, 0], places[:, 0]) + 1
        precision = so_far / places[:, 1]
        return np.bincount(query, precision[at.reshape(-1)], len(limit)) / found.evidences


class AnswerContainment(Metric, frozen=True, kw_only=True):
    """1 if the text of one of the top k hits contains the answer, else 0.

    The answer is the query's `answer_span`, or its `answer` if it has no span. It must occur word for word; case and
    white space do not matter. A long `answer` rarely does, so a span of a few words works better. 0 for a query that
    is missing from the run. Undefined if the query has neither field or no answer, and if no hit in the top k has a
    text.

    >>> import karat
    >>> hits = [{"chunk_id": "a", "text": "by card or in cash"}, {"chunk_id": "b", "text": "Within 90\\nDays."}]
    >>> gold = [{"query_id": "q", "answer_span": "90 days", "answer": "You have 90 days."}]
    >>> asked = ["answer_containment@1", "answer_containment@2"]
    >>> karat.evaluate([{"query_id": "q", "topk": hits}], gold, asked).means
    {'answer_containment@1': 0.0, 'answer_containment@2': 1.0}
    """

    name = "answer_containment"
    cutoff: ClassVar[CutoffUse] = "required"
    uses_hits = True
    needs: ClassVar[frozenset[str]] = frozenset({"text"})
    aliases: ClassVar[dict[str, str]] = {
        "answer-containment": "answer_containment",
        "containment": "answer_containment",
    }

    def lacks(self, judged: Judged) -> str | None:
        if not any(_answers(judged)):
            return "the gold set has neither answer_span nor answer"
        return HitTexts.of(judged).lacks

    def score(self, judged: Judged) -> Floats:
        limit, texts, answers = self.limit(judged), HitTexts.of(judged), _answers(judged)
        found = np.zeros(judged.n)
        if judged.hits is not None:
            for query, row in zip(*(a.tolist() for a in judged.top(limit)), strict=True):
                if not found[query] and answers[query]:
                    found[query] = answers[query] in (texts.plain(row) or "")
        there = np.fromiter(map(bool, answers), np.bool_, judged.n)
        return np.where(there & texts.known(limit), found, np.nan)


def _answers(judged: Judged) -> list[str]:
    """The text that must appear for each query; "" where there is none."""
    gold = judged.gold
    columns = [gold.fields[name] for name in ("answer_span", "answer") if name in gold.fields]
    said = ((normalise(column[row] or "") for column in columns) for row in judged.queries.tolist())
    answers = [next(filter(None, texts), "") for texts in said]
    return [
        "" if without else answer
        for answer, without in zip(answers, gold.no_answer[judged.queries].tolist(), strict=True)
    ]
