"""The questions of a run log, in the form of those of traces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from shlex import quote
from typing import Any

from karat.errors import InputError
from karat.formats.base import Source
from karat.formats.field_map import FieldMap, RecordMap
from karat.formats.kinds.traces import is_traces
from karat.formats.map_guess import flattened
from karat.formats.mapped import map_for, plain_records, sample
from karat.formats.traces.assemble import TraceRecord
from karat.formats.traces.redact import Redaction

_KEPT = ("query_id", "query", "system", "route", "score_order")
_DAY = re.compile(r"\d{4}-\d\d-\d\d(?!\d)")


def log_map(source: Source, fields: FieldMap | None) -> RecordMap | None:
    """How the records of a run log are read; None if the file is no run log."""
    if is_traces(source):
        return None
    found = map_for(fields, "run", source) or RecordMap("run", {})
    return found if any("topk" in found.record(record) for record in sample(source)) else None


def log_records(source: Source, fields: RecordMap, redaction: Redaction | None) -> Iterator[TraceRecord]:
    """Every record that has the text of its query. The day is that of the first field with a date."""
    found = False
    for line, record in plain_records(source):
        made = fields.record_at(record, source.label, line)
        query, hits = made.get("query"), made.get("topk")
        if not isinstance(query, str) or not query.strip() or not isinstance(hits, list):
            continue
        found = True
        said = {name: made[name] for name in _KEPT if made.get(name) is not None}
        said["topk"] = [_hit(hit, source, line) for hit in hits]
        attributes = {name: value for name, value in flattened(record) if not isinstance(value, list)}
        days = (value[:10] for value in attributes.values() if isinstance(value, str) and _DAY.match(value))
        if redaction is not None:
            said, attributes = redaction.of(said), redaction.of(attributes)
        yield TraceRecord(said, said["query"], line, attributes, next(days, None))
    if not found:
        file = quote(source.label)
        raise InputError(
            "no line of this run log has the text of its query",
            code="missing-text",
            file=source.label,
            field="query",
            hint=f"name the field with --map query=FIELD (`karat check {file}` lists them), or give the queries in "
            f"another file: karat labels pool {file} --gold QUERIES -o pool.jsonl",
        )


def _hit(hit: Any, source: Source, line: int | None) -> dict[str, Any]:
    if not isinstance(hit, Mapping):
        return {"chunk_id": str(hit)}
    named = {"chunk_id": hit["id"], **hit} if "id" in hit and "doc_id" not in hit else dict(hit)
    if not {"chunk_id", "doc_id", "text"} & named.keys():
        what, hint = "the hit has no id", "name its field: --map chunk_id=FIELD"
        raise InputError(what, code="missing-field", file=source.label, line=line, field="chunk_id", hint=hint)
    return named
