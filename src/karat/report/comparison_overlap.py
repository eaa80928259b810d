"""The section of a comparison about its lists: how alike they are, without labels."""

from __future__ import annotations

from itertools import groupby

from karat.errors import shorten
from karat.report.blocks import Block, Text
from karat.report.cells import few_name, few_warning, queries_cell, table, texts
from karat.results.comparison.overlap import ListOverlap
from karat.results.numbers import counted, written
from karat.results.summary import SummaryRow

_MEANING = (
    "rbo: rank-biased overlap, 1 for the same list and 0 for no shared hit; high ranks count most. jaccard: hits in "
    "both lists / hits in either."
)
_OTHER_IDS = "No list shares a hit with the other run: do both use the same ids?"


def overlap_blocks(found: ListOverlap, level: float, *, page: bool = False) -> list[Block]:
    """`page`: with the queries whose lists differ most, and the segments."""
    columns = ("metric", "mean", f"{level * 100:g} % interval", "queries")
    means = table(columns, [[row.metric, written(row.mean), _limits(row), row.n] for row in found.overlap])
    shares_none = found.disjoint and not (found.same or found.reordered or found.partly)
    blocks: list[Block] = [
        means,
        Text(_counts(found)),
        *texts("warning", (shares_none, _OTHER_IDS)),
        *texts("plain", (found.unseen, _unseen(found)), (found.unlisted, _unlisted(found))),
        *texts("note", (page, _MEANING)),
    ]
    if found.least:
        name = found.overlap[0].metric
        if page:
            rows = [[q.query_id, shorten(q.query or "", 100), f"{q.value:.4f}"] for q in found.least]
            blocks.append(table(("query", "text", name), rows))
        else:
            shown = ", ".join(f"{shorten(q.query_id, 40)} ({q.value:.2f})" for q in found.least)
            blocks.append(Text(f"Least alike by {name}: {shown}."))
    return [*blocks, *_segments(found, level)]


def _limits(row: SummaryRow) -> str:
    return "–" if row.low is None or row.high is None else f"[{row.low:.3f}, {row.high:.3f}]"


def _counts(found: ListOverlap) -> str:
    kinds = (
        (found.same, "the same hits in the same order"),
        (found.reordered, "the same hits in another order"),
        (found.partly, "some hits in common"),
        (found.disjoint, "no hit in common"),
        (found.one_empty, "hits on one side only"),
        (found.both_empty, "no hits on either side (undefined)"),
    )
    said = [(count, what) for count, what in kinds if count]
    parts = [f"{counted(count) if at == 0 else f'{count:,}'} with {what}" for at, (count, what) in enumerate(said)]
    return f"By the first {counted(found.depth, 'hit')}: {'; '.join(parts)}."


def _unseen(found: ListOverlap) -> str:
    verb = "has another list" if found.unseen == 1 else "have other lists"
    return f"{counted(found.unseen or 0)} {verb}, but the same scores{_such_as(found.unseen_queries)}."


def _unlisted(found: ListOverlap) -> str:
    verb = "has the same list, but another score" if found.unlisted == 1 else "have the same lists, but other scores"
    return f"{counted(found.unlisted or 0)} {verb}{_such_as(found.unlisted_queries)}."


def _such_as(queries: list[str]) -> str:
    return f": {', '.join(shorten(query, 40) for query in queries)}"


def _segments(found: ListOverlap, level: float) -> list[Block]:
    blocks = list[Block]()
    names = [row.metric for row in found.overlap]
    for segment, groups in groupby(found.segments, lambda group: group.segment):
        some = list(groups)
        rows = [
            [
                few_name(group),
                queries_cell(group.queries, [row.n for row in group.overlap]),
                *(f"{written(row.mean)} {_limits(row)}" for row in group.overlap),
            ]
            for group in some
        ]
        blocks.append(table((segment, "queries", *(f"{name} [{level * 100:g} % interval]" for name in names)), rows))
        blocks += few_warning(some)
    return blocks
