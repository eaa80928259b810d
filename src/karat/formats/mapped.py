"""Files with custom field names, read through a map: as records, whatever their format."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from karat.data.audit import Audit
from karat.data.gold import Dataset, Gold
from karat.data.hits import OPTIONAL_COLUMNS, Hits, Run
from karat.data.ids import Ints
from karat.errors import InputError, shorten
from karat.files.safe_parquet import ParquetSource, UnreadableParquet
from karat.formats.base import ReadOptions, Source
from karat.formats.dataset import dataset_of, header_of
from karat.formats.field_map import FieldMap, FileKind, RecordMap
from karat.formats.gold_file import GoldReader
from karat.formats.layout import Layout
from karat.formats.map_guess import flattened, suggested_map
from karat.formats.records import (
    RecordDecoder,
    decodable,
    decode_entries,
    decode_record,
    is_json_lines,
    list_entries,
    read_column_batches,
    read_document,
)
from karat.formats.run_log import RunLog
from karat.formats.run_parts import SystemRecords
from karat.formats.run_records import RunRecord
from karat.formats.run_steps import RunDecoder
from karat.formats.table_file import read_table, separator_of, trimmed
from karat.formats.table_gold import gold_from_frame
from karat.formats.table_run import FrameRun

if TYPE_CHECKING:
    import polars as pl

Numbered: TypeAlias = Iterator[tuple["int | None", dict[str, Any]]]
_FIELDS = 40  # that are shown
_SAMPLE = 100  # records used to recognise a file
_SAYS = ("gold", "evidence", "answer", "answer_span", "no_answer", "negatives")
_OF_ROW = ("query_id", "system", "chunk_id", "doc_id", "id", "score", "rank", "grade", *sorted(OPTIONAL_COLUMNS))


class AnyRecord(msgspec.Struct):
    """A record with unknown fields."""


def container(source: Source) -> Literal["lines", "document", "table"] | None:
    """How a file holds records; None where it has no named fields."""
    if source.is_folder:
        return None
    if source.is_parquet:
        return "table"
    if source.looks_like_json:
        return "lines" if is_json_lines(source) else "document"
    first = source.first_line.decode("utf-8", "replace")
    if re.match(r"(-\s+)?[\w.-]+\s*:(\s|$)|-\s", first) or source.path.suffix in (".yaml", ".yml"):
        return "document"
    return "table" if re.search(r"[,\t;]", first) else None


def plain_records(source: Source) -> Numbered:
    """Every record of a file as written, with its line."""
    kind = container(source)
    if kind == "table":
        yield from enumerate(read_table(source).iter_rows(named=True), 2)  # the first line is the header
        return
    if kind == "lines":
        decoder = RecordDecoder(AnyRecord)
        for batch in read_column_batches(source, decoder):
            assert isinstance(batch.records, list)
            yield from ((line, decoder.extras(r)) for line, r in zip(batch.lines, batch.records, strict=True))
        return
    yield from _entries(*read_document(source), source.label)


def _entries(value: Any, lines: Any, label: str) -> Numbered:
    if isinstance(value, dict) and len(value) > 1 and all(isinstance(one, dict) for one in value.values()):
        yield from ((None, {"query_id": key, **one}) for key, one in value.items())  # by query
    else:
        yield from list_entries(value, lines, label)


def sample(source: Source) -> list[dict[str, Any]]:
    """The first records of a file, as far as its head holds them."""
    kind = container(source)
    if kind is None:
        return []
    if kind == "lines":
        return list(islice(decodable(source.head.splitlines()), _SAMPLE))
    if kind == "table":
        return read_table(source).head(_SAMPLE).to_dicts() if not source.is_parquet else _first_rows(source)
    try:
        value, lines = read_document(source)
        if source.looks_like_json:
            source.document = value, 0  # already parsed and counted
        return [record for _, record in islice(_entries(value, lines, source.label), _SAMPLE)]
    except InputError:
        return []  # the reader reports what is wrong


def _first_rows(source: Source) -> list[dict[str, Any]]:
    try:
        return ParquetSource(source.path).rows(size=_SAMPLE).to_dicts()
    except UnreadableParquet:
        return []


def first_record(source: Source) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """The first record, and some others."""
    records = sample(source)
    return records[0] if records else None, records[1:]


def first_fields(source: Source) -> dict[str, str]:
    """The fields of a file's first record, each with its value; `results[].doc` is a field of the entries of a list."""
    record: Any = source.first_object
    if record is None and container(source) == "table" and not source.is_parquet:
        separator = separator_of(source)
        lines = source.head.decode("utf-8", "replace").lstrip("\r\n").splitlines()
        rows = list(islice(csv.reader(lines, delimiter=separator), 2))
        names = trimmed(rows[0]) if rows else []
        record = dict(zip(names, rows[1], strict=False)) if len(rows) == 2 else dict.fromkeys(names, "")
    elif record is None:
        record = next(iter(sample(source)), {})
    found: dict[str, str] = {}
    gold = {name: value for name, value in record.items() if name == "gold"}  # its keys are ids, not fields
    others = {name: value for name, value in record.items() if name not in gold}
    for name, value in islice([*flattened(others), *gold.items()], _FIELDS):
        first = value[0] if isinstance(value, list) and value else None
        if isinstance(first, dict):
            found |= {f"{name}[].{inner}": _shown(one) for inner, one in flattened(first)}
        else:
            found[name] = _shown(value)
    return found


