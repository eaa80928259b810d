"""Report of `karat compare`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from karat.errors import shorten
from karat.report.blocks import (
    Block,
    Cell,
    Column,
    Interval,
    Report,
    Section,
    Table,
    Text,
    Tile,
    Tiles,
)
from karat.report.cells import (
    difference_cell,
    few_by,
    few_name,
    few_warning,
    interval_column,
    narrow_warning,
    queries_cell,
    relevance_counts,
    table,
    texts,
)
from karat.report.comparison_overlap import overlap_blocks
from karat.report.comparison_pictures import differences_picture, sides_pictures
from karat.report.fit import WHOLE
from karat.report.overview import data_name, difference_note, run_names, score_note, with_difference_note
from karat.report.sections.audit import Artifacts
from karat.report.sections.findings import finding_blocks, finding_lines, linked_findings
from karat.report.sections.queries import ALL, SAMPLE, in_full
from karat.report.sections.segments import leading_metrics
from karat.report.triage import changed_blocks
from karat.results.comparison.compare import (
    CandidateComparison,
    Change,
    Comparison,
    Moved,
    SegmentDifferences,
    headline_metric,
)
from karat.results.comparison.open_labels import BoundedDifference
from karat.results.differences import Difference, reading_of
from karat.results.numbers import amount, counted, difference, p_value, points, titled, written
from karat.results.queries.changed import changed_queries
from karat.results.result import Result
from karat.scoring.metrics.grammar import parse_metric

_SEGMENT_METRICS = 2  # differences with intervals that fit side by side
_PREFERRED = ("recall@5", "ndcg@5")
_MOVED = 3
_BY_JUDGE = (
    "The judge's labels count where the gold set has none. Metrics not listed here use the gold set only. Judges make "
    "mistakes: `karat labels calibrate` shows how often."
)
_BY_CLICKS = (
    "Labels from clicks count where the gold set has none. Metrics not listed here use the gold set only. Clicks show "
    "what attracts people, which is not always what is relevant."
)
_ADJUSTED = (
    "With many comparisons, some differences appear by chance. Holm: adjusted p for decisions (even one false positive "
    "is unlikely). BH (Benjamini–Hochberg): adjusted p for exploration (few false positives)."
)
_SHOWN = 5
_IN_A_TITLE = {"unclear": "no clear difference", "same": "the same", "too few": "too few queries to say"}
_NOTE = (
    "strict bounds: the smallest and the largest difference that any labels for the unjudged hits could give, with the "
    "same labels for both runs. labels to flip: the fewest pairs that would cost the leading run its lead if all of "
    "them were relevant. ≤: from a greedy search, fewer may be enough."
)


def comparison_report(comparison: Comparison, sides: Sequence[Result] = ()) -> Report:
    """Builds the report. `sides`: the compared results in the same order, for a page with charts and provenance."""
    if sides:
        return comparison_page(comparison, sides)
    sections = [Section("all", "All comparisons", _all(comparison))] if len(comparison.pairs) > 1 else []
    for number, pair in enumerate(comparison.pairs, 1):
        title = f"{pair.candidate} against {comparison.baseline}"
        sections += _pair_sections(comparison, number, title)
        if pair.findings:
            sections.append(Section(f"findings-{number}", f"What to do: {title}", finding_blocks(pair.findings)))
    queries = {pair.queries for pair in comparison.pairs}
    on = f", {counted(queries.pop())}" if len(queries) == 1 else ""
    return Report(f"Compared with {comparison.baseline}{on}", sections)


def comparison_page(comparison: Comparison, sides: Sequence[Result] = (), gold: str = "") -> Report:
    """For pages: what changed at a glance, what to do, then the differences in detail. `gold`: the label of the gold
    set if it has no name."""
    first, todo = list[Block](), list[Section]()
    several = len(comparison.pairs) > 1
    for number, (pair, title) in enumerate(zip(comparison.pairs, _titles(comparison), strict=True), 1):
        first += [*texts("plain", (several, f"{title}:")), *_tiles(comparison, pair)]
        first += [*_notes(pair), *finding_lines((pair.findings, [f"pair-{number}"]))]
        if pair.findings:
            cards = linked_findings((pair.findings, [f"pair-{number}"]))
            todo.append(Section(f"findings-{number}", f"What to do: {title}" if several else "What to do", cards))
    glance = Section("glance", "At a glance", first)
    title = comparison_title(comparison, gold or (sides[0].gold.label if sides else ""))
    return Report(title, [glance, *todo, *comparison_sections(comparison, sides)])


def comparison_sections(comparison: Comparison, sides: Sequence[Result]) -> list[Section]:
    """The sections of a page after its overview and what to do."""
    sections = [Section("all", "All comparisons", _all(comparison))] if len(comparison.pairs) > 1 else []
    for number, title in enumerate(_titles(comparison), 1):
        sections += _pair_sections(comparison, number, title, sides, page=True)
    for name, side in zip(_names(comparison), sides, strict=False):
        sections.append(Section("artifacts", f"Inputs and settings: {name}", Artifacts().full_blocks(side)))
    level = comparison.statistics["level"]
    return [msgspec.structs.replace(s, blocks=with_difference_note(s.blocks, level)) for s in sections]


def _pair_sections(
    comparison: Comparison, number: int, title: str, sides: Sequence[Result] = (), *, page: bool = False
) -> list[Section]:
    """`page`: does not repeat the overview or any explanation."""
    pair = comparison.pairs[number - 1]
    blocks: list[Block] = [] if page else _notes(pair)
    blocks += [*differences_picture(comparison, pair), *_differences(comparison, pair.differences, page)]
    blocks += _judged(pair)
    if sides:
        blocks += sides_pictures(pair, sides[0], sides[number])
        blocks.append(score_note(comparison.statistics["level"], sides[number].cluster))
    sections = [Section(f"pair-{number}", title, blocks)]
    if pair.overlap is not None:
        alike = overlap_blocks(pair.overlap, comparison.statistics["level"], page=page)
        sections.append(Section(f"overlap-{number}", f"Same lists? {title}", alike))
    if opened := _open_label_blocks(pair):
        sections.append(Section(f"bounds-{number}", f"Effect of unjudged hits: {title}", opened))
    if pair.by_judge:
        clicks = pair.labels_from == "clicks"
        judged: list[Block] = [Text(_BY_CLICKS if clicks else _BY_JUDGE)]
        judged += _differences(comparison, pair.by_judge, page)
        whose = "labels from clicks" if clicks else "the judge's labels"
        sections.append(Section(f"by-judge-{number}", f"With {whose}: {title}", judged))
    if pair.segments:
        sections.append(Section(f"segments-{number}", f"Segments: {title}", _segments(comparison, pair)))
    return [*sections, *_by_query(comparison, pair, sides, number)]


def _names(comparison: Comparison) -> list[str]:
    """Names of the baseline and of each candidate, as shown on a page."""
    return run_names([comparison.baseline, *(pair.candidate for pair in comparison.pairs)])


def _titles(comparison: Comparison) -> list[str]:
    baseline, *candidates = _names(comparison)
    return [f"{candidate} against {baseline}" for candidate in candidates]


def comparison_title(comparison: Comparison, gold: str) -> str:
    """`hybrid against bm25 on helpdesk: recall@5 from 33.2% to 36.8%, better`"""
    data = f" on {data_name(comparison.dataset, gold)}" if comparison.dataset.name or gold else ""
    found = [(pair, _headline(pair)) for pair in comparison.pairs]
    if len(found) > 1:
        return f"{len(found)} systems against {_names(comparison)[0]}{data}, {counted(found[0][0].queries)}"
    [(pair, d)], [title] = found, _titles(comparison)
    if d is None or d.baseline is None or d.candidate is None:
        return f"{title}{data}: {counted(pair.queries)}"
    unit = comparison.units[d.metric]
    moved = f"{d.metric} from {amount(d.baseline, unit)} to {amount(d.candidate, unit)}"
    return f"{title}{data}: {moved}, {_IN_A_TITLE.get(_reading(comparison, d), _reading(comparison, d))}"


def _headline(pair: CandidateComparison) -> Difference | None:
    metric = headline_metric([parse_metric(d.metric) for d in pair.differences])
    return next((d for d in pair.differences if metric is not None and d.metric == str(metric)), None)


def _tiles(comparison: Comparison, pair: CandidateComparison) -> list[Block]:
    """The key differences with their intervals, and the number of queries."""
    telling = leading_metrics([parse_metric(d.metric) for d in pair.differences])
    by_name = {d.metric: d for d in pair.differences}
    tiles = []
    for d in (by_name[str(metric)] for metric in telling):
        unit = comparison.units[d.metric]
        shown = "" if unit == "pp" else unit
        digits = 1 if unit == "pp" else 2
        change = f"{difference(d.delta, unit, (None, None), digits)} {unit}".rstrip()
        limits = "" if d.low is None else difference(d.delta, unit, (d.low, d.high), digits).partition(" ")[2]
        sides = f"{written(d.baseline, shown)} → {written(d.candidate, shown)}"
        tiles.append(Tile(d.metric, change, f"{limits} {_reading(comparison, d)}\n{sides}".strip()))
    found = Tiles("Key differences", [*tiles, Tile("queries", f"{pair.queries:,}")], told=True)
    return [found, difference_note(comparison.statistics["level"], tested=_tested(pair.differences))]


def _notes(pair: CandidateComparison) -> list[Block]:
    return [
        *(Text(note, "warning") for note in pair.notes),
        *texts("plain", (pair.identical, f"Both score the same on every query{_although(pair)}.")),
    ]


def _although(pair: CandidateComparison) -> str:
    """Says whether the lists differ: equal scores do not mean that nothing changed."""
    if pair.other_lists is None:
        return ""
    if not pair.other_lists:
        return " and return the same hits in the same order"
    verb = "differs" if pair.other_lists == 1 else "differ"
    return f", although the lists of {counted(pair.other_lists)} {verb}"


def _by_query(comparison: Comparison, pair: CandidateComparison, sides: Sequence[Result], number: int) -> list[Section]:
    """On a page, every list that changed; elsewhere, a table of the largest changes."""
    blocks = _both_lists(pair, sides[0], sides[number]) if sides else []
    if blocks:
        return [Section(f"queries-{number}", f"Query by query: {_names(comparison)[number]}", blocks)]
    if not pair.changes:
        return []
    title = f"Largest changes in {pair.changes[0].metric}: {pair.candidate} against {comparison.baseline}"
    saved = [side.system or side.run for side in sides and (sides[0], sides[number]) if side.lists is None]
    said = f"No hits to show: saved results do not contain hits ({' and '.join(saved)})."
    return [Section(f"changes-{number}", title, [_changes(comparison, pair), *texts("note", (saved, said))])]


def _both_lists(pair: CandidateComparison, baseline: Result, candidate: Result) -> list[Block]:
    metric = headline_metric([parse_metric(d.metric) for d in pair.differences])
    if metric is None:
        return []
    found = changed_queries(baseline, candidate, metric, ALL, sample=SAMPLE, letters=WHOLE)
    return changed_blocks(found, baseline.system or baseline.run, pair.candidate, in_full(len(found.shown)))


def _judged(pair: CandidateComparison) -> list[Block]:
    """How much of both lists is judged; nothing if the table already says so and there is no warning."""
    found = pair.judged
    if found is None:
        return []
    said = f"judged@{found.k}: baseline {found.baseline:.1%}, candidate {found.candidate:.1%}."
    if found.warning:
        return [Text(f"{said} {found.warning}", "warning")]
    return [] if any(d.metric == f"judged@{found.k}" for d in pair.differences) else [Text(said, "note")]


def _differences(comparison: Comparison, found: Sequence[Difference], page: bool) -> list[Block]:
    if not found:  # everything is left out; the notes say why
        return []
    tested = _tested(found)
    columns = ("metric", "baseline", "candidate", _level(comparison), *tested * ("p",), "+/=/−", "reading")
    alpha = _alpha(comparison)
    reading = f"reading: better or worse if the interval excludes 0 and p is at most {alpha}, otherwise unclear."
    reading = reading if tested else "reading: based on the interval and on p (not shown)."
    p = "p: probability of a difference this large if neither were better, for each metric on its own. "
    shown = table(columns, [_row(comparison, d, tested) for d in found])
    if not page:
        return [msgspec.structs.replace(shown, note=p * tested + reading), *narrow_warning(found)]
    told = Text(reading, "note", explains="reading")
    return [msgspec.structs.replace(shown, intervals="difference"), *narrow_warning(found), told]


def _tested(found: Sequence[Difference]) -> bool:
    """Whether p-values were requested; otherwise the column would be empty."""
    return any(d.p is not None for d in found) or not any(d.n for d in found)


def _alpha(comparison: Comparison) -> str:
    return f"{round(1 - float(comparison.statistics['level']), 6):g}"


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
    """The reading of interval and p together; computed here because older files do not have it."""
    if d.reading in ("higher", "lower"):
        return d.reading
    direction = "lower" if d.metric in comparison.lower_is_better else "higher"
    said = reading_of(d.delta, direction, certain=d.certain, few=d.few, moved=bool(d.wins or d.losses))
    return "–" if said == "undefined" else said


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
    if not rows:
        return [Text("Nothing could be compared: see below.")]
    note = "reading: based on each interval on its own, not adjusted for the number of comparisons."
    narrow = narrow_warning(d for pair in comparison.pairs for d in pair.differences)
    return [table(columns, rows, note), *narrow, *texts("note", (tested, _ADJUSTED))]


def _segments(comparison: Comparison, pair: CandidateComparison) -> list[Block]:
    names = [d.metric for d in pair.differences]
    shown = [*(n for n in _PREFERRED if n in names), *(n for n in names if n not in _PREFERRED)][:_SEGMENT_METRICS]
    tested, blocks = _tested([d for group in pair.segments for d in group.differences]), list[Block]()
    segments = [few_by(group, shown) for group in pair.segments]
    for segment, groups in groupby(segments, lambda group: group.segment):
        rows = [_segment_row(comparison, group, shown, tested) for group in groups]
        columns = [Column(segment), Column("queries", "count")]
        for i, name in enumerate(shown):
            title = titled(name, comparison.units[name])
            columns.append(interval_column(title, (row[2 + (1 + tested) * i] for row in rows)))
            columns += tested * [Column("p (BH)")]
        blocks.append(Table(columns, rows))
    told = "p (BH): adjusted for the number of segments; for exploration, not for decisions."
    narrow = narrow_warning(d for group in pair.segments for d in group.differences if d.metric in shown)
    return [*blocks, *few_warning(segments), *narrow, *texts("note", (tested, told))]


def _segment_row(comparison: Comparison, group: SegmentDifferences, shown: list[str], tested: bool) -> list[Cell]:
    by_name = {d.metric: d for d in group.differences}
    cells: list[Cell] = [few_name(group), queries_cell(group.queries, relevance_counts(group.differences))]
    for name in shown:
        d = by_name[name]
        cells += [difference_cell(d, comparison.units[name]), *([p_value(d.p_bh)] if tested else [])]
    return cells


def _changes(comparison: Comparison, pair: CandidateComparison) -> Table:
    # Saved results have no hits, and many gold sets no text: leave out columns of dashes.
    lists = any(change.fell_out or change.came_in for change in pair.changes)
    asked = any(change.query for change in pair.changes)
    columns = ["query", pair.changes[0].metric, "change", *lists * ("fell out", "came in"), *asked * ("text",)]
    rows = [_change_row(comparison, change, lists, asked) for change in pair.changes]
    depths = {change.k for change in pair.changes}
    top = f"the top {depths.pop()}" if len(depths) == 1 else "each query's top k"
    note = f"hits in {top} with their grade, relevant ones first" if lists else None
    return table(columns, rows, note)


def _change_row(comparison: Comparison, change: Change, lists: bool, asked: bool) -> list[Cell]:
    return [
        change.query_id,
        f"{change.baseline:.2f} → {change.candidate:.2f}",
        points(change.delta, comparison.units[change.metric]),
        *([_moved(change.fell_out), _moved(change.came_in)] if lists else []),
        *([None if change.query is None else shorten(change.query)] if asked else []),
    ]


def _moved(hits: list[Moved]) -> str | None:
    shown = [f"{h.id} ({h.grade:g})" if h.grade is not None else h.id for h in hits[:_MOVED]]
    more = len(hits) - len(shown)
    return ", ".join([*shown, *([f"{more} more"] if more else [])]) or None


def _open_label_blocks(pair: CandidateComparison) -> list[Block]:
    if not pair.bounds:
        return []
    rows = [_bounds_row(found) for found in pair.bounds]
    columns = ("metric", "gold only (pp)", "strict bounds (pp)", "leader", "labels to flip")
    return [table(columns, rows), Text(_NOTE, "note", explains="bounds of differences"), *_hangs_on(pair)]


def _hangs_on(pair: CandidateComparison) -> list[Block]:
    """The pairs behind the metric of the changed queries, or behind the first metric that can be flipped."""
    leading = {change.metric for change in pair.changes}
    flips = [(found.metric, found.flip) for found in pair.bounds if found.flip]
    if not flips:
        return []
    metric, taken = min(flips, key=lambda flip: flip[0] not in leading)
    named = ", ".join(f"{p.item} ({p.query_id})" for p in taken.pairs[:_SHOWN])
    more = taken.labels - min(len(taken.pairs), _SHOWN)
    return [Text(f"{metric} depends on {named}{f' and {more:,} more' if more else ''}.")]


def _bounds_row(found: BoundedDifference) -> list[Cell]:
    delta, low, high = (difference(v, "pp", (None, None), 1) for v in (found.delta, found.low, found.high))
    bounds = Interval(f"{low} to {high}", None, found.low, found.high)
    flip = None if found.flip is None else f"{'' if found.flip.exact else '≤ '}{found.flip.labels:,}"
    return [found.metric, delta, bounds, _bounds_reading(found), flip]


def _bounds_reading(found: BoundedDifference) -> str:
    if found.settled:
        return f"{'candidate' if found.low > 0 else 'baseline'}, for any labels"
    if found.low == found.high:
        return "neither, for any labels"
    return "depends on missing labels"
