"""Recall by source of a system."""

from __future__ import annotations

from karat.errors import shorten
from karat.report.blocks import Block, Cell, Column
from karat.report.cells import count, table
from karat.report.sections.base import AnalysisSection
from karat.results.analyses.sources import BySource
from karat.results.numbers import with_interval

_ROWS = 10
_NAME = 24


class SourcesSection(AnalysisSection):
    name = "sources"
    title = "Recall by source"
    order = 43

    def show(self, found: BySource) -> list[Block]:
        known = any(one.recall is not None for one in found.sources)
        rows: list[list[Cell]] = [
            [
                shorten(one.source, _NAME),
                with_interval(one.queries),
                one.hits,
                with_interval(one.brought),
                *([] if one.recall is None else [with_interval(one.recall)]),
            ]
            for one in found.sources[:_ROWS]
        ]
        columns: list[str | Column] = ["source", "queries with a hit", count("hits"), f"part of {found.metric}"]
        more = len(found.sources) - _ROWS
        note = f"{found.metric} is the sum of the parts of all sources"
        note += "; of its own: share of the relevant items in the source" if known else ""
        note += f"; {more} more in the saved result" if more > 0 else ""
        return [table([*columns, "of its own"] if known else columns, rows, note)]
