"""Queries that have no answer."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Chart, Series, Text
from karat.report.cells import count, table, texts
from karat.report.sections.base import AnalysisSection
from karat.results.analyses.no_answer import Share, Unanswerable
from karat.results.numbers import counted, interval, with_interval, written
from karat.results.summary import FEW


class NoAnswerSection(AnalysisSection):
    name = "no_answer"
    title = "No answer"
    order = 55

    def show(self, found: Unanswerable) -> list[Block]:
        return [*_rates(found), *_threshold(found), *_curves(found)]

    def in_short(self, found: Unanswerable) -> str:
        rate = found.false_evidence
        apart = "" if found.separation is None else f"; AUROC of the top score {written(found.separation.area)}"
        return f"{rate.metric} {with_interval(rate)} on {counted(found.no_answer)}{apart}"


def _rates(found: Unanswerable) -> list[Block]:
    rates = (found.false_evidence, found.miss)
    rows: list[list[Cell]] = [[row.metric, written(row.mean), interval(row.low, row.high), row.n] for row in rates]
    if found.separation is not None:
        apart = found.separation
        rows.append(["AUROC of the top score", written(apart.area), interval(apart.low, apart.high), apart.n])
    note = (
        "false_evidence: queries without an answer that get a hit. miss: queries with an answer that get no relevant "
        "hit. AUROC: how often a query with an answer has a higher top score than one without; 0.5 is chance."
    )
    lacks = f"Queries without an answer that are missing from the run, counted as no hit: {found.missing:,}."
    few = f"too few for a reliable result: {counted(found.no_answer)} without an answer."
    warnings = texts("warning", (found.missing, lacks), (found.no_answer < FEW, few))
    scored, no_scores = found.everything is not None, "The hits have no scores, so thresholds cannot be evaluated."
    left_out = f"Queries without scores, left out below: {found.unscored:,}."
    notes = texts("note", (not scored, no_scores), (scored and found.unscored, left_out))
    return [table(["metric", "value", "interval", count("queries")], rows, note), *warnings, *notes]


_DEARER = "Take a higher `--target-false-evidence`, or read the curve below."


def _threshold(found: Unanswerable) -> list[Block]:
    before, after = found.everything, found.chosen
    if before is None:
        return []
    if after is None:
        return [Text(f"False evidence meets the target of {found.target:.0%} without a threshold.")]
    rows = [
        ["false evidence", *(_share(point.false_evidence) for point in (before, after))],
        ["miss", *(_share(point.miss) for point in (before, after))],
        ["queries shown a hit", f"{before.coverage:.3f}", f"{after.coverage:.3f}"],
        ["shown without a relevant hit", *(_share(point.risk) for point in (before, after))],
    ]
    if not after.coverage:
        said = f"Only a threshold that hides every hit brings false evidence to {found.target:.0%} or less."
        return [Text(f"{said} {_DEARER}", "warning")]
    note = (
        f"The lowest threshold at which at most {found.target:.0%} of the queries without an answer get a hit "
        "(`--target-false-evidence`). It was chosen on these queries, so it looks better here than it will elsewhere: "
        "check it on other queries before you use it."
    )
    return [table(["share", "every hit", f"score ≥ {after.threshold!r}"], rows, note)]


def _curves(found: Unanswerable) -> list[Block]:
    if len(found.curve) < 2:
        return []
    thresholds = [point.threshold or 0.0 for point in found.curve]
    over_scores = [
        _series("false evidence", thresholds, [point.false_evidence for point in found.curve]),
        _series("miss", thresholds, [point.miss for point in found.curve]),
    ]
    shown = [point for point in reversed(found.curve) if point.risk.n]
    risk = _series("risk", [round(point.coverage, 4) for point in shown], [point.risk for point in shown])
    return [
        Chart("Over score thresholds", "score ≥", "share of queries", over_scores),
        Chart("Risk and coverage", "queries shown a hit", "of these, without a relevant one", [risk]),
    ]


def _series(name: str, x: list[float], shares: list[Share]) -> Series:
    return Series(name, x, [s.value for s in shares], [s.low for s in shares], [s.high for s in shares])


def _share(share: Share) -> str:
    return "–" if share.value is None else f"{share.value:.3f} {interval(share.low, share.high)}"
