"""Gold sets: JSONL, JSON or YAML, one entry per query (SPEC A2), and single-target sets (A4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from karat.data.gold import Dataset, Gold
from karat.data.gold_builder import GoldBuilder
from karat.data.ids import Packed, joined_ids
from karat.formats.base import ReadOptions, Source, no_gc
from karat.formats.dataset import HEADER, dataset_of, header_of, holds_entries
from karat.formats.gold_parts import ITEMS, GoldPart
from karat.formats.gold_records import GoldEntry
from karat.formats.json_lines import Columns
from karat.formats.records import (
    Lines,
    RecordBatch,
    RecordDecoder,
    RecordList,
    Records,
    decode_entries,
    is_json_lines,
    list_entries,
    read_column_batches,
    read_document,
)


def read_gold_file(source: Source, options: ReadOptions) -> Gold:
    reader = GoldReader(source.label, options)
    with no_gc():
        for batch in _batches(source, reader):
            reader.add(batch.records, batch.lines, batch.columns.get(ITEMS.name))
            if isinstance(batch.records, RecordList):
                batch.records.free()
    return reader.build(dataset_of(source, reader.header))


def _batches(source: Source, reader: GoldReader) -> Iterator[RecordBatch[GoldEntry]]:
    if is_json_lines(source) and not holds_entries(source.first_object):
        yield from read_column_batches(source, reader.decoder)
        return
    value, lines = read_document(source)
    reader.header = header_of(value)
    for batch in decode_entries(list_entries(value, lines, source.label), reader.decoder, source.label):
        yield RecordBatch(*batch)


class GoldReader:
    """Turns entries of a gold file into columns, a batch at a time."""

    def __init__(self, label: str, options: ReadOptions) -> None:
        self.builder: GoldBuilder = GoldBuilder(label)
        lists = ITEMS if options.target is None else None  # else another field is requested
        self.decoder: RecordDecoder[GoldEntry] = RecordDecoder(GoldEntry, freed=options.target, lists=lists)
        self.header: dict[str, Any] = {}
        self._label, self._target = label, options.target
        # Parts of the builder's columns; concatenated once, since they may be arrays.
        self._ids: list[list[str] | Packed] = []
        self._numbers: dict[str, list[list[Any] | NDArray[Any]]] = {}

    def add(self, entries: Records[GoldEntry], lines: Lines, items: Columns | None = None) -> None:
        if isinstance(entries, list) and not self.builder.queries and self._is_header(entries[0]):
            self.header = header_of(self.decoder.extras(entries[0]))
            entries, lines = entries[1:], lines[1:]
        part = GoldPart(self._label, entries, lines, self.decoder, self._target, items)
        builder = self.builder
        start = len(builder.queries)
        ids, kinds = part.item_ids()
        passages = part.passages()
        if passages:
            before = sum(map(len, self._ids))
            builder.passages += [None] * (before - len(builder.passages)) + passages
        self._ids.append(ids)
        builder.queries += part.query_ids()
        builder.add_lines(lines)
        numbers = {"kinds": kinds, "counts": part.counts(), "grades": part.grades(), "ungraded": part.ungraded()}
        for name, values in {**numbers, "k": part.cutoffs(), "no_answer": part.answerless()}.items():
            self._numbers.setdefault(name, []).append(values)
        part.refuse_contradictions()
        part.refuse_odd_dates()
        for name, values in part.fields().items():
            builder.say_all(name, start, values)
        for name, values in part.tags().items():
            builder.say_all(name, start, values, tag=True)

    def build(self, dataset: Dataset) -> Gold:
        for name, parts in self._numbers.items():
            setattr(self.builder, name, np.concatenate(parts))
        self.builder.ids = joined_ids(self._ids)
        return self.builder.build(dataset)

    def _is_header(self, entry: GoldEntry) -> bool:
        is_entry = any(v is not None for v in (entry.query_id, entry.query, entry.gold))
        return not is_entry and bool(HEADER & set(self.decoder.extras(entry)))
