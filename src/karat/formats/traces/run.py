"""Traces as a run."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.corpus import Corpus
from karat.data.hits import STEPS, Hits
from karat.data.text_index import TextIndex, normal_text
from karat.errors import shorten
from karat.formats.base import ReadOptions
from karat.formats.field_map import FieldMap
from karat.formats.records import RecordDecoder, decode_entries
from karat.formats.run_log import RunLog
from karat.formats.run_parts import SystemRecords
from karat.formats.run_records import RunRecord
from karat.formats.traces.assemble import TraceOptions, TraceRecord, trace_records

_BATCH = 500
_EXAMPLES = 5  # in an audit, at most
MAPPED = ("query_id", "system", "chunk_id", "doc_id", "score", "text")  # fields of a run that a map may name


def trace_options(options: ReadOptions) -> TraceOptions:
    fields = FieldMap.of(options.fields)
    if fields is None:
        return TraceOptions(options.query_from)
    return TraceOptions(options.query_from, fields.named("run", MAPPED), needs_fields=not fields.for_all)


class TraceRun(RunLog):
    """Traces, read as records of a run log."""

    can_look = False
    overlap_hint = (
        "use the questions of the root spans (--query-from root), or name the attribute with the gold set's ids: "
        "--map query_id=ATTRIBUTE"
    )

    def __init__(
        self,
        label: str,
        records: Any,
        system: str | None = None,
        hits: str = "topk",
        *,
        needed: bool = True,
        options: TraceOptions,
    ) -> None:
        super().__init__(label, records, system, hits, needed=needed and hits == "topk")
        self._options = options
        self._chunks: TextIndex | None = None  # of the corpus, by text
        self._audits: dict[str, Audit] = {}  # by system, since its last slice

    def _like(self, records: Any, hits: str, *, needed: bool) -> TraceRun:
        other = TraceRun(self.label, records, self._system, hits, needed=needed, options=self._options)
        other._chunks = self._chunks
        return other

    def match_texts(self, corpus: Corpus) -> None:
        self._chunks = TextIndex(lambda: zip(corpus.texts, corpus.ids, strict=True), lambda: corpus.index)

    def parts(self, least: int) -> None:
        return None

    def may_say(self, column: str) -> bool:
        return column in ("text", STEPS)

    def opening(self) -> dict[str, Any]:
        return {}

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        """Each slice waits for the next one of its system, so that the last has everything that was counted."""
        waiting: dict[str, Hits] = {}
        for hits in super().slices(columns, audit, lists):
            before, waiting[hits.system] = waiting.get(hits.system), hits
            if before is not None:
                yield self._counted(before)
        for hits in waiting.values():
            yield self._counted(hits)

    def _counted(self, hits: Hits) -> Hits:
        entries = tuple(self._audits.pop(hits.system, ()))
        return replace(hits, counted=entries) if entries else hits

    def records(self) -> Iterator[tuple[int | None, dict[str, Any]]]:
        """Lines of a run log, with the line of the file that each trace begins on. Every query appears once."""
        self._audits = {}
        whole, seen = Audit(), FirstSeen()
        system = ""
        for batch in in_batches(trace_records(self._records, self._options, whole)):
            named = list(filter(self._name, batch))
            first = seen.pick([(one.record.get("system", ""), one.record["query_id"]) for one in named])
            for one, is_first in zip(named, first, strict=True):
                system = one.record.get("system", "")
                if is_first:
                    name_hits(one.record, self._chunks, self._audit_of(one))
                    yield one.line, one.record
                else:
                    self._count(one, "repeated_traces", one.record["query_id"])
        self._audits.setdefault(system, Audit()).merge(whole)  # of the whole file

    def _parts(self, columns: frozenset[str], lists: frozenset[str]) -> Iterator[SystemRecords]:
        decoder = RecordDecoder(RunRecord)
        for records, lines in decode_entries(self.records(), decoder, self.label):
            yield SystemRecords(self.label, records, lines, decoder.extra_names)

    def _count(self, one: TraceRecord, code: str, *example: Any) -> None:
        """`example`: what is shown, joined; shortening it takes longer than counting."""
        audit = self._audit_of(one)
        audit.count(code, 1, [" ".join(shorten(part, 40) for part in example)] if audit[code] < _EXAMPLES else ())

    def _audit_of(self, one: TraceRecord) -> Audit:
        return self._audits.setdefault(one.record.get("system", ""), Audit())

    def _name(self, one: TraceRecord) -> bool:
        """Set the query of a record; False if it may be any of several queries of the gold set."""
        record, names = one.record, self._names
        if "query_id" in record:
            return True
        text: str = record["query"]  # a record has an id or a text
        if names is not None and names.has_id(one.trace):
            record["query_id"] = one.trace
            return True
        found = [] if names is None else names.ids(text)
        if len(found) > 1:
            self._count(one, "ambiguous_texts", text, "=", ", ".join(found[:3]))
            return False
        if found and found[0] != text:
            self._count(one, "matched_by_text", text, "→", found[0])
        record["query_id"] = found[0] if found else normal_text(text) if names is None else text
        return True


def name_hits(record: dict[str, Any], chunks: TextIndex | None, audit: Audit) -> None:
    """Give an id to every hit of a record that has none: that of the chunk with the same text, else the text."""
    lists = [record["topk"], record.get("raw", ()), *(step["topk"] for step in record.get("steps", ()))]
    for at, hits in enumerate(lists):
        for hit in hits:
            if "chunk_id" in hit or "doc_id" in hit:
                continue
            code, hit["chunk_id"] = _id_of(hit, chunks)
            if at == 0:
                is_shown = audit[code] < _EXAMPLES
                audit.count(code, 1, [f"{record['query_id']}: {shorten(hit.get('text', ''), 40)}"] if is_shown else ())


def _id_of(hit: dict[str, Any], chunks: TextIndex | None) -> tuple[str, str]:
    text = hit.get("text")
    if text is None:
        return "nameless_hits", f"(no id) {hit['rank']}"
    if chunks is None:
        return "text_ids", text
    found = chunks.only(text)
    return ("texts_unknown", text) if found is None else ("ids_by_text", found)


class FirstSeen:
    """Which names come for the first time. Each is kept as a hash, in 8 bytes."""

    def __init__(self) -> None:
        self._blocks: list[Any] = []  # sorted, and each more than twice as long as the next

    def pick(self, names: Sequence[Hashable]) -> list[bool]:
        hashes = [hash(name) for name in names]
        new = np.array(hashes, np.int64)
        known = np.zeros(len(new), np.bool_)
        for block in self._blocks:
            known |= block.take(np.searchsorted(block, new), mode="clip") == new
        here: set[int] = set()
        first = []
        for value, was in zip(hashes, known.tolist(), strict=True):
            first.append(not was and value not in here)
            here.add(value)
        added = np.sort(np.array(sorted(here), np.int64))
        self._blocks.append(added)
        while len(self._blocks) > 1 and len(self._blocks[-2]) <= 2 * len(self._blocks[-1]):
            self._blocks[-2:] = [np.unique(np.concatenate(self._blocks[-2:]))]
        return first


def in_batches(records: Iterable[TraceRecord]) -> Iterator[list[TraceRecord]]:
    """Some records at a time."""
    batch: list[TraceRecord] = []
    for one in records:
        batch.append(one)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
