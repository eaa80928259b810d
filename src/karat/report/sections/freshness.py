"""What newer documents did to the scores."""

from __future__ import annotations

from karat.report.blocks import Block, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.freshness import Fresh
from karat.results.numbers import counted, listed, p_value, points, with_interval, written
from karat.results.result import Result


class FreshnessSection(ReportSection):
    """Hits from after as_of, and the scores without them."""

    name = "freshness"
    title = "Freshness"
    order = 50

    def blocks(self, result: Result) -> list[Block]:
        found: Fresh | None = result.analyses.found.get("freshness")
        if found is None:
            return []
        rows = [
            [d.metric, written(d.baseline), written(d.candidate), points(d.delta, limits=(d.low, d.high)), p_value(d.p)]
            for d in found.differences
        ]
        columns = [Column(c) for c in ("metric", "as returned", "without newer", "difference", "p")]
        return [
            Text(f"{found.freshness.metric} {with_interval(found.freshness)}. {_counts(found)}"),
            Table(columns, rows, _NOTE),
            *_gold(found),
        ]


_NOTE = (
    "without newer: hits newer than their query's as_of removed, the gold unchanged. What falls was earned with "
    "documents that did not exist yet; what rises had to make room for them."
)


def _counts(found: Fresh) -> str:
    undated = f"; {found.undated_hits:,} say no version and were kept" if found.undated_hits else ""
    odd = f"; {found.odd_versions:,} say one that cannot be compared (see the audit)" if found.odd_versions else ""
    return (
        f"{counted(found.queries)} with as_of, {counted(found.hits, 'hit')}: "
        f"{found.newer_hits:,} newer than it{undated}{odd}. "
        f"Of these queries, {found.affected:,} with a newer hit in the top {found.k}."
    )


def _gold(found: Fresh) -> list[Block]:
    if not found.newer_gold:
        return []
    among = "" if found.all_gold else " that the run returned"
    shown = listed(found.newer_gold_examples)
    more = " …" if found.newer_gold > len(found.newer_gold_examples) else ""
    said = f"Relevant gold items{among} that are newer than their query's as_of: {found.newer_gold:,} ({shown}{more})."
    return [Text(f"{said} A label or an as_of is wrong there.", "warning")]
