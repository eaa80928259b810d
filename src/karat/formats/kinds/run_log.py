"""Run logs."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from karat.data.hits import Run
from karat.formats.base import Format, Kind, ReadOptions, Source

_OF_FAILED = {"query_id", "query", "system", "error", "latency_ms"}


def _is_list_of_records(source: Source) -> bool:
    """Whether a JSON array holds the records of a run log."""
    return source.first_line.startswith(b"[") and re.search(rb'[{,]\s*"topk"\s*:', source.head) is not None


def _has_steps(record: dict[str, Any]) -> bool:
    return isinstance(record.get("steps"), list) and not {"query_id", "query"}.isdisjoint(record)


def _failed(record: dict[str, Any], source: Source) -> bool:
    """Whether a record has an error instead of a list, and the next ones are those of a run log."""
    if not record.get("error") or not isinstance(record.get("query_id"), (str, int)):
        return False
    return b'"topk"' in source.head or record.keys() <= _OF_FAILED


class RunLogFormat(Format):
    """JSONL with `query_id` and `topk` (or `steps`, or `error`) on every line, or a JSON array of the same records."""

    name = "run-log"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run"})
    order = 10

    def recognises(self, source: Source, kind: Kind) -> bool:
        first = source.first_object or {}
        return "topk" in first or _has_steps(first) or _failed(first, source) or _is_list_of_records(source)

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.run_log import RunLog

        return RunLog(source.label, source, options.system, options.hits)
