"""The queries that failed, one by one."""

from __future__ import annotations

from karat.report.blocks import Block
from karat.report.fitting import WHOLE
from karat.report.sections.base import ReportSection
from karat.report.triage import triage_blocks
from karat.results.queries.triage import triage
from karat.results.result import Result

ALL, SAMPLE = 1_000, 30  # queries on a page: the worst, and some of the others
_LISTED, _LEAST_FULL, _MOST_FULL = 15_000, 20, 100  # the fewer there are, the more of them in full


class TriageSection(ReportSection):
    """For pages; `karat triage` is the same for a terminal."""

    name = "triage"
    title = "Where it fails"
    order = 72

    def full_blocks(self, result: Result) -> list[Block]:
        if result.known is not None and result.known.triage is not None:
            return triage_blocks(result.known.triage)
        if result.lists is None:
            return []
        full = in_full(len(result.rows))
        return triage_blocks(triage(result, full, brief=ALL - full, sample=SAMPLE, letters=WHOLE, good=True))


def in_full(queries: int) -> int:
    """Of so many queries, how many a page shows with all that is known of them."""
    return min(max(_LISTED // max(queries, 1), _LEAST_FULL), _MOST_FULL)
