"""Reports of `karat eval sweep` and `karat eval power`."""

from __future__ import annotations

from itertools import groupby

from karat.report.blocks import Bar, Bars, Block, Cell, Chart, Mark, Report, Section, Series, Table, Text
from karat.report.cells import (
    count,
    few_name,
    few_warning,
    interval_column,
    queries_cell,
    table,
    texts,
    value_cell,
    write_cell,
)
from karat.report.overview import data_name, run_names
from karat.results.numbers import amount, points, with_interval
from karat.results.power import Plan, PlanRow
from karat.results.summary import SummaryRow
from karat.results.sweep import Curve, Knee, Sweep

_NAMES = {"recall": "recall", "ndcg": "nDCG"}


def sweep_report(sweep: Sweep) -> Report:
    everything, *segments = sweep.curves
    rests_on = write_cell(queries_cell(everything.queries, [everything.points[-1].recall.n]), "count")
    sections = [Section("sweep", f"Over k, {rests_on} queries", sweep_blocks(sweep))]
    if segments:
        sections.append(Section("segments", "Segments", _segments(segments)))
    return Report(f"{sweep.system or sweep.run} against {sweep.gold}", sections, page_title=_sentence(sweep))


def _sentence(sweep: Sweep) -> str:
    """`bm25 on helpdesk over k: recall 11.6% at 1, 46.8% at 10`"""
    [name] = run_names([sweep.system or sweep.run])
    points = sweep.curves[0].points
    ends = [(point.k, point.recall.mean) for point in (points[:1] if len(points) < 2 else (points[0], points[-1]))]
    told = [f"{amount(mean, 'pp')} at {k}" for k, mean in ends if mean is not None]
    return f"{name} on {data_name(sweep.dataset, sweep.gold)} over k" + (f": recall {', '.join(told)}" if told else "")


def sweep_blocks(sweep: Sweep) -> list[Block]:
    """The curves of all queries."""
    everything = sweep.curves[0]
    blocks: list[Block] = [Text(note, "warning") for note in sweep.notes]
    if len(everything.points) > 1:
        blocks += [_chart(everything, sweep.statistics["level"]), _headroom(everything)]
    return [*blocks, _curve(everything), *_sentences(everything)]


def _chart(curve: Curve, level: float) -> Chart:
    series = []
    for name, title in _NAMES.items():
        rows: list[SummaryRow] = [getattr(point, name) for point in curve.points]
        values = [[row.mean for row in rows], [row.low for row in rows], [row.high for row in rows]]
        series.append(Series(f"{title}@k", [point.k for point in curve.points], *values))
    knees: dict[int, list[str]] = {}
    for knee in curve.knees:
        if not knee.rising:
            knees.setdefault(knee.k, []).append(_NAMES[knee.metric])
    marks = [Mark(k, f"knee of {' and '.join(names)}") for k, names in sorted(knees.items())]
    title = f"Recall and nDCG over k, with {level * 100:g} % intervals"
    return Chart(title, "k", "score", series, marks, "log", (0.0, 1.0), told=True)


def _headroom(curve: Curve) -> Bars:
    """Where the relevant items of a query are, on average."""
    kinds = ("found in the top k", "deeper in the list", "not in the list")
    bars = []
    for room in curve.headroom:
        at = 0.0
        for kind, share in enumerate((room.recall, room.recoverable, room.lost)):
            bars.append(Bar(f"k = {room.k}", at, at + share, kind, f"{share:.1%}"))
            at += share
    return Bars("Where the relevant items are", "share of the relevant items", kinds, bars, (0.0, 1.0), told=True)


def _curve(curve: Curve) -> Table:
    headroom = {h.k: h for h in curve.headroom}
    columns = ("k", "recall@k", "nDCG@k", "cap", "recoverable", "lost")
    rows: list[list[Cell]] = []
    for point in curve.points:
        room = headroom.get(point.k)
        parts = ["–"] * 3 if room is None else [f"{v:.3f}" for v in (room.cap, room.recoverable, room.lost)]
        rows.append([point.k, value_cell(point.recall), value_cell(point.ndcg), *parts])
    note = (
        "cap: the highest possible recall@k with k places. recoverable: found below rank k, so a reranker could "
        "move it up. lost: not in the list, so only better retrieval could find it."
    )
    return Table([interval_column(c, (row[i] for row in rows)) for i, c in enumerate(columns)], rows, note)


