"""Samples, and outputs of samples."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.formats.base import Format, Kind, ReadOptions, Source


class SamplesFormat(Format):
    """YAML or JSON with `samples:`; outputs with `id` and `actualOutput`, as JSONL or a list in JSON."""

    name = "samples"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"gold", "run"})
    order = 20

    def recognises(self, source: Source, kind: Kind) -> bool:
        if source.is_folder:
            return False
        if kind == "run":
            # A list, or indented: then a key at any depth.
            return is_output(source.first_object) or _has_outputs(source)
        if {"samples", "expected_output"} & set(source.first_object or {}) or is_sample(_first_entry(source)):
            return True
        # In YAML a key of the outermost mapping, not a word of some text; in indented JSON at any depth.
        indented = rb'^\s*"samples"\s*:' if source.looks_like_json else rb"^samples\s*:"
        return re.search(indented, source.head, re.M) is not None

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        from karat.formats.samples import read_samples

        return read_samples(source)

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.samples import OutputRun

        return OutputRun(source.label, source, options.system)


def is_output(record: Any) -> bool:
    """Whether a record of a run is the output of a sample."""
    if not isinstance(record, dict) or "topk" in record:
        return False
    named = isinstance(record.get("id"), (str, int)) and not {"output", "retrieved"}.isdisjoint(record)
    return named or "actualOutput" in record or "actual_output" in record


def is_sample(record: Any) -> bool:
    """Whether an entry of a gold set is a sample."""
    return isinstance(record, dict) and "expected_output" in record


def _has_outputs(source: Source) -> bool:
    if not source.looks_like_json:
        return False
    from karat.formats.records import is_json_lines

    if is_json_lines(source):
        return False
    return is_output(_first_entry(source)) or re.search(rb'"actual_?[oO]utput"\s*:', source.head) is not None


def _first_entry(source: Source) -> Any:
    """The first object of a JSON list; None where the file is not a list, or the object is longer than the head."""
    head = source.head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if not head.startswith(b"["):
        return None
    import json

    try:
        return json.JSONDecoder().raw_decode(head[1:].decode("utf-8", "replace").lstrip())[0]
    except (ValueError, RecursionError):
        return None
