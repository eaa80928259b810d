"""GOLD: what should have been found, query by query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.bulk import Bulk
from karat.data.ids import (
    Bools,
    DocRule,
    Floats,
    Hashes,
    Ints,
    Packed,
    as_list,
    equal,
    first_equal,
    hashes,
    keys,
    rows_of,
)
from karat.data.packed_ids import Shape, hash_texts, pack, pieces
from karat.data.score_order import best_first
from karat.errors import InputError

if TYPE_CHECKING:
    from karat.data.equal_items import EqualItems
    from karat.data.passages.passage import Located, Passage
    from karat.data.versions import Version
    from karat.statistics.rank_overlap import Rankings

Kinds: TypeAlias = np.ndarray[Shape, np.dtype[np.int8]]
# Kinds of gold ids.
BARE, CHUNK, DOC = 0, 1, 2
FORBIDDEN = "forbidden"  # field of a query: ids that it must not get
SIGNAL = "outside_quality"  # field of a query: what its users said
HOPS = "hops"  # field of a query: lists of ids, of each of which one is needed
_FEW = 1000  # grades


class Dataset(msgspec.Struct):
    """Which data the numbers describe."""

    version: str | None = None
    as_of_range: list[str] | None = None
    hash: str | None = None
    name: str | None = None


class Gold(Bulk, frozen=True):
    """Query i owns items offsets[i] … offsets[i+1]; everything else has one value per query."""

    queries: list[str]
    offsets: Ints
    items: list[str] | Packed  # their ids
    grades: Floats
    kinds: Kinds  # BARE, CHUNK or DOC, one per item
    k: Ints  # the query's own cutoff, 0 = none
    no_answer: Ints  # 1 where the query is known to have no answer
    fields: dict[str, list[Any]] = {}  # query, answer, evidence, negatives, as_of …
    tags: dict[str, list[Any]] = {}  # language, topic …: the attributes of segments
    dataset: Dataset = msgspec.field(default_factory=Dataset)
    label: str = "gold"
    audit: Audit = msgspec.field(default_factory=Audit)
    lines: Sequence[int | None] = ()  # of each query in its file
    passages: list[Passage | None] = []  # of each item; empty where no item has one
    located: Located | None = None  # the passages in the chunks of one run
    in_corpus: Ints | None = None  # how many items of the corpus each item is; None: unknown
    ungraded: Bools | None = None  # items of lists without grades, which count as 1; None: no item
    by_people: Bools | None = None  # items that human labels added to the gold set; None: no item
    made_of: Literal["labels", "run", "queries"] = "labels"  # run: its first hits are relevant; queries: no labels
    depth: int | None = None  # how many hits of the run
    equals: EqualItems | None = None  # hits of the run that are as right as the last relevant ones
    reference: Rankings | None = None  # the first hits of a reference run, for each query
    run: Any = None  # the run that it was made of
    mixed: dict[str, str] = {}  # columns of a table that are no tags: a query with several values
    unclear: frozenset[str] | None = None  # ids that could be several of the run; None: ids are not normalized

    def __repr__(self) -> str:
        return f"Gold({self.label!r}, queries={len(self.queries)}, items={len(self.items)})"

    @cached_property
    def index(self) -> dict[str, int]:
        """Query → its position."""
        return dict(zip(self.queries, range(len(self.queries)), strict=True))

    @cached_property
    def ids(self) -> list[str]:
        return as_list(self.items)

    @cached_property
    def packed(self) -> Packed:
        return pack(self.items) if isinstance(self.items, list) else self.items

    @cached_property
    def hashed(self) -> Hashes:
        """A hash of each item's id, as of packed ids."""
        return hashes(self.packed)

    @cached_property
    def query_hashes(self) -> Hashes:
        """A hash of each query, the same in every process."""
        return hash_texts(self.queries)

    def say_query_hashes(self, hashed: Hashes) -> None:
        """Say them, where a reader knows them already."""
        self.__dict__["query_hashes"] = hashed

    @cached_property
    def has_cutoffs(self) -> bool:
        """Whether a query has its own cutoff."""
        return self.largest_k > 0

    @cached_property
    def largest_k(self) -> int:
        """The largest cutoff of a query, 0 where none has one."""
        return int(self.k.max(initial=0))

    @cached_property
    def is_document(self) -> Bools:
        """Items that say that they are documents."""
        return np.asarray(self.kinds == DOC)

    @cached_property
    def best_first(self) -> Floats:
        """The grades, the highest first in each query."""
        return best_first(self.grades, self.offsets)

    @cached_property
    def levels(self) -> tuple[Floats, Ints]:
        """The different grades in order, and of each item which of them it has."""
        with np.errstate(invalid="ignore"):  # grades that are too large
            whole = self.grades.astype(np.int64)
        if len(whole) and whole.min() >= 0 and whole.max() < _FEW and (whole == self.grades).all():
            found = np.bincount(whole) > 0
            return np.flatnonzero(found).astype(np.float64), (np.cumsum(found) - 1)[whole]  # ten times as fast
        return np.unique(self.grades, return_inverse=True)

    @cached_property
    def query_of_item(self) -> Ints:
        return np.repeat(np.arange(len(self.queries)), np.diff(self.offsets))

    def counted(self, in_corpus: Ints) -> Gold:
        """The same gold set, with how many items of a corpus each item is; derived data is kept."""
        same = replace(self, in_corpus=in_corpus)
        vars(same).update(vars(self))
        return same

    def text(self, i: int) -> str | None:
        value = self.fields["query"][i] if "query" in self.fields else None
        return None if value is None else str(value)

    @cached_property
    def has_as_of(self) -> bool:
        """Whether a query has an `as_of`."""
        return any(self.as_of)

    @cached_property
    def as_of(self) -> list[Version | None]:
        """The time or version of each query's `as_of`, None where none is given."""
        values = self.fields.get("as_of") or self.tags.get("as_of")
        if values is None:
            return [None] * len(self.queries)
        from karat.data.versions import EXPECTED, Version, is_said

        found = [Version.read(value) if is_said(value) else None for value in values]
        for query, value, version in zip(self.queries, values, found, strict=True):
            if version is None and is_said(value):
                what, expected = "not a time or version", EXPECTED
                raise InputError(
                    what, code="bad-value", file=self.label, field="as_of", query=query, expected=expected, got=value
                )
        return found

    def names_document(self, rule: DocRule) -> Bools:
        """Which items a chunk of a document may match: those that say so, and bare ids that no chunk has."""
        cache: dict[str, Bools] = self.__dict__.setdefault("_names_document", {})
        if rule.rule not in cache:
            named = self.kinds == DOC
            bare = self.kinds == BARE
            if bare.any():
                named |= bare & ~np.concatenate([rule.chunks(some) for some in pieces(self.items)])
            if self.located is not None:
                named &= ~self.located.settled
            cache[rule.rule] = named
        return cache[rule.rule]

    def docs(self, rule: DocRule) -> Packed:
        """The document of each item by its id."""
        cache: dict[str, Packed] = self.__dict__.setdefault("_docs", {})
        if rule.rule not in cache:
            docs = rule.docs(self.packed)
            assert isinstance(docs, np.ndarray)
            cache[rule.rule] = docs
        return cache[rule.rule]

    def documents(self, rule: DocRule, known: Mapping[str, str] | None = None) -> Gold:
        """The same gold by document: a document is as relevant as its best chunk. `known`: for chunks whose id does not
        contain it."""
        names = self._document_names(rule, known or {})
        first = self._same_names(names)
        kept = np.flatnonzero(first == np.arange(len(first)))
        offsets, grades = self.offsets, self.grades
        if len(kept) < len(first):
            best = grades.copy()
            again = np.flatnonzero(first != np.arange(len(first)))
            np.maximum.at(best, first[again], grades[again])
            offsets = np.searchsorted(kept, offsets)
            names, grades = names[kept], best[kept]
        return replace(
            self,
            offsets=offsets,
            items=names,
            grades=grades,
            kinds=np.full(len(kept), DOC, np.int8),
            passages=[],
            located=None,
            in_corpus=None,
            ungraded=None,
            by_people=None,
            equals=None,
        )

    def _same_names(self, names: Packed) -> Ints:
        """For every item, the first item of its query with the same name."""
        query = self.query_of_item
        first = first_equal(keys(hashes(names), query))
        again = np.flatnonzero(first != np.arange(len(names)))
        if equal(names[again], names[first[again]]).all() and (query[again] == query[first[again]]).all():
            return first
        numbers: dict[tuple[int, bytes], int] = {}  # two names have one hash
        pairs = zip(query.tolist(), names.tolist(), strict=True)
        return np.array([numbers.setdefault(pair, row) for row, pair in enumerate(pairs)], np.int64)

    def _document_names(self, rule: DocRule, known: Mapping[str, str]) -> Packed:
        """The document of each item."""
        names, docs = self.packed, self.docs(rule)
        if known:
            docs = pack([known.get(n) or d for n, d in zip(self.ids, as_list(docs), strict=True)])
        whole = self.kinds == DOC
        return np.where(whole, names, docs) if whole.any() else docs

    def with_items(self, rows: Ints) -> Gold:
        """The same gold with only these items, which must be in order; passages must be located again."""
        counts = np.bincount(self.query_of_item[rows], minlength=len(self.queries))
        kept = rows.tolist()
        return replace(
            self,
            offsets=np.append(0, np.cumsum(counts)),
            items=[self.ids[i] for i in kept],
            grades=self.grades[rows],
            kinds=self.kinds[rows],
            passages=[self.passages[i] for i in kept] if self.passages else [],
            located=None,
            in_corpus=None,
            ungraded=None if self.ungraded is None else self.ungraded[rows],
            by_people=None if self.by_people is None else self.by_people[rows],
            equals=self.equals if len(rows) == len(self.grades) else None,
        )

    def items_of(self, queries: Ints) -> Ints:
        """Rows of the items of the given queries, query by query."""
        return rows_of(self.offsets, queries)

    def count_items(self, which: Bools) -> Ints:
        """How many items of each query are among `which`."""
        return np.diff(np.append(0, np.cumsum(which))[self.offsets])
