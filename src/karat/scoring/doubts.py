"""Checks whether scores can be trusted: do run and gold set use the same ids, are high scores good, and are
hits in ranking order.

Evidence for each is collected during the pass, slice by slice, and judged at the end.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from math import lgamma, log
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.hits import Hits
from karat.data.ids import DocRule, as_list, take_list
from karat.data.normal_ids import normal_ids
from karat.scoring.judged import Judged, Rules
from karat.scoring.metrics.base import Metric
from karat.scoring.ranking import listed_only, score_decides, score_slopes, sorted_by_id
from karat.scoring.views import level_of

if TYPE_CHECKING:
    from karat.data.audit import Audit

_KEPT = 1024  # ids sampled from a run: those with the lowest hashes, whatever the order of slices
_DEEP = 100  # hits of a query that are searched for other spellings of ids
LOOKED = 300  # approximate number of queries that are searched
# A retriever that finds something for a quarter of the queries finds nothing for 17 of them in 0.75 % of cases.
_HIT_RATE, _CHANCE = 0.25, 0.01
_FORMS = 5  # number of ids from which their form is known
_SAME_PREFIX = 3  # pairs from which a common prefix is not an accident
_MOST, _FEW = 0.5, 0.05  # shares of ids that a corpus knows
_RISING = 0.95
_DISTANCE = re.compile(r"distance|(?<![a-z])(?:dist|l2)(?![a-z])", re.I)
_PATH = re.compile(r"[/\\\\:|]")
Why = Literal["near", "corpus-gold", "corpus-run", "forms", "chance", "queries"]
How = Literal["written", "prefix"]


class NearPair(msgspec.Struct, frozen=True):
    """A gold item that was not found, and a hit of its query with nearly the same id."""

    gold: str
    run: str


class SeenNames(msgspec.Struct):
    """What some slices of a run show about its ids; slices are added up."""

    shared: bool = False  # whether a relevant gold item is among the hits of any query
    documents: bool = False  # or one of their documents
    queries: int = 0  # with hits and relevant gold
    hits: int = 0  # of these queries
    first: str | None = None  # an id of the run
    sample: dict[int, str] = {}  # hash → id, of some of the different ids, while nothing is shared
    near: int = 0
    pairs: list[NearPair] = []
    prefixes: dict[str, int] = {}  # "run kb/" or "gold kb/" → pairs that differ only in this prefix
    prefix_pairs: dict[str, NearPair] = {}

    def add(self, other: SeenNames) -> None:
        self.shared |= other.shared
        self.documents |= other.documents
        self.queries += other.queries
        self.hits += other.hits
        self.first = self.first or other.first
        self.sample = lowest(self.sample | other.sample)
        self.near += other.near
        self.pairs = [*self.pairs, *other.pairs][:3]
        self.prefixes = dict(Counter(self.prefixes) + Counter(other.prefixes))
        self.prefix_pairs = other.prefix_pairs | self.prefix_pairs


class SeenScores(msgspec.Struct):
    """What decides the order of the lists, and whether it looks like a ranking."""

    rising: int = 0  # queries whose scores only rise, where only scores decide the order
    others: int = 0
    chance: float = 0.0  # log probability that randomly ordered lists would all rise
    distances: int = 0  # queries ordered by a field that is named like a distance
    field: str | None = None  # its name
    filled: int = 0  # queries with hits
    rows: int = 0  # queries from rows of a table with neither rank nor score
    scattered: int = 0  # those whose rows are not adjacent
    by_id: int = 0  # those that are sorted by id, among the checked ones
    unsorted: int = 0
    by_id_chance: float = 0.0  # log probability that randomly ordered rows would all be sorted

    def add(self, other: SeenScores) -> None:
        for name in self.__struct_fields__:
            if name != "field":
                setattr(self, name, getattr(self, name) + getattr(other, name))
        self.field = self.field or other.field


def lowest(sample: dict[int, str]) -> dict[int, str]:
    return sample if len(sample) <= _KEPT else {key: sample[key] for key in sorted(sample)[:_KEPT]}


class NameWatch:
    """Checks the ids of one system's hits. Cheap once a relevant item was found."""

    def __init__(self, gold: Gold, rule: DocRule, every: int = 1) -> None:
        """`every`: check one in this many queries for other spellings of ids."""
        self._gold, self._rule, self._every = gold, rule, every
        self._found = False
        self._wanted: set[str] = set()
        self._documents: set[str] = set()

    def look(self, judged: Judged, hits: Hits) -> SeenNames:
        """`hits`: as returned, since filtered hits have ids as well."""
        seen = SeenNames(shared=self._found)
        if hits.offsets[-1]:
            self._look_near(judged, seen)
        if self._found or not hits.offsets[-1]:
            return seen
        if (judged.hit_grade > 0).any():
            self._found = seen.shared = True
            return seen
        self._look_closely(judged, hits, seen)
        return seen

    def _look_closely(self, judged: Judged, hits: Hits, seen: SeenNames) -> None:
        if not self._wanted:
            self._wanted, self._documents = relevant_names(self._gold, self._rule)
        ids, said = as_list(hits.ids), None if hits.docs is None else as_list(hits.docs)
        docs = [self._rule.doc(item) for item in ids]
        docs = docs if said is None else [one or other for one, other in zip(said, docs, strict=True)]
        seen.documents = not self._documents.isdisjoint(docs)
        seen.shared = not (self._wanted.isdisjoint(ids) and self._wanted.isdisjoint(docs))
        self._found = seen.shared
        counts = judged.depth[judged.relevant(None) > 0]
        seen.queries, seen.hits = int((counts > 0).sum()), int(counts.sum())
        seen.first = ids[0]
        seen.sample = lowest({zlib.crc32(item.encode("utf-8", "replace")): item for item in set(ids)})

    def _look_near(self, judged: Judged, seen: SeenNames) -> None:
        """Gold items that were not found, while a hit of the same query has nearly the same id."""
        gold, hits = self._gold, judged.hits
        assert hits is not None
        items = gold.items_of(judged.queries)
        wanted = gold.grades[items] > 0
        if judged.hit_item is not None:
            wanted &= ~np.isin(items, judged.hit_item)
        sizes = gold.offsets[judged.queries + 1] - gold.offsets[judged.queries]
        owner = np.repeat(np.arange(judged.n), sizes)[wanted]
        items, starts = items[wanted], np.searchsorted(owner, np.arange(judged.n + 1))
        whole = _ListText.of(hits, slice(0, len(hits.ids))) if self._every == 1 else None
        for at in np.flatnonzero((np.diff(starts) > 0) & (judged.depth > 0)).tolist():
            name = gold.queries[judged.queries[at]]
            if self._every > 1 and zlib.crc32(name.encode("utf-8", "replace")) % self._every:
                continue
            rows = slice(int(hits.offsets[at]), int(min(hits.offsets[at + 1], hits.offsets[at] + _DEEP)))
            text = whole if self._every == 1 else _ListText.of(hits, rows)
            named = take_list(gold.items, items[starts[at] : starts[at + 1]])
            # Ids are checked one by one only if the end of a document's name occurs somewhere in the list.
            keys = dict(zip(named, normal_ids(named, self._rule), strict=True))
            likely = [item for item, key in keys.items() if text is None or text.has(self._end(key), rows)]
            self._compare(likely, keys, hits, rows, seen)

    def _compare(self, likely: list[str], keys: dict[str, str], hits: Hits, rows: slice, seen: SeenNames) -> None:
        if not likely:
            return
        ids = take_list(hits.ids, np.arange(rows.start, rows.stop))
        known = dict(zip(reversed(normal_ids(ids, self._rule)), reversed(ids), strict=True))
        for item in likely:
            key = keys[item]
            if key not in known:
                self._compare_ends(item, key, known, seen)
            elif known[key] != item:
                seen.near += 1
                seen.pairs = [*seen.pairs, NearPair(item, known[key])][:3]

    def _end(self, key: str) -> bytes:
        """The part that both ids share if they differ only in a prefix or an extension."""
        return _PATH.split(self._rule.doc(key))[-1].encode("utf-8", "replace")

    def _compare_ends(self, item: str, key: str, known: dict[str, str], seen: SeenNames) -> None:
        for other, hit in known.items():
            side, longer, shorter = ("run", other, key) if len(other) > len(key) else ("gold", key, other)
            if longer.endswith(shorter) and re.search(r"\W$|_$|[^\W\d_]$", longer[: -len(shorter)]):
                name = f"{side} {longer[: -len(shorter)]}"
                seen.prefixes[name] = seen.prefixes.get(name, 0) + 1
                seen.prefix_pairs.setdefault(name, NearPair(item, hit))


