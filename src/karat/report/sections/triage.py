"""The queries that failed, one by one."""

from __future__ import annotations

from karat.report.blocks import Block
from karat.report.sections.base import ReportSection
from karat.report.triage import triage_blocks
from karat.result import Result
from karat.triaging import DEPTH, triage

# A page of 1,000 failed queries has less than 1.5 MB (docs/decisions/008): the worst are there to be read, the others
# to be found and filtered, as many as there is room for.
FULL, BRIEF, SAMPLE = 60, 940, 30
_ROOM = 850_000  # bytes for those in brief
_FRAME, _SEPARATOR, _GOLD = 400, 5, 5  # bytes of a query besides its ids and labels, and of an id; usual items of gold


class TriageSection(ReportSection):
    """For pages; `karat triage` is the same for a terminal."""

    name = "triage"
    title = "Where it fails"
    order = 72

    def full_blocks(self, result: Result) -> list[Block]:
        if result.again is None:
            return []
        return triage_blocks(triage(result, FULL, brief=min(BRIEF, _fitting(result)), sample=SAMPLE))


def _fitting(result: Result) -> int:
    """How many queries in brief there is room for, by how long ids and the names of tags are."""
    ids = result.gold.ids[:1000]
    usual = sum(len(item) for item in ids) / max(len(ids), 1) + _SEPARATOR
    labels = sum(2 * len(tag) + 12 for tag in result.gold.tags)
    return int(_ROOM / (_FRAME + labels + (DEPTH + _GOLD) * usual))
