"""The queries that failed, one by one."""

from __future__ import annotations

from karat.report.blocks import Block
from karat.report.sections.base import ReportSection
from karat.report.triage import triage_blocks
from karat.result import Result
from karat.triaging import triage

WORST, SAMPLE = 120, 30  # a page with more is no longer read, and grows past a megabyte


class TriageSection(ReportSection):
    """For pages; `karat triage` is the same for a terminal."""

    name = "triage"
    title = "Where it fails"
    order = 72

    def full_blocks(self, result: Result) -> list[Block]:
        if result.saved_triage is not None:
            return triage_blocks(result.saved_triage)
        return triage_blocks(triage(result, WORST, sample=SAMPLE)) if result.again is not None else []
