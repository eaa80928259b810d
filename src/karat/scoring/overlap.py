"""Overlap between run and gold set: which queries the run lacks, and whether both use the same ids."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.bulk import Bulk
from karat.data.gold import Gold
from karat.data.hits import Hits
from karat.data.ids import (
    Bools,
    DocRule,
    Hashes,
    HashTable,
    Ids,
    Ints,
    Keys,
    MarkedNames,
    Packed,
    as_list,
    equal,
    first_equal,
    hashes,
    like,
    take,
)
from karat.data.packed_ids import pack
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric, Relevance

# Metrics that only look at what was found, so that empty places change nothing.
_WITHOUT_PLACES = {
    "recall",
    "wrecall",
    "hit",
    "miss",
    "mrr",
    "complete",
    "evidence_recall",
    "evidence_hit",
    "evidence_mrr",
}


def count_missing(gold: Gold, missing: Ints, audit: Audit, code: str = "missing_queries") -> None:
    """Queries that the run lacks; those without an answer are counted separately, since they cannot fail."""
    lost = gold.no_answer[missing] == 0
    for kind, rows in ((code, missing[lost]), ("missing_no_answer", missing[~lost])):
        audit.count(kind, len(rows), (gold.queries[i] for i in rows[:3]))


def count_short_lists(metrics: Iterable[Metric], judged: Judged, audit: Audit) -> None:
    """Lists with hits, but fewer than a metric's cutoff."""
    limits = [metric.limit(judged) for metric in metrics if metric.counts_empty_places]
    if limits:
        short = np.flatnonzero((judged.depth > 0) & (judged.depth < np.max(limits, axis=0)))
        audit.count("short_lists", len(short), (judged.gold.queries[i] for i in judged.queries[short[:3]]))


def count_beyond(metrics: Iterable[Metric], longest: int, audit: Audit) -> None:
    """Metrics with a cutoff beyond the longest list."""
    beyond = [m for m in metrics if isinstance(m, Relevance) and m.k is not None and m.k > longest > 0]
    same = {m: f"{m} equals {msgspec.structs.replace(m, k=longest)}" for m in beyond if m.name in _WITHOUT_PLACES}
    audit.count("beyond_lists", len(beyond), (same.get(m, f"{m}: no list has more than {longest}") for m in beyond))


class ThereFlags(Bulk, frozen=True):
    """For each relevant gold item, what of it was found."""

    ids: Bools  # a hit, or a chunk of the corpus, has this id
    names: Bools  # a document has this id
    documents: Bools  # its document is there


class ReturnedNames:
    """Which names of the gold set were returned, for any query."""

    def __init__(self, gold: Gold, rule: DocRule) -> None:
        self._rule, self._relevant = rule, gold.grades > 0
        self._place = np.cumsum(self._relevant) - 1  # of an item among the relevant ones
        names, hashed, documents = gold.packed, gold.hashed, documents_of(gold, rule)
        if not self._relevant.all():
            rows = np.flatnonzero(self._relevant)
            names, hashed = names[rows], hashed[rows]
        self._whole = equal(names, documents)  # items that name a document
        self._ids, self._documents = _Wanted(names, hashed), _Wanted(documents)
        self._chunks = names[~self._whole]

    @cached_property
    def _named_as_documents(self) -> _Wanted:
        """Chunks, but a log may use this field for documents."""
        return _Wanted(self._chunks)

    def look(self, hits: Hits, judged: Judged) -> None:
        """`judged`: the same hits; items that matched there by id are skipped."""
        self._note(judged)
        self._ids.look(hits.ids, hits.hashed)
        if hits.docs is not None:
            self._documents.look(hits.docs)
            self._named_as_documents.look(hits.docs)
        if not self._documents.left:
            return
        if self._rule.any_chunk(hits.ids, hits.written):
            self._documents.look(hits.ids, hits.doc_hashes(self._rule), self._rule)
        elif self._whole.all():
            self._documents.same_as(self._ids)
        else:
            self._documents.look(hits.ids, hits.hashed)

    def _note(self, judged: Judged) -> None:
        if judged.hit_item is None or judged.by_document is not None:
            return
        places = self._place[judged.hit_item[self._relevant[judged.hit_item]]]
        self._ids.note(places)
        self._documents.note(places)

    def taken(self) -> tuple[Ints, Ints, Ints]:
        """What was found since the last call: numbers of names, the same in every process."""
        looked = "_named_as_documents" in self.__dict__
        named = self._named_as_documents.taken() if looked else np.zeros(0, np.int64)
        return self._ids.taken(), self._documents.taken(), named

    def flags(self, ids: Ints, documents: Ints, named_as_documents: Ints) -> ThereFlags:
        """The result for everything taken."""
        there = self._documents.flags(documents)
        names = there & self._whole
        names[~self._whole] = len(named_as_documents) > 0 and self._named_as_documents.flags(named_as_documents)
        return ThereFlags(self._ids.flags(ids), names, there)


