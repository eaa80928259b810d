"""Where relevant items were lost."""

from __future__ import annotations

from itertools import groupby

from karat.report.blocks import Bar, Bars, Block, Cell, Column, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.waterfall import (
    CUT,
    CUT_EARLY,
    DEMOTED,
    MISROUTED,
    NOT_IN_CORPUS,
    NOT_LISTED,
    NOT_RETRIEVED,
    NOT_RUN,
    OVER_BUDGET,
    Loss,
    Losses,
)
from karat.results.result import Result

# Stage → what happened, and in one or two words.
WORDS = {
    NOT_IN_CORPUS: ("not in the corpus", "not in corpus"),
    NOT_RUN: ("the run has no answer to the query (missing, or an error)", "not run"),
    MISROUTED: ("stands in a source that was not asked", "misrouted"),
    NOT_RETRIEVED: ("not among the raw candidates", "not found"),
    NOT_LISTED: ("not in the list", "not listed"),
    CUT_EARLY: ("raw candidate too far down, cut before the final list", "cut early"),
    DEMOTED: ("in the raw top {k}, moved out of it by the reranker", "demoted"),
    "over_top_k": ("in the top {k}, cut by --top-k", "over top-k"),
    "too_new": ("in the top {k}, newer than the query's as_of", "too new"),
    "low_score": ("in the top {k}, under the score threshold", "low score"),
    CUT: ("in the final list, below {k}", "below k"),
    OVER_BUDGET: ("in the final list, past {k}", "over budget"),
}


class WaterfallSection(ReportSection):
    """Found and lost items, stage by stage, for all queries and by segment."""

    name = "waterfall"
    title = "Where relevant items were lost"
    order = 45

    def blocks(self, result: Result) -> list[Block]:
        found: Losses | None = result.analyses.found.get("waterfall")
        if found is None:
            return []
        everything, *segments = found.rows
        blocks: list[Block] = [
            _picture(found, everything),
            _waterfall(found, everything),
            *(Text(note, "note") for note in _notes(found)),
        ]
        return blocks + [_by_segment(by, list(rows), found.stages) for by, rows in groupby(segments, _segment)]


def _segment(row: Loss) -> str:
    return row.segment


def _picture(found: Losses, row: Loss) -> Bars:
    """From all relevant items down to those that were found, stage by stage; a stage that lost nothing is left out."""
    whole = max(row.relevant, 1)
    bars, left = [Bar("relevant", 0.0, 1.0, 2, f"{row.relevant:,}")], row.relevant
    for stage in found.stages:
        if row.lost[stage]:
            after = left - row.lost[stage]
            bars.append(Bar(WORDS[stage][1], after / whole, left / whole, 1, f"−{row.lost[stage]:,}"))
            left = after
    bars.append(Bar("found", 0.0, row.found / whole, 0, f"{row.found:,}"))
    kinds = ("found", "lost at this stage", "all relevant items")
    return Bars("From relevant to found", "share of the relevant items", kinds, bars, (0.0, 1.0), told=True)


def _waterfall(found: Losses, row: Loss) -> Table:
    k = f"{found.budget:,} tokens" if found.budget else "k" if found.own_k else str(found.k)

    def line(what: str, items: int) -> list[Cell]:
        return [what, items, f"{items / max(row.relevant, 1):.1%}"]

    rows = [
        line("relevant items", row.relevant),
        line(f"found in the {'first' if found.budget else 'top'} {k}", row.found),
    ]
    words = {stage: WORDS[stage][0].replace("top", "first" if found.budget else "top", 1) for stage in found.stages}
    rows += [line(words[stage].format(k=k), row.lost[stage]) for stage in found.stages]
    return Table([Column("what became of them"), Column("items", "count"), Column("share")], rows)


def _notes(found: Losses) -> list[str]:
    notes, no_room = [], found.rows[0].no_room
    if found.own_k and not found.budget:
        notes.append(f"{found.own_k:,} queries have a k of their own; for the others it is {found.k}.")
    if no_room:
        notes.append(f"{no_room:,} of the lost ones no order could save: more relevant items than places in the top k.")
    if not found.has_raw:
        notes.append(
            "Without `raw` lists, what was never found and what was cut or moved out by a reranker look alike."
        )
    if not found.has_corpus:
        notes.append("Without `--corpus`, what the corpus does not have counts as not found.")
    return notes


def _by_segment(by: str, rows: list[Loss], stages: list[str]) -> Table:
    """Without the stages at which nothing was lost in any of the groups."""
    shown = [stage for stage in stages if any(row.lost[stage] for row in rows)]
    columns = [Column(by), *(Column(c, "count") for c in ("relevant", "found", *(WORDS[stage][1] for stage in shown)))]
    return Table(columns, [[row.value, row.relevant, row.found, *(row.lost[s] for s in shown)] for row in rows])