def _shown(value: Any) -> str:
    return shorten(value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode(), 50)


def suggestion(source: Source, *kinds: FileKind) -> str | None:
    """A map to paste for a file that is not recognised."""
    first, others = first_record(source)
    maps = {kind: found for kind in kinds if (found := suggested_map(kind, first, others)) is not None}
    names = {kind: {pair.partition("=")[0] for pair in found.split(",")} for kind, found in maps.items()}
    if len(maps) > 1:
        number = {kind: dict(pair.split("=", 1) for pair in found.split(",")) for kind, found in maps.items()}
        either = number["gold"].get("grade") is not None and number["gold"]["grade"] == number["run"].get("score")
        ranked = (names["run"] | set(first or ())) & {"topk", "score", "rank"}
        if not either:  # bare pairs are how people write gold
            del maps["gold" if ranked else "run"]
    more = {"gold": " (a grade above 0 is relevant)"} if len(maps) > 1 and "grade" in names["gold"] else {}
    texts = (
        f"if it is a {kind} file{more.get(kind, '')}, map its fields: --map {quote(m)}" for kind, m in maps.items()
    )
    return "\n      ".join(texts) or None


def map_for(fields: FieldMap | None, kind: FileKind, source: Source) -> RecordMap | None:
    """The map of a file; None where it has none of the fields."""
    if fields is None:
        return None
    found = fields.fitting(kind, sample(source))
    if fields.strict:
        fields.refuse_unused([source.label])
    return found


def mapped_kind(source: Source, fields: FieldMap) -> tuple[Literal["run", "gold"], bool] | None:
    """What a file is, read through a map, and whether that is certain; None where the map does not fit it. Without
    a rank or score it is gold."""
    records = sample(source)
    run, gold = (fields.fitting(kind, records, reads=False) for kind in ("run", "gold"))
    made = {name for record in records for name in (run.record(record) if run else ())}
    judged = {name for record in records for name in (gold.record(record) if gold else ())}
    if run is not None and "query_id" in made and {"topk", "score", "rank"} & made and not {"gold", "grade"} & judged:
        return "run", True
    if run is not None and "query_id" in made and {"latency_ms", "system"} & made and not {*_SAYS, "grade"} & judged:
        return "run", True
    if gold is None and run is not None and "query_id" in made and {"chunk_id", "doc_id", "id"} & made:
        return "run", True  # by fields that only runs have
    if gold is None or not {*_SAYS, "chunk_id", "doc_id", "grade"} & judged:
        return None
    return "gold", bool({*_SAYS, "grade"} & judged) or fields.is_named("gold", records)


def mapped_run(source: Source, fields: RecordMap, options: ReadOptions) -> Run:
    """A run through a map: one record per query with a list of hits, or one record per hit."""
    kind = container(source)
    if kind == "table" and fields.is_flat(sample(source)):
        from karat.formats.parquet import ParquetRun
        from karat.formats.table_file import Scan

        layout = Layout({role: name for role, name in fields.roles.items() if role in Layout.roles})
        if source.is_parquet:
            return ParquetRun(source.label, [Scan(str(source.path))], options.system, layout)
        return FrameRun(read_table(source), source.label, options.system, source, layout=layout)
    if not any("topk" in fields.record(record) for record in sample(source)):
        return _frame_run(plain_records(source), fields, options, source.label, fields.roles.get("score"))
    if kind == "lines":
        return MappedRun(source.label, source, options.system, options.hits, fields=fields)
    return mapped_list((record for _, record in plain_records(source)), fields, options, source.label)


def mapped_list(records: Iterable[dict[str, Any]], fields: RecordMap, options: ReadOptions, label: str) -> Run:
    """The same for records in memory."""
    made = [fields.record(record) for record in records]
    if any("topk" in record for record in made):
        log = RunLog(label, made, options.system, options.hits)
        log.score_field = fields.roles.get("score")
        return log
    return _frame_run(enumerate(made, 1), RecordMap("run", {}), options, label, fields.roles.get("score"))


def _frame_run(
    records: Iterable[tuple[int | None, dict[str, Any]]],
    fields: RecordMap,
    options: ReadOptions,
    label: str,
    score_field: str | None,
) -> FrameRun:
    """One record per hit, as the rows of a table."""
    run = FrameRun(_rows(records, fields, label), label, options.system)
    run.score_field = score_field
    return run


