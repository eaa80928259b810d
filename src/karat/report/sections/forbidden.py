"""Forbidden hits."""

from __future__ import annotations

from karat.report.blocks import Block, Text
from karat.report.cells import table, texts
from karat.report.sections.base import AnalysisSection
from karat.results.analyses.forbidden import Leaks
from karat.results.numbers import counted, percent, with_interval


class ForbiddenSection(AnalysisSection):
    name = "forbidden"
    title = "Forbidden hits"
    order = 20

    def show(self, found: Leaks) -> list[Block]:
        rules = f" Rules: {'; '.join(found.rules)}." if found.rules else ""
        said = (
            f"{_leaked(found)}: {found.queries.metric} {with_interval(found.queries)}. "
            f"Of their hits, {found.hits.metric} {with_interval(found.hits)}.{rules}"
        )
        unchecked = f"{counted(found.unchecked, 'hit')} could not be checked: a field is missing or cannot be compared."
        rows = [
            [one.query, str(len(one.hits)), ", ".join(one.hits[:3]) + (" …" if len(one.hits) > 3 else "")]
            for one in found.examples
        ]
        shown = [table(["query", "forbidden hits", "which"], rows)] if rows else []
        return [
            Text(said, "warning" if found.leaked else "plain"),
            *texts("warning", (found.unchecked, unchecked)),
            *shown,
        ]

    def in_short(self, found: Leaks) -> str:
        unchecked = f"; {counted(found.unchecked, 'hit')} not checked" if found.unchecked else ""
        return f"{_leaked(found)}{unchecked}"


def _leaked(found: Leaks) -> str:
    first = f"{found.leaked:,} of {counted(found.queries.n)} got a forbidden hit among the first {found.k}"
    return (
        first
        if found.leaked or found.most is None
        else f"{first}; at most {percent(found.most, 2)} of all queries do ({found.level:.0%} confidence)"
    )
