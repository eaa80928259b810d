"""Hits without a grade, as items with an open grade: what the scores could become once they are labelled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from karat.data.bulk import Bulk
from karat.data.gold import DOC, Gold
from karat.data.ids import Floats, Ints, take_list
from karat.scoring.judged import Judged, Rules, judge_missing
from karat.scoring.table import JudgedTable

FAR = 2**62  # the rank of items that are not in a list
_WHOLE_SCALE = 100  # up to this highest grade every whole number is possible, whether the gold uses it or not


class Lists(Bulk, frozen=True):
    """The whole lists of one system: judged and unjudged hits. Queries are rows of the gold set."""

    judged: Judged
    query: Ints  # of each unjudged hit
    rank: Ints
    names: list[str]  # the chunk, or its document where the gold of the query names documents


class PooledItems(Bulk, frozen=True):
    """Other items that were found for a query, from anything else in the pool."""

    query: Ints
    names: list[str]


class OpenPart(Bulk, frozen=True):
    """Hits without a grade of some queries, to the end of their lists."""

    query: Ints  # row of the gold set
    rank: Ints
    names: list[str]

    @classmethod
    def of(cls, judged: Judged) -> OpenPart:
        return cls(*_unjudged(judged, judged.gold))


def lists_of(table: JudgedTable, parts: Sequence[OpenPart], rules: Rules) -> Lists:
    """The lists of one system from the data of a pass."""
    none = np.zeros(0, np.int64)
    return Lists(
        replace(table.judged(np.arange(len(table.present)), rules), by_document=None, hit_item=None),
        np.concatenate([none, *(part.query for part in parts)]),
        np.concatenate([none, *(part.rank for part in parts)]),
        [name for part in parts for name in part.names],
    )


def no_lists(gold: Gold, rules: Rules) -> Lists:
    """The lists of a system that finds nothing, to compare a single system with."""
    none: Ints = np.zeros(0, np.int64)
    return Lists(judge_missing(gold, np.arange(len(gold.queries)), rules), none, none, [])


def _unjudged(judged: Judged, gold: Gold) -> tuple[Ints, Ints, list[str]]:
    """(row of the query, rank, name) of every hit that is not in the gold."""
    query, row = judged.top(FAR)
    first = np.cumsum(judged.depth) - judged.depth
    known = np.zeros(len(query), np.bool_)
    known[first[judged.hit_query] + judged.hit_rank - 1] = True
    at = np.flatnonzero(~known)
    return judged.queries[query[at]], at - first[query[at]] + 1, _names(judged, gold, query[at], row[at])


def _names(judged: Judged, gold: Gold, query: Ints, row: Ints) -> list[str]:
    """Where the gold of a query names documents, a label would be for a document, and its chunks are one item."""
    assert judged.hits is not None
    names = take_list(judged.hits.ids, row)
    items = np.flatnonzero(gold.names_document(judged.doc_rule))
    if not len(items):
        return names
    size = len(gold.queries)
    named = np.bincount(gold.query_of_item[items], minlength=size) > 0
    said = np.bincount(gold.query_of_item[items[gold.kinds[items] == DOC]], minlength=size) > 0
    if judged.by_document is not None:
        said[judged.queries[judged.by_document]] = True
    of = judged.queries[query]
    by_log, by_id = np.flatnonzero(named[of] & said[of]), np.flatnonzero(named[of] & ~said[of])
    for place, doc in zip(by_log.tolist(), judged.docs_of(row[by_log]), strict=True):
        names[place] = doc
    for place in by_id.tolist():
        names[place] = judged.doc_rule.doc(names[place])
    return names


class OpenLists(Bulk, frozen=True):
    """Two lists of every query with the items in them, or seen elsewhere, that have no grade yet.

    One assignment of grades counts for both. A single list is compared with one that found nothing.
    """

    first: Judged
    second: Judged
    query: Ints  # of each open item
    names: list[str]
    first_hits: tuple[Ints, Ints]  # (item, rank) of every open hit of the first list
    second_hits: tuple[Ints, Ints]
    levels: Floats  # grades that an item may get, ascending, 0 among them

    @property
    def swapped(self) -> OpenLists:
        return replace(
            self,
            first=self.second,
            second=self.first,
            first_hits=self.second_hits,
            second_hits=self.first_hits,
        )

    @cached_property
    def ranks(self) -> tuple[Ints, Ints]:
        """The rank of each open item in both lists, FAR where it is in neither."""
        found = []
        for item, rank in (self.first_hits, self.second_hits):
            best = np.full(len(self.query), FAR)
            np.minimum.at(best, item, rank)
            found.append(best)
        return found[0], found[1]

    def count(self, hits: tuple[Ints, Ints], limit: Ints) -> Ints:
        """How many hits of each open item are within the limit of its query."""
        item, rank = hits
        inside = rank <= limit[self.query[item]]
        return np.bincount(item[inside], minlength=len(self.query))

    def place(self, influence: Floats) -> tuple[Ints, Ints]:
        """(item, position among those of its query) by influence, lowest first."""
        known: dict[int, tuple[Floats, Ints, Ints]] = self.__dict__.setdefault("_placed", {})
        if id(influence) not in known:  # requested repeatedly, for one label, two labels …
            order = np.lexsort((influence, self.query))
            query = self.query[order]
            known[id(influence)] = influence, order, np.arange(len(query)) - np.searchsorted(query, query)
        return known[id(influence)][1:]

    def sum_lowest(self, influence: Floats, labels: int | None) -> Floats:
        """The total effect of the most harmful labels of each query."""
        if labels is not None:
            order, place = self.place(influence)
            influence = influence.copy()
            influence[order[place >= labels]] = 0
        return self.second.per_query(self.query, np.minimum(influence, 0))

    def lowest_one(self, influence: Floats, labels: int | None) -> Floats:
        """The effect of the single most harmful label of each query."""
        lowest = np.zeros(self.second.n)
        if labels != 0:
            np.fmin.at(lowest, self.query, influence)  # NaN: a query without a score
        return lowest


def open_lists(
    first: Lists, second: Lists, seen: Sequence[PooledItems] = (), grades: Sequence[float] = ()
) -> OpenLists:
    """`seen`: other items that were found and are not judged; `grades`: those of labels, in addition to the gold's."""
    index: dict[tuple[int, str], int] = {}
    everything: list[Lists | PooledItems] = [first, second, *seen]
    numbers = [
        np.array([index.setdefault(pair, len(index)) for pair in zip(found.query.tolist(), found.names, strict=True)])
        for found in everything
    ]
    return OpenLists(
        first=first.judged,
        second=second.judged,
        query=np.array([query for query, _ in index], np.int64),
        names=[name for _, name in index],
        first_hits=(numbers[0].astype(np.int64), first.rank),
        second_hits=(numbers[1].astype(np.int64), second.rank),
        levels=_levels(second.judged.gold, grades),
    )


def _levels(gold: Gold, extra: Sequence[float]) -> Floats:
    """Every grade that the gold or a labeller uses, and the whole numbers below the highest of them."""
    used = np.unique(np.concatenate([[0.0], gold.grades, np.asarray(extra, np.float64)]))
    if used[-1] > _WHOLE_SCALE:
        return used
    return np.unique(np.concatenate([used, np.arange(np.floor(used[-1]) + 1)]))
