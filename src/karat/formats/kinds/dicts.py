"""Dicts of queries in JSON."""

from __future__ import annotations

from typing import Any, ClassVar

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.errors import InputError
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.dataset import dataset_of


class DictFormat(Format):
    """JSON `{query: {document: score}}` or `{query: [documents]}`, as a run or as gold."""

    name = "dict"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run", "gold"})
    order = 40

    def recognises(self, source: Source, kind: Kind) -> bool:
        if not source.first_line.startswith(b"{") or _is_many_lines(source):
            return False
        first = source.first_object
        if first is not None and all(v is None for v in first.values()):  # a long first line, known by its keys only
            return not {"query_id", "topk", "gold", "samples"} & set(first)
        return first is None or (bool(first) and all(isinstance(v, (dict, list)) for v in first.values()))

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.dicts import run_from_dict

        return run_from_dict(self._load(source), source.label, options.system)

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.dicts import gold_from_dict

        return gold_from_dict(self._load(source), source.label, dataset_of(source))

    def _load(self, source: Source) -> dict[str, Any]:
        from karat.formats.records import read_document

        value, _ = read_document(source)
        if not isinstance(value, dict):
            raise InputError(
                "not an object", code="wrong-type", file=source.label, expected="{query: {document: score}}", got=value
            )
        return value


def _is_many_lines(source: Source) -> bool:
    """Whether every line is a separate object."""
    lines = [line for line in source.head.splitlines() if line.strip()]
    if len(lines) < 2 or not all(line.startswith(b"{") for line in lines[:2]):
        return False
    from karat.formats.records import is_json_lines

    return is_json_lines(source)
