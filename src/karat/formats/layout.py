"""Where a table keeps what: columns under names of its own, one row a hit or a list of hits a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karat.data.hits import OPTIONAL_COLUMNS
from karat.errors import ConfigError, InputError, did_you_mean, shorten

if TYPE_CHECKING:
    import polars as pl

# What a column may be called. The first name that is there wins.
NAMES: dict[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid", "query-id", "q_id", "topic", "topic_id", "query"),
    "chunk_id": ("chunk_id", "item_id", "corpus-id", "corpus_id", "docno", "docid", "id", "passage_id"),
    "doc_id": ("doc_id", "document_id", "doc"),
    "grade": ("grade", "relevance", "rel", "label", "gain", "score"),
    "score": ("score", "sim", "similarity"),
    "rank": ("rank", "position"),
    "system": ("system", "run", "tag", "run_id"),
}
LISTS = "topk"
LATENCY = "latency_ms"
_OF_HIT = ("chunk_id", "doc_id", "score", "rank", *sorted(OPTIONAL_COLUMNS))
_ROLES = ("query_id", "system", LISTS, LATENCY, *_OF_HIT)
_KEPT = {name for role, names in NAMES.items() if role != "grade" for name in names} | {LISTS, LATENCY}


class Layout:
    """Role → column, as a user's file says it; what it does not say goes by the usual names."""

    def __init__(self, columns: Mapping[str, str] | None = None, label: str | None = None) -> None:
        self.columns, self._said = dict(columns or {}), f", as {label} says" if label else ""
        for role, name in self.columns.items():
            if role not in _ROLES:
                hint = did_you_mean(str(role), _ROLES) or f"there are {', '.join(_ROLES)}"
                raise ConfigError(f"unknown column {shorten(role, 40)!r}", code="unknown-column", file=label, hint=hint)
            if not isinstance(name, str) or not name:
                raise ConfigError(
                    "not the name of a column", code="wrong-type", file=label, field=role, expected="text", got=name
                )

    def picked(self, schema: Mapping[str, pl.DataType], columns: frozenset[str], label: str) -> dict[str, str]:
        """The columns that are read, and what they are called from here on: by role where the user says so."""
        absent = {role: name for role, name in self.columns.items() if role not in _OF_HIT and name not in schema}
        found = {name: role for role, name in self.columns.items() if name in schema}
        nested = _nested(schema, self.columns.get(LISTS, LISTS))
        if nested is None:
            absent |= {role: name for role, name in self.columns.items() if name not in schema}
        for role, name in absent.items():
            raise InputError(
                f"no column {name!r} for {role}{self._said}",
                code="missing-column",
                file=label,
                got=", ".join(schema),
                hint=did_you_mean(name, schema),
            )
        taken, said = set(found.values()), _KEPT | (columns & OPTIONAL_COLUMNS)
        for name in schema:
            usual = name.strip().lower()
            if name not in found and usual in said and usual not in taken and not self._renamed(usual):
                found[name] = name
                taken.add(usual)
        return found

    def _renamed(self, usual: str) -> bool:
        """Whether a column of this name would now be taken for something that the user has under another name."""
        return any(usual in NAMES.get(role, (role,)) for role in self.columns)

    def exploded(self, frame: pl.DataFrame, label: str) -> tuple[pl.DataFrame, Any] | None:
        """Of a table with a list a query: a row a hit, and how many each query has. None for a row a hit."""
        import polars as pl

        inner = _nested(frame.schema, LISTS)
        if inner is None:
            return None
        counts = frame[LISTS].list.len().fill_null(0)
        hits = frame.filter(counts > 0).select(LISTS).explode(LISTS)
        if not isinstance(inner, pl.Struct):
            return hits.rename({LISTS: "chunk_id"}), counts
        fields = {f.name: f.name for f in inner.fields}
        for role in set(_OF_HIT) & set(self.columns):
            name = self.columns[role]
            if name not in fields:
                hint = f"a hit has: {', '.join(fields)}"
                raise InputError(
                    f"no field {name!r} for {role} in the hits",
                    code="missing-field",
                    file=label,
                    field=LISTS,
                    hint=hint,
                )
            fields[name] = role
        clashes = {name for name, role in fields.items() if name == role} & set(self.columns)
        hits = hits.unnest(LISTS).drop(name for name in clashes if self.columns.get(name) != name)
        return hits.rename({name: role for name, role in fields.items() if name in hits.columns}), counts


def find_column(columns: Iterable[str], role: str) -> str | None:
    """The column that plays a role, by its usual names."""
    there = {c.strip().lower(): c for c in columns}
    return next((there[n] for n in NAMES[role] if n in there), None)


def _nested(schema: Mapping[str, pl.DataType], name: str) -> Any:
    """What the lists of a column hold; None where it holds none."""
    return getattr(schema.get(name), "inner", None)


def read_layout(columns: Any) -> Layout:
    """A mapping role → column, or a YAML file that holds one."""
    label = None
    if columns is None or isinstance(columns, Layout):
        return columns or Layout()
    if isinstance(columns, Mapping):
        return Layout(columns)
    if isinstance(columns, (str, PathLike)):
        from karat.files.yaml import load_yaml

        try:
            text = Path(columns).read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", code="unreadable", file=str(columns)) from error
        said, _ = load_yaml(text, str(columns))
        if isinstance(said, dict):
            return Layout(said, str(columns))
        columns, label = said, str(columns)
    expected = "a mapping such as `query_id: request_id`"
    raise ConfigError("not a mapping of columns", code="wrong-type", file=label, expected=expected, got=columns)
