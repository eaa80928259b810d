"""The retriever apart from the reranker."""

from __future__ import annotations

from karat.report.blocks import Block, Text
from karat.report.cells import difference_table
from karat.report.sections.base import ReportSection
from karat.results.analyses.reranker import Gain, Reranked
from karat.results.numbers import counted, share, such_as, with_interval
from karat.results.result import Result


class RerankerSection(ReportSection):
    """What the raw lists hold, and what the final ones made of it."""

    name = "reranker"
    title = "Retriever and reranker"
    order = 40

    def blocks(self, result: Result) -> list[Block]:
        found: Reranked | None = result.analyses.found.get("reranker")
        if found is None:
            return []
        raw = "; ".join(f"{row.metric} {with_interval(row)}" for row in found.raw)
        blocks: list[Block] = [Text(f"The raw lists (up to {found.raw_depth} deep): {raw}.")]
        if found.without_raw:
            blocks.append(Text(f"{counted(found.without_raw)} without a raw list, left out here.", "warning"))
        if not found.reordered:
            blocks.append(Text("No reranker is at work: the final lists are the raw ones, cut." + _room(found.gain)))
            return blocks
        return [*blocks, difference_table(found.differences, "raw", "final"), *_told(found)]


def _told(found: Reranked) -> list[Block]:
    rescued, demoted = such_as(found.rescued_examples), such_as(found.demoted_examples)
    return [
        *([] if found.gain is None else [Text(_captured(found.gain))]),
        Text(f"Reranking brought a relevant hit into the top {found.k} of {counted(found.rescued)}{rescued}."),
        Text(f"It lost the last one of {counted(found.demoted)}{demoted}."),
    ]


def _captured(gain: Gain) -> str:
    if gain.captured is None:
        return "The raw order could not be better: there was nothing to win."
    return (
        f"The best order of the raw lists would reach {gain.metric} {gain.best:.4f}. "
        f"Of this possible gain ({gain.possible * 100:.1f} pp) {share(gain.captured)} was captured."
    )


def _room(gain: Gain | None) -> str:
    if gain is None or gain.captured is None:
        return ""
    return f" Their best order would reach {gain.metric} {gain.best:.4f}, {gain.possible * 100:.1f} pp more."
