"""Signals from users for each query (thumbs, resolved, the score of an answer), from a file or a field of the gold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from karat.data.attributes import attribute
from karat.data.gold import SIGNAL, Gold
from karat.errors import InputError, NoOverlap
from karat.files.decode_errors import DECODE_ERRORS, refusal
from karat.formats.base import Source, SourcePlace
from karat.formats.records import list_entries, read_document
from karat.formats.trec_rows import as_text

_WORDS = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0, "up": 1.0, "down": 0.0, "👍": 1.0, "👎": 0.0}
_EXPECTED = "a number, true or false, yes or no, up or down"
_HINT = "write FILE:FIELD; every line of the file needs query_id and the field"


def with_signal(gold: Gold, given: Any) -> Gold:
    """The gold set with the signal of each query from `given`: a mapping, the name of a gold field, a file with
    `query_id` and one more field, or FILE:FIELD."""
    if isinstance(given, Mapping):
        said = {str(query): (value, SourcePlace("quality", None)) for query, value in given.items()}
        field = "quality"
    elif isinstance(given, str) and (given in gold.tags or given in gold.fields) and not Path(given).exists():
        place = SourcePlace(gold.label, None)
        said = {query: (value, place) for query, value in zip(gold.queries, attribute(gold, given), strict=True)}
        field = given
    else:
        said, field = _of_file(given)
    values = [_number(*said[query], field, query) if query in said else None for query in gold.queries]
    if all(value is None for value in values):
        file = next((place.file for _, place in said.values()), str(given))
        raise NoOverlap("no query of the gold set has a signal", file=file, field=field, hint=_HINT)
    return replace(gold, fields={**gold.fields, SIGNAL: values})


def _of_file(given: str | PathLike[str]) -> tuple[dict[str, tuple[Any, SourcePlace]], str]:
    path, field = str(given), None
    if not Path(path).exists() and ":" in path:
        path, _, field = path.rpartition(":")
    source = Source(path)
    source.refuse_nonsense()
    found: dict[str, tuple[Any, SourcePlace]] = {}
    for record, place in _records(source):
        names = [name for name in record if name not in ("query_id", "query")]
        if field is None and len(names) != 1:
            raise place.error(
                "name the field of the signal", code="missing-option", got=", ".join(names) or "none", hint=_HINT
            )
        field = field or names[0]
        query = record.get("query_id", record.get("query"))
        if query is None:
            raise place.error("the field is missing", code="missing-field", field="query_id", hint=_HINT)
        if str(query) in found:
            raise place.error("this query appears twice", code="duplicate-query", query=str(query))
        found[str(query)] = record.get(field), place
    return found, field or ""


def _records(source: Source) -> Iterator[tuple[dict[str, Any], SourcePlace]]:
    if source.path.suffix.lower() in (".csv", ".tsv"):
        import csv

        with source.open() as stream:
            mark = "\t" if source.path.suffix.lower() == ".tsv" else ","
            rows = csv.DictReader((as_text(raw, source.label, n) for n, raw in enumerate(stream, 1)), delimiter=mark)
            try:
                for line, row in enumerate(rows, 2):
                    if None in row:
                        raise csv.Error("more fields than the header has")
                    yield dict(row), SourcePlace(source.label, line)
            except csv.Error as error:
                what = f"invalid table row: {error}"
                raise InputError(what, code="bad-row", file=source.label, line=rows.line_num) from error
        return
    import msgspec

    if source.first_object is None:
        value, lines = read_document(source)
        for number, entry in list_entries(value, lines, source.label):
            yield entry, SourcePlace(source.label, number)
        return
    with source.open() as stream:
        for line, raw in enumerate(stream, 1):
            if raw.strip():
                try:
                    yield msgspec.json.decode(raw, type=dict[str, Any]), SourcePlace(source.label, line)
                except DECODE_ERRORS as error:
                    raise refusal(error, source.label, line, raw) from error


def _number(value: Any, place: SourcePlace, field: str, query: str) -> float | None:
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.strip().lower() in _WORDS:
        return _WORDS[value.strip().lower()]
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = float("nan")
    if not abs(found) < float("inf"):
        raise InputError(
            "not a quality signal",
            code="bad-value",
            file=place.file,
            line=place.line,
            field=field,
            query=query,
            expected=_EXPECTED,
            got=value,
        )
    return found
