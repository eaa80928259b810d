"""Records of a run log → columns of hits: part by part as they are read, slice by slice as they are scored."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.hits import FOUND_AT, OPTIONAL_COLUMNS, SEARCHES, STEPS, Hits
from karat.data.ids import Floats, Hashes, Ints, Packed, as_list, joined_ids
from karat.data.packed_ids import WORD, first_empty, pack_short
from karat.errors import InputError, meant
from karat.formats.json_lines import Columns, LineTable, has_texts
from karat.formats.records import Records, column, different, extra_columns, has_field, only_value, pick, values_if_any
from karat.formats.run_records import Hit, Places, RunRecord, step_facts
from karat.formats.step_lists import lists_in, of_union, searches_in
from karat.formats.step_use import count_sums, uses_in, with_sums
from karat.formats.timestamps import TIMES, OddTime, latencies, refuse_impossible, with_times

if TYPE_CHECKING:
    from karat.data.text_index import TextIndex

# One value per query, kept for later steps; the rest of the record is either hits or provenance.
_QUERY_FIELDS = ("query", "rewritten_query", "route", "entities", "usage", "error", "trace_id")
NO_ID = "a hit without an id cannot match anything: log its id, or leave out the hit"
_PROVENANCE = ("k_raw", "index_version", "chunker", "reranker")


def _different(values: list[Any]) -> list[Any]:
    """The different values of a field in order of appearance; objects and lists are compared with neighbours only."""
    if values.count(values[0]) == len(values):
        return values[:1]
    try:
        return list(dict.fromkeys(values))
    except TypeError:
        return [v for i, v in enumerate(values) if i == 0 or v != values[i - 1]]


class SystemRecords(msgspec.Struct, frozen=True, dict=True):
    """Some records of one system."""

    label: str
    records: Records[RunRecord]
    lines: Sequence[int | None]
    extra_names: dict[str, str]
    columns: Mapping[str, Columns] = {}  # lists that were read as columns
    places: Ints | None = None  # where each record can be read again
    names: TextIndex | None = None  # the gold set's queries, for records without an id
    expected: list[str] = []  # the queries of these records, if they come in the order of the gold set

    def by_system(self) -> Iterator[SystemRecords]:
        systems = only_value(self.records, "system") or column(self.records, "system")
        if systems.count(systems[0]) == len(systems):
            yield self
            return
        for system in dict.fromkeys(systems):
            yield self.pick([i for i, s in enumerate(systems) if s == system])

    def pick(self, at: list[int]) -> SystemRecords:
        return replace(
            self,
            records=pick(self.records, at),
            lines=[self.lines[i] for i in at],
            columns={name: lists.of_lists(at) for name, lists in self.columns.items()},
            places=None if self.places is None else self.places[at],
        )

    def with_list(self, name: str) -> SystemRecords | None:
        """The records that have a list in this field; None if there are none."""
        if name in ("topk", SEARCHES):
            return self
        if isinstance(self.records, LineTable):
            columns = self.columns.get(name)
            if columns is None or columns.there is None:
                return None if columns is None else self
            at = np.flatnonzero(columns.there).tolist()
        else:
            at = [i for i, hits in enumerate(lists_in(self.records, name)) if hits is not None]
        return self if len(at) == len(self.lines) else self.pick(at) if at else None

    def first_without(self, name: str) -> int:
        """The first record without a list in this field, if any."""
        if not isinstance(self.records, LineTable):
            return lists_in(self.records, name).index(None)
        there = None if name not in self.columns else self.columns[name].there
        return 0 if there is None else int(np.argmin(there))

    def hits(self, name: str) -> HitLists:
        """The lists in this field. Every record must have one."""
        columns = self.columns.get(name)
        return HitLists(self, name) if columns is None else ColumnLists(self, name, columns)

    @cached_property
    def system(self) -> str:
        return column(self.records, "system")[0] or ""

    @cached_property
    def queries(self) -> list[str]:
        if isinstance(self.records, LineTable) and self.records.has_texts("query_id", self.expected):
            return self.expected
        queries = column(self.records, "query_id")
        if queries == self.expected:
            return self.expected  # the same texts, of which only one copy is kept
        if has_texts(self.records, "query_id") or set(map(type, queries)) == {str}:
            return queries
        # A log without ids is matched by the text of the query, like a single-target set.
        texts = column(self.records, "query")
        queries = [self._name(text) if q is None else q for q, text in zip(queries, texts, strict=True)]
        if None in queries:
            at, hint = queries.index(None), meant(["query_id"], self.extra_names.values())
            raise self.error(at, "the field is missing", code="missing-field", field="query_id", hint=hint)
        return [str(q) for q in queries]

    def _name(self, text: str | None) -> str | None:
        """The query with this text, if the gold set has exactly one; else the text itself."""
        return text if text is None or self.names is None else self.names.only(text) or text

    def distances(self, before: tuple[bool | None] | None) -> bool | None:
        """Whether scores are distances; None: unknown. `before`: what earlier records say, if there are any."""
        orders = values_if_any(self.records, "score_order") or [None]
        found = [None if one is None else one == "lower-is-better" for one in orders]
        wanted = found[0] if before is None else before[0]
        at = next((at for at, one in enumerate(found) if one is not wanted), None)
        if at is not None:
            hint = "every line of a system must say the same"
            raise self.error(
                at, "score_order differs between lines", code="contradiction", field="score_order", hint=hint
            )
        return wanted

    def provenance(self) -> Iterator[tuple[str, list[Any]]]:
        as_lines = isinstance(self.records, LineTable)
        for name in (*_PROVENANCE, *self.extra_names.values()) if as_lines else _PROVENANCE:
            yield name, only_value(self.records, name) or _different(different(self.records, name))
        for name, values in {} if as_lines else extra_columns(self.records, self.extra_names).items():
            yield name, _different(values)

    def latency(self) -> Mapping[str, Floats]:
        """Stage → ms of each record: as logged, else from its timestamps."""
        try:
            logged = self._logged_latency()
            refuse_impossible(logged)
            return with_times(logged, self._timed_latency())
        except OddTime as odd:
            where = {"field": odd.field, "query": self.queries[odd.at], "expected": odd.expected, "got": odd.got}
            raise self.error(odd.at, odd.what, code="bad-value", **where) from None

    def _timed_latency(self) -> dict[str, Floats]:
        columns = [column(self.records, name) for name in TIMES if has_field(self.records, name)]
        if all(values.count(None) == len(values) for values in columns):
            return {}
        return latencies(*(column(self.records, name) for name in TIMES))

    def _logged_latency(self) -> Mapping[str, Floats]:
        if isinstance(self.records, LineTable) and self.records.numbers is not None and not any(self.uses):
            return self.records.numbers
        said = with_sums(column(self.records, "latency_ms"), self.uses, "latency_ms")
        logged = [{"total": times} if isinstance(times, (int, float)) else times or {} for times in said]
        return {s: _numbers([t.get(s) for t in logged]) for s in dict.fromkeys(chain.from_iterable(logged))}

    @cached_property
    def uses(self) -> list[Any]:
        return uses_in(self.records)

    def error(self, at: int, what: str, **where: Any) -> InputError:
        return InputError(what, file=self.label, line=self.lines[at], **where)


class HitLists(msgspec.Struct, frozen=True, dict=True):
    """The lists in one field of some records, hit by hit."""

    part: SystemRecords
    name: str

    @cached_property
    def counts(self) -> Ints:
        return np.array(list(map(len, self._listed)), np.int64)

    @cached_property
    def _listed(self) -> list[Any]:
        if self.name == SEARCHES:
            return [[hit for hit, _ in found] for found in self._searched]
        return lists_in(self.part.records, self.name)

    @cached_property
    def _searched(self) -> list[list[tuple[Any, Places]]]:
        return searches_in(self.part.records)

    @cached_property
    def hits(self) -> list[Any]:
        hits: list[Any] = list(chain.from_iterable(self._listed))
        if {str, int, dict} & set(map(type, hits)):
            return [Hit(chunk_id=h) if isinstance(h, (str, int)) else h for h in map(of_union, hits)]
        return hits

    def hashed(self) -> Hashes | None:
        """Hashes of the ids, where they are known."""
        return None

    def ids(self) -> list[str] | Packed:
        ids, hashed = self._read_ids(), self.hashed()
        empty = None if hashed is not None and hashed.all() else first_empty(ids)  # the hash of an empty id is 0
        if empty is not None:
            raise self.hit_error(
                empty, "chunk_id", "the id is empty", code="empty-id", expected="a chunk id", hint=NO_ID
            )
        return ids

    def _read_ids(self) -> list[str] | Packed:
        ids: list[Any] = [h.chunk_id for h in self.hits]
        try:
            return pack_short(ids)
        except TypeError:  # not all of them are texts
            pass
        if None in ids:
            ids = [h.chunk_id if h.chunk_id is not None else h.id if h.id is not None else h.doc_id for h in self.hits]
            if None in ids:
                raise self.hit_error(ids.index(None), "chunk_id", "the field is missing", code="missing-field")
        return pack_short([str(i) for i in ids])

    def scores(self) -> Floats:
        values = [h.score for h in self.hits]
        scores = _numbers(values)
        odd = np.flatnonzero(~np.isfinite(scores))
        if len(odd) and len(odd) > values.count(None):
            at = next(i for i in odd.tolist() if values[i] is not None)
            raise self.hit_error(
                at, "score", "invalid value", code="bad-value", expected="a finite number", got=float(scores[at])
            )
        return scores

    def ranks(self) -> Floats:
        values = [h.rank for h in self.hits]
        try:
            return _numbers(values)
        except OverflowError:
            at = next(i for i, v in enumerate(values) if v is not None and abs(v) > 2**53)
            raise self.hit_error(
                at, "rank", "invalid value", code="bad-value", expected="a rank", got=values[at]
            ) from None

    def docs(self) -> list[str] | None:
        """The document of each hit, "" where it is not given; None where no hit has one."""
        docs = [h.doc_id for h in self.hits]
        return None if docs.count(None) == len(docs) else ["" if d is None else str(d) for d in docs]

    def optional(self, name: str) -> list[Any]:
        """A requested column."""
        if name == FOUND_AT:
            return [places for found in self._searched for _, places in found]
        return [getattr(hit, name) for hit in self.hits]

    def hit_error(self, row: int, field: str, what: str, **more: Any) -> InputError:
        ends = np.cumsum(self.counts)
        at = int(np.searchsorted(ends, row, "right"))
        place = row - int(ends[at] - self.counts[at])
        where = f"{self.name}[{place}].{field}"
        return self.part.error(at, what, field=where, query=self.part.queries[at], **more)


class ColumnLists(HitLists, frozen=True, dict=True):
    """The same for lists that were read as columns."""

    columns: Columns

    @cached_property
    def counts(self) -> Ints:
        return self.columns.counts

    @property
    def _named(self) -> str | None:  # the field with the ids
        return next((name for name in ("chunk_id", "id", "doc_id") if name in self.columns.values), None)

    def hashed(self) -> Hashes | None:
        return None if self._named is None else self.columns.hashed.get(self._named)

    def _read_ids(self) -> list[str] | Packed:
        ids: Packed | None = None if self._named is None else self.columns.values[self._named]
        if ids is None and not self.columns.counts.any():
            return np.zeros(0, f"S{WORD}")
        if ids is None:
            raise self.hit_error(0, "chunk_id", "the field is missing", code="missing-field")
        return ids

    def scores(self) -> Floats:
        return self._numbers("score")

    def ranks(self) -> Floats:
        return self._numbers("rank")

    def _numbers(self, name: str) -> Floats:
        found = self.columns.values.get(name)
        return np.full(self.columns.counts.sum(), np.nan) if found is None else np.asarray(found)

    def optional(self, name: str) -> list[Any]:
        found: Any = self.columns.values.get(name)
        if isinstance(found, np.ndarray):  # tokens are numbers if every hit has some, and then texts are not needed
            found = found.astype(np.int64).tolist()
        return [None] * int(self.counts.sum()) if found is None else list(found)

    def docs(self) -> list[str] | None:
        return None if (docs := self.columns.values.get("doc_id")) is None else as_list(docs)


class ListSlice:
    """Collects lists of one system part by part, so that the records need not be kept."""

    def __init__(self, system: str, name: str, wanted: frozenset[str]) -> None:
        self.system = system
        self.name = name
        self.queries: list[str] = []
        self.lines: list[Sequence[int | None]] = []
        self.places: list[Ints | None] = []
        self.counts: list[Ints] = []
        self.size: int = 0
        self.ids: list[list[str] | Packed] = []
        self.hashed: list[Hashes | None] = []
        self.numbers: dict[str, list[Floats]] = {"score": [], "rank": []}
        self.docs: list[str] = []
        self.distances: bool | None = None  # what the records say about their scores
        self.columns: dict[str, list[Any]] = {c: [] for c in wanted & OPTIONAL_COLUMNS}
        self.steps: list[Any] | None = [] if name == SEARCHES or STEPS in wanted else None
        if name == SEARCHES:
            self.columns[FOUND_AT] = []

    def add(self, part: SystemRecords) -> None:
        """Add records. Each must have a list."""
        hits = part.hits(self.name)
        self.distances = part.distances(None if not self.queries else (self.distances,))
        self.queries += part.queries
        self.lines.append(part.lines)
        self.places.append(part.places)
        self.counts.append(hits.counts)
        self.ids.append(hits.ids())
        self.hashed.append(hits.hashed())
        self.numbers["score"].append(hits.scores())
        self.numbers["rank"].append(hits.ranks())
        docs = hits.docs()
        if docs is not None:
            self.docs += [""] * (self.size - len(self.docs)) + docs
        for name, values in self.columns.items():
            values += hits.optional(name)
        if self.steps is not None:
            self.steps += map(step_facts, column(part.records, STEPS))
        self.size += int(hits.counts.sum())

    def hits(self) -> Hits:
        offsets = np.append(0, np.cumsum(_joined(self.counts)))
        numbers = {name: _joined(parts) for name, parts in self.numbers.items()}
        places = [part for part in self.places if part is not None]
        found = Hits(
            system=self.system,
            queries=self.queries,
            offsets=offsets,
            ids=joined_ids(self.ids),
            score=None if np.isnan(numbers["score"]).all() else numbers["score"],
            rank=None if np.isnan(numbers["rank"]).all() else numbers["rank"],
            docs=self.docs + [""] * (self.size - len(self.docs)) if self.docs else None,
            columns=self.columns,
            fields={} if not self.steps or all(one is None for one in self.steps) else {STEPS: self.steps},
            lines=_joined(list(map(_line_numbers, self.lines))),
            places=_joined(places) if len(places) == len(self.places) else None,
        )
        return found if self.distances is None else found.with_best_highest(self.distances)

    def known_hashes(self) -> Hashes | None:
        """Of all ids, where they are known."""
        known = [hashed for hashed in self.hashed if hashed is not None]
        return _joined(known) if known and len(known) == len(self.hashed) else None


class Slice(ListSlice):
    """Collects the lists to score, the other fields of their queries, and other lists of the same records."""

    def __init__(self, system: str, name: str, wanted: frozenset[str], others: Iterable[str] = ()) -> None:
        super().__init__(system, name, wanted)
        self.timed: bool = "latency" in wanted
        self.audit: Audit = Audit()
        self.latency: list[tuple[int, Mapping[str, Floats]]] = []
        self.fields: dict[str, list[Any]] = {name: [] for name in _QUERY_FIELDS}
        self.others: list[ListSlice] = [ListSlice(system, other, wanted) for other in others]

    def add(self, part: SystemRecords) -> None:
        if self.timed:
            self.latency.append((len(self.queries), part.latency()))
        count_sums(part.records, part.queries, part.uses, self.audit)
        super().add(part)
        for name in _QUERY_FIELDS:
            self.fields[name] += with_sums(column(part.records, name), part.uses, name)
        for other in self.others:
            records = part.with_list(other.name)
            if records is not None:
                other.add(records)

    @property
    def found(self) -> list[str]:
        """Names of the other lists that records have."""
        return [other.name for other in self.others if other.queries]

    @property
    def total(self) -> int:
        """Number of hits in all lists."""
        return self.size + sum(other.size for other in self.others)

    def hits(self) -> Hits:
        own = super().hits()
        found = replace(
            own,
            latency=self._latency(),
            fields=own.fields | {n: v for n, v in self.fields.items() if v.count(None) != len(v)},
            others={other.name: other.hits() for other in self.others if other.queries},
            counted=tuple(self.audit),
        )
        hashed = self.known_hashes()
        return found if hashed is None else found.with_hashes(hashed)

    def _latency(self) -> dict[str, Floats]:
        columns: dict[str, Floats] = defaultdict(lambda: np.full(len(self.queries), np.nan))
        for start, part in self.latency:
            for stage, ms in part.items():
                columns[stage][start : start + len(ms)] = ms
        return dict(columns)


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _line_numbers(lines: Sequence[int | None]) -> Ints:
    """The line of a record; 0 where unknown."""
    if isinstance(lines, range):
        return np.arange(lines.start, lines.stop)
    return np.array([line or 0 for line in lines], np.int64)


def _numbers(values: list[Any]) -> Floats:
    """NaN for None."""
    try:
        return np.frombuffer(struct.pack(f"{len(values)}d", *values), np.float64)  # faster than numpy's own conversion
    except struct.error:
        return np.array(values, np.float64)
