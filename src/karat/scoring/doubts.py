"""Checks whether scores can be trusted: do run and gold set use the same ids, are high scores good, and are
hits in ranking order.

Evidence for each is collected during the pass, slice by slice, and judged at the end.
"""

from __future__ import annotations

import re
from collections import Counter
from math import lgamma, log
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from karat.data.gold import Gold
from karat.data.hits import DISTANCE, Hits
from karat.data.id_forms import can_be_loose
from karat.data.ids import DocRule
from karat.scoring.judged import Rules
from karat.scoring.metrics.base import Metric
from karat.scoring.name_watch import KEPT, LOOKED, NearPair, SeenNames, relevant_names
from karat.scoring.ranking import listed_only, score_decides, score_slopes, sorted_by_id
from karat.scoring.views import level_of

if TYPE_CHECKING:
    from karat.data.audit import Audit
    from karat.data.corpus import Corpus

# A retriever that finds something for a quarter of the queries finds nothing for 17 of them in 0.75 % of cases.
_HIT_RATE, _CHANCE = 0.25, 0.01
_FORMS = 5  # number of ids from which their form is known
_SAME_PREFIX = 3  # pairs from which a common prefix is not an accident
_MOST, _FEW = 0.5, 0.05  # shares of ids that a corpus knows
_RISING = 0.95
MOST_MISSING = 0.1  # share of queries that may fail, be missing or have misspelled ids before scores say little
Why = Literal["kinds", "near", "corpus-gold", "corpus-run", "forms", "chance", "queries"]
How = Literal["written", "prefix"]


class SeenScores(msgspec.Struct):
    """What decides the order of the lists, and whether it looks like a ranking."""

    rising: int = 0  # queries whose scores only rise, where only scores decide the order
    others: int = 0
    chance: float = 0.0  # log probability that randomly ordered lists would all rise
    distances: int = 0  # queries ordered by a field that is named like a distance
    field: str | None = None  # its name
    listed: int = 0  # queries in list order, whose hits have such a field and no score
    listed_falls: bool = False  # and it does not rise down the lists
    filled: int = 0  # queries with hits
    rows: int = 0  # queries from rows of a table with neither rank nor score
    scattered: int = 0  # those whose rows are not adjacent
    by_id: int = 0  # those that are sorted by id, among the checked ones
    unsorted: int = 0
    by_id_chance: float = 0.0  # log probability that randomly ordered rows would all be sorted

    def add(self, other: SeenScores) -> None:
        for name in self.__struct_fields__:
            if name not in ("field", "listed_falls"):
                setattr(self, name, getattr(self, name) + getattr(other, name))
        self.field = self.field or other.field
        self.listed_falls |= other.listed_falls


class IdMismatch(msgspec.Struct, frozen=True):
    """No hit is a relevant gold item, for any query."""

    sure: bool  # False: too little evidence that the ids differ; the run may just be bad
    why: Why
    run_id: str
    gold_id: str
    queries: int
    documents: bool = False  # document ids match: only the chunks differ
    corpus: bool = False  # a corpus was checked


class NearIds(msgspec.Struct, frozen=True):
    """Gold items that were not found although a hit has the same id in another spelling, or with another prefix."""

    count: int  # an estimate if only some queries were searched
    how: How
    examples: list[NearPair]
    prefix: str | None = None
    share: float = 0.0  # of the queries with relevant gold that have such an item; 0 where only a prefix differs
    document_share: float = 0.0  # the same for document ids
    searched: int | None = None  # queries that count and share are estimated from; None: all
    normalized: bool = False  # --normalize-ids is used, and keeps these ids apart


class RisingScores(msgspec.Struct, frozen=True):
    """Scores increase down the lists, or are named like distances: the lists may be upside down."""

    queries: int
    of: int
    field: str | None = None  # the file's name for scores, where that is the evidence
    listed: bool = False  # the field is not read as a score: the order of the lists counts


class RowOrder(msgspec.Struct, frozen=True):
    """Hits are rows of a table with neither rank nor score."""

    queries: int
    of: int
    why: Literal["rows", "by-id", "scattered"] = "rows"

    @property
    def sure(self) -> bool:
        """Whether the evidence shows that rows are not in ranking order."""
        return self.why != "rows"


class Doubts(msgspec.Struct, frozen=True):
    """Why scores of a result may say nothing about its retriever. Saved with the result."""

    ids: IdMismatch | None = None
    near: NearIds | None = None
    scores: RisingScores | None = None
    order: RowOrder | None = None

    def __bool__(self) -> bool:
        """Whether there is a reason to distrust the scores. Rows without rank and score are only a note."""
        return any((self.ids, self.near, self.scores, self.order and self.order.sure))

    def about(self, metric: Metric, most: float = MOST_MISSING) -> Literal["ids", "near", "scores", "order"] | None:
        """The reason why a metric is meaningless, if any. `most`: the share of queries that may have misspelled ids."""
        differ = self.ids is not None and self.ids.sure and (level_of(metric) == "chunk" or not self.ids.documents)
        if differ and "ids" in metric.rests_on:
            return "ids"
        if self.near is not None and "ids" in metric.rests_on:
            near = self.near.share if level_of(metric) == "chunk" else self.near.document_share
            if near > most:
                return "near"
        if "order" not in metric.rests_on:
            return None
        if self.order is not None and self.order.sure:
            return "order"
        return "scores" if self.scores is not None else None


