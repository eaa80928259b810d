"""The metrics by segment, by chunk and document, and over k."""

from __future__ import annotations

from itertools import groupby

from karat.report.blocks import Block, Cell, Column, Table, Text
from karat.report.cells import interval_column, value_cell
from karat.report.sections.base import ReportSection
from karat.report.sweep import sweep_blocks
from karat.results.numbers import points, titled, written
from karat.results.result import Result
from karat.results.saved import SegmentRow
from karat.scoring.metrics.base import Metric, Relevance

# Three metrics with intervals fit a line; all others are in the saved result.
_PREFERRED = ("recall@5", "ndcg@5", "latency_p50")
SHOWN = 3


class Segments(ReportSection):
    """A table for every segmentation that was asked for."""

    name = "segments"
    title = "Segments"
    order = 30

    def blocks(self, result: Result) -> list[Block]:
        return _blocks(result, result.segment_rows) if result.segmented_by else []

    def full_blocks(self, result: Result) -> list[Block]:
        """Those that were asked for; if none were, those of tags that part the queries into a handful of groups."""
        if result.segmented_by:
            return self.blocks(result)
        shown = leading_metrics(result.metrics)
        return _blocks(result, [row for tag in result.telling_tags() for row in result.segment_by(tag, shown)])


def _blocks(result: Result, rows: list[SegmentRow]) -> list[Block]:
    shown = leading_metrics(result.metrics)
    units = [m.unit_by(result.rules) for m in shown]
    groups = groupby(rows, lambda row: row.segment)
    blocks: list[Block] = [_table(name, list(group), shown, units) for name, group in groups]
    if any(row.few for row in rows):
        blocks.append(Text("* too few queries to judge by", "warning"))
    return blocks


def leading_metrics(metrics: list[Metric]) -> list[Metric]:
    """The most telling ones, as many as fit beside each other."""
    by_name = {str(m): m for m in metrics}
    first = [by_name[name] for name in _PREFERRED if name in by_name]
    return [*first, *(m for m in metrics if m not in first)][:SHOWN]


def _table(name: str, rows: list[SegmentRow], shown: list[Metric], units: list[str]) -> Table:
    cells = [_cells(row, shown, units) for row in rows]
    titles = [titled(str(m), unit) for m, unit in zip(shown, units, strict=True)]
    columns = [interval_column(title, (row[2 + i] for row in cells)) for i, title in enumerate(titles)]
    return Table([Column(name), Column("queries", "count"), *columns], cells)


def _cells(row: SegmentRow, shown: list[Metric], units: list[str]) -> list[Cell]:
    by_name = {r.metric: r for r in row.summary}
    return [
        row.value + (" *" if row.few else ""),
        row.queries,
        *(value_cell(by_name[str(m)], unit) for m, unit in zip(shown, units, strict=True)),
    ]


class Levels(ReportSection):
    """Metrics that were measured both by chunk and by document, beside each other."""

    name = "levels"
    title = "By chunk and by document"
    order = 25

    def blocks(self, result: Result) -> list[Block]:
        means = result.means
        pairs = [
            (m, twin)
            for m in result.metrics
            if isinstance(m, Relevance) and (twin := m.by_document) != m and twin in result.metrics
        ]
        rows = []
        for metric, twin in pairs:
            chunk, document = means[str(metric)], means[str(twin)]
            gap = None if chunk is None or document is None else document - chunk
            rows.append([str(metric), written(chunk), written(document), points(gap)])
        columns = [Column(c) for c in ("metric", "by chunk", "by document", "difference")]
        note = (
            "by document: any chunk of a relevant chunk's document counts. "
            "A large difference: right document, wrong passage."
        )
        return [Table(columns, rows, note)] if rows else []


class OverK(ReportSection):
    """For pages; it takes another look at the run, which a saved result does not have."""

    name = "over_k"
    title = "Over k"
    order = 18

    def full_blocks(self, result: Result) -> list[Block]:
        if result.known is not None and result.known.sweep is not None:
            return sweep_blocks(result.known.sweep)
        return sweep_blocks(result.sweep()) if result.data.tables else []