class MappedRun(RunLog):
    """JSON lines, read as run log records on the same lines."""

    _watches: bool = False

    def __init__(
        self,
        label: str,
        records: Any,
        system: str | None = None,
        hits: str = "topk",
        *,
        needed: bool = True,
        fields: RecordMap,
    ) -> None:
        super().__init__(label, records, system, hits, needed=needed)
        self._fields = fields
        self.score_field: str | None = fields.roles.get("score")

    def _like(self, records: Any, hits: str, *, needed: bool) -> RunLog:
        return MappedRun(self.label, records, self._system, hits, needed=needed, fields=self._fields)

    def _parts(self, columns: frozenset[str], lists: frozenset[str]) -> Iterator[SystemRecords]:
        plain, decoder = RecordDecoder(AnyRecord), RunDecoder(RunRecord)
        for batch in read_column_batches(self._records, plain):
            assert isinstance(batch.records, list)  # without named lists, no lines are read as columns
            records, refused = [], None
            for record, line in zip(batch.records, batch.lines, strict=True):
                made = self._fields.record_at(plain.extras(record), self.label, line)
                try:
                    records.append(decode_record(decoder, made, self.label, line))
                except InputError as error:
                    refused = error
                    break
            done = len(records)
            places = None if batch.places is None else batch.places[:done]
            if records:  # also before a bad line: one of these may be bad in another way, and is reported first
                yield SystemRecords(self.label, records, batch.lines[:done], decoder.extra_names, places=places)
            if refused is not None:
                raise refused

    def _parts_at(self, places: Ints, columns: frozenset[str]) -> Iterator[SystemRecords]:
        lines = (msgspec.json.decode(line) for line in self._records.lines_at(places))
        entries = ((None, self._fields.record_at(record, self.label, None)) for record in lines)
        return self._decoded(entries, RunDecoder(RunRecord), places)

    def slices(self, columns: frozenset[str], audit: Audit, lists: frozenset[str] = frozenset()) -> Iterator[Hits]:
        try:
            yield from super().slices(columns, audit, lists)
        except InputError as error:
            error.field = self._fields.own_name(error.field)
            raise

    def opening(self) -> dict[str, Any]:
        return self._fields.record(super().opening())


def mapped_gold(source: Source, fields: RecordMap, options: ReadOptions) -> Gold:
    """A gold set through a map: one entry per query, or one row per judgement."""
    if container(source) == "table" and fields.is_flat(sample(source)):
        frame = read_table(source)
        taken = [name for name in fields.roles if name in frame.columns and name not in fields.roles.values()]
        renamed = frame.drop(taken).rename({name: role for role, name in fields.roles.items() if name in frame.columns})
        return gold_from_frame(renamed, source.label, dataset_of(source), options.target, source)
    header = None
    if container(source) == "document":
        value, lines = read_document(source)
        header, records = header_of(value), _entries(value, lines, source.label)
    else:
        records = plain_records(source)
    return gold_of_records(records, fields, options, source.label, dataset_of(source, header))


def gold_of_records(
    records: Iterable[tuple[int | None, dict[str, Any]]],
    fields: RecordMap,
    options: ReadOptions,
    label: str,
    dataset: Dataset,
) -> Gold:
    made = [(line, fields.record_at(record, label, line)) for line, record in records]
    if not any(name in record for _, record in made for name in _SAYS) and options.target is None:
        frame = _rows(made, RecordMap("gold", {}), label)
        if {"chunk_id", "doc_id", "id"} & set(frame.columns):
            return gold_from_frame(frame, label, dataset, options.target)
    reader = GoldReader(label, options)
    for entries, lines in decode_entries(made, reader.decoder, label):
        reader.add(entries, lines)
    return reader.build(dataset)


def _rows(records: Iterable[tuple[int | None, dict[str, Any]]], fields: RecordMap, label: str) -> pl.DataFrame:
    """One row per record, with the columns of a table of hits or judgements."""
    import polars as pl

    made = [fields.record(record) for _, record in records]
    names = [name for name in _OF_ROW if any(name in record for record in made)]
    others = sorted({name for record in made for name, value in record.items() if _is_tag(value)} - set(_OF_ROW))
    if not made or "query_id" not in names:
        raise InputError(
            "no field for query_id",
            code="missing-field",
            file=label,
            got=", ".join(made[0]) if made else None,
            hint="name it: --map query_id=FIELD",
        )
    columns: dict[str, Any] = {}
    for name in (*names, *others):
        values = [record.get(name) for record in made]
        is_text = any(isinstance(value, str) for value in values)
        columns[name] = [None if v is None else str(v) for v in values] if is_text else values
    return pl.DataFrame({name: pl.Series(name, values, strict=False) for name, values in columns.items()})


def _is_tag(value: Any) -> bool:
    return value is not None and not isinstance(value, (list, dict))


def mapped_records(source: Source, fields: FieldMap | None, kind: FileKind) -> Numbered:
    """The records of a corpus or of bare queries under Karat's names."""
    found = map_for(fields, kind, source) or RecordMap(kind, {})
    return ((line, found.record(record)) for line, record in plain_records(source))