class _ListText:
    """The ids of a slice in lower case, concatenated, so that one search covers a whole list."""

    def __init__(self, text: bytes, first: int, width: int, ends: list[int]) -> None:
        self._text, self._first, self._width, self._ends = text, first, width, ends

    @classmethod
    def of(cls, hits: Hits, rows: slice) -> _ListText | None:
        """None where ids need a closer check: letters beyond ASCII, or white space."""
        if isinstance(hits.ids, np.ndarray):
            text, width, ends = hits.ids[rows].tobytes(), hits.ids.itemsize, list[int]()
        else:
            ids = take_list(hits.ids, np.arange(rows.start, rows.stop))
            text, width = "\0".join(ids).encode("utf-8", "replace"), 0
            ends = np.append(0, np.cumsum([len(item) + 1 for item in ids])).tolist()
        plain = text.isascii() and not any(space in text for space in (b" ", b"\t", b"\n", b"\r", b"\x0b", b"\x0c"))
        return cls(text.lower(), rows.start, width, ends) if plain else None

    def has(self, end: bytes, rows: slice) -> bool:
        at, stop = rows.start - self._first, rows.stop - self._first
        at, stop = (at * self._width, stop * self._width) if self._width else (self._ends[at], self._ends[stop])
        return self._text.find(end, at, stop) >= 0


