"""Runs and gold sets that are objects in memory: dicts, lists of records, frames."""

from __future__ import annotations

from collections.abc import Mapping
from shlex import quote
from typing import Any

from karat.data.gold import Dataset, Gold
from karat.data.hits import Run
from karat.errors import InputError
from karat.formats.base import ReadOptions
from karat.formats.dicts import gold_from_dict, run_from_dict
from karat.formats.gold_file import GoldReader
from karat.formats.kinds.samples import is_output, is_sample
from karat.formats.map_guess import suggested_map
from karat.formats.records import decode_entries
from karat.formats.run_log import RunLog
from karat.formats.samples import OutputRun, gold_from_samples
from karat.formats.table_file import as_frame
from karat.formats.table_gold import gold_from_frame
from karat.formats.table_run import FrameRun
from karat.formats.traces.run import TraceRun, trace_options
from karat.formats.traces.values import spans_in_memory


def run_in_memory(run: Any, options: ReadOptions) -> Run:
    if isinstance(run, Mapping):
        return run_from_dict(run)
    if (spans := spans_in_memory(run)) is not None:
        return TraceRun(spans.label, spans, options.system, options.hits, options=trace_options(options))
    if isinstance(run, list):
        first = next(iter(run), None)
        if isinstance(first, dict) and "query_id" in first and {"chunk_id", "doc_id"} & first.keys():
            from karat.formats.field_map import RecordMap
            from karat.formats.mapped import mapped_list

            return mapped_list(run, RecordMap("run", {}), options, "run")  # one record per hit
        _refuse_other_fields(first, options)
        return (OutputRun if is_output(next(iter(run), None)) else RunLog)("run", run, options.system, options.hits)
    frame = as_frame(run)
    if frame is not None:
        return FrameRun(frame, "run", options.system, layout=options.layout)
    what, expected = f"cannot read a run from {type(run).__name__}", "a path, dict, list of records, frame or Run"
    raise InputError(what, code="unreadable-object", expected=expected)


def _refuse_other_fields(first: Any, options: ReadOptions) -> None:
    """Raise for records with other field names, with a map that may fit."""
    if not isinstance(first, dict) or options.hits in first or is_output(first):
        return
    fields = suggested_map("run", first)
    if fields is not None:
        raise InputError(
            "the records have no field topk",
            code="missing-field",
            file="run",
            got=", ".join(map(str, first)),
            hint=f"map their fields: --map {quote(fields)}",
        )


def gold_in_memory(gold: Any, options: ReadOptions) -> Gold:
    samples = gold.get("samples") if isinstance(gold, Mapping) else gold
    if isinstance(samples, list) and is_sample(next(iter(samples), None)):
        return gold_from_samples(samples)
    if isinstance(gold, Mapping):
        return gold_from_dict(gold)
    if isinstance(gold, list):
        reader = GoldReader("gold", options)
        for records, lines in decode_entries(enumerate(gold, 1), reader.decoder, "gold"):
            reader.add(records, lines)
        return reader.build(Dataset())
    frame = as_frame(gold)
    if frame is not None:
        return gold_from_frame(frame, "gold", Dataset(), options.target)
    what, expected = f"cannot read gold from {type(gold).__name__}", "a path, dict, list of entries or frame"
    raise InputError(what, code="unreadable-object", expected=expected)
