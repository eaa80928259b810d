"""Reports of `karat sweep` and `karat power`."""

from __future__ import annotations

from itertools import groupby

from karat.report.blocks import Bar, Bars, Block, Cell, Chart, Column, Mark, Report, Section, Series, Table, Text
from karat.report.cells import interval_column, value_cell
from karat.results.numbers import points, with_interval
from karat.results.power import Plan, PlanRow
from karat.results.summary import SummaryRow
from karat.results.sweep import Curve, Knee, Sweep

_NAMES = {"recall": "recall", "ndcg": "nDCG"}


def sweep_report(sweep: Sweep) -> Report:
    everything, *segments = sweep.curves
    sections = [Section("sweep", f"Over k, {everything.queries:,} queries", sweep_blocks(sweep))]
    if segments:
        sections.append(Section("segments", "Segments", _segments(segments)))
    return Report(f"{sweep.system or sweep.run} against {sweep.gold}", sections)


def sweep_blocks(sweep: Sweep) -> list[Block]:
    """The curves of all queries."""
    everything = sweep.curves[0]
    blocks: list[Block] = [Text(note, "warning") for note in sweep.notes]
    if len(everything.points) > 1:
        blocks += [_chart(everything, sweep.statistics["level"]), _headroom(everything)]
    return [*blocks, _curve(everything), *_sentences(everything)]


def _chart(curve: Curve, level: float) -> Chart:
    series = [_series(name, [getattr(point, name) for point in curve.points], curve) for name in _NAMES]
    knees: dict[int, list[str]] = {}
    for knee in curve.knees:
        if knee.k != max(knee.chosen):  # a curve that still rises at its end has none
            knees.setdefault(knee.k, []).append(_NAMES[knee.metric])
    marks = [Mark(k, f"knee of {' and '.join(names)}") for k, names in sorted(knees.items())]
    title = f"How deep to look: recall and nDCG over k, with {level * 100:g} % intervals"
    return Chart(title, "k", "score", series, marks, "log", (0.0, 1.0), told=True)


def _series(name: str, rows: list[SummaryRow], curve: Curve) -> Series:
    columns = [[row.mean for row in rows], [row.low for row in rows], [row.high for row in rows]]
    return Series(f"{_NAMES[name]}@k", [point.k for point in curve.points], *columns)


def _headroom(curve: Curve) -> Bars:
    """Where the relevant items of a query stand, on average."""
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
        "cap: the most that recall@k can be, with k places for the gold. recoverable: found deeper than k, "
        "a reranker could win it. lost: not in the list at all, only the index could."
    )
    return Table([interval_column(c, (row[i] for row in rows)) for i, c in enumerate(columns)], rows, note)


def _sentences(curve: Curve) -> list[Block]:
    blocks: list[Block] = [Text(f"Area under recall ({curve.auc_recall.metric}): {with_interval(curve.auc_recall)}.")]
    blocks += [Text(_knee(knee)) for knee in curve.knees if len(knee.chosen) > 1]  # one point has no knee
    if curve.few:
        blocks.append(Text("too few queries to judge by", "warning"))
    return blocks


def _knee(knee: Knee) -> str:
    if knee.k == max(knee.chosen):
        name, share = _NAMES[knee.metric], knee.chosen[knee.k]
        return f"No knee of {name} up to k = {knee.k}: it still rises there (in {share:.0%} of the resamples)."
    others = [f"k = {k} in {share:.0%}" for k, share in knee.chosen.items() if k != knee.k and share >= 0.005]
    doubt = f"; {', '.join(others)}" if others else ""
    name = _NAMES[knee.metric]
    return (
        f"Knee of {name}: k = {knee.k}, the smallest within 1 pp of the deepest "
        f"(chosen in {knee.chosen[knee.k]:.0%} of the resamples{doubt})."
    )


def _segments(curves: list[Curve]) -> list[Block]:
    blocks: list[Block] = []
    for segment, group in groupby(curves, lambda curve: curve.segment):
        rows = [_segment_row(curve) for curve in group]
        deepest = curves[0].points[-1].k
        columns = (segment, "queries", "knee recall", "knee nDCG", "area under recall", f"recall@{deepest}", "lost")
        blocks.append(Table([Column(c, "count" if c == "queries" else "text") for c in columns], rows))
    if any(curve.few for curve in curves):
        blocks.append(Text("* too few queries to judge by", "warning"))
    return blocks


def _segment_row(curve: Curve) -> list[Cell]:
    knees = {knee.metric: knee for knee in curve.knees}
    return [
        curve.value + (" *" if curve.few else ""),
        curve.queries,
        *(f"{knees[n].k} ({knees[n].chosen[knees[n].k]:.0%})" if n in knees else "–" for n in ("recall", "ndcg")),
        with_interval(curve.auc_recall),
        with_interval(curve.points[-1].recall),
        f"{curve.headroom[-1].lost:.3f}" if curve.headroom else "–",
    ]


def power_report(plan: Plan) -> Report:
    wanted = plan.rows[0].detect
    columns = ("metric", "queries", "spread", "detectable", f"for {wanted:g}: queries needed", "enough")
    table = Table([Column(c, "count" if c == "queries" else "text") for c in columns], [_row(row) for row in plan.rows])
    blocks: list[Block] = [table, Text(_how(plan), "note")]
    if any(row.spread is not None and row.detectable is None for row in plan.rows):
        blocks.append(Text("spread 0: the scores do not differ here, so nothing follows for other runs.", "warning"))
    if any(row.few for row in plan.rows):
        blocks.append(Text("too few queries to know the spread well: take these figures as rough.", "warning"))
    title = f"{plan.run} against {plan.gold}"
    return Report(title, [Section("power", "How sure can this set be", blocks)])


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
    found = f"detectable: the smallest true difference between two runs that is found in {plan.power:.0%} of cases"
    found += f" (at {plan.level * 100:g} %). spread: standard deviation of the paired differences, "
    if plan.against is not None:
        found += f"measured against {plan.against}."
    else:
        found += (
            f"assuming that the scores of two versions correlate by {plan.correlation:g}; "
            "name a second run with --against to measure it."
        )
    return found + (f" Queries with the same {plan.cluster} count together." if plan.cluster else "")
