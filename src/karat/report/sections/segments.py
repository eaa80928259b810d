"""The metrics by segment, by chunk and document, and over k."""

from __future__ import annotations

from itertools import groupby

from karat.report.blocks import Block, Cell, Column, Table
from karat.report.cells import (
    count,
    few_by,
    few_name,
    few_warning,
    interval_column,
    narrow_warning,
    queries_cell,
    relevance_counts,
    table,
    texts,
    value_cell,
)
from karat.report.sections.base import ReportSection
from karat.results.diagnosis.bands import CAVEAT, EDGES, band
from karat.results.numbers import points, titled, written
from karat.results.pipeline import PANEL
from karat.results.result import Result
from karat.results.summary import SegmentRow
from karat.scoring.metrics.base import Metric, Relevance

# Three metrics with intervals fit on a line.
_PREFERRED = ("recall@5", "ndcg@5", "latency_p50")
SHOWN = 3


class Segments(ReportSection):
    """A table for each requested segmentation."""

    name = "segments"
    title = "Segments"
    order = 30

    def blocks(self, result: Result) -> list[Block]:
        return _blocks(result, result.segment_rows) if result.segmented_by else []

    def full_blocks(self, result: Result) -> list[Block]:
        """The requested segments; if there are none, those of tags that split the queries into a few groups."""
        if result.segmented_by:
            return self.blocks(result)
        shown = shown_metrics(result.metrics)
        return _blocks(result, [row for tag in result.telling_tags() for row in result.segment_by(tag, shown)])


def _blocks(result: Result, rows: list[SegmentRow]) -> list[Block]:
    shown = shown_metrics(result.metrics)
    metrics = [(str(m), m.unit_by(result.rules)) for m in shown]
    rows = [few_by(row, [name for name, _ in metrics]) for row in rows]
    parts = _parted(metrics)[: None if shown == result.metrics else 1]
    tables = [
        _table(name, group, part)
        for name, found in groupby(rows, lambda row: row.segment)
        for group in [list(found)]
        for part in parts
    ]
    banded = texts("note", (any(name in EDGES for name, _ in metrics), f"band: {CAVEAT[0].lower()}{CAVEAT[1:]}"))
    return [*tables, *(banded if tables else []), *few_warning(rows), *_narrow(rows, shown)]


def _narrow(rows: list[SegmentRow], shown: list[Metric]) -> list[Block]:
    names = set(map(str, shown))
    return narrow_warning(found for row in rows for found in row.summary if found.metric in names)


def shown_metrics(metrics: list[Metric]) -> list[Metric]:
    """The requested metrics; of the default panel, only the key metrics."""
    panel = all(str(m) in (*PANEL, "cost") for m in metrics) and len(metrics) > 2 * SHOWN
    return leading_metrics(metrics) if panel else metrics


def leading_metrics(metrics: list[Metric]) -> list[Metric]:
    """The key metrics, as many as fit side by side."""
    by_name = {str(m): m for m in metrics}
    first = [by_name[name] for name in _PREFERRED if name in by_name]
    return [*first, *(m for m in metrics if m not in first)][:SHOWN]


def _parted(metrics: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Splits metrics into tables that fit a line; a band takes as much room as a metric."""
    parts: list[list[tuple[str, str]]] = []
    room = 0
    for metric in metrics:
        width = 2 if metric[0] in EDGES else 1
        if width > room:
            parts.append([])
            room = SHOWN + 1
        parts[-1].append(metric)
        room -= width
    return parts


def _table(name: str, rows: list[SegmentRow], metrics: list[tuple[str, str]]) -> Table:
    cells: list[list[Cell]] = []
    columns: list[Column] = []
    for row in rows:
        found = {r.metric: r for r in row.summary}
        line: list[Cell] = [few_name(row), queries_cell(row.queries, relevance_counts(row.summary))]
        for metric, unit in metrics:
            line.append(value_cell(found[metric], unit))
            if metric in EDGES:
                line.append(None if found[metric].mean is None else _short_band(metric, found[metric].mean or 0.0))
        cells.append(line)
    for metric, unit in metrics:
        columns.append(interval_column(titled(metric, unit), (line[2 + len(columns)] for line in cells)))
        columns += [Column("band")] if metric in EDGES else []
    return table([name, count("queries"), *columns], cells)


def _short_band(metric: str, value: float) -> str:
    return band(metric, value).removeprefix("between ").replace(" and ", "–")


class Levels(ReportSection):
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
        columns = ("metric", "by chunk", "by document", "difference")
        note = (
            "by document: any chunk of a relevant chunk's document counts. "
            "A large difference: right document, wrong passage."
        )
        return [table(columns, rows, note)] if rows else []


class OverK(ReportSection):
    """For pages only; `karat eval sweep` is the same for a terminal."""

    name = "over_k"
    title = "Over k"
    order = 18

    def full_blocks(self, result: Result) -> list[Block]:
        from karat.report.sweep import sweep_blocks  # of pages only

        if result.known is not None and result.known.sweep is not None:
            return sweep_blocks(result.known.sweep)
        return sweep_blocks(result.sweep()) if result.data.tables else []
