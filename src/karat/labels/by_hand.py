"""Labels that people wrote by hand (CSV or TSV, other names for the fields, no annotator), and qrels as labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from karat.formats.base import Source, SourcePlace
from karat.formats.kinds.ratings import is_quepid_book
from karat.formats.kinds.trec import QrelsFormat
from karat.formats.quepid_book import judgements
from karat.formats.records import RecordDecoder, read_records
from karat.formats.table_file import rows_of
from karat.formats.trec_rows import as_number, as_text, wrong_columns

# Field of a label → other names that are accepted for it, where the field itself is missing.
NAMES: dict[str, tuple[str, ...]] = {
    "query_id": ("qid", "query-id", "question_id"),
    "chunk_id": ("chunk", "passage_id"),
    "doc_id": ("doc", "docid", "document_id", "corpus-id"),
    "grade": ("label", "relevance", "rel", "rating", "score"),
    "annotator": ("annotator_id", "rater", "worker", "user"),
}
EXAMPLE = '{"query_id": "q1", "chunk_id": "doc_7#p2", "grade": 2, "annotator": "ann"}'
COLUMNS = "query_id, chunk_id or doc_id, and grade (also label or relevance); annotator is optional"
_EMPTY = "empty cell"
_NUMBERS = ("grade", "inclusion_probability")
_DECIMAL_COMMA = re.compile(r"(?![1-9]\d{0,2},\d{3}$)\d*,\d+")  # 1,234 may mean a thousand


class _Anything(msgspec.Struct):
    """A record with any fields."""


def is_table(source: Source) -> bool:
    """Whether a file of labels is a table with a header instead of JSON."""
    header = source.first_line.decode("utf-8", "replace").strip().lower()
    return not header.startswith(("{", "[")) and any(mark in header for mark in ",;\t")


def is_qrels(source: Source) -> bool:
    return QrelsFormat().recognises(source, "gold")


def is_by_hand(source: Source) -> bool:
    return is_table(source) or is_qrels(source) or is_quepid_book(source)


def read_by_hand(source: Source) -> Iterator[tuple[dict[str, Any], SourcePlace]]:
    """Labels with the names that `Label` has, and their places."""
    if is_quepid_book(source):
        return _of_book(source)
    return _judged(source) if is_qrels(source) else _rows(source) if is_table(source) else _records(source)


def hint_for(source: Source) -> str:
    return (
        f"the columns are {COLUMNS}"
        if is_table(source)
        else f"a label is a line such as {EXAMPLE}, or with doc_id for a whole document"
    )


def _judged(source: Source) -> Iterator[tuple[dict[str, Any], SourcePlace]]:
    """The lines of a qrels file as labels. A grade below 0 means unjudged, as in a gold set."""
    with source.open() as stream:
        for line, raw in enumerate(stream, 1):
            parts = raw.split()
            if not parts:
                continue
            if len(parts) != 4:
                raise wrong_columns(source.label, line, "4: query iteration document grade", len(parts))
            query, item = (as_text(part, source.label, line) for part in (parts[0], parts[2]))
            grade = as_number(parts[3], source.label, line, "grade")
            judged = {"grade": None, "reason": "unjudged"} if grade < 0 else {"grade": grade}
            yield _renamed({"query_id": query, "chunk_id": item, **judged}, source), SourcePlace(source.label, line)


def _of_book(source: Source) -> Iterator[tuple[dict[str, Any], SourcePlace]]:
    """The judgements of a book of Quepid as labels. The text of a query is its id."""
    for one in judgements(source):
        graded = {"grade": None, "reason": "not rated"} if one.rating is None else {"grade": one.rating}
        yield {"query_id": one.query, "chunk_id": one.document, "annotator": one.person, **graded}, one.place


def _rows(source: Source) -> Iterator[tuple[dict[str, Any], SourcePlace]]:
    """The rows of a CSV or TSV file as labels. An empty grade is a missing one, not 0."""
    for line, row in rows_of(source):
        found = _renamed({name.strip().lower(): value.strip() for name, value in row.items()}, source)
        label: dict[str, Any] = {name: value for name, value in found.items() if value != ""}
        for name in _NUMBERS:
            if _DECIMAL_COMMA.fullmatch(label.get(name, "")):
                label[name] = label[name].replace(",", ".")
        if found.get("grade") == "":
            label = {"grade": None, "reason": _EMPTY, **label}
        yield label, SourcePlace(source.label, line)


def _records(source: Source) -> Iterator[tuple[dict[str, Any], SourcePlace]]:
    """The records of a JSON file as labels."""
    decoder = RecordDecoder(_Anything)
    for record, place in read_records(source, decoder):
        named = {field: getattr(record, attribute, None) for attribute, field in decoder.extra_names.items()}
        found = _renamed({name: value for name, value in named.items() if value is not None}, source)
        yield ({"grade": None, **found} if "reason" in found else found), place


def _renamed(record: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """A record with the names of a label. Without an annotator, the file's name is taken."""
    found = dict(record)
    for field, others in NAMES.items():
        other = next((name for name in others if name in found), None)
        if field not in found and other is not None:
            found[field] = found.pop(other)
    if not found.get("annotator"):
        found["annotator"] = Path(source.label).name.partition(".")[0] or "annotator"
    return found
