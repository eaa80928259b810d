"""The retriever apart from the reranker."""

from __future__ import annotations

from karat.analyses.reranker import Reranked
from karat.report.blocks import Block, Column, Table, Text
from karat.report.numbers import p_value, points, with_interval, written
from karat.report.sections.base import ReportSection
from karat.result import Result


class RerankerSection(ReportSection):
    """What the raw lists hold, and what the final ones made of it."""

    name = "reranker"
    title = "Retriever and reranker"
    order = 40

    def blocks(self, result: Result) -> list[Block]:
        found: Reranked | None = result.analyses.found.get("reranker")
        if found is None:
            return []
        rows = [
            [d.metric, written(d.baseline), written(d.candidate), points(d.delta, limits=(d.low, d.high)), p_value(d.p)]
            for d in found.differences
        ]
        columns = [Column(c) for c in ("metric", "raw", "final", "difference", "p")]
        raw = "; ".join(f"{row.metric} {with_interval(row)}" for row in found.raw)
        return [
            Text(f"The raw lists ({found.raw_depth} deep): {raw}."),
            Table(columns, rows),
            Text(f"Reranking brought a relevant hit into the top {found.k} of {_queries(found.rescued)}."),
            Text(f"It lost the last one of {_queries(found.demoted)}{_such_as(found.demoted_examples)}."),
        ]


def _queries(count: int) -> str:
    return f"{count:,} {'query' if count == 1 else 'queries'}"


def _such_as(examples: list[str]) -> str:
    return f" ({', '.join(examples)})" if examples else ""
