"""Reads hard negatives: items that look relevant to a query but are not."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from karat.errors import InputError, meant
from karat.formats.base import Source
from karat.formats.records import RecordDecoder, is_json_lines, read_document, read_records

_EXPECTED = "`query_id` and `negatives` in every entry, or {query: [ids]}"


class NegativesEntry(msgspec.Struct, kw_only=True, gc=False):
    """The negatives of one query; other fields, such as those of a gold set, are ignored."""

    query_id: str | int | None = None
    query: str | None = None
    negatives: list[str | int] | None = None


def read_negatives(path: str | PathLike[str]) -> dict[str, list[str]]:
    """Query → ids, from JSONL, JSON or YAML with `query_id` and `negatives`, or from `{query: [ids]}`."""
    source = Source(Path(path))
    source.refuse_nonsense()
    found = _mapping(source)
    found = _entries(source) if found is None else found
    if not any(found.values()):
        raise InputError("no negatives in this file", code="unrecognised", file=source.label, expected=_EXPECTED)
    return found


def _mapping(source: Source) -> dict[str, list[str]] | None:
    """A file that is one mapping of queries to lists; None where it is a list of entries."""
    if is_json_lines(source) and {"query_id", "query", "negatives"} & set(source.first_object or ()):
        return None
    value, _ = read_document(source)
    if not isinstance(value, dict):
        return None
    return {str(query): as_negatives(ids, source.label, str(query)) for query, ids in value.items()}


def as_negatives(ids: Any, label: str, query: str) -> list[str]:
    """The ids of one query, each once."""
    if not isinstance(ids, list) or any(isinstance(i, bool) or not isinstance(i, (str, int)) for i in ids):
        raise InputError("wrong type", code="wrong-type", file=label, field=query, expected="a list of ids", got=ids)
    return list(dict.fromkeys(map(str, ids)))


def _entries(source: Source) -> dict[str, list[str]]:
    decoder = RecordDecoder(NegativesEntry)
    found: dict[str, list[str]] = {}
    for entry, place in read_records(source, decoder):
        query = entry.query if entry.query_id is None else str(entry.query_id)
        if query is None:
            hint = meant(["query_id", "negatives"], decoder.extra_names.values())
            raise place.error("the field is missing", code="missing-field", field="query_id", hint=hint)
        if query in found:
            raise place.error("this query appears twice", code="duplicate-query", query=query)
        found[query] = list(dict.fromkeys(map(str, entry.negatives or ())))
    return found
