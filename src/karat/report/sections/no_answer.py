"""Queries that have no answer."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Chart, Column, Series, Table, Text
from karat.report.sections.base import ReportSection
from karat.results.analyses.no_answer import Share, Unanswerable
from karat.results.numbers import counted, interval, written
from karat.results.result import Result
from karat.results.summary import FEW


class NoAnswerSection(ReportSection):
    """False evidence, what scores can do about it, and what that costs."""

    name = "no_answer"
    title = "No answer"
    order = 55

    def blocks(self, result: Result) -> list[Block]:
        found: Unanswerable | None = result.analyses.found.get("no_answer")
        if found is None:
            return []
        return [*_rates(found), *_threshold(found), *_curves(found)]


def _rates(found: Unanswerable) -> list[Block]:
    rates = (found.false_evidence, found.miss)
    rows: list[list[Cell]] = [[row.metric, written(row.mean), interval(row.low, row.high), row.n] for row in rates]
    if found.separation is not None:
        apart = found.separation
        rows.append(["AUROC of the top score", written(apart.area), interval(apart.low, apart.high), apart.n])
    columns = [Column("metric"), Column("value"), Column("interval"), Column("queries", "count")]
    note = (
        "false_evidence: queries without an answer that get a hit. miss: queries with one that get no relevant hit. "
        "AUROC: how often a query with an answer has the higher top score of two; 0.5 is chance."
    )
    blocks: list[Block] = [Table(columns, rows, note)]
    if found.missing:
        said = f"The run lacks {found.missing:,} of the {found.no_answer:,} queries without an answer"
        blocks.append(Text(f"{said}: they got no hit.", "warning"))
    if found.no_answer < FEW:
        blocks.append(Text(f"too few to judge: {counted(found.no_answer)} without an answer.", "warning"))
    if found.everything is None:
        blocks.append(Text("The hits have no scores: nothing can be said of thresholds.", "note"))
    elif found.unscored:
        blocks.append(Text(f"Without scores, and left out of what follows: {found.unscored:,} queries.", "note"))
    return blocks


_DEARER = "Take a higher `--target-false-evidence`, or read the curve below."


def _threshold(found: Unanswerable) -> list[Block]:
    before, after = found.everything, found.chosen
    if before is None:
        return []
    if after is None:
        return [Text(f"False evidence is at or under the target of {found.target:.0%} without a threshold.")]
    names = {
        "false evidence": [point.false_evidence for point in (before, after)],
        "miss": [point.miss for point in (before, after)],
        "shown without a relevant hit": [point.risk for point in (before, after)],
    }
    rows: list[list[Cell]] = [[name, *map(_share, shares)] for name, shares in names.items()]
    rows.insert(2, ["queries shown a hit", f"{before.coverage:.3f}", f"{after.coverage:.3f}"])
    if not after.coverage:
        said = f"No threshold brings false evidence to {found.target:.0%} or less, but one that hides every hit."
        return [Text(f"{said} {_DEARER}", "warning")]
    note = (
        f"The lowest threshold at which at most {found.target:.0%} of the queries without an answer get a hit "
        "(`--target-false-evidence`). It was chosen on these very queries and looks better here than it will "
        "elsewhere: check it on others before you use it."
    )
    return [Table([Column("share"), Column("every hit"), Column(f"score ≥ {after.threshold!r}")], rows, note)]


def _curves(found: Unanswerable) -> list[Block]:
    if len(found.curve) < 2:
        return []
    thresholds = [point.threshold or 0.0 for point in found.curve]
    shares = {
        "false evidence": [point.false_evidence for point in found.curve],
        "miss": [point.miss for point in found.curve],
    }
    over_scores = [_series(name, thresholds, values) for name, values in shares.items()]
    shown = [point for point in reversed(found.curve) if point.risk.n]
    risk = _series("risk", [round(point.coverage, 4) for point in shown], [point.risk for point in shown])
    return [
        Chart("Over score thresholds", "score ≥", "share of queries", over_scores),
        Chart("Risk and coverage", "queries shown a hit", "of these, without a relevant one", [risk]),
    ]


def _series(name: str, x: list[float], shares: list[Share]) -> Series:
    return Series(name, x, [s.value for s in shares], [s.low for s in shares], [s.high for s in shares])


def _share(share: Share) -> str:
    if share.value is None:
        return "–"
    return f"{share.value:.3f} {interval(share.low, share.high)}"
