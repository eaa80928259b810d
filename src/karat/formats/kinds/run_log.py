"""Run logs."""

from __future__ import annotations

import re
from typing import Any, ClassVar

from karat.data.hits import Run
from karat.formats.base import Format, Kind, ReadOptions, Source


def _is_list_of_records(source: Source) -> bool:
    """Whether a JSON array holds the records of a run log."""
    return source.first_line.startswith(b"[") and re.search(rb'[{,]\s*"topk"\s*:', source.head) is not None


def _has_steps(record: dict[str, Any]) -> bool:
    return isinstance(record.get("steps"), list) and not {"query_id", "query"}.isdisjoint(record)


class RunLogFormat(Format):
    """JSONL with `query_id` and `topk` (or `steps`) on every line, or a JSON array of the same records."""

    name = "run-log"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run"})
    order = 10

    def recognises(self, source: Source, kind: Kind) -> bool:
        first = source.first_object or {}
        return "topk" in first or _has_steps(first) or _is_list_of_records(source)

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.run_log import RunLog

        return RunLog(source.label, source, options.system, options.hits)
