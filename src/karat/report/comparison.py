"""Report of `karat compare`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Literal

import numpy as np

from karat.data.ids import Floats
from karat.errors import shorten
from karat.report.blocks import Block, Cell, Column, Dot, Dots, Interval, Report, Scatter, Section, Spot, Table, Text
from karat.report.cells import around, difference_cell, interval_column
from karat.report.fitting import WHOLE
from karat.report.sections.artifacts import Artifacts
from karat.report.sections.findings import finding_blocks
from karat.report.sections.panel import panel_picture
from karat.report.sections.queries import ALL, SAMPLE, in_full
from karat.report.triage import changed_blocks
from karat.results.comparison.changes import Change, Moved
from karat.results.comparison.compare import (
    CandidateComparison,
    Comparison,
    SegmentDifferences,
    headline_metric,
    paired_sides,
)
from karat.results.comparison.open_labels import BoundedDifference
from karat.results.differences import SAME, Difference
from karat.results.numbers import difference, p_value, points, titled, written
from karat.results.queries.changed import changed_queries
from karat.results.result import Result
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric

_SEGMENT_METRICS = 2  # differences with intervals that fit beside each other
_PREFERRED = ("recall@5", "ndcg@5")
_MOVED = 3
_BY_JUDGE = (
    "The judge's labels count where the gold has none. Metrics that are not here stay with the gold. A judge errs: "
    "`karat calibrate` tells how often."
)
_SPOTS = 400  # more are drawn on a grid
_GRID = 40
_SHOWN = 5
_NOTE = (
    "strict bounds: between which ends any labels of the unjudged hits would leave the difference, the same labels for "
    "both runs. labels to flip: the fewest pairs that, if all were relevant, would leave the run that is ahead no "
    "longer ahead; ≤: found greedily, and fewer might do."
)


def comparison_report(comparison: Comparison, sides: Sequence[Result] = ()) -> Report:
    """`sides`: what was compared, in the same order; a page has pictures of it and tells what it was made from."""
    several = len(comparison.pairs) > 1
    sections: list[Section] = []
    for number, pair in enumerate(comparison.pairs, 1):
        title = f"{pair.candidate} against {comparison.baseline}"
        blocks: list[Block] = [*_notes(pair), *differences_picture(comparison, pair)]
        blocks += [_differences(comparison, pair.differences), *_judged(pair)]
        if sides:
            blocks += sides_pictures(pair, sides[0], sides[number])
        sections.append(Section(f"pair-{number}", title, blocks))
        if opened := open_label_blocks(pair):
            sections.append(Section(f"bounds-{number}", f"What unjudged hits leave open: {title}", opened))
        if pair.by_judge:
            judged: list[Block] = [Text(_BY_JUDGE), _differences(comparison, pair.by_judge)]
            sections.append(Section(f"by-judge-{number}", f"With the judge's labels: {title}", judged))
        if pair.segments:
            sections.append(Section(f"segments-{number}", f"Segments: {title}", _segments(comparison, pair)))
        sections += _by_query(comparison, pair, sides, number)
        if pair.findings:
            sections.append(Section(f"findings-{number}", f"What to do: {title}", finding_blocks(pair.findings)))
    if several:
        sections.insert(0, Section("all", "All comparisons", _all(comparison)))
    for name, side in zip([comparison.baseline, *(p.candidate for p in comparison.pairs)], sides, strict=False):
        sections.append(Section("artifacts", f"Made from: {name}", Artifacts().full_blocks(side)))
    queries = {pair.queries for pair in comparison.pairs}
    on = f", {queries.pop():,} queries" if len(queries) == 1 else ""
    return Report(f"Compared with {comparison.baseline}{on}", sections)


def _by_query(comparison: Comparison, pair: CandidateComparison, sides: Sequence[Result], number: int) -> list[Section]:
    """On a page every list that changed can be looked at; elsewhere those that changed most are named."""
    blocks = _both_lists(pair, sides[0], sides[number]) if sides else []
    if blocks:
        return [Section(f"queries-{number}", f"Query by query: {pair.candidate}", blocks)]
    if not pair.changes:
        return []
    title = f"Changed most by {pair.changes[0].metric}: {pair.candidate} against {comparison.baseline}"
    saved = [side.system or side.run for side in sides and (sides[0], sides[number]) if side.lists is None]
    whose = " and ".join(saved)
    notes = (
        [Text(f"No lists to look at: of {whose} a saved result was given, which keeps no hits.", "note")]
        if saved
        else []
    )
    return [Section(f"changes-{number}", title, [_changes(comparison, pair), *notes])]


def _both_lists(pair: CandidateComparison, baseline: Result, candidate: Result) -> list[Block]:
    metric = headline_metric([parse_metric(d.metric) for d in pair.differences])
    if metric is None:
        return []
    found = changed_queries(baseline, candidate, metric, ALL, sample=SAMPLE, letters=WHOLE)
    return changed_blocks(found, baseline.system or baseline.run, pair.candidate, in_full(len(found.shown)))


def _notes(pair: CandidateComparison) -> list[Block]:
    blocks: list[Block] = [Text(note, "warning") for note in pair.notes]
    if pair.identical:
        blocks.append(Text("Both score the same on every query."))
    return blocks


def _judged(pair: CandidateComparison) -> list[Block]:
    """How much of both lists the gold knows; without a word where a row of the table says it and all is well."""
    found = pair.judged
    if found is None:
        return []
    said = f"judged@{found.k}: baseline {found.baseline:.1%}, candidate {found.candidate:.1%}."
    if found.warning:
        return [Text(f"{said} {found.warning}", "warning")]
    return [] if any(d.metric == f"judged@{found.k}" for d in pair.differences) else [Text(said, "note")]


def _differences(comparison: Comparison, found: Sequence[Difference]) -> Table:
    tested = _tested(found)
    columns = ("metric", "baseline", "candidate", _level(comparison), *tested * ("p",), "+/=/−", "reading")
    note = (
        "p: chance of a difference this large if neither were better, for each metric alone. "
        "reading: by the interval, the more careful of the two."
    )
    rows = [_row(comparison, d, tested) for d in found]
    return Table([Column(c) for c in columns], rows, note if tested else "reading: by the interval.")


def _tested(found: Sequence[Difference]) -> bool:
    """Whether somebody asked for p-values: a column without any would tell nothing."""
    return any(d.p is not None for d in found) or not any(d.n for d in found)


def _level(comparison: Comparison) -> str:
    return f"difference [{comparison.statistics['level'] * 100:g} % interval]"


def _row(comparison: Comparison, d: Difference, tested: bool) -> list[Cell]:
    unit = comparison.units[d.metric]
    shown = "" if unit == "pp" else unit
    return [
        d.metric,
        written(d.baseline, shown),
        written(d.candidate, shown),
        points(d.delta, unit, (d.low, d.high)),
        *([p_value(d.p)] if tested else []),
        f"{d.wins}/{d.ties}/{d.losses}",
        _reading(comparison, d),
    ]


def _reading(comparison: Comparison, d: Difference) -> str:
    """What the interval says, in a word."""
    if d.delta is None:
        return "–"
    if d.few:
        return "too few"
    if not d.certain:
        return "same" if d.wins == d.losses == 0 else "unclear"
    rises = d.delta > 0
    return "better" if rises != (d.metric in comparison.lower_is_better) else "worse"


def _all(comparison: Comparison) -> list[Block]:
    tested = _tested([d for pair in comparison.pairs for d in pair.differences])
    columns = ("candidate", "metric", _level(comparison), *tested * ("p", "Holm", "BH"), "reading")
    rows = [
        [
            pair.candidate,
            d.metric,
            points(d.delta, comparison.units[d.metric], (d.low, d.high)),
            *(p_value(p) for p in tested * (d.p, d.p_holm, d.p_bh)),
            _reading(comparison, d),
        ]
        for pair in comparison.pairs
        for d in pair.differences
    ]
    table = Table(
        [Column(c) for c in columns], rows, "reading: by the interval of each alone, not adjusted for their number."
    )
    if not tested:
        return [table]
    return [
        table,
        Text(
            "Many comparisons find something by chance. Holm: adjusted p for decisions (even one false find is "
            "unlikely). BH (Benjamini–Hochberg): adjusted p for exploration (few of the finds are false).",
            "note",
        ),
    ]


def _segments(comparison: Comparison, pair: CandidateComparison) -> list[Block]:
    names = [d.metric for d in pair.differences]
    shown = [*(n for n in _PREFERRED if n in names), *(n for n in names if n not in _PREFERRED)][:_SEGMENT_METRICS]
    tested, blocks = _tested([d for group in pair.segments for d in group.differences]), list[Block]()
    for segment, groups in groupby(pair.segments, lambda group: group.segment):
        rows = [_segment_row(comparison, group, shown, tested) for group in groups]
        columns = [Column(segment), Column("queries", "count")]
        for i, name in enumerate(shown):
            title = titled(name, comparison.units[name])
            columns.append(interval_column(title, (row[2 + (1 + tested) * i] for row in rows)))
            columns += tested * [Column("p (BH)")]
        blocks.append(Table(columns, rows))
    if any(group.few for group in pair.segments):
        blocks.append(Text("* too few queries to judge by", "warning"))
    told = Text("p (BH): adjusted for the number of segments; to explore, not to decide.", "note")
    return [*blocks, told] if tested else blocks


def _segment_row(comparison: Comparison, group: SegmentDifferences, shown: list[str], tested: bool) -> list[Cell]:
    by_name = {d.metric: d for d in group.differences}
    cells: list[Cell] = [group.value + (" *" if group.few else ""), group.queries]
    for name in shown:
        d = by_name[name]
        cells += [difference_cell(d, comparison.units[name]), *([p_value(d.p_bh)] if tested else [])]
    return cells


def _changes(comparison: Comparison, pair: CandidateComparison) -> Table:
    # Saved results keep no hits, and many gold sets no text: a column of dashes would tell nothing.
    lists = any(change.fell_out or change.came_in for change in pair.changes)
    texts = any(change.query for change in pair.changes)
    columns = ["query", pair.changes[0].metric, "change"]
    columns += [*(["fell out", "came in"] if lists else []), *(["text"] if texts else [])]
    rows = [_change_row(comparison, change, lists, texts) for change in pair.changes]
    depths = {change.k for change in pair.changes}
    top = f"the top {depths.pop()}" if len(depths) == 1 else "each query's top k"
    note = f"hits of {top}, relevant ones first, with their grade" if lists else None
    return Table([Column(c) for c in columns], rows, note)


def _change_row(comparison: Comparison, change: Change, lists: bool, texts: bool) -> list[Cell]:
    return [
        change.query_id,
        f"{change.baseline:.2f} → {change.candidate:.2f}",
        points(change.delta, comparison.units[change.metric]),
        *([_moved(change.fell_out), _moved(change.came_in)] if lists else []),
        *([None if change.query is None else shorten(change.query)] if texts else []),
    ]


def _moved(hits: list[Moved]) -> str | None:
    shown = [f"{h.id} ({h.grade:g})" if h.grade is not None else h.id for h in hits[:_MOVED]]
    more = len(hits) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else [])]) or None


def differences_picture(comparison: Comparison, pair: CandidateComparison) -> list[Block]:
    """The differences of all shares, on one axis with zero on it."""
    rows = [Dot(d.metric, difference_cell(d, "pp")) for d in pair.differences if comparison.units[d.metric] == "pp"]
    shown = [row for row in rows if row.value.value is not None]
    ends = around((v for row in shown for v in (row.value.low, row.value.high) if v is not None), zero=True)
    title = f"What changed, with {comparison.statistics['level'] * 100:g} % intervals"
    reach = max(*map(abs, ends), 1.0) * 1.05
    axis = f"percentage points ({comparison.baseline} = 0)"
    return [Dots(title, axis, shown, (-reach, reach), told=True)] if shown else []


def sides_pictures(pair: CandidateComparison, baseline: Result, candidate: Result) -> list[Block]:
    """The candidate's scores beside the baseline's, and query by query in the metric that decides what changed."""
    blocks = panel_picture(candidate, baseline)
    if metric := headline_metric([parse_metric(d.metric) for d in pair.differences]):
        blocks.append(_scatter(metric, baseline, candidate))
    return blocks


def _scatter(metric: Metric, baseline: Result, candidate: Result) -> Scatter:
    paired = paired_sides(baseline, candidate, force=True)  # whoever compares has asked already
    before, after = (side.values[str(metric)] for side in (paired.baseline, paired.candidate))
    defined = ~(np.isnan(before) | np.isnan(after))
    first, other = (f"{metric} of {side.system or side.run}" for side in (baseline, candidate))
    return Scatter(
        f"{metric}, query by query",
        first,
        other,
        _spots(before[defined], after[defined], metric.direction == "higher"),
        around([*before[defined].tolist(), *after[defined].tolist(), *(e for e in metric.range if np.isfinite(e))]),
    )


def _spots(before: Floats, after: Floats, higher: bool) -> list[Spot]:
    """Queries with the same pair of values together; very many different pairs are drawn on a grid."""
    places = Counter(zip(before.round(4).tolist(), after.round(4).tolist(), strict=True))
    if len(places) > _SPOTS:
        step = max(float(np.ptp(np.concatenate([before, after]))), SAME) / _GRID
        grid = zip(*((np.round(values / step) * step).round(4).tolist() for values in (before, after)), strict=True)
        places = Counter(grid)
    return [Spot(x, y, count, _kind(y - x, higher)) for (x, y), count in sorted(places.items())]


def _kind(delta: float, higher: bool) -> Literal["gained", "lost", "same"]:
    if abs(delta) <= SAME:
        return "same"
    return "gained" if (delta > 0) == higher else "lost"


def open_label_blocks(pair: CandidateComparison) -> list[Block]:
    if not pair.bounds:
        return []
    rows = [_bounds_row(found) for found in pair.bounds]
    columns = [Column(c) for c in ("metric", "gold only (pp)", "strict bounds (pp)", "who is ahead", "labels to flip")]
    return [Table(columns, rows, _NOTE), *_hangs_on(pair)]


def _hangs_on(pair: CandidateComparison) -> list[Block]:
    """The pairs behind the metric by which the changed queries go, or else behind the first that can be flipped."""
    leading = {change.metric for change in pair.changes}
    flips = [(found.metric, found.flip) for found in pair.bounds if found.flip]
    if not flips:
        return []
    metric, taken = min(flips, key=lambda flip: flip[0] not in leading)
    named = ", ".join(f"{p.item} ({p.query_id})" for p in taken.pairs[:_SHOWN])
    more = taken.labels - min(len(taken.pairs), _SHOWN)
    return [Text(f"{metric} hangs on {named}{f' and {more:,} more' if more else ''}.")]


def _bounds_row(found: BoundedDifference) -> list[Cell]:
    ends = difference(found.low, "pp", (None, None), 1), difference(found.high, "pp", (None, None), 1)
    bounds = Interval(f"{ends[0]} to {ends[1]}", None, found.low, found.high)
    return [found.metric, difference(found.delta, "pp", (None, None), 1), bounds, _bounds_reading(found), _flip(found)]


def _bounds_reading(found: BoundedDifference) -> str:
    if found.settled:
        return f"{'candidate' if found.low > 0 else 'baseline'}, whatever the labels"
    if found.low == found.high:
        return "neither, whatever the labels"
    return "hangs on missing labels"


def _flip(found: BoundedDifference) -> str | None:
    if found.flip is None:
        return None
    return f"{'' if found.flip.exact else '≤ '}{found.flip.labels:,}"
