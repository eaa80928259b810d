"""Karat's run log: JSONL, one query per line, with ranked hits, timings and provenance (SPEC A1)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from itertools import pairwise, repeat
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.hits import (
    DISTANCE,
    METADATA,
    OPTIONAL_COLUMNS,
    OTHER_LISTS,
    SEARCHES,
    SIZES,
    STEPS,
    Hits,
    NoLists,
    Run,
    SaidLate,
    Ungrouped,
    is_other_list,
    step_of,
)
from karat.data.ids import Ints, QueriesSeen
from karat.data.text_index import TextIndex
from karat.errors import InputError, is_whole
from karat.files.decode_errors import refusal
from karat.formats.base import Source, changed_while_read, no_gc, source_parts
from karat.formats.json_lines import LineTable, ListField, ValueKind
from karat.formats.provenance import shown
from karat.formats.records import (
    RecordBatch,
    RecordDecoder,
    RecordList,
    decodable,
    decode_entries,
    is_json_lines,
    read_column_batches,
)
from karat.formats.repeated_lines import Repeated, counted_repeats, find_repeats, without_repeats
from karat.formats.run_parts import Slice, SystemRecords
from karat.formats.run_records import Hit, RunRecord, hits_record, slim_record
from karat.formats.run_steps import DescribedDecoder, RunDecoder, SizedDecoder, has_steps, join_steps

_SLICE_HITS = 32_000
_NOTED = 100

# Hits that are all alike are read without building objects.
_RANKED: dict[str, ValueKind] = {
    "chunk_id": "text?",
    "id": "text?",
    "doc_id": "text?",
    "rank": "whole?",
    "score": "number?",
    "source": "noted",  # optional columns that `may_say` is asked for
}
_TOPK = ListField("topk", _RANKED, "chunk_id", OTHER_LISTS, numbers="latency_ms")
_SIZED = _TOPK._replace(fields={**_RANKED, "tokens": "whole?"})


class RunLog(Run):
    """Records of a run log, from a file or from memory."""

    score_field: str | None = None  # the records' name for scores, where a map renamed them
    watched: frozenset[str] = frozenset()
    _watches: bool = True  # whether reading notices a column that was not requested

    def __init__(
        self, label: str, records: Any, system: str | None = None, hits: str = "topk", *, needed: bool = True
    ) -> None:
        self.label = label
        self._records = records
        self._system = system
        self._hits, self._needed = hits, needed  # which lists, and whether every line needs one
        self._noted: dict[str, dict[str, list[Any]]] = {}
        self._absent: set[str] = set()  # lists that no line has, once one of them was looked up
        self._names: TextIndex | None = None  # the gold set's queries, by text
        self._expected: list[str] = []  # and by id
        self._whole, self._stepped = False, False  # whether to hold all lines, and whether some are single steps
        self._repeated: Repeated | None = None  # lines to leave out; None: unknown

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        self._noted = {}
        others = sorted(name for name in lists if is_other_list(name) and name != self._hits)
        found: set[str] = set()  # all lists that some record has
        slices: dict[str, Slice] = {}
        seen: dict[str, QueriesSeen] = {}  # of each system
        with no_gc():
            for part in self._listed(self._joined(self._parts(columns, lists), columns, lists)):
                self._note_provenance(part)
                found.add(self._hits)
                if self._system not in (None, part.system):
                    continue
                if self._repeated and (kept := without_repeats(part, self._repeated)) is not part:
                    if kept is None:
                        continue
                    part = kept
                current = slices.get(part.system)
                if current is None:
                    if not is_whole(part.system):
                        raise part.error(
                            0,
                            "invalid Unicode (a lone surrogate)",
                            code="bad-value",
                            field="system",
                            expected="text",
                            got=part.system,
                        )
                    current = slices[part.system] = Slice(part.system, self._hits, columns, others)
                    seen.setdefault(part.system, QueriesSeen(self._expected))
                expected = seen[part.system].expected(len(current.queries), len(part.lines))
                current.add(replace(part, expected=expected))
                if isinstance(part.records, RecordList):
                    part.records.free()
                if current.total >= _SLICE_HITS:
                    found.update(current.found)
                    yield self._made(slices.pop(part.system), lists, seen)
        found.update(name for rest in slices.values() for name in rest.found)
        if self._system is None:
            self._absent.update(name for name in (self._hits, *others) if is_other_list(name) and name not in found)
        if not self._needed and self._hits not in found:
            raise NoLists(self._hits)
        if self._system is not None and self._system not in self._noted:
            raise InputError(
                f"no system {self._system!r} in the run",
                code="unknown-system",
                file=self.label,
                hint="it has: " + ", ".join(sorted(s or "(unnamed)" for s in self._noted)),
            )
        for rest in slices.values():
            yield self._made(rest, lists, seen)

    def _beside(self, hits: Hits, lists: frozenset[str]) -> Hits:
        """Add the hits to `others` where they are among the requested lists."""
        hits = hits if self.score_field is None else replace(hits, score_field=self.score_field)
        if hits.score is None and hits.rank is None and self._distance is not None:
            hits = replace(hits, distance_field=self._distance[0], distances_rise=self._distance[1])
        return replace(hits, others={**hits.others, self._hits: hits}) if self._hits in lists else hits

    @cached_property
    def _distance(self) -> tuple[str, bool] | None:
        """A field of hits that is named like a distance, where they have no score, and whether it rises down the lists
        of the first records."""
        if not isinstance(self._records, Source):
            some = self._records[:_NOTED] if isinstance(self._records, list) else []
        elif re.search(DISTANCE, self._records.head.decode("utf-8", "replace")) and is_json_lines(self._records):
            some = list(decodable(self._records.head.splitlines()))
        else:
            some = []
        lists = [[hit for hit in _hits_of(record, self._hits) if isinstance(hit, dict)] for record in some]
        names = {name for hits in lists for hit in hits for name in hit if re.search(DISTANCE, name)}
        if len(names) != 1:
            return None
        [name] = names
        values = [[v for hit in hits if isinstance(v := hit.get(name), (int, float))] for hits in lists]
        return name, all(a <= b for one in values for a, b in pairwise(one))

    @property
    def can_look(self) -> bool:
        if isinstance(self._records, Source):
            return self._records.begin is not None and is_json_lines(self._records)
        return isinstance(self._records, list)

    def look(self, system: str, queries: list[str], places: Ints | None, columns: frozenset[str]) -> Iterator[Hits]:
        if places is None or not self.can_look:
            yield from super().look(system, queries, places, columns)
            return
        wanted, current = set(queries), None
        for part in self._listed(self._watched(self._parts_at(np.unique(places), columns)), needed=False):
            if part.system != system or not wanted.issuperset(part.queries):
                raise changed_while_read(self.label)
            current = current or Slice(system, self._hits, columns)
            current.add(part)
            if current.size >= _SLICE_HITS:
                yield current.hits()
                current = None
        if current is not None:
            yield current.hits()

    def parts(self, least: int) -> list[Run] | None:
        if not isinstance(self._records, Source) or self._system is not None or self._whole or self._repeated:
            return None
        if self._names is not None and "query_id" not in (self._records.first_object or {}):
            return None  # every part would need the texts of all queries
        parts = source_parts(self._records, least)
        if parts is None:
            return None
        self._noted = {}
        return [self._like(part, self._hits, needed=self._needed) for part in parts]

    def notes(self) -> dict[str, dict[str, list[Any]]]:
        return self._noted

    def take_notes(self, notes: Any) -> None:
        for system, fields in notes.items():
            noted = self._noted.setdefault(system, {})
            for name, values in fields.items():
                _note(noted.setdefault(name, []), values)

    def lists(self, name: str) -> RunLog:
        if name == self._hits:
            return self
        if name in self._absent:
            raise NoLists(name)
        other = self._like(self._records, name, needed=False)
        other._absent, other._names, other._expected = self._absent, self._names, self._expected
        other._whole, other._repeated = self._whole, self._repeated
        return other

    def match_queries(self, gold: Gold) -> None:
        self._expected = gold.queries
        texts = gold.fields.get("query", ())
        self._names = TextIndex(lambda: zip(texts, gold.queries, strict=False), lambda: gold.index)

    def grouped(self) -> Run:
        """The same run, without lines that repeat others; or with all lines held in memory, where the steps of a query
        are not together."""
        other = self._like(self._records, self._hits, needed=self._needed)
        other._names, other._expected, other._whole = self._names, self._expected, self._stepped
        if not self._stepped:
            other._repeated = self._find_repeats(self._records)
        return other

    def _find_repeats(self, records: Any) -> Repeated:
        parts = self._listed(self._watched(self._parts(frozenset(), frozenset())))
        return find_repeats((part for part in parts if self._system in (None, part.system)), records)

    def _joined(
        self, parts: Iterator[SystemRecords], columns: frozenset[str], lists: frozenset[str]
    ) -> Iterator[SystemRecords]:
        """All records, with those of single steps joined by query."""
        decoder = self._decoder(columns, lists)
        return join_steps(self._watched(parts), decoder, whole=self._whole)

    def _watched(self, parts: Iterator[SystemRecords]) -> Iterator[SystemRecords]:
        for part in parts:
            self._stepped = self._stepped or has_steps(part)
            yield part if self._names is None else replace(part, names=self._names)

    def _like(self, records: Any, hits: str, *, needed: bool) -> RunLog:
        """A run of the same kind over other records or lists."""
        other = RunLog(self.label, records, self._system, hits, needed=needed)
        other.watched = self.watched
        return other

    def provenance(self) -> dict[str, Any]:
        """Per system, the fields that are not hits: one value, or how many different ones there are; and which lists
        were read, where those are not the final ones."""
        lists = {} if self._hits == "topk" else {"hits": self._hits}
        return {
            system: {name: shown(name, values) for name, values in sorted(fields.items()) if values} | lists
            for system, fields in self._noted.items()
        }

    def said(self, system: str, field: str) -> list[Any]:
        return self._noted.get(system, {}).get(field, [])

    def may_say(self, column: str) -> bool:
        says = _has_steps if column == STEPS else partial(_says, hits=self._hits, column=column)
        if not isinstance(self._records, Source):
            return any(map(says, self._records))
        if not self._records.path.is_file():  # a pipe can only be read once
            return says(self.opening())
        noted = column == STEPS or _RANKED.get(column) == "noted"
        if not (self._watches and noted and is_json_lines(self._records)):
            return self._records.holds(_key(column))
        if _key(column) in self._records.head:  # a log says it soon, or never
            return True
        self.watched: frozenset[str] = self.watched | {column}
        return False

    def opening(self) -> dict[str, Any]:
        if isinstance(self._records, Source):
            return self._records.first_object or {}
        first = next(iter(self._records), None) if isinstance(self._records, list) else None
        return first if isinstance(first, dict) else {}

    def _parts(self, columns: frozenset[str], lists: frozenset[str]) -> Iterator[SystemRecords]:
        """All records, with the requested lists."""
        if not isinstance(self._records, Source):
            yield from self._decoded(enumerate(self._records, 1), _whole_decoder(columns))
            return
        yield from self._parts_of(self._records, self._decoder(columns, lists))

    def _parts_of(self, source: Source, decoder: RecordDecoder[Any]) -> Iterator[SystemRecords]:
        for batch in read_column_batches(source, decoder, ahead=source.reads_ahead):
            for column in self.watched:
                if _has_key(batch, column):
                    raise SaidLate(column)
            names = dict(decoder.extra_names)  # more may be added while this part is used
            yield SystemRecords(self.label, batch.records, batch.lines, names, batch.columns, batch.places)

    def _parts_at(self, places: Ints, columns: frozenset[str]) -> Iterator[SystemRecords]:
        """The records at some places."""
        if isinstance(self._records, Source):
            entries = zip(repeat(None), self._records.lines_at(places), strict=False)
            return self._decoded(entries, self._decoder(columns, frozenset()), places)
        return self._decoded(((at + 1, self._records[at]) for at in places.tolist()), _whole_decoder(columns))

    def _decoder(self, columns: frozenset[str], lists: frozenset[str]) -> RecordDecoder[Any]:
        sized = SIZES in columns and columns & OPTIONAL_COLUMNS == {"text", "tokens"}
        wanted = lists | {self._hits}
        by_step = STEPS in columns or any(name in (STEPS, SEARCHES) or step_of(name) is not None for name in wanted)
        if sized and not by_step:
            return SizedDecoder(hits_record(wanted.intersection(OTHER_LISTS)), lists=_SIZED)
        if columns & OPTIONAL_COLUMNS and (by_step or METADATA in columns):
            return _whole_decoder(columns)
        if columns & OPTIONAL_COLUMNS:
            return RunDecoder(hits_record(wanted.intersection(OTHER_LISTS)), lists=_with_values(columns))
        named = wanted.intersection(OTHER_LISTS) | ({STEPS} if by_step else frozenset())
        return RunDecoder(slim_record(named), lists=None if by_step else _TOPK)

    def _decoded(
        self, entries: Iterable[tuple[int | None, Any]], decoder: RecordDecoder[Any], places: Ints | None = None
    ) -> Iterator[SystemRecords]:
        """Decode records one by one. The place of a record in memory is its index."""
        done = 0
        for records, lines in decode_entries(entries, decoder, self.label):
            at = np.array(lines) - 1 if places is None else places[done : done + len(records)]
            yield SystemRecords(self.label, records, lines, decoder.extra_names, places=at)
            done += len(records)

    def _listed(self, parts: Iterator[SystemRecords], *, needed: bool = True) -> Iterator[SystemRecords]:
        """Records with the lists to read, by system. Raises if every record needs one and one is missing."""
        for part in parts:
            listed = part.with_list(self._hits)
            if needed and self._needed and (listed is None or len(listed.lines) < len(part.lines)):
                at = part.first_without(self._hits)
                raise part.error(
                    at,
                    "the field is missing",
                    code="missing-field",
                    field=self._hits,
                    hint="this log only has final lists",
                )
            if listed is not None:
                yield from listed.by_system()

    def _made(self, collected: Slice, lists: frozenset[str], seen: dict[str, QueriesSeen]) -> Hits:
        """The hits of some records, if none of their queries came before."""
        system, first = collected.system, seen[collected.system].is_new
        queries = seen[system].add(collected.queries)
        if queries is None:
            if self._whole or not (self._stepped or isinstance(self._records, Source)):
                self._find_repeats(None)  # raises
            raise Ungrouped
        collected.queries = queries
        hits = self._beside(collected.hits(), lists)
        return replace(hits, counted=counted_repeats(system, self._repeated)) if first and self._repeated else hits

    def _note_provenance(self, part: SystemRecords) -> None:
        noted = self._noted.setdefault(part.system, {})
        try:
            for name, values in part.provenance():
                _note(noted.setdefault(name, []), values)
        except RecursionError as error:  # comparing recurses as deep as the values
            raise refusal(error, self.label, part.lines[0]) from error


def _with_values(columns: frozenset[str]) -> ListField:
    """Lists of hits with these columns too."""
    return _TOPK._replace(
        values={field.name: field.type for field in msgspec.structs.fields(Hit) if field.name in columns}
    )


def _whole_decoder(columns: frozenset[str]) -> RunDecoder:
    """Reads all fields of a hit."""
    return DescribedDecoder(RunRecord) if METADATA in columns else RunDecoder(RunRecord)


def _key(column: str) -> bytes:
    return b'"step' if column == STEPS else f'"{column}"'.encode()


def _has_key(batch: RecordBatch[Any], column: str) -> bool:
    """Whether hits may have this field, or lines have steps."""
    if not isinstance(batch.records, LineTable):
        return _key(column) in batch.written
    return STEPS in batch.records.skipped or "step" in batch.records if column == STEPS else batch.records.noted


def _hits_of(record: Any, hits: str) -> list[Any]:
    """The hits of a record in memory."""
    listed = record.get(hits) if isinstance(record, dict) else None
    return listed if isinstance(listed, list) else []


def _says(record: Any, hits: str, column: str) -> bool:
    """Whether a hit of a record in memory has this field."""
    return any(isinstance(hit, dict) and column in hit for hit in _hits_of(record, hits))


def _has_steps(record: Any) -> bool:
    """Whether a record in memory has several searches, or is one of them."""
    return isinstance(record, dict) and not {STEPS, "step"}.isdisjoint(record)


def _note(noted: list[Any], values: Iterable[Any]) -> None:
    """Collect the different values of a field, at most a hundred."""
    for value in values:
        if value is not None and len(noted) < _NOTED and value not in noted:
            noted.append(value)
