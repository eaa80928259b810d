"""Gold sets: JSONL, JSON or YAML, one query an entry (SPEC A2), and single-target sets (A4)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from karat.errors import InputError
from karat.formats.base import Format, Kind, Options, Source
from karat.formats.records import (
    RecordDecoder,
    decode_record,
    is_json_lines,
    list_entries,
    no_gc,
    read_document,
    read_json_lines,
)
from karat.gold import BARE, CHUNK, DOC, Dataset, Gold, GoldBuilder


class GoldItem(msgspec.Struct, gc=False):
    """One gold item: a chunk or a document, with its grade."""

    chunk_id: str | int | None = None
    doc_id: str | int | None = None
    grade: float = 1.0
    quote: str | None = None
    start: int | None = None
    end: int | None = None


class GoldEntry(msgspec.Struct, kw_only=True, gc=False):
    """One query with what should be found for it. Any other scalar field is a tag."""

    query_id: str | int | None = None
    id: str | int | None = None
    query: str | None = None
    gold: list[str | int | GoldItem] | dict[str, float] | None = None
    evidence: list[str] | None = None
    answer: str | None = None
    answer_span: str | None = None
    negatives: list[str] | None = None
    as_of: str | int | None = None
    no_answer: bool | None = None
    conversation_id: str | int | None = None
    tier: str | int | None = None
    source: str | list[str] | None = None
    entities: list[Any] | None = None
    k: int | None = None
    tags: dict[str, Any] | None = None


_FIELDS = ("query", "evidence", "answer", "answer_span", "negatives", "as_of", "conversation_id", "source", "entities")
_HEADER = frozenset({"dataset", "dataset_version", "DATASET_VERSION", "as_of_range", "AS_OF_RANGE"})
_TARGET = re.compile(r"(source|target|expected|relevant|correct|gold)(_\w+)?_id|target|targets|(chunk|doc)_id")


class GoldFormat(Format):
    """JSONL, JSON or YAML with `query_id` and `gold` (or evidence, answer, no_answer, a single target)."""

    name = "gold"
    kinds = frozenset({"gold"})
    order = 30

    def recognises(self, source: Source, kind: Kind) -> bool:
        if source.is_folder:
            return False
        first = source.first_object
        if first is not None:
            return bool({"query_id", "query", "gold"} & set(first) or _HEADER & set(first))
        if source.looks_like_json:
            return re.search(rb'"(query_id|query|gold|queries)"\s*:', source.head) is not None
        return re.search(rb"^\s*(-\s+)?(query_id|query|gold|queries)\s*:", source.head, re.M) is not None

    def read_gold(self, source: Source, options: Options) -> Gold:
        reader = GoldReader(source.label, options)
        with no_gc():
            for line, entry in self._entries(source, reader):
                reader.read(line, entry)
        return reader.builder.build(dataset_of(source, reader.header))

    def _entries(self, source: Source, reader: GoldReader) -> Iterator[tuple[int | None, bytes | dict[str, Any]]]:
        if is_json_lines(source):
            return read_json_lines(source)
        value, lines = read_document(source)
        reader.header = _header_of(value)
        return list_entries(value, lines, source.label)


class GoldReader:
    """Entries of a gold file, one by one, into a builder."""

    def __init__(self, label: str, options: Options) -> None:
        self.builder = GoldBuilder(label)
        self.header: dict[str, Any] = {}
        self._label, self._target = label, options.target
        self._decoder = RecordDecoder(GoldEntry)

    def read(self, line: int | None, entry: bytes | dict[str, Any]) -> None:
        record = decode_record(self._decoder, entry, self._label, line)
        extras = self._decoder.extras(record) if self._decoder.extra_names else {}
        if not self.builder.queries and not self.header and record.gold is None and _HEADER & set(extras):
            self.header = _header_of(extras)
            return
        query = record.query_id if record.query_id is not None else record.id
        if query is None:
            query = record.query
        if query is None:
            raise InputError("the field is missing", file=self._label, line=line, field="query_id")
        if record.k is not None and record.k < 1:
            raise InputError("bad cutoff", file=self._label, line=line, field="k", expected="1 or more", got=record.k)
        self._add_items(str(query), record, extras, line)
        self._say(record, extras)

    def _add_items(self, query: str, record: GoldEntry, extras: dict[str, Any], line: int | None) -> None:
        builder, gold = self.builder, record.gold
        common: dict[str, Any] = {"line": line, "k": record.k or 0, "no_answer": bool(record.no_answer)}
        if gold is None:
            targets = self._targets(record, extras, line)
            builder.add(query, targets, [1.0] * len(targets), BARE, **common)
        elif isinstance(gold, dict):
            builder.add(query, list(gold), list(gold.values()), BARE, **common)
        else:
            self._add_list(query, gold, common)
        if record.no_answer and any(g > 0 for g in builder.grades[len(builder.grades) - builder.counts[-1] :]):
            raise InputError(
                "no_answer and relevant gold contradict each other",
                file=self._label,
                line=line,
                query=query,
                hint="remove one of them (grade 0 is fine)",
            )

    def _add_list(self, query: str, gold: list[Any], common: dict[str, Any]) -> None:
        builder = self.builder
        builder.add(query, [], [], **common)
        spans = []
        for i, item in enumerate(gold):
            if not isinstance(item, GoldItem):
                found, kind, grade = item, BARE, 1.0
            else:
                grade = item.grade
                found, kind = (item.chunk_id, CHUNK) if item.chunk_id is not None else (item.doc_id, DOC)
                if item.quote is not None or item.start is not None:
                    spans.append((len(builder.ids), item.quote, item.start, item.end))
            if found is None:
                raise InputError(
                    "the field is missing", file=self._label, line=common["line"], field=f"gold[{i}].chunk_id", query=query
                )
            builder.ids.append(str(found))
            builder.grades.append(grade)
            builder.kinds.append(kind)
        builder.counts[-1] = len(gold)
        if spans:
            builder.say("spans", spans)

    def _targets(self, record: GoldEntry, extras: dict[str, Any], line: int | None) -> list[str]:
        """The target of a single-target set, out of the field that was named or that looks like one."""
        if self._target is not None:
            if self._target not in extras:
                raise InputError("the target field is missing", file=self._label, line=line, field=self._target)
            return _as_ids(extras.pop(self._target))
        for name in extras:
            if _TARGET.fullmatch(name):
                return _as_ids(extras.pop(name))
        known = (record.evidence, record.answer, record.answer_span, record.no_answer)
        if all(v is None for v in known):
            raise InputError(
                "nothing says what should be found",
                file=self._label,
                line=line,
                field="gold",
                expected="gold, evidence, answer, answer_span, no_answer or a target field",
                hint="name the target field with --target FIELD" if extras else None,
            )
        return []

    def _say(self, record: GoldEntry, extras: dict[str, Any]) -> None:
        builder = self.builder
        for name in _FIELDS:
            value = getattr(record, name)
            if value is not None:
                builder.say(name, value)
        if record.tier is not None:
            builder.say("tier", str(record.tier), tag=True)
        for name, value in {**extras, **(record.tags or {})}.items():
            builder.say(name, value, tag=not isinstance(value, (list, dict)))


def _as_ids(value: Any) -> list[str]:
    return [] if value is None else [str(v) for v in value] if isinstance(value, list) else [str(value)]


def _header_of(value: Any) -> dict[str, Any]:
    """Dataset version and range out of a header entry, a mapping around the entries, or dataset.yaml."""
    if not isinstance(value, dict):
        return {}
    inner = value.get("dataset")
    found = {**value, **inner} if isinstance(inner, dict) else dict(value)
    if isinstance(inner, str):
        found.setdefault("version", inner)
    header: dict[str, Any] = {}
    for name, keys in (
        ("version", ("dataset_version", "DATASET_VERSION", "version")),
        ("as_of_range", ("as_of_range", "AS_OF_RANGE")),
        ("name", ("name",)),
    ):
        for key in keys:
            if found.get(key) is not None:
                header[name] = found[key]
                break
    return header


def dataset_of(source: Source, header: dict[str, Any] | None = None) -> Dataset:
    """Which data this is: the file's own header, dataset.yaml beside it, the environment; always its hash."""
    found: dict[str, Any] = {}
    environment = {"DATASET_VERSION": os.environ.get("DATASET_VERSION"), "AS_OF_RANGE": os.environ.get("AS_OF_RANGE")}
    found.update(_header_of({k: v for k, v in environment.items() if v}))
    folder = source.path if source.is_folder else source.path.parent
    beside = folder / "dataset.yaml"
    if beside.is_file():
        found.update(_header_of(read_document(Source(beside))[0]))
    found.update(header or {})
    span = found.get("as_of_range")
    if isinstance(span, str):
        span = [part.strip() for part in re.split(r"\s*(?:\.\.|/|,|\bto\b)\s*", span) if part.strip()]
    return Dataset(
        version=None if found.get("version") is None else str(found["version"]),
        as_of_range=None if span is None else [str(s) for s in span],
        hash=None if source.is_folder else source.content_hash(),
        name=None if found.get("name") is None else str(found["name"]),
    )
