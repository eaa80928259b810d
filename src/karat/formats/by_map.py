"""Reads any input through a field map, for fields whose names are not recognised."""

from __future__ import annotations

from collections.abc import Mapping
from glob import has_magic
from os import PathLike
from pathlib import Path
from typing import Any

from karat.data.gold import Dataset, Gold
from karat.data.hits import Run
from karat.formats.base import ReadOptions, Source
from karat.formats.field_map import FieldMap
from karat.formats.kinds.table import matching_files
from karat.formats.layout import Layout
from karat.formats.mapped import container, gold_of_records, map_for, mapped_gold, mapped_list, mapped_run
from karat.formats.table_file import as_frame


def fields_or_columns(run: Any, columns: Any) -> tuple[FieldMap | None, Any]:
    """A field map; or the columns of a table, which is read some rows at a time."""
    if columns is None or isinstance(columns, FieldMap):
        return columns, None
    if isinstance(columns, (Layout, PathLike)) or (isinstance(columns, str) and "=" not in columns):
        return None, columns
    is_path = isinstance(run, (str, PathLike)) and not has_magic(str(run))
    is_list = isinstance(run, list)
    if is_list or (is_path and container(Source(Path(run))) in ("lines", "document")):
        return FieldMap.of(columns, strict=True), None
    if isinstance(columns, Mapping) and not any("." in str(path) for path in columns.values()):
        return None, columns
    return FieldMap.of(columns, strict=True), None


def run_by_map(run: Any, fields: FieldMap, options: ReadOptions, format: str | None) -> Run | None:
    """The run through the map; None where it has none of the mapped fields."""
    if isinstance(run, (str, PathLike)):
        if format is not None or matching_files(run) is not None:
            return None
        source = Source(Path(run), is_run=True)
        source.refuse_nonsense()
        found = map_for(fields, "run", source)
        return None if found is None else mapped_run(source, found, options)
    if isinstance(run, Mapping):
        return None
    frame = as_frame(run)
    records: list[Any] = run if isinstance(run, list) else [] if frame is None else frame.to_dicts()
    found = fields.fitting("run", records[:100])
    if fields.strict:
        fields.refuse_unused()
    return None if found is None else mapped_list(records, found, options, "run")


def gold_by_map(gold: Any, fields: FieldMap, options: ReadOptions, format: str | None) -> Gold | None:
    if isinstance(gold, (str, PathLike)):
        if format is not None:
            return None
        source = Source(Path(gold))
        source.refuse_nonsense()
        found = map_for(fields, "gold", source)
        return None if found is None else mapped_gold(source, found, options)
    if isinstance(gold, Mapping):
        return None
    frame = as_frame(gold)
    records: list[Any] = gold if isinstance(gold, list) else [] if frame is None else frame.to_dicts()
    found = fields.fitting("gold", records[:100])
    if fields.strict:
        fields.refuse_unused()
    return None if found is None else gold_of_records(enumerate(records, 1), found, options, "gold", Dataset())
