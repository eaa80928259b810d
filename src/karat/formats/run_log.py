"""Karat's run log: JSONL, one query a line, with ranked hits, timings and provenance (SPEC A1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from karat.data.audit import Audit
from karat.data.hits import OPTIONAL_COLUMNS, Hits, NoLists, Run
from karat.data.ids import Seen
from karat.errors import InputError, is_whole, shorten
from karat.files.decode_errors import DECODE_ERRORS, refusal
from karat.formats.base import Format, Kind, Options, Source, source_parts
from karat.formats.json_columns import ValueKind
from karat.formats.records import ListField, RecordDecoder, decode_entries, no_gc, read_batches, read_column_batches
from karat.formats.run_parts import Slice, SystemRecords
from karat.formats.run_records import RunRecord, SlimRecord

_SLICE_HITS = 64_000
_NOTED = 100
# From here on vectorised hashing saves more than importing polars costs.
_LARGE = 32 << 20


# Of hits that are all alike no object is made.
_RANKED: dict[str, ValueKind] = {"rank": "whole", "chunk_id": "text", "score": "number", "doc_id": "text", "id": "text"}
_TOPK = ListField("topk", _RANKED)
_OTHER_LISTS = ("raw", "topk_original")


class RunLog(Run):
    """Records of a run log, from a file or from memory."""

    def __init__(
        self, label: str, records: Any, system: str | None = None, hits: str = "topk", *, needed: bool = True
    ) -> None:
        self.label, self._records, self._system = label, records, system
        self._hits, self._needed = hits, needed  # which lists, and whether every line needs one
        self._noted: dict[str, dict[str, list[Any]]] = {}
        self._absent: set[str] = set()  # lists that no line has, known once one of them was looked for

    def slices(self, columns: frozenset[str], audit: Audit) -> Iterator[Hits]:
        self._noted = {}
        large = isinstance(self._records, Source) and self._records.path.stat().st_size > _LARGE
        slices: dict[str, Slice] = {}
        seen: dict[str, Seen] = {}  # the queries of each system
        with no_gc():
            for part in self._parts(columns):
                self._note_provenance(part)
                if self._system not in (None, part.system):
                    continue
                current = slices.get(part.system)
                if current is None:
                    if not is_whole(part.system):
                        raise part.error(
                            0, "half a character", code="bad-value", field="system", expected="text", got=part.system
                        )
                    current = slices[part.system] = Slice(part.system, columns, large)
                current.add(part)
                if current.size >= _SLICE_HITS:
                    yield self._once(slices.pop(part.system).hits(), seen)
        if self._system is not None and self._system not in self._noted:
            raise InputError(
                f"no system {self._system!r} in the run",
                code="unknown-system",
                file=self.label,
                hint="it has: " + ", ".join(sorted(s or "(unnamed)" for s in self._noted)),
            )
        for rest in slices.values():
            yield self._once(rest.hits(), seen)

    def parts(self, least: int) -> list[Run] | None:
        if not isinstance(self._records, Source) or self._system is not None:
            return None
        parts = source_parts(self._records, least)
        if parts is None:
            return None
        self._noted = {}
        return [RunLog(self.label, part, None, self._hits, needed=self._needed) for part in parts]

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
        other = RunLog(self.label, self._records, self._system, name, needed=False)
        other._absent = self._absent
        return other

    def provenance(self) -> dict[str, Any]:
        """Per system, the fields that are no hits: one value, or how many different ones there are."""
        return {
            system: {
                name: _writable(values[0] if len(values) == 1 else {"values": len(values), "first": values[0]})
                for name, values in sorted(fields.items())
                if values
            }
            for system, fields in self._noted.items()
        }

    def opening(self) -> dict[str, Any]:
        if isinstance(self._records, Source):
            return self._records.first_object or {}
        first = next(iter(self._records), None) if isinstance(self._records, list) else None
        return first if isinstance(first, dict) else {}

    def _parts(self, columns: frozenset[str]) -> Iterator[SystemRecords]:
        if self._hits != "topk":
            yield from self._other_parts()
            return
        if not isinstance(self._records, Source):
            decoder = RecordDecoder(RunRecord)
            for records, lines in decode_entries(enumerate(self._records, 1), decoder, self.label):
                yield from SystemRecords(self.label, records, lines, decoder.extra_names).by_system()
            return
        decoder = RecordDecoder(RunRecord) if columns & OPTIONAL_COLUMNS else RecordDecoder(SlimRecord, lists=_TOPK)
        for batch, lines, hits in read_column_batches(self._records, decoder):
            part = SystemRecords(self.label, batch, lines, decoder.extra_names)
            yield from (part if hits is None else part.with_columns(hits)).by_system()

    def _other_parts(self) -> Iterator[SystemRecords]:
        """The lists before reranking or rewriting, in the place of the final ones."""
        decoder = RecordDecoder(RunRecord)
        from_file = isinstance(self._records, Source)
        entries = enumerate(() if from_file else self._records, 1)
        batches = read_batches(self._records, decoder) if from_file else decode_entries(entries, decoder, self.label)
        there, absent = False, set(_OTHER_LISTS)
        for records, lines in batches:
            absent -= {name for name in absent if any(getattr(record, name) is not None for record in records)}
            part = SystemRecords(self.label, records, lines, decoder.extra_names)
            lists = [getattr(record, self._hits) for record in records]
            if None in lists and self._needed:
                at = lists.index(None)
                raise part.error(
                    at,
                    "the field is missing",
                    code="missing-field",
                    field=self._hits,
                    hint="this log has final lists only",
                )
            at_hand = [i for i, hits in enumerate(lists) if hits is not None]
            for i in at_hand:
                records[i].topk = lists[i]
            if at_hand:
                there = True
                yield from part.pick(at_hand).by_system()
        self._absent |= absent
        if not there and not self._needed:
            raise NoLists(self._hits)

    def _once(self, hits: Hits, seen: dict[str, Seen]) -> Hits:
        """The same, if none of its queries came before."""
        if seen.setdefault(hits.system, Seen()).add(hits.queries):
            self._refuse_repeat(hits.system)
        return hits

    def _refuse_repeat(self, system: str) -> None:
        """A query stands twice: read again from the start to say which and where."""
        seen: dict[str, int | None] = {}
        for part in self._parts(frozenset()):
            if part.system != system:
                continue
            for query, line in zip(part.queries, part.lines, strict=True):
                if query in seen:
                    raise InputError(
                        f"system {shorten(system, 40)!r} has this query already (line {seen[query]})",
                        code="duplicate-query",
                        file=self.label,
                        line=line,
                        query=query,
                        hint="one line a query and system: remove one, or name the second run's system",
                    )
                seen[query] = line

    def _note_provenance(self, part: SystemRecords) -> None:
        noted = self._noted.setdefault(part.system, {})
        try:
            for name, values in part.provenance():
                _note(noted.setdefault(name, []), values)
        except RecursionError as error:  # comparing goes as deep as the values do
            raise refusal(error, self.label, part.lines[0]) from error


def _writable(value: Any) -> Any:
    """What is kept is written one day: a thing that only memory can hold is kept as its text."""
    try:
        msgspec.json.encode(value)
    except (TypeError, *DECODE_ERRORS):
        return shorten(value)
    return value


def _note(noted: list[Any], values: Iterable[Any]) -> None:
    """Collect the different values of a field, at most a hundred."""
    for value in values:
        if value is not None and len(noted) < _NOTED and value not in noted:
            noted.append(value)


class RunLogFormat(Format):
    """JSONL with `query_id` and `topk` on every line."""

    name = "run-log"
    kinds = frozenset({"run"})
    order = 10

    def recognises(self, source: Source, kind: Kind) -> bool:
        return "topk" in (source.first_object or {})

    def read_run(self, source: Source, options: Options) -> Run:
        return RunLog(source.label, source, options.system, options.hits)
