"""The right document, the wrong passage: what chunking costs."""

from __future__ import annotations

from karat.report.blocks import Block, Column, Table
from karat.report.sections.base import ReportSection
from karat.results.numbers import points, written
from karat.results.result import Result
from karat.scoring.metrics.base import Relevance


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