def judge_doubts(
    names: SeenNames, scores: SeenScores, gold: Gold, rules: Rules, corpus: Corpus | None, audit: Audit
) -> Doubts:
    """The conclusions from the evidence of a whole run; also counted in the audit."""
    rule = DocRule(rules.doc_of)
    near = _near(names, gold, rule, normalized=rules.normalize_ids)
    if near is not None:
        examples = (f"gold {pair.gold}, run {pair.run}" for pair in near.examples)
        audit.count("near_ids_apart" if near.normalized else "near_ids", near.count, examples)
        audit.count("near_ids_searched", near.searched or 0)
    doubts = order_doubts(scores, rules)
    rising, order = doubts.scores, doubts.order
    if rising is not None and not rising.listed:
        audit.count("rising_scores" if rising.field is None else "distance_scores", rising.queries)
    if rules.scores == "lower-is-better" and _mostly_rises(scores):
        audit.count("falling_distances", scores.rising)
    if scores.listed and not scores.listed_falls:
        audit.count("listed_distances", scores.listed)
    if order is not None and order.sure:
        audit.count("rows_by_id" if order.why == "by-id" else "rows_scattered", order.queries)
    mismatch = _mismatch(names, near, gold, rule, rules.corpus_size, corpus, audit)
    return Doubts(mismatch, near, rising, order)


def order_doubts(scores: SeenScores, rules: Rules) -> Doubts:
    """The conclusions about the order of the lists. What the user says about scores is not doubted."""
    return Doubts() if rules.scores is not None else Doubts(scores=_rising(scores), order=_row_order(scores))


def _near(names: SeenNames, gold: Gold, rule: DocRule, *, normalized: bool) -> NearIds | None:
    searched = names.searched if names.every > 1 else None
    if names.near > names.loose or (names.loose and can_be_loose(gold.ids, rule)):
        share, of_documents = (
            min(n * names.every / max(names.answerable, 1), 1.0) for n in (names.near_queries, names.near_documents)
        )
        count = names.near * names.every
        return NearIds(count, "written", names.pairs, None, share, of_documents, searched, normalized)
    name = max(names.prefixes, key=lambda one: (names.prefixes[one], one), default=None)
    if name is None or names.prefixes[name] < _SAME_PREFIX:
        return None
    count, pairs = names.prefixes[name] * names.every, [names.prefix_pairs[name]]
    return NearIds(count, "prefix", pairs, name, searched=searched, normalized=normalized)


def _rising(scores: SeenScores) -> RisingScores | None:
    """If nearly all lists rise and random lists would not, or if the scores are named like distances."""
    if scores.listed:
        return RisingScores(scores.listed, scores.filled, scores.field, listed=True) if scores.listed_falls else None
    if scores.field is not None:
        return RisingScores(scores.distances, scores.filled, scores.field)
    return RisingScores(scores.rising, scores.rising + scores.others) if _mostly_rises(scores) else None


def _mostly_rises(scores: SeenScores) -> bool:
    whole = scores.rising + scores.others
    return whole > 0 and scores.rising / whole >= _RISING and scores.chance <= log(0.001)


def _row_order(scores: SeenScores) -> RowOrder | None:
    """Unranked rows are common; rows sorted by id, or scattered, are never in order of relevance."""
    if not scores.rows:
        return None
    looked = scores.by_id + scores.unsorted
    if looked and scores.by_id / looked >= _RISING and scores.by_id_chance <= log(0.001):
        return RowOrder(scores.rows, scores.filled, "by-id")
    if scores.scattered:
        return RowOrder(scores.scattered, scores.filled, "scattered")
    return RowOrder(scores.rows, scores.filled)


def _mismatch(
    names: SeenNames,
    near: NearIds | None,
    gold: Gold,
    rule: DocRule,
    size: int | None,
    corpus: Corpus | None,
    audit: Audit,
) -> IdMismatch | None:
    if names.shared or names.first is None or not (gold.grades > 0).any():
        return None
    relevant = relevant_names(gold, rule)
    wanted, documents = relevant.all, relevant.documents
    ids = list(names.sample.values())
    # A worker may have seen only a part of the gold set.
    if not relevant.as_chunks.isdisjoint(ids) or (gold.passages and names.documents):
        return None
    first = next(item for item, grade in zip(gold.ids, gold.grades.tolist(), strict=True) if grade > 0)
    audit.count("no_shared_items", int((gold.grades > 0).sum()), (f"gold {first}", f"run {names.first}"))
    known = None if corpus is None or not len(corpus) else _in_corpus(ids, wanted, documents, corpus, rule)
    both = sorted(wanted.intersection(ids))  # documents of the gold set that are chunks of the run
    if known == "alike" and not both:
        return None
    why, sure = _why(names, near, wanted, ids, rule, size)
    if both:
        why, sure = "kinds", True
    elif known is not None and known != "alike":
        why, sure = known, True
    other = NearPair(both[0], both[0]) if both else NearPair(first, names.first)
    shown = near.examples[0] if near is not None and not both else other
    alike = names.documents and documents != wanted
    # Lone surrogates in ids of the run are valid in Python strings, but cannot be saved.
    run_id = shown.run.encode("utf-8", "replace").decode()
    return IdMismatch(sure, why, run_id, shown.gold, names.queries, alike, corpus is not None)


