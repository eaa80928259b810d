"""Identity of a gold set: its version, time range, name and hash."""

from __future__ import annotations

import os
import re
from typing import Any

from karat.data.gold import Dataset
from karat.errors import InputError
from karat.formats.base import Source

_KEYS = {  # names that a header may use; the first that is present counts
    "version": ("dataset_version", "DATASET_VERSION", "version"),
    "as_of_range": ("as_of_range", "AS_OF_RANGE"),
    "name": ("name",),
}
HEADER: frozenset[str] = frozenset({"dataset", *_KEYS["version"][:2], *_KEYS["as_of_range"]})


def header_of(value: Any) -> dict[str, Any]:
    """Dataset version and range from a header entry, a mapping around the entries, or dataset.yaml."""
    if not isinstance(value, dict):
        return {}
    inner = value.get("dataset")
    found = {**value, **inner} if isinstance(inner, dict) else dict(value)
    if isinstance(inner, str):
        found.setdefault("version", inner)
    named = {name: [found[key] for key in keys if found.get(key) is not None] for name, keys in _KEYS.items()}
    return {name: values[0] for name, values in named.items() if values}


def holds_entries(first: dict[str, Any] | None) -> bool:
    """Whether a JSON object is a mapping around entries, not an entry."""
    queries = (first or {}).get("queries")
    return isinstance(queries, list) and bool(queries) and isinstance(queries[0], dict)


def _settled(header: dict[str, Any], label: str) -> dict[str, Any]:
    """A header with its values in normal form."""
    return {
        name: _range_of(value, label) if name == "as_of_range" else _text_of(value, name, label)
        for name, value in header.items()
    }


def _text_of(value: Any, field: str, label: str) -> str:
    if not isinstance(value, (str, int, float)):
        raise InputError("wrong type", code="wrong-type", file=label, field=field, expected="text", got=value)
    return str(value)


def _range_of(value: Any, label: str) -> list[str]:
    ends = re.split(r"\s*(?:\.\.|/|,|\bto\b)\s*", value.strip()) if isinstance(value, str) else value
    if not isinstance(ends, list) or len(ends) != 2 or not all(isinstance(e, (str, int)) for e in ends):
        expected = "two dates, as in 2025-01-01..2025-06-30"
        raise InputError(
            "not a date range", code="bad-value", file=label, field="as_of_range", expected=expected, got=value
        )
    return [str(e) for e in ends]


def dataset_of(source: Source, header: dict[str, Any] | None = None) -> Dataset:
    """Which data this is: the file's own header, dataset.yaml next to it, the environment; always its hash."""
    environment = {name: os.environ.get(name) or None for name in ("DATASET_VERSION", "AS_OF_RANGE")}
    found = _settled(header_of(environment), "the environment")
    folder = source.path if source.is_folder else source.path.parent
    beside = folder / "dataset.yaml"
    if beside.is_file():
        from karat.formats.records import read_document

        found |= _settled(header_of(read_document(Source(beside))[0]), str(beside))
    found |= _settled(header or {}, source.label)
    return Dataset(**found, hash=None if source.is_folder else source.content_hash())
