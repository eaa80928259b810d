"""Run logs."""

from __future__ import annotations

import re
from typing import ClassVar

from karat.data.hits import Run
from karat.formats.base import Format, Kind, ReadOptions, Source


def _is_list_of_records(source: Source) -> bool:
    """Whether a JSON array holds the records of a run log."""
    return source.first_line.startswith(b"[") and re.search(rb'[{,]\s*"topk"\s*:', source.head) is not None


class RunLogFormat(Format):
    """JSONL with `query_id` and `topk` on every line, or a JSON array of the same records."""

    name = "run-log"
    kinds: ClassVar[frozenset[Kind]] = frozenset({"run"})
    order = 10

    def recognises(self, source: Source, kind: Kind) -> bool:
        return "topk" in (source.first_object or {}) or _is_list_of_records(source)

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        from karat.formats.run_log import RunLog

        return RunLog(source.label, source, options.system, options.hits)
