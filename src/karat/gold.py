"""GOLD: what should have been found, query by query."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from karat.audit import Audit
from karat.errors import InputError, is_whole
from karat.ids import Bools, DocRule, Floats, Ints, Packed, as_list, has_repeats, hashes, keys, pack, take_list

# How a gold id says what it names.
BARE, CHUNK, DOC = 0, 1, 2


class Dataset(msgspec.Struct):
    """Which data the numbers speak of."""

    version: str | None = None
    as_of_range: list[str] | None = None
    hash: str | None = None
    name: str | None = None


@dataclass(frozen=True)
class Gold:
    """Query i owns items offsets[i] … offsets[i+1]; everything else is one value a query."""

    queries: list[str]
    index: dict[str, int]  # query → its place
    offsets: Ints
    items: list[str] | Packed  # their ids
    grades: Floats
    kinds: Ints  # BARE, CHUNK or DOC, one an item
    k: Ints  # cutoff of the query's own, 0 = none
    no_answer: Ints  # 1 where the query is known to have no answer
    fields: dict[str, list[Any]] = field(default_factory=dict)  # query, answer, evidence, negatives, as_of …
    tags: dict[str, list[Any]] = field(default_factory=dict)  # language, topic …: the attributes of segments
    dataset: Dataset = field(default_factory=Dataset)
    label: str = "gold"
    audit: Audit = field(default_factory=Audit)

    @cached_property
    def ids(self) -> list[str]:
        return as_list(self.items)

    @cached_property
    def packed(self) -> Packed:
        return pack(self.items) if isinstance(self.items, list) else self.items

    @cached_property
    def query_of_item(self) -> Ints:
        return np.repeat(np.arange(len(self.queries)), np.diff(self.offsets))

    def text(self, i: int) -> str | None:
        value = self.fields["query"][i] if "query" in self.fields else None
        return None if value is None else str(value)

    def names_document(self, rule: DocRule) -> Bools:
        """Which items a chunk of a document may match: those that say so, and bare ids that are no chunk's."""
        cache: dict[str, Bools] = self.__dict__.setdefault("_names_document", {})
        if rule.rule not in cache:
            named = self.kinds == DOC
            bare = np.flatnonzero(self.kinds == BARE)
            if len(bare):
                named[bare] = ~rule.chunks(self.ids if len(bare) == len(named) else take_list(self.ids, bare))
            cache[rule.rule] = named
        return cache[rule.rule]

    def documents(self, rule: DocRule) -> Gold:
        """The same gold by document: a document is as relevant as its best chunk."""
        names = [
            item if kind == DOC else rule.doc(item) for item, kind in zip(self.ids, self.kinds.tolist(), strict=True)
        ]
        best: dict[tuple[int, str], float] = {}
        for query, name, grade in zip(self.query_of_item.tolist(), names, self.grades.tolist(), strict=True):
            best[query, name] = max(grade, best.get((query, name), grade))
        counts = np.bincount(np.array([q for q, _ in best], np.int64), minlength=len(self.queries))
        return replace(
            self,
            offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            items=[name for _, name in best],
            grades=np.array(list(best.values()), np.float64),
            kinds=np.full(len(best), DOC, np.int64),
        )

    def items_of(self, queries: Ints) -> Ints:
        """Rows of the items of the given queries, query by query."""
        starts, ends = self.offsets[queries], self.offsets[queries + 1]
        counts = ends - starts
        first = np.repeat(starts - (np.cumsum(counts) - counts), counts)
        return first + np.arange(counts.sum())