def relevant_names(gold: Gold, rule: DocRule) -> tuple[set[str], set[str]]:
    """Ids of the relevant items and of their documents."""
    rows = np.flatnonzero(gold.grades > 0).tolist()
    ids = [gold.ids[row] for row in rows]
    passages = [gold.passages[row] for row in rows] if gold.passages else [None] * len(rows)
    pairs = zip(ids, passages, strict=True)
    return set(ids), {rule.doc(item) if p is None or p.doc is None else p.doc for item, p in pairs}


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

    count: int
    how: How
    examples: list[NearPair]
    prefix: str | None = None


class RisingScores(msgspec.Struct, frozen=True):
    """Scores increase down the lists, or are named like distances: the lists may be upside down."""

    queries: int
    of: int
    field: str | None = None  # the file's name for scores, where that is the evidence


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

    def about(self, metric: Metric) -> Literal["ids", "scores", "order"] | None:
        """The reason why a metric is meaningless, if any."""
        differ = self.ids is not None and self.ids.sure and (level_of(metric) == "chunk" or not self.ids.documents)
        if differ and "ids" in metric.rests_on:
            return "ids"
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
    near = _near(names)
    if near is not None:
        audit.count("near_ids", near.count, (f"gold {pair.gold}, run {pair.run}" for pair in near.examples))
    rising = _rising(scores) if rules.scores is None else None
    if rising is not None:
        audit.count("rising_scores" if rising.field is None else "distance_scores", rising.queries)
    order = _row_order(scores) if rules.scores is None else None
    if order is not None and order.sure:
        audit.count("rows_by_id" if order.why == "by-id" else "rows_scattered", order.queries)
    mismatch = _mismatch(names, near, gold, rule, rules.corpus_size, corpus, audit)
    return Doubts(mismatch, near, rising, order)


def _near(names: SeenNames) -> NearIds | None:
    if names.near:
        return NearIds(names.near, "written", names.pairs)
    name = max(names.prefixes, key=lambda one: (names.prefixes[one], one), default=None)
    if name is None or names.prefixes[name] < _SAME_PREFIX:
        return None
    return NearIds(names.prefixes[name], "prefix", [names.prefix_pairs[name]], name)


def _rising(scores: SeenScores) -> RisingScores | None:
    """If nearly all lists rise and random lists would not, or if the scores are named like distances."""
    if scores.field is not None:
        return RisingScores(scores.distances, scores.filled, scores.field)
    whole = scores.rising + scores.others
    if not whole or scores.rising / whole < _RISING or scores.chance > log(0.001):
        return None
    return RisingScores(scores.rising, whole)


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
    wanted, documents = relevant_names(gold, rule)
    ids = list(names.sample.values())
    # A worker may have seen only a part of the gold set.
    if not wanted.isdisjoint(ids) or (gold.passages and names.documents):
        return None
    first = next(item for item, grade in zip(gold.ids, gold.grades.tolist(), strict=True) if grade > 0)
    audit.count("no_shared_items", int((gold.grades > 0).sum()), (f"gold {first}", f"run {names.first}"))
    known = None if corpus is None or not len(corpus) else _in_corpus(ids, wanted, documents, corpus, rule)
    if known == "alike":
        return None
    why, sure = _why(names, near, wanted, ids, rule, size)
    if known is not None:
        why, sure = known, True
    shown = near.examples[0] if near is not None else NearPair(first, names.first)
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
    return len(sample) if len(sample) < _KEPT else (_KEPT - 1) * 2**32 / max(max(sample), 1)


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
    kinds = re.sub(r"\d+", "9", re.sub(r"[^\W\d_]+", "a", _UUID.sub("uuid", doc)))
    return kinds + re.sub(r"\d+", "9", rest)


_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def seen_scores(hits: Hits) -> SeenScores:
    """Of lists as they were returned."""
    rising, others, distinct = score_slopes(hits)
    seen = SeenScores(rising, others, -float(sum(lgamma(n + 1) for n in distinct)))
    seen.filled = int((np.diff(hits.offsets) > 0).sum())
    if hits.score_field is not None and _DISTANCE.search(hits.score_field):
        seen.distances = int(score_decides(hits).sum())
        seen.field = hits.score_field if seen.distances else None
    if hits.rowwise:
        bare = np.flatnonzero(listed_only(hits))
        seen.rows, seen.scattered = len(bare), len(bare) if hits.scattered else 0
        sizes, seen.unsorted = sorted_by_id(hits, bare[np.diff(hits.offsets)[bare] > 1][:LOOKED])
        seen.by_id, seen.by_id_chance = len(sizes), sum(min(0.0, log(2) - lgamma(n + 1)) for n in sizes)
    return seen
