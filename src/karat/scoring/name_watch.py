"""Watches the ids of a run while it is read: does any hit have an id of the gold set, or nearly one?

Evidence is collected slice by slice and added up. `judge_doubts` draws the conclusions.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from functools import cached_property

import msgspec
import numpy as np

from karat.data.gold import CHUNK, DOC, Gold
from karat.data.hits import Hits
from karat.data.id_forms import are_other_files, can_be_loose, loose_id, normal_ids
from karat.data.ids import Bools, DocRule, Ints, as_list, take_list
from karat.scoring.judged import Judged

KEPT = 1024  # ids sampled from a run: those with the lowest hashes, whatever the order of slices
_DEEP = 100  # hits of a query that are searched for other spellings of ids
LOOKED = 300  # approximate number of queries that are searched
_PATH = re.compile(r"[/\\\\:|]")


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
    answerable: int = 0  # queries with relevant gold
    every: int = 1  # one in this many queries was searched for other spellings
    searched: int = 0  # how many these were
    near: int = 0  # gold items of these queries that a hit of the query has in another spelling
    near_queries: int = 0  # those of these queries that have such items
    near_documents: int = 0  # those in which the document id is spelled differently, too
    pairs: list[NearPair] = []
    loose: int = 0  # of the near ones, those that also differ in `-`, `_` or white space
    prefixes: dict[str, int] = {}  # "run kb/" or "gold kb/" → pairs that differ only in this prefix
    prefix_pairs: dict[str, NearPair] = {}

    def add(self, other: SeenNames) -> None:
        self.shared |= other.shared
        self.documents |= other.documents
        self.queries += other.queries
        self.hits += other.hits
        self.first = self.first or other.first
        self.sample = lowest(self.sample | other.sample)
        self.every = max(self.every, other.every)
        for name in ("answerable", "searched", "near", "near_queries", "near_documents", "loose"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.pairs = [*self.pairs, *other.pairs][:3]
        if other.prefixes:
            self.prefixes = dict(Counter(self.prefixes) + Counter(other.prefixes))
            self.prefix_pairs = other.prefix_pairs | self.prefix_pairs


def lowest(sample: dict[int, str]) -> dict[int, str]:
    return sample if len(sample) <= KEPT else {key: sample[key] for key in sorted(sample)[:KEPT]}


class NameWatch:
    """Checks the ids of one system's hits. Cheap once a relevant item was found."""

    def __init__(self, gold: Gold, rule: DocRule, every: int = 1) -> None:
        """`every`: check one in this many queries for other spellings of ids."""
        self._gold, self._rule, self._every = gold, rule, every
        self._found = False
        self._wanted: RelevantNames | None = None

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
        wanted = self._wanted = self._wanted or relevant_names(self._gold, self._rule)
        ids, said = as_list(hits.ids), None if hits.docs is None else as_list(hits.docs)
        docs = [self._rule.doc(item) for item in ids]
        docs = docs if said is None else [one or other for one, other in zip(said, docs, strict=True)]
        seen.documents = not wanted.documents.isdisjoint(docs)
        seen.shared = not (wanted.as_chunks.isdisjoint(ids) and wanted.as_documents.isdisjoint(docs))
        self._found = seen.shared
        counts = judged.depth[judged.relevant(None) > 0]
        seen.queries, seen.hits = int((counts > 0).sum()), int(counts.sum())
        seen.first = ids[0]
        seen.sample = lowest({zlib.crc32(item.encode("utf-8", "replace")): item for item in set(ids)})

    def _look_near(self, judged: Judged, seen: SeenNames) -> None:
        """Gold items that were not found, while a hit of the same query has nearly the same id."""
        gold, hits = self._gold, judged.hits
        assert hits is not None
        seen.answerable = int((judged.relevant(None) > 0).sum())
        looked = self._sampled(np.flatnonzero(judged.depth > 0), judged)
        seen.searched, seen.every = len(looked), self._every
        queries = judged.queries[looked]
        items = gold.items_of(queries)
        wanted = gold.grades[items] > 0
        if judged.hit_item is not None and wanted.any():
            wanted &= ~np.isin(items, judged.hit_item)
        if not wanted.any():
            return
        owner = np.repeat(np.arange(len(queries)), gold.offsets[queries + 1] - gold.offsets[queries])[wanted]
        starts = np.searchsorted(owner, np.arange(len(queries) + 1))
        named = take_list(gold.items, items[wanted])
        keys = normal_ids(named, self._rule)
        ends = self._ends(keys)
        for nth in np.flatnonzero(np.diff(starts)).tolist():
            at, own = int(looked[nth]), range(starts[nth], starts[nth + 1])
            rows = slice(int(hits.offsets[at]), int(min(hits.offsets[at + 1], hits.offsets[at] + _DEEP)))
            text = _list_text(hits, rows)
            # Ids are checked one by one only if the end of a document's name occurs somewhere in the list.
            likely = {named[i]: keys[i] for i in own if text is None or ends[i] in text}
            self._compare(likely, hits, rows, seen)

    def _sampled(self, found: Ints, judged: Judged) -> Ints:
        """One in `every` queries, chosen by name: the same ones in every order and by every engine."""
        return found if self._every == 1 else found[self._chosen[judged.queries[found]]]

    @cached_property
    def _chosen(self) -> Bools:
        return np.asarray(self._gold.query_hashes % np.uint64(self._every) == 0)

    def _compare(self, likely: dict[str, str], hits: Hits, rows: slice, seen: SeenNames) -> None:
        """`likely`: ids of gold items, with their normal forms."""
        if not likely:
            return
        ids = take_list(hits.ids, np.arange(rows.start, rows.stop))
        known = dict(zip(reversed(normal_ids(ids, self._rule)), reversed(ids), strict=True))
        loose: dict[str, str] | None = None
        near: list[NearPair] = []
        for item, key in likely.items():
            if key in known:
                near += [NearPair(item, known[key])] if self._is_near(item, known[key]) else []
                continue
            if loose is None:
                loose = {loose_id(other, self._rule): other for other in ids} if can_be_loose(ids, self._rule) else {}
            other = loose.get(loose_id(item, self._rule))
            if other is None:
                self._compare_ends(item, key, known, seen)
            else:
                near.append(NearPair(item, other))
                seen.loose += 1
        if near:
            seen.near += len(near)
            seen.near_queries += 1
            by_document = any(self._rule.doc(pair.gold) != self._rule.doc(pair.run) for pair in near)
            seen.near_documents += by_document
            seen.pairs = [*seen.pairs, *near][:3]

    def _is_near(self, item: str, hit: str) -> bool:
        """Whether two ids with one normal form may be the same. If ids were normalized, they were kept apart: two files
        such as `x.pdf` and `x.docx` are different, unless it is unclear which of them the gold set means."""
        unclear = self._gold.unclear
        return hit != item and (unclear is None or item in unclear or not are_other_files(item, hit, self._rule))

    def _ends(self, keys: list[str]) -> list[bytes]:
        """The part of each that both ids share if they differ only in a prefix, a separator or an extension."""
        ends = [self._rule.doc(key) for key in keys]
        if _PATH.search("".join(ends)):
            ends = [_PATH.split(end)[-1] for end in ends]
        return [end.replace("-", "_").encode("utf-8", "replace") for end in ends]

    def _compare_ends(self, item: str, key: str, known: dict[str, str], seen: SeenNames) -> None:
        for other, hit in known.items():
            side, longer, shorter = ("run", other, key) if len(other) > len(key) else ("gold", key, other)
            if longer.endswith(shorter) and re.search(r"\W$|_$|[^\W\d_]$", longer[: -len(shorter)]):
                name = f"{side} {longer[: -len(shorter)]}"
                seen.prefixes[name] = seen.prefixes.get(name, 0) + 1
                seen.prefix_pairs.setdefault(name, NearPair(item, hit))