def _sentences(curve: Curve) -> list[Block]:
    blocks: list[Block] = [Text(f"Area under recall ({curve.auc_recall.metric}): {with_interval(curve.auc_recall)}.")]
    blocks += [Text(_knee(knee)) for knee in curve.knees if len(knee.chosen) > 1]  # one point has no knee
    if curve.few:
        blocks.append(Text("too few queries for a reliable result", "warning"))
    return blocks


def _knee(knee: Knee) -> str:
    name, share = _NAMES[knee.metric], f"{knee.chosen[knee.k]:.0%}"
    if knee.rising:
        return f"{name} has no knee: it still rises at k = {knee.k}, the largest k (in {share} of the resamples)."
    others = [f"k = {k} in {part:.0%}" for k, part in knee.chosen.items() if k != knee.k and part >= 0.005]
    doubt = f"; {', '.join(others)}" if others else ""
    return (
        f"Knee of {name}: k = {knee.k}, the smallest k within 1 pp of the largest "
        f"(chosen in {share} of the resamples{doubt})."
    )


def _segments(curves: list[Curve]) -> list[Block]:
    blocks: list[Block] = []
    for segment, group in groupby(curves, lambda curve: curve.segment):
        rows = [_segment_row(curve) for curve in group]
        deepest = curves[0].points[-1].k
        columns = (
            segment,
            count("queries"),
            "knee recall",
            "knee nDCG",
            "area under recall",
            f"recall@{deepest}",
            "lost",
        )
        blocks.append(table(columns, rows))
    rising = any(knee.rising for curve in curves for knee in curve.knees)
    note = f"none: the curve is still rising at k = {curves[0].points[-1].k} (in that share of the resamples)."
    return [*blocks, *texts("note", (rising, note)), *few_warning(curves)]


def _segment_row(curve: Curve) -> list[Cell]:
    knees = {knee.metric: knee for knee in curve.knees}
    return [
        few_name(curve),
        queries_cell(curve.queries, [curve.points[-1].recall.n]),
        *(_short_knee(knees[n]) if n in knees else "–" for n in ("recall", "ndcg")),
        with_interval(curve.auc_recall),
        with_interval(curve.points[-1].recall),
        f"{curve.headroom[-1].lost:.3f}" if curve.headroom else "–",
    ]


def _short_knee(knee: Knee) -> str:
    share = f"{knee.chosen[knee.k]:.0%}"
    return f"none ({share})" if knee.rising else f"{knee.k} ({share})"


def power_report(plan: Plan) -> Report:
    needed = f"queries needed for {plan.rows[0].detect * 100:g} pp"
    columns = ("metric", count("queries"), "spread", "detectable", needed, "enough")
    same = any(row.spread is not None and row.detectable is None for row in plan.rows)
    warnings = texts(
        "warning",
        (same, "spread 0: the scores do not differ here, which says nothing about other runs."),
        (any(row.few for row in plan.rows), "too few queries to estimate the spread well: these figures are rough."),
    )
    blocks = [table(columns, [_row(row) for row in plan.rows]), Text(_how(plan), "note"), *warnings]
    [name] = run_names([plan.run])
    sentence = f"Smallest difference that {data_name(plan.dataset, plan.gold)} can detect, with {name}"
    sections = [Section("power", "Differences that this set can detect", blocks)]
    return Report(f"{plan.run} against {plan.gold}", sections, page_title=sentence)


def _row(row: PlanRow) -> list[Cell]:
    return [
        row.metric,
        row.n,
        None if row.spread is None else f"{row.spread:.3f}",
        None if row.detectable is None else points(row.detectable).removeprefix("+"),
        None if row.needed is None else f"{row.needed:,}",
        None if row.enough is None else "yes" if row.enough else "no",
    ]


def _how(plan: Plan) -> str:
    spread = f"measured against {plan.against}."
    if plan.against is None:
        spread = f"assuming that the scores of two versions have a correlation of {plan.correlation:g}; "
        spread += "to measure it, pass a second run with --against."
    return (
        f"detectable: the smallest true difference between two runs that is detected in {plan.power:.0%} of cases"
        f" (with {plan.level * 100:g} % intervals). spread: standard deviation of the paired differences, {spread}"
    ) + (f" Queries with the same {plan.cluster} count together." if plan.cluster else "")
