"""Entries of a gold set → columns, with the checks that every format shares."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.gold import BARE, DOC, FORBIDDEN, HOPS, Dataset, Gold, Kinds
from karat.data.ids import (
    Bools,
    Floats,
    Hashes,
    Ints,
    Packed,
    Seen,
    as_list,
    joined_ids,
    repeats_within,
    take_list,
)
from karat.data.packed_ids import first_empty, hash_texts, pack
from karat.data.variants import with_variants
from karat.errors import InputError, is_whole
from karat.files.native import native

if TYPE_CHECKING:
    from karat.data.passages.passage import Passage

_LARGE = 5000  # number of queries from which graded labels are worth their cost
_FIELDS = ("", ".chunk_id", ".doc_id")  # by the kind of an id
# Texts to be found, never tags, in any format.
_TEXTS = ("evidence", "answer", "answer_span")


class GoldBuilder(msgspec.Struct, eq=False):
    """Collects entries one by one and turns them into columns, with the checks that every format shares."""

    label: str
    queries: list[str] = []
    lines: Sequence[int | None] = ()
    # Lists, or arrays from a reader that has all entries at once.
    counts: Any = []
    ids: Any = []
    grades: Any = []
    kinds: Any = []
    ungraded: Any = []  # empty: every item was given a grade
    passages: list[Passage | None] = []  # as far as items have one
    k: Any = []  # empty: no query has one
    no_answer: Any = []  # empty: every query has an answer
    fields: dict[str, list[Any]] = {}
    tags: dict[str, list[Any]] = {}
    distinct: bool = False  # no query can occur twice, and no query names an item twice

    def add(
        self,
        query: str,
        ids: list[str],
        grades: list[float],
        *,
        line: int | None = None,
        k: int = 0,
        no_answer: bool = False,
        graded: bool = True,
    ) -> None:
        self.queries.append(query)
        self.add_lines([line])
        self.counts.append(len(ids))
        self.ids += ids
        self.grades += grades
        self.kinds += [BARE] * len(ids)
        self.ungraded += [not graded] * len(ids)
        self.k.append(k)
        self.no_answer.append(no_answer)

    def add_lines(self, lines: Sequence[int | None]) -> None:
        """Set the lines of the queries that were added last. Consecutive ones stay a range, which takes no memory."""
        if isinstance(lines, range) and (not self.lines or self._goes_on(lines)):
            self.lines = range(self.lines.start if isinstance(self.lines, range) else lines.start, lines.stop)
            return
        if not isinstance(self.lines, list):
            self.lines = list(self.lines)
        self.lines.extend(lines)

    def _goes_on(self, lines: range) -> bool:
        return isinstance(self.lines, range) and self.lines.stop == lines.start

    def say(self, name: str, value: Any, *, tag: bool = False) -> None:
        """Set a field of the query that was added last."""
        self.say_all(name, len(self.queries) - 1, [value], tag=tag)

    def say_all(self, name: str, start: int, values: list[Any], *, tag: bool = False) -> None:
        """Set a field of the queries from `start` on."""
        column = (self.tags if tag and name not in _TEXTS else self.fields).setdefault(name, [])
        column += [None] * (start - len(column))
        for at in range(start, min(len(column), start + len(values))):  # set before for these queries, or not set
            value = values[at - start]
            if column[at] is None:
                column[at] = value
            elif value is not None and value != column[at]:
                what, hint = "the query has this twice: as a field and in tags", "remove one of the two"
                raise self._error(at, what, code="contradiction", field=name, got=value, hint=hint)
        column += values[len(column) - start :]

    def build(self, dataset: Dataset) -> Gold:
        if not self.queries:
            raise InputError(
                "the gold set has no queries", code="no-queries", file=self.label, hint="it needs at least one entry"
            )
        hashed = self._refuse_repeated_queries()
        self._read_hops()
        self._read_forbidden()
        self._judge_negatives()
        self._refuse_half_characters()
        self._refuse_empty_ids()
        self._refuse_other_than_texts()
        audit = Audit()
        self._settle_evidence(audit)
        ids, grades, kinds, passages, counts, ungraded = self._items(audit)
        for column in (*self.fields.values(), *self.tags.values()):
            column += [None] * (len(self.queries) - len(column))
        self._count_unused_offsets(counts, passages, audit)
        none = [0] * len(self.queries)
        no_answer = np.array(self.no_answer if len(self.no_answer) else none, np.int64)
        audit.count("large_gold", len(self.queries) if len(self.queries) > _LARGE else 0)
        without_answer = (self.queries[i] for i in np.flatnonzero(no_answer).tolist())
        audit.count("no_answer_queries", int(no_answer.sum()), without_answer)
        gold = Gold(
            queries=self.queries,
            offsets=np.append(0, np.cumsum(counts)),
            items=ids,
            grades=grades,
            kinds=kinds,
            k=np.array(self.k if len(self.k) else none, np.int64),
            no_answer=no_answer,
            fields=self.fields,
            tags=self.tags,
            dataset=dataset,
            label=self.label,
            audit=audit,
            lines=self.lines,
            passages=passages,
            ungraded=ungraded if ungraded.any() else None,
        )
        if hashed is not None:
            gold.say_query_hashes(hashed)
        return with_variants(gold)

    def _error(self, at: int, what: str, **more: Any) -> InputError:
        """An error about query number `at`."""
        return InputError(what, file=self.label, line=self.lines[at], query=self.queries[at], **more)

    def _refuse_repeated_queries(self) -> Hashes | None:
        """Return the hashes of the queries, if they were made."""
        if self.distinct:
            return None
        hashed = None if native() is None else hash_texts(self.queries)
        again = Seen().add(self.queries) if hashed is None else Seen().add_hashes(hashed)
        if again and len(set(self.queries)) < len(self.queries):
            raise self._repeated_query()
        return hashed

    def _repeated_query(self) -> InputError:
        first: dict[str, int] = {}
        at = next(i for i, query in enumerate(self.queries) if first.setdefault(query, i) != i)
        earlier = self.lines[first[self.queries[at]]]
        what = "the gold set already has this query" + (f" (line {earlier})" if earlier else "")
        hint = "merge the two entries, or give one of them another query_id"
        return self._error(at, what, code="duplicate-query", hint=hint)

    def _judge_negatives(self) -> None:
        """Negatives are judged: they become items with grade 0, after the listed gold of their query."""
        column = self.fields.get("negatives")
        if column is None:
            return
        starts = np.append(0, np.cumsum(self.counts)).tolist()
        more, owners = list[str](), list[int]()
        for at, named in enumerate(column):
            if named is not None:
                column[at] = self._listed_ids(at, "negatives", named)
                fresh = self._not_graded(at, column[at], slice(*starts[at : at + 2]))
                more += fresh
                owners += [at] * len(fresh)
        self._append(more, owners, 0.0)

    def _append(self, more: list[str], owners: list[int], grade: float, *, graded: bool = True) -> None:
        """Add items after the listed gold of their queries."""
        if not more:
            return
        if not graded and not len(self.ungraded):
            self.ungraded = np.zeros(len(self.ids), np.bool_)
        owner = np.append(self._owners, owners)
        order = np.argsort(owner, kind="stable")
        if self.passages:
            passages = self.passages + [None] * (len(owner) - len(self.passages))
            self.passages = [passages[row] for row in order.tolist()]
        ids = joined_ids([self.ids, pack(more) if isinstance(self.ids, np.ndarray) else more])
        self.ids = ids[order] if isinstance(ids, np.ndarray) else take_list(ids, order)
        self.grades = np.append(np.asarray(self.grades, np.float64), np.full(len(more), grade))[order]
        self.kinds = np.append(np.asarray(self.kinds, np.int8), np.full(len(more), BARE, np.int8))[order]
        if len(self.ungraded):
            self.ungraded = np.append(np.asarray(self.ungraded, np.bool_), np.full(len(more), not graded))[order]
        self.counts = np.bincount(owner, minlength=len(self.queries))

    def _read_hops(self) -> None:
        """The ids of hops are the gold of a query that lists none; otherwise the list must call them relevant."""
        column = self.fields.get(HOPS)
        if column is None:
            return
        starts = np.append(0, np.cumsum(self.counts)).tolist()
        more, owners = list[str](), list[int]()
        for at, named in enumerate(column):
            if named is None:
                continue
            if not isinstance(named, list):
                raise self._error(
                    at, "wrong type", code="wrong-type", field=HOPS, expected="a list of lists of ids", got=named
                )
            hops = [self._listed_ids(at, f"{HOPS}[{place}]", hop) for place, hop in enumerate(named)]
            column[at] = hops or None
            self._check_hops(at, hops, slice(*starts[at : at + 2]))
            if starts[at] == starts[at + 1]:
                fresh = list(dict.fromkeys(item for hop in hops for item in hop))
                more += fresh
                owners += [at] * len(fresh)
        self._append(more, owners, 1.0, graded=False)

    def _check_hops(self, at: int, hops: list[list[str]], own: slice) -> None:
        if hops and len(self.no_answer) and self.no_answer[at]:
            what, hint = "no_answer and hops contradict each other", "remove one of them"
            raise self._error(at, what, code="contradiction", field=HOPS, hint=hint)
        listed = dict(zip(as_list(self.ids[own]), self.grades[own], strict=True))
        for number, hop in enumerate(hops):
            if not hop:
                hint = "name the ids of which one is needed, or remove the hop"
                raise self._error(at, "the hop is empty", code="bad-value", field=f"{HOPS}[{number}]", hint=hint)
            for place, item in enumerate(hop):
                if listed and not listed.get(item, 0) > 0:
                    what = "this id is in a hop, but " + (
                        "its grade is not above 0" if item in listed else "not in the gold of the query"
                    )
                    hint = (
                        "list it in gold with a grade above 0, or leave out gold: then the ids of the hops are the gold"
                    )
                    field = f"{HOPS}[{number}][{place}]"
                    raise self._error(at, what, code="contradiction", field=field, got=item, hint=hint)

    def _read_forbidden(self) -> None:
        column = self.fields.get(FORBIDDEN)
        if column is None:
            return
        starts = np.append(0, np.cumsum(self.counts)).tolist()
        for at, named in enumerate(column):
            if named is not None:
                column[at] = self._listed_ids(at, FORBIDDEN, named)
                self._refuse_relevant(at, FORBIDDEN, column[at], slice(*starts[at : at + 2]))

    def _listed_ids(self, at: int, field: str, named: Any) -> list[str]:
        ids = named if isinstance(named, list) else [None]
        wrong = [i for i in ids if isinstance(i, bool) or not isinstance(i, (str, int)) or i == ""]
        if wrong:
            code, got = ("empty-id", None) if wrong[0] == "" else ("wrong-type", named)
            raise self._error(at, "invalid value", code=code, field=field, expected="a list of ids", got=got)
        return list(dict.fromkeys(map(str, ids)))

    def _not_graded(self, at: int, negatives: list[str], own: slice) -> list[str]:
        """Negatives that the gold list does not name. Those that it names must have a grade that is not relevant."""
        listed = self._refuse_relevant(at, "negatives", negatives, own)
        return [item for item in negatives if item not in listed]

    def _refuse_relevant(self, at: int, field: str, ids: list[str], own: slice) -> dict[str, float]:
        """The grades of the gold list, which must not call one of these ids relevant."""
        listed = dict(zip(as_list(self.ids[own]), self.grades[own], strict=True)) if ids else {}
        for place, item in enumerate(ids):
            if listed.get(item, 0) > 0:
                what = f"this id is both gold and {'a negative' if field == 'negatives' else field}"
                hint = "remove it from one of the two lists"
                raise self._error(at, what, code="contradiction", field=f"{field}[{place}]", got=item, hint=hint)
        return listed

    def _refuse_half_characters(self) -> None:
        for name, texts in (("query_id", self.queries), ("gold", self.ids)):
            # UTF-8 bytes hold whole characters only.
            if not isinstance(texts, np.ndarray) and not is_whole("".join(texts)):
                half = next(text for text in texts if not is_whole(text))
                raise InputError(
                    "invalid Unicode (a lone surrogate)",
                    code="bad-value",
                    file=self.label,
                    field=name,
                    expected="text",
                    got=half,
                )

    def _refuse_empty_ids(self) -> None:
        item = first_empty(self.ids)
        if item is not None:
            at = int(self._owners[item])
            place = item - int(np.sum(self.counts[:at]))
            raise self._error(
                at,
                "the id is empty",
                code="empty-id",
                field=f"gold[{place}]{_FIELDS[int(self.kinds[item])]}",
                expected="a chunk id or document id",
                hint="a label without an id cannot match anything: add the id, or remove the label",
            )

    def _refuse_other_than_texts(self) -> None:
        for name in _TEXTS:
            several = name == "evidence"
            for at, value in enumerate(self.fields.get(name, ())):
                texts = value if several and isinstance(value, list) else [] if value is None else [value]
                wrong = [text for text in texts if not isinstance(text, str) or not is_whole(text)]
                if wrong:
                    what = "invalid Unicode (a lone surrogate)" if isinstance(wrong[0], str) else "wrong type"
                    expected = "a text or a list of texts" if several else "text"
                    raise self._error(at, what, code="wrong-type", field=name, expected=expected, got=wrong[0])

    def _settle_evidence(self, audit: Audit) -> None:
        """Each evidence of a query once; an empty one would be covered by anything."""
        column = self.fields.get("evidence")
        if not column:
            return
        from karat.matching.cover import normalise

        for at, value in enumerate(column):
            texts: list[str] = [value] if isinstance(value, str) else value or []
            filled = [text for text in texts if text.strip()]
            different: dict[str, str] = {}
            for text in filled:
                different.setdefault(normalise(text), text)
            column[at] = list(different.values()) or None
            audit.count("empty_evidence", len(texts) - len(filled), [self.queries[at]])
            audit.count("duplicate_evidence", len(filled) - len(different), [self.queries[at]])

    def _items(self, audit: Audit) -> tuple[list[str] | Packed, Floats, Kinds, list[Passage | None], Ints, Bools]:
        grades, kinds = np.asarray(self.grades, np.float64), np.asarray(self.kinds, np.int8)
        counts, ungraded = np.asarray(self.counts, np.int64), np.asarray(self.ungraded, np.bool_)
        keep = np.ones(len(grades), np.bool_)
        if self.passages:
            self.passages += [None] * (len(self.ids) - len(self.passages))
        if not np.isfinite(grades).all():
            bad = int(np.flatnonzero(~np.isfinite(grades))[0])
            raise self._bad_grade(bad, "bad-value", "a finite number")
        if (grades < 0).any():
            keep &= grades >= 0
            audit.count("negative_grades", int((~keep).sum()), map(self._id, np.flatnonzero(~keep)[:3]))
        if not self.distinct and repeats_within(self.ids, counts):
            keep &= self._first_of_repeats(grades, audit)
        if keep.all():
            return self.ids, grades, kinds, self.passages, counts, ungraded
        rows = np.flatnonzero(keep)
        counts = np.bincount(self._owners[rows], minlength=len(counts))
        passages = [self.passages[i] for i in rows.tolist()] if self.passages else []
        ids = self.ids[rows] if isinstance(self.ids, np.ndarray) else take_list(self.ids, rows)
        return ids, grades[rows], kinds[rows], passages, counts, ungraded[rows] if len(ungraded) else ungraded

    @property
    def _owners(self) -> Ints:
        """The query of each item."""
        return np.repeat(np.arange(len(self.counts)), self.counts)

    def _id(self, row: Any) -> str:
        return take_list(self.ids, np.array([row]))[0]

    def _bad_grade(self, row: int, code: str, expected: str) -> InputError:
        at, field, got = int(self._owners[row]), f"grade of {self._id(row)!r}", float(self.grades[row])
        got = int(got) if got.is_integer() else got
        return self._error(at, "invalid gold item", code=code, field=field, expected=expected, got=got)

    def _first_of_repeats(self, grades: Floats, audit: Audit) -> Any:
        keep = np.ones(len(grades), np.bool_)
        named = zip(self._owners.tolist(), as_list(self.ids), self.kinds, self._looked_for(), strict=True)
        seen: dict[tuple[Any, ...], float] = {}
        for row, (item, grade) in enumerate(zip(named, grades.tolist(), strict=True)):
            keep[row] = item not in seen
            before = seen.setdefault(item, grade)
            if before != grade:
                raise self._bad_grade(row, "contradiction", f"one grade (an earlier entry has {before:g})")
        audit.count("duplicate_gold", int((~keep).sum()), map(self._id, np.flatnonzero(~keep)[:3]))
        return keep

    def _count_unused_offsets(self, counts: Ints, passages: list[Passage | None], audit: Audit) -> None:
        """Offsets refer to a document; next to a bare chunk id, the document is unknown."""
        if passages:
            named = zip(chain.from_iterable(map(repeat, self.queries, counts.tolist())), passages, strict=True)
            unused = [query for query, p in named if p is not None and p.doc is None and p.start is not None]
            audit.count("offsets_unused", len(unused), unused)

    def _looked_for(self) -> list[Passage | None]:
        """What distinguishes items of one document; next to a chunk id, a passage is only a note."""
        if not self.passages:
            return [None] * len(self.ids)
        return [p if kind == DOC else None for p, kind in zip(self.passages, self.kinds, strict=True)]