def _list_text(hits: Hits, rows: slice) -> bytes | None:
    """The ids of a list in lower case and with `_` for `-`, so that one search covers all; None where ids need a
    closer check: letters beyond ASCII, or white space."""
    if isinstance(hits.ids, np.ndarray):
        text = hits.ids[rows].tobytes()
    else:
        text = "\0".join(take_list(hits.ids, np.arange(rows.start, rows.stop))).encode("utf-8", "replace")
    plain = text.isascii() and not any(space in text for space in (b" ", b"\t", b"\n", b"\r", b"\x0b", b"\x0c"))
    return text.lower().replace(b"-", b"_") if plain else None


class RelevantNames(msgspec.Struct, frozen=True):
    """Ids of the relevant gold items."""

    all: set[str]
    as_chunks: set[str]  # those that a chunk may have: not of items that say that they are documents
    as_documents: set[str]  # those that a document may have: not of items that say that they are chunks
    documents: set[str]  # ids of their documents


def relevant_names(gold: Gold, rule: DocRule) -> RelevantNames:
    rows = np.flatnonzero(gold.grades > 0).tolist()
    ids, kinds = [gold.ids[row] for row in rows], gold.kinds[rows].tolist()
    passages = [gold.passages[row] for row in rows] if gold.passages else [None] * len(rows)
    named = list(zip(ids, kinds, passages, strict=True))
    return RelevantNames(
        all=set(ids),
        as_chunks={item for item, kind, passage in named if kind != DOC or passage is not None},
        as_documents={item for item, kind, passage in named if kind != CHUNK or passage is not None},
        documents={rule.doc(item) if p is None or p.doc is None else p.doc for item, _, p in named},
    )