@dataclass
class GoldBuilder:
    """Collects entries one by one and turns them into columns, with the checks that every format shares."""

    label: str
    queries: list[str] = field(default_factory=list)
    lines: list[int | None] = field(default_factory=list)
    # Lists, or arrays from a reader that has all entries at once.
    counts: Any = field(default_factory=list)
    ids: Any = field(default_factory=list)
    grades: Any = field(default_factory=list)
    kinds: Any = field(default_factory=list)
    k: Any = field(default_factory=list)
    no_answer: Any = field(default_factory=list)
    fields: dict[str, list[Any]] = field(default_factory=dict)
    tags: dict[str, list[Any]] = field(default_factory=dict)

    def add(
        self,
        query: str,
        ids: list[str],
        grades: list[float],
        kind: int = BARE,
        *,
        line: int | None = None,
        k: int = 0,
        no_answer: bool = False,
    ) -> None:
        self.queries.append(query)
        self.lines.append(line)
        self.counts.append(len(ids))
        self.ids += ids
        self.grades += grades
        self.kinds += [kind] * len(ids)
        self.k.append(k)
        self.no_answer.append(no_answer)

    def say(self, name: str, value: Any, *, tag: bool = False) -> None:
        """Something said of the query that was added last."""
        self.say_all(name, len(self.queries) - 1, [value], tag=tag)

    def say_all(self, name: str, start: int, values: list[Any], *, tag: bool = False) -> None:
        """Something said of the queries from `start` on."""
        column = (self.tags if tag else self.fields).setdefault(name, [])
        column += [None] * (start - len(column))
        column += values

    def build(self, dataset: Dataset) -> Gold:
        if not self.queries:
            raise InputError("no query in the gold set", file=self.label, hint="it needs at least one entry")
        index = dict(zip(self.queries, range(len(self.queries)), strict=True))
        if len(index) < len(self.queries):
            raise self._repeated_query()
        self._refuse_half_characters()
        audit = Audit()
        ids, grades, kinds, counts = self._items(audit)
        for column in (*self.fields.values(), *self.tags.values()):
            column += [None] * (len(self.queries) - len(column))
        no_answer = np.array(self.no_answer, np.int64)
        without_answer = (self.queries[i] for i in np.flatnonzero(no_answer).tolist())
        audit.count("no_answer_queries", int(no_answer.sum()), without_answer)
        return Gold(
            queries=self.queries,
            index=index,
            offsets=np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)]),
            items=ids,
            grades=grades,
            kinds=kinds,
            k=np.array(self.k, np.int64),
            no_answer=no_answer,
            fields=self.fields,
            tags=self.tags,
            dataset=dataset,
            label=self.label,
            audit=audit,
        )

    def _repeated_query(self) -> InputError:
        first: dict[str, int] = {}
        at = next(i for i, query in enumerate(self.queries) if first.setdefault(query, i) != i)
        earlier = self.lines[first[self.queries[at]]]
        return InputError(
            "this query is in the gold set already" + (f" (line {earlier})" if earlier else ""),
            file=self.label,
            line=self.lines[at],
            query=self.queries[at],
            hint="merge the two entries, or give one another query_id",
        )

    def _refuse_half_characters(self) -> None:
        for name, texts in (("query_id", self.queries), ("gold", self.ids)):
            if isinstance(texts, np.ndarray):
                continue  # bytes of UTF-8 hold whole characters only
            if not is_whole("".join(texts)):
                half = next(text for text in texts if not is_whole(text))
                raise InputError("half a character", file=self.label, field=name, expected="text", got=half)

    def _items(self, audit: Audit) -> tuple[list[str] | Packed, Floats, Ints, Ints]:
        grades, kinds = np.array(self.grades, np.float64), np.array(self.kinds, np.int64)
        counts = np.array(self.counts, np.int64)
        query = np.repeat(np.arange(len(counts)), counts)
        keep = np.ones(len(grades), np.bool_)
        if not np.isfinite(grades).all():
            bad = int(np.flatnonzero(~np.isfinite(grades))[0])
            raise self._item_error(query[bad], f"grade of {self._id(bad)!r}", "a finite number", grades[bad])
        if (grades < 0).any():
            keep &= grades >= 0
            audit.count("negative_grades", int((~keep).sum()), map(self._id, np.flatnonzero(~keep)[:3]))
        if has_repeats(keys(hashes(self.ids), query)):
            keep &= self._first_of_repeats(query, grades, audit)
        if keep.all():
            return self.ids, grades, kinds, counts
        rows = np.flatnonzero(keep)
        counts = np.bincount(query[rows], minlength=len(counts))
        ids = self.ids[rows] if isinstance(self.ids, np.ndarray) else take_list(self.ids, rows)
        return ids, grades[rows], kinds[rows], counts

    def _id(self, row: Any) -> str:
        return take_list(self.ids, np.array([row]))[0]

    def _first_of_repeats(self, query: Ints, grades: Floats, audit: Audit) -> Any:
        keep = np.ones(len(grades), np.bool_)
        seen: dict[tuple[int, str, int], float] = {}
        ids = as_list(self.ids)
        for i, (q, item, kind) in enumerate(zip(query.tolist(), ids, self.kinds, strict=True)):
            before = seen.setdefault((q, item, kind), float(grades[i]))
            if before != grades[i]:
                raise self._item_error(q, f"grade of {item!r}", f"one grade ({before:g} stands before)", grades[i])
        seen.clear()
        for i, (q, item, kind) in enumerate(zip(query.tolist(), ids, self.kinds, strict=True)):
            keep[i] = (q, item, kind) not in seen
            seen[(q, item, kind)] = 0.0
        audit.count("duplicate_gold", int((~keep).sum()), map(self._id, np.flatnonzero(~keep)[:3]))
        return keep

    def _item_error(self, query: int, field: str, expected: str, got: float) -> InputError:
        return InputError(
            "gold item refused",
            file=self.label,
            line=self.lines[query],
            field=field,
            query=self.queries[query],
            expected=expected,
            got=float(got),
        )
