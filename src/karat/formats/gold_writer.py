"""Writes a gold set: JSONL with a header, which reads back as the same gold set."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from karat.data.gold import BARE, CHUNK, DOC, Gold

_NAMES = {BARE: "id", CHUNK: "chunk_id", DOC: "doc_id"}


def gold_lines(
    gold: Gold, header: Mapping[str, Any], notes: Mapping[int, Mapping[str, Any]] | None = None
) -> Iterator[bytes]:
    """One line for the header, and one per query. Every item has its grade. `notes`: extra data of an item, by
    its row; readers ignore it."""
    said = {name: value for name, value in msgspec.to_builtins(gold.dataset).items() if value is not None}
    said.pop("hash", None)  # it is the hash of another file
    yield msgspec.json.encode({"dataset": said, **header}) + b"\n"
    for at in range(len(gold.queries)):
        yield msgspec.json.encode(gold_entry(gold, at, notes or {})) + b"\n"


def gold_entry(gold: Gold, at: int, notes: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    """One query as an entry of a gold file."""
    first, end = gold.offsets[at : at + 2].tolist()
    columns = {name: values[at] for name, values in gold.fields.items() if values[at] is not None}
    tags = {name: values[at] for name, values in gold.tags.items() if values[at] is not None}
    entry = {
        "query_id": gold.queries[at],
        **columns,
        "gold": [_item(gold, row) | dict(notes.get(row, {})) for row in range(first, end)],
    }
    if gold.no_answer[at]:
        entry["no_answer"] = True
    if gold.k[at]:
        entry["k"] = int(gold.k[at])
    return entry | ({"tags": tags} if tags else {})


def _item(gold: Gold, row: int) -> dict[str, Any]:
    kind, grade = int(gold.kinds[row]), float(gold.grades[row])
    item: dict[str, Any] = {_NAMES[kind]: gold.ids[row], "grade": int(grade) if grade.is_integer() else grade}
    passage = gold.passages[row] if gold.passages else None
    if passage is not None:
        place = {"doc_id": passage.doc, "quote": passage.quote, "start": passage.start, "end": passage.end}
        item |= {name: value for name, value in place.items() if value is not None and name not in item}
    return item