def documents_of(gold: Gold, rule: DocRule) -> Packed:
    """The document of each relevant item, from its passage or its id."""
    relevant = np.flatnonzero(gold.grades > 0)
    found = gold.docs(rule)
    found = found if len(relevant) == len(found) else found[relevant]
    if not gold.passages:
        return found
    passages = [gold.passages[item] for item in relevant.tolist()]
    told = [doc if p is None or p.doc is None else p.doc for p, doc in zip(passages, as_list(found), strict=True)]
    return pack(told)


class _NameTable(Bulk, frozen=True):
    names: Ids
    hashes: HashTable
    numbers: Ints  # of the names among all that are wanted


class _Wanted:
    """Names that are searched until they are found, by hash and then confirmed as text."""

    def __init__(self, names: Packed, hashed: Hashes | None = None) -> None:
        """`hashed`: the hashes of the names, where they are known."""
        self._names, self._hashed = names, hashes(names) if hashed is None else hashed
        self._first = first_equal(self._hashed)  # of names that are alike; the same in every process
        self._found = self._first != np.arange(len(names))  # only the first is searched
        self._told = self._found.copy()
        self._tables: dict[type, _NameTable] = {}

    @property
    def left(self) -> int:
        """How many names were not found so far."""
        return len(self._found) - int(np.count_nonzero(self._found))

    def same_as(self, other: _Wanted) -> None:
        """For the same names."""
        self._found |= other._found

    def look(self, ids: Ids, hashed: Hashes | None = None, rule: DocRule | None = None) -> None:
        """`hashed`: the hashes of the ids, where they are known. With a rule, for the documents of the ids."""
        ids = ids.listed if isinstance(ids, Keys) else ids
        if not len(ids) or not self.left:
            return
        kind = type(ids)
        if kind not in self._tables or 2 * self.left < len(self._tables[kind].numbers):
            self._tables[kind] = self._table(ids)
        table = self._tables[kind]
        hashed = hashes(ids) if hashed is None else hashed
        if isinstance(ids, np.ndarray) and isinstance(table.names, np.ndarray):
            byte, named = None if rule is None else rule.byte, MarkedNames(table.names, table.numbers)
            if (rule is None or byte is not None) and table.hashes.mark(hashed, ids, byte, named, self._found):
                return
        rows, at = table.hashes.find(hashed)
        found = take(ids, rows)
        same = equal(found if rule is None else rule.docs(found), take(table.names, at))
        self._found[table.numbers[at[same]]] = True

    def _table(self, like_ids: Ids) -> _NameTable:
        """The names that were not found so far: the fewer there are, the less is searched."""
        numbers = np.flatnonzero(~self._found)
        names = self._names[numbers]
        if isinstance(like_ids, np.ndarray):
            return _NameTable(names, HashTable(self._hashed[numbers]), numbers)
        kept = like(like_ids, as_list(names))
        return _NameTable(kept, HashTable(hashes(kept)), numbers)

    def note(self, places: Ints) -> None:
        """Names that were found, by their position among those that were given."""
        self._found[self._first[places]] = True

    def taken(self) -> Ints:
        fresh = np.flatnonzero(self._found > self._told)
        self._told[fresh] = True
        return fresh

    def flags(self, numbers: Ints) -> Bools:
        found = np.zeros(len(self._names), np.bool_)
        found[numbers] = True
        flagged: Bools = found[self._first]
        return flagged


def relevant_items(gold: Gold) -> list[int]:
    """Rows of the relevant gold items."""
    rows: list[int] = np.flatnonzero(gold.grades > 0).tolist()
    return rows
