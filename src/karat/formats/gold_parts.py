"""Entries of a gold file → columns of gold, part by part as they are read."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, chain
from shlex import quote
from typing import Any

import msgspec
import numpy as np

from karat.data.gold import BARE, CHUNK, DOC
from karat.data.ids import Bools, Floats, Ints, Packed
from karat.data.packed_ids import WORD, pack_short
from karat.data.passages.passage import Passage
from karat.data.versions import EXPECTED, Version, is_said
from karat.errors import InputError, did_you_mean, meant
from karat.formats.gold_records import TARGET_FIELD, GoldEntry, GoldItem
from karat.formats.json_lines import Columns, ListField, ValueKind, has_texts
from karat.formats.records import RecordDecoder, Records, column, extra_columns, values_if_any

_KINDS = {"chunk_id": CHUNK, "id": BARE, "doc_id": DOC}
# Items that are all alike are read without building objects.
_NAMED: dict[str, ValueKind] = {"chunk_id": "text?", "id": "text?", "doc_id": "text?"}
_SPAN: dict[str, ValueKind] = {"quote": "other", "start": "other", "end": "other"}
ITEMS = ListField("gold", {**_NAMED, "grade": "number", **_SPAN}, "id")
_NAME_IT = "name a chunk_id; a passage (quote, or start and end) needs the doc_id of its document"
_TEXTS = ("query", "evidence", "answer", "answer_span", "negatives", "forbidden")
_FIELDS = (*_TEXTS, "hops", "as_of", "conversation_id", "variant_of", "source", "entities")


class GoldPart(msgspec.Struct, frozen=True, dict=True):
    """Some entries, column by column."""

    label: str
    entries: Records[GoldEntry]
    lines: Sequence[int | None]
    decoder: RecordDecoder[GoldEntry]
    target: str | None
    columns: Columns | None = None  # items that were read as columns

    def error(self, at: int, what: str, **where: Any) -> InputError:
        return InputError(what, file=self.label, line=self.lines[at], **where)

    def query_ids(self) -> list[str]:
        ids = column(self.entries, "query_id")
        if has_texts(self.entries, "query_id") or set(map(type, ids)) <= {str}:
            return ids
        # Sets without ids use the text of the query.
        named = zip(ids, column(self.entries, "id"), column(self.entries, "query"), strict=True)
        ids = [next((name for name in names if name is not None), None) for names in named]
        if None in ids:
            hint = meant(["query_id", "query"], self.decoder.extra_names.values())
            raise self.error(ids.index(None), "the field is missing", code="missing-field", field="query_id", hint=hint)
        return [str(i) for i in ids]

    @cached_property
    def items(self) -> list[list[GoldItem]]:
        """The gold of every entry in one form, however it was given."""
        golds = column(self.entries, "gold")
        if (
            self.target is None
            and set(map(type, golds)) == {list}
            and set(map(type, chain.from_iterable(golds))) <= {GoldItem}
        ):
            return golds
        return [self._items_of(at, gold) for at, gold in enumerate(golds)]

    def _items_of(self, at: int, gold: Any) -> list[GoldItem]:
        if gold is None or self.target is not None:
            return [GoldItem(id=i) for i in self._targets(at)]
        if isinstance(gold, dict):
            return [GoldItem(id=i, grade=g) for i, g in gold.items()]
        return [i if isinstance(i, GoldItem) else GoldItem(id=i) for i in gold]

    def _targets(self, at: int) -> list[str]:
        """The target of a single-target set, from the field that was named or that looks like one."""
        assert isinstance(self.entries, list)
        entry = self.entries[at]
        extras = self.decoder.extras(entry)
        if self.target is not None:
            if self.target not in extras and entry.variant_of is not None:
                return []
            if self.target not in extras:
                hint = did_you_mean(self.target, extras)
                raise self.error(at, "the target field is missing", code="missing-field", field=self.target, hint=hint)
            return self._as_ids(at, self.target, extras[self.target])
        for name, value in extras.items():
            if TARGET_FIELD.fullmatch(name):
                return self._as_ids(at, name, value)
        elsewhere = (entry.hops, entry.evidence, entry.answer, entry.answer_span, entry.no_answer, entry.variant_of)
        if all(value is None for value in elsewhere):
            raise self.error(
                at,
                "the entry has no gold",
                code="nothing-to-find",
                field="gold",
                expected="gold, hops, evidence, answer, answer_span, no_answer or a target field",
                hint=meant(["gold", "evidence", "answer", "topk"], extras)
                or _likely_map(extras, named=entry.query_id is not None)
                or ("name the target field with --target FIELD" if extras else None),
            )
        return []

    def _as_ids(self, at: int, field: str, value: Any) -> list[str]:
        ids = value if isinstance(value, list) else [value]
        for i in ids:
            if isinstance(i, bool) or not isinstance(i, (str, int)):
                raise self.error(
                    at, "wrong type", code="wrong-type", field=field, expected="an id or a list of ids", got=i
                )
        return [str(i) for i in ids]

    @cached_property
    def flat(self) -> list[GoldItem]:
        return list(chain.from_iterable(self.items))

    def item_ids(self) -> tuple[list[str] | Packed, list[int] | Ints]:
        if self.columns is not None:
            return self._column_ids(self.columns)
        ids: list[Any] = [i.chunk_id for i in self.flat]
        if set(map(type, ids)) <= {str}:
            return pack_short(ids), np.full(len(ids), CHUNK)
        named = [
            (i.chunk_id, CHUNK) if i.chunk_id is not None else (i.id, BARE) if i.id is not None else (i.doc_id, DOC)
            for i in self.flat
        ]
        nameless = next((row for row, (name, _) in enumerate(named) if name is None), None)
        if nameless is not None:
            ends = list(accumulate(self.counts()))
            at = bisect_right(ends, nameless)
            raise self._nameless(at, nameless - (ends[at] - len(self.items[at])))
        return pack_short([str(i) for i, _ in named]), [kind for _, kind in named]

    def _column_ids(self, columns: Columns) -> tuple[Packed, Ints]:
        name = next((n for n in _KINDS if n in columns.values), None)
        if not columns.counts.any():
            return np.zeros(0, f"S{WORD}"), np.zeros(0, np.int64)
        if name is None:
            raise self._nameless(int(np.flatnonzero(columns.counts)[0]), 0)
        ids: Packed = columns.values[name]
        return ids, np.full(len(ids), _KINDS[name])

    def _nameless(self, at: int, place: int) -> InputError:
        field = f"gold[{place}].chunk_id"
        return self.error(at, "the field is missing", code="missing-field", field=field, hint=_NAME_IT)

    def cutoffs(self) -> list[int] | Ints:
        cutoffs = values_if_any(self.entries, "k")
        if not cutoffs:
            return np.zeros(len(self.entries), np.int64)
        at = next((at for at, k in enumerate(cutoffs) if k is not None and k < 1), None)
        if at is not None:
            raise self.error(at, "invalid cutoff", code="bad-value", field="k", expected="1 or more", got=cutoffs[at])
        return [k or 0 for k in cutoffs]

    def counts(self) -> Ints:
        return np.array(list(map(len, self.items)), np.int64) if self.columns is None else self.columns.counts

    def grades(self) -> Floats:
        if self.columns is None:
            return np.array([1.0 if i.grade is msgspec.UNSET else i.grade for i in self.flat], np.float64)
        grades: Floats | None = self.columns.values.get("grade")
        return np.ones(self.columns.counts.sum()) if grades is None else np.where(np.isnan(grades), 1.0, grades)

    def ungraded(self) -> Bools:
        """Items of entries that name no grade at all."""
        if self.columns is not None:
            return np.full(self.columns.counts.sum(), "grade" not in self.columns.values)
        unsaid = np.array([i.grade is msgspec.UNSET for i in self.flat], np.bool_)
        if not unsaid.any():
            return unsaid
        owner: Ints = np.repeat(np.arange(len(self.items)), self.counts())
        graded: Bools = np.bincount(owner[~unsaid], minlength=len(self.items)) > 0
        return unsaid & ~graded[owner]

    def answerless(self) -> Bools:
        """Which queries have no answer."""
        answerless = values_if_any(self.entries, "no_answer")
        return np.array(answerless, np.bool_) if answerless else np.zeros(len(self.entries), np.bool_)

    def refuse_contradictions(self) -> None:
        answerless = np.flatnonzero(self.answerless()).tolist()
        if not answerless:
            return
        grades, ends = self.grades(), [0, *accumulate(self.counts())]
        for at in answerless:
            if (grades[ends[at] : ends[at + 1]] > 0).any():
                what, query = "no_answer and relevant gold contradict each other", self.query_ids()[at]
                hint = "remove one of them (grade 0 is fine)"
                raise self.error(at, what, code="contradiction", query=query, hint=hint)

    def refuse_odd_dates(self) -> None:
        for at, value in enumerate(values_if_any(self.entries, "as_of")):
            if is_said(value) and Version.read(value) is None:
                what, query = "not a time or version", self.query_ids()[at]
                hint = "leave it out where it is not known"
                raise self.error(
                    at, what, code="bad-value", field="as_of", query=query, expected=EXPECTED, got=value, hint=hint
                )

    def fields(self) -> dict[str, list[Any]]:
        """Data of the queries that are not tags."""
        columns = {name: values_if_any(self.entries, name) for name in _FIELDS}
        columns |= {name: values for name, values in self.extras.items() if name not in self._scalars}
        return {name: values for name, values in columns.items() if values.count(None) != len(values)}

    def passages(self) -> list[Passage | None]:
        """Where the items are in their documents; empty where no item says so."""
        if self.columns is not None:
            return []
        placed = [
            item for item in self.flat if item.quote is not None or item.start is not None or item.end is not None
        ]
        if not placed:
            return []
        return [
            self._passage(at, f"gold[{place}]", item) if _says_place(item) else None
            for at, items in enumerate(self.items)
            for place, item in enumerate(items)
        ]

    def _passage(self, at: int, field: str, item: GoldItem) -> Passage:
        start, end = item.start, item.end
        if (start is None) != (end is None):
            lacking = f"{field}.start" if start is None else f"{field}.end"
            hint = "give both: start is the first character, end the one after the last"
            raise self.error(at, "the field is missing", code="missing-field", field=lacking, hint=hint)
        if start is not None and end is not None and end <= start:
            expected = f"more than start ({start})"
            raise self.error(at, "invalid offset", code="bad-value", field=f"{field}.end", expected=expected, got=end)
        quote = item.quote if item.quote is not None and item.quote.strip() else None
        if quote is None and start is None and item.chunk_id is None and item.id is None:
            expected, hint = "words of the document", "leave it out to mean the whole document"
            field, what = f"{field}.quote", "the quote is empty"
            raise self.error(at, what, code="empty-quote", field=field, expected=expected, hint=hint)
        return Passage(None if item.doc_id is None else str(item.doc_id), quote, start, end)

    def tags(self) -> dict[str, list[Any]]:
        columns = defaultdict(lambda: [None] * len(self.entries), {name: self.extras[name] for name in self._scalars})
        if tiers := values_if_any(self.entries, "tier"):
            columns["tier"] = [None if tier is None else str(tier) for tier in tiers]
        for at, tags in ((at, tags) for at, tags in enumerate(values_if_any(self.entries, "tags")) if tags):
            for name, value in (tags if isinstance(tags, dict) else {"tags": tags}).items():
                columns[name][at] = value
        return {name: values for name, values in columns.items() if values.count(None) != len(values)}

    @cached_property
    def _scalars(self) -> list[str]:
        """Names of such fields without lists and objects."""
        return [name for name, values in self.extras.items() if has_texts(self.entries, name) or _scalar(values)]

    @cached_property
    def extras(self) -> dict[str, list[Any]]:
        """Fields that are not in the contract; for a single-target set, without the target."""
        single_target = isinstance(self.entries, list) and bool(self.entries) and self.entries[0].gold is None
        return {
            name: values
            for name, values in extra_columns(self.entries, self.decoder.extra_names).items()
            if name != self.target and not (single_target and TARGET_FIELD.fullmatch(name))
        }


def _likely_map(extras: dict[str, Any], *, named: bool) -> str | None:
    """A hint to paste where other fields of an entry look like gold. `named`: the entry has a query_id."""
    from karat.formats.map_guess import suggested_map

    fields = suggested_map("gold", {"query_id": "", **extras} if named else extras)
    roles = {pair.partition("=")[0] for pair in (fields or "").split(",")}
    if fields is None or not {"gold", "evidence", "answer"} & roles:
        return None  # one target in its own field
    return f"map its fields: --map {quote(fields)}"


def _says_place(item: GoldItem) -> bool:
    return item.quote is not None or item.start is not None or item.end is not None


def _scalar(values: list[Any]) -> bool:
    return {list, dict}.isdisjoint(map(type, values))