def _in_corpus(
    ids: list[str], wanted: set[str], documents: set[str], corpus: Corpus, rule: DocRule
) -> Literal["alike", "corpus-gold", "corpus-run"] | None:
    """Which side the corpus knows. If it knows both, they use the same ids and the run is just bad."""
    there = {*corpus.index, *corpus.documents(rule)}
    run, gold = (sum(item in there for item in some) / max(len(some), 1) for some in (ids, wanted))
    if run >= _MOST and gold >= _MOST:
        return "alike"
    if run >= _MOST and gold < _FEW:
        return "corpus-gold"
    return "corpus-run" if gold >= _MOST and run < _FEW else None


def _why(
    names: SeenNames, near: NearIds | None, wanted: set[str], ids: list[str], rule: DocRule, size: int | None
) -> tuple[Why, bool]:
    """The evidence for different ids, and whether it is enough."""
    if near is not None:
        return "near", True
    if _other_forms(wanted, ids, rule):
        return "forms", True
    different = _different(names.sample)
    if size and len(wanted) * log(max(1 - different / size, 1e-9)) < log(_CHANCE):
        return "chance", True  # random draws would have found one
    # One gold item for all queries is one trial. The same list for all queries is none: a query counts as far as it has
    # hits of its own, of which a quarter of a list is enough (in a small corpus all lists overlap).
    depth = names.hits / max(names.queries, 1)
    trials = min(names.queries, len(wanted), 4 * (different - depth) / max(depth, 1))
    return "queries", (1 - _HIT_RATE) ** trials < _CHANCE


def _different(sample: dict[int, str]) -> float:
    """How many different ids there are, estimated from those with the lowest hashes."""
    return len(sample) if len(sample) < KEPT else (KEPT - 1) * 2**32 / max(max(sample), 1)


def _other_forms(wanted: set[str], ids: list[str], rule: DocRule) -> bool:
    """Whether the ids of both sides are regular, but of different forms: `doc-9#p9` and `9`."""
    forms = [Counter(_form(item, rule) for item in some) for some in (wanted, ids)]
    if any(found.total() < _FORMS or len(found) > found.total() / 2 for found in forms):
        return False
    return forms[0].keys().isdisjoint(forms[1])


def _form(item: str, rule: DocRule) -> str:
    """The common form of ids: the kinds of their parts; for a chunk in its document, also the letters."""
    doc = rule.doc(item)
    rest = item[len(doc) :] if item.startswith(doc) else ""
    kinds = re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", re.sub(_UUID, "uuid", doc)))
    return kinds + re.sub(r"\d+", "9", rest)


_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"


def seen_order(hits: Hits, rules: Rules) -> SeenScores | None:
    """What there is to doubt about the order of lists as they were returned; None if the log or the user says it."""
    if rules.scores == "lower-is-better":
        return _slopes(hits.with_scores(rules.scores))
    return None if rules.scores is not None or hits.turned is not None else seen_scores(hits)


def _slopes(hits: Hits) -> SeenScores:
    rising, others, distinct = score_slopes(hits)
    return SeenScores(rising, others, -float(sum(lgamma(n + 1) for n in distinct)))


def seen_scores(hits: Hits) -> SeenScores:
    """Of lists as they were returned."""
    seen = _slopes(hits)
    seen.filled = int(np.count_nonzero(hits.counts))
    if hits.distance_field is not None:
        seen.listed, seen.listed_falls = int(listed_only(hits).sum()), not hits.distances_rise
        seen.field = hits.distance_field if seen.listed else None
    elif hits.score_field is not None and re.search(DISTANCE, hits.score_field):
        seen.distances = int(score_decides(hits).sum())
        seen.field = hits.score_field if seen.distances else None
    if hits.rowwise:
        bare = np.flatnonzero(listed_only(hits))
        seen.rows, seen.scattered = len(bare), len(bare) if hits.scattered else 0
        sizes, seen.unsorted = sorted_by_id(hits, bare[hits.counts[bare] > 1][:LOOKED])
        seen.by_id, seen.by_id_chance = len(sizes), sum(min(0.0, log(2) - lgamma(n + 1)) for n in sizes)
    return seen
