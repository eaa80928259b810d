"""The queries that failed, one by one."""

from __future__ import annotations

from karat.report.blocks import Block
from karat.report.readable import QUERY
from karat.report.sections.base import ReportSection
from karat.report.triage import triage_blocks
from karat.result import Result
from karat.triaging import DEPTH, triage

# A page of 1,000 failed queries has less than 1.5 MB (docs/decisions/008): the worst are there to be read, the others
# to be found and filtered, as many as there is room for.
FULL, MOST_FULL, ALL, SAMPLE = 60, 100, 1000, 30
_ROOM = 850_000  # bytes for those in brief; what they do not need, more in full may take
_IN_FULL = 7_000  # bytes of a query in full
_FRAME, _SEPARATOR, _GOLD = 340, 5, 5  # bytes of a query besides text, ids and labels, and of an id; usual gold items


class TriageSection(ReportSection):
    """For pages; `karat triage` is the same for a terminal."""

    name = "triage"
    title = "Where it fails"
    order = 72

    def full_blocks(self, result: Result) -> list[Block]:
        if result.saved_triage is not None:
            return triage_blocks(result.saved_triage)
        if result.again is None:
            return []
        size = _brief_size(result)
        left = _ROOM - size * min(len(result.rows), ALL)
        full = int(min(max(FULL, FULL + left / _IN_FULL), MOST_FULL))
        brief = int(min(ALL - full, _ROOM / size))
        return triage_blocks(triage(result, full, brief=brief, sample=SAMPLE))


def _brief_size(result: Result) -> float:
    """Bytes that a query in brief takes, by how long queries, ids and the names of tags are."""
    ids = result.gold.ids[:1000]
    usual = sum(len(item) for item in ids) / max(len(ids), 1) + _SEPARATOR
    labels = sum(2 * len(tag) + 12 for tag in result.gold.tags)
    texts = [(result.gold.text(row) or "")[:QUERY] for row in result.rows[:ALL].tolist()]
    text = sum(len(query.encode(errors="replace")) for query in texts) / max(len(texts), 1)
    return _FRAME + text + labels + (DEPTH + _GOLD) * usual
