"""The questions to ask: the queries of a gold set, without their gold."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from shlex import quote
from typing import Any

import msgspec

from karat.data.gold import Gold
from karat.data.question import Question
from karat.errors import InputError
from karat.formats.base import Source, SourcePlace
from karat.formats.beir import folder_of
from karat.formats.field_map import FieldMap, RecordMap
from karat.formats.gold_records import TARGET_FIELD
from karat.formats.kinds.table import table_header
from karat.formats.layout import NAMES, plain_title
from karat.formats.map_guess import may_be_gold, suggested_map, text_field
from karat.formats.mapped import first_fields, first_record, mapped_records, sample
from karat.formats.read import read_gold
from karat.formats.records import RecordDecoder, decode_record, read_records

_FOUND = ("gold", "evidence", "answer", "answer_span", "no_answer", "negatives")
_TOLD = ("as_of", "conversation_id")  # known to a system in production, unlike answers and evidence


class BareQuery(msgspec.Struct, kw_only=True):
    """A query without judgements: `query_id` and `query`, or `_id` and `text` as in BEIR."""

    query_id: str | int | None = None
    _id: str | int | None = None
    query: str | None = None
    text: str | None = None
    tags: dict[str, Any] | list[str | int | float | bool] = {}


def read_questions(
    queries: Any, *, format: str | None = None, target: str | None = None, split: str = "test", columns: Any = None
) -> list[Question]:
    """The questions of a gold set in any form, or of a file with bare queries.

    For a BEIR folder or its queries.jsonl, those of one split. `columns`: as in `read_gold`.
    """
    fields = FieldMap.of(columns)
    if isinstance(queries, (str, PathLike)) and format is None and target is None:
        queries = folder_of(Path(queries)) or queries
    if isinstance(queries, (str, PathLike)) and is_bare(queries, format=format, target=target, columns=fields):
        return bare_questions(Source(Path(queries)), fields)
    gold = read_gold(queries, format=format, target=target, split=split, columns=fields)
    return [_question(gold, at) for at in range(len(gold.queries))]


_BARE = {"query_id", "query", "_id", "text", "tags", "metadata"}
_ID = "id"
_OF_ITEM = ("chunk_id", "doc_id", "grade", "rank")
_JUDGED = {*_FOUND, "hops", "variant_of", "forbidden", "topk"}.union(*(NAMES[n] for n in _OF_ITEM))


def is_bare(
    path: str | PathLike[str],
    *,
    format: str | None = None,
    target: str | None = None,
    split: str = "test",
    columns: FieldMap | None = None,
) -> bool:
    """Whether a file holds queries and no gold."""
    source = Source(Path(path))
    if source.is_folder:
        return False
    if columns is not None and _is_mapped_bare(source, columns):
        return True
    return format is None and target is None and _is_named_bare(source)


def _is_named_bare(source: Source) -> bool:
    """Whether a file has queries without gold, by the names of its fields. Other fields are tags, unless they may say
    what should be found."""
    first: Mapping[str, Any]
    if source.first_object is not None:
        if set(source.first_object) <= _BARE:
            return True
        said = {name: value for record in sample(source) for name, value in record.items()}
        first = {name: value for name, value in said.items() if name != _ID or "query" not in said}
    elif source.is_parquet:
        first = dict.fromkeys(table_header(source) or (), "")
    else:
        first = {plain_title(name): value for name, value in first_fields(source).items()}
    others = {name: value for name, value in first.items() if name not in _BARE}
    judged = not _JUDGED.isdisjoint(map(plain_title, first)) or any(map(TARGET_FIELD.fullmatch, others))
    return "query" in first and not judged and not may_be_gold(others)


def _question(gold: Gold, at: int) -> Question:
    text = gold.text(at)
    if text is None or not text.strip():
        raise _without_text(SourcePlace(gold.label, None), gold.queries[at], text_hint(gold))
    columns = {**gold.tags, **{name: gold.fields[name] for name in _TOLD if name in gold.fields}}
    facts = {name: column[at] for name, column in columns.items() if column[at] is not None}
    return Question(gold.queries[at], text, facts)


def _is_mapped_bare(source: Source, fields: FieldMap) -> bool:
    """Whether a file has queries without gold."""
    records = sample(source)
    found = fields.fitting("queries", records, reads=False)
    if found is None or not any("query" in found.record(record) for record in records):
        return False
    gold = fields.fitting("gold", records, reads=False) or RecordMap("gold", {})
    says = {name for record in records for name in gold.record(record)}
    return says.isdisjoint({*_FOUND, "chunk_id", "doc_id"})


def bare_questions(source: Source, fields: FieldMap | None = None) -> list[Question]:
    """All queries of a file without judgements."""
    source.refuse_nonsense()
    found: dict[str, Question] = {}
    decoder = RecordDecoder(BareQuery)
    if fields is None and source.first_object is not None and set(source.first_object) <= _BARE:
        records = read_records(source, decoder)
    else:
        mapped = ((line, _tagged(record)) for line, record in mapped_records(source, fields, "queries"))
        records = ((decode_record(decoder, r, source.label, n), SourcePlace(source.label, n)) for n, r in mapped if r)
    for record, place in records:
        text = record.query or record.text
        named = record.query_id if record.query_id is not None else record._id
        query = str(text if named is None else named)
        if text is None or not text.strip():
            raise _without_text(place, query)
        if query in found:
            raise place.error("this query appears twice", code="duplicate-query", query=query)
        tags = record.tags
        found[query] = Question(query, text, tags if isinstance(tags, dict) else {"tags": tags})
    return list(found.values())


def _tagged(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record whose other fields are tags; empty for an empty row of a table."""
    titles = {name: plain_title(name) for name in record}
    if not {"query_id", "_id"} & record.keys():
        titles |= {name: "query_id" for name, title in titles.items() if title in (_ID, *NAMES["query_id"][:-1])}
    made = {titles[name] if titles[name] in _BARE else name: value for name, value in record.items() if _is_said(value)}
    others = {name: value for name, value in made.items() if name not in _BARE and not isinstance(value, (list, dict))}
    known = {name: value for name, value in made.items() if name in _BARE}
    return {**known, "tags": others} if others and "tags" not in known else known


def _is_said(value: Any) -> bool:
    return value is not None and (not isinstance(value, str) or bool(value.strip()))


def queries_hint(path: str | PathLike[str]) -> str | None:
    """What to type for a file of queries without gold whose fields have other names; None if it has no queries."""
    fields = suggested_map("queries", *first_record(Source(Path(path))))
    return fields and f"if it has queries without gold: --map {quote(fields)}"


def _without_text(place: SourcePlace, query: str, hint: str | None = None) -> InputError:
    return place.error("the query has no text", code="missing-text", query=query, field="query", hint=hint)


def tag_with_texts(gold: Gold) -> str | None:
    """The tag that is probably the text of queries, for a gold set without texts."""
    if any(map(gold.text, range(len(gold.queries)))):
        return None
    firsts = {name: next((one for one in column if one is not None), None) for name, column in gold.tags.items()}
    return text_field(firsts)


def text_hint(gold: Gold) -> str | None:
    """What to type if queries have no text because their field has another name."""
    field = tag_with_texts(gold)
    return None if field is None else f"if {field!r} is their text: --map {quote(f'query={field}')}"
