"""The metrics: value and interval, reading, and spread over queries."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from karat.report.blocks import Block, Cell, Dot, Dots, Text
from karat.report.cells import count, narrow_warning, table, texts, value_cell
from karat.report.overview import score_note
from karat.report.sections.base import ReportSection
from karat.report.sections.segments import leading_metrics
from karat.results.diagnosis.bands import CAVEAT, Reading
from karat.results.numbers import enumerated, interval, written
from karat.results.result import Result
from karat.results.summary import FEW, SummaryRow
from karat.scoring.judged import Rules
from karat.scoring.metrics.base import Metric
from karat.statistics.distribution import Distribution

_Values: TypeAlias = dict[str, float | None]


class Panel(ReportSection):
    name = "panel"
    title = "Scores"
    order = 10

    def blocks(self, result: Result) -> list[Block]:
        return self._blocks(result)

    def _blocks(self, result: Result, *, clusters: bool = True) -> list[Block]:
        rows = result.summary_rows
        # Empty columns are left out, and so are their explanations.
        held = _held_against(result)
        beside = {name: values for name, values in held.items() if any(v is not None for v in values.values())}
        limits = f"{result.sampling.level * 100:g} % interval"
        cells = [_cells(row, metric, result, beside) for row, metric in zip(rows, result.metrics, strict=True)]
        counts = (count("queries"), count("undefined"))
        note = _note(result, beside, clusters)
        scores = table(["metric", "value", limits, *beside, *counts], cells, note)
        return [scores, *_warnings(rows), *_counterparts(result)]

    def full_blocks(self, result: Result) -> list[Block]:
        """With the picture, and without the note on clusters, which a page has elsewhere."""
        note = score_note(result.sampling.level, result.cluster)
        return [*panel_picture(result), *self._blocks(result, clusters=False), note]


def panel_picture(result: Result, baseline: Result | None = None) -> list[Block]:
    """All metrics from 0 to 1, with the values they are compared with."""
    shares = {str(m) for m in result.metrics if m.range == (0.0, 1.0)}
    rows = [row for row in result.summary_rows if row.metric in shares and row.mean is not None]
    name = f"baseline ({baseline.system or baseline.run})" if baseline else "baseline"
    others = {name: baseline.means if baseline else {}, **_held_against(result)}
    dots = [Dot(row.metric, value_cell(row), [held.get(row.metric) for held in others.values()]) for row in rows]
    title = f"Every score with its {result.sampling.level * 100:g} % interval"
    return [Dots(title, "score", dots, (0.0, 1.0), tuple(others), told=True)] if len(dots) > 1 else []


def _held_against(result: Result) -> dict[str, _Values]:
    """Reference → its value by metric. Always in this order, which decides the marks in a picture."""
    rows = result.summary_rows
    floors, ceilings = {row.metric: row.floor for row in rows}, {row.metric: row.ceiling for row in rows}
    return {"random floor": floors, "BM25": result.bm25, "ceiling": ceilings}


def _cells(row: SummaryRow, metric: Metric, result: Result, beside: dict[str, _Values]) -> list[Cell]:
    unit = metric.unit_by(result.rules)
    return [
        row.metric + _cutoffs(metric, result),
        written(row.mean, unit),
        interval(row.low, row.high, unit),
        *(written(values.get(row.metric), unit) for values in beside.values()),
        row.n,
        row.undefined,
    ]


def _counterparts(result: Result) -> list[Block]:
    """Which metrics to use instead of those that are undefined on every query."""
    found = {str(metric): other for metric in result.metrics if (other := result.counterpart(metric))}
    if not found:
        return []
    said = f"{enumerated(list(found))} need{'s' if len(found) == 1 else ''} ids, which the gold set does not have."
    return [Text(f"{said} For its evidence texts, use -m {','.join(dict.fromkeys(found.values()))}", "warning")]


def _cutoffs(metric: Metric, result: Result) -> str:
    """The k of a metric that names none: one value, or the lowest and the highest of the queries."""
    if metric.k is not None or metric.budget is not None or metric.cutoff != "required" or not len(result.rows):
        return ""
    own = result.gold.k[result.rows]
    low, high = (int(f(np.where(own > 0, own, result.rules.k))) for f in (np.min, np.max))
    return f" (k={low})" if low == high else f" (k={low}…{high})"


def _note(result: Result, beside: dict[str, _Values], clusters: bool) -> str | None:
    notes = []
    if "ceiling" in beside:
        notes.append("ceiling: what a perfect ranking of the gold would score.")
    if "BM25" in beside:
        notes.append("BM25: what plain word search scores.")
    elif result.context.no_bm25 is not None:
        notes.append(f"BM25 is not shown: {result.context.no_bm25}.")
    if "random floor" in beside:
        notes.append(f"random floor: what a random ranking of {result.rules.corpus_size:,} items would score.")
    if clusters and result.cluster is not None:
        notes.append(f"intervals: queries with the same {result.cluster} are resampled together.")
    return " ".join(notes) or None


def _warnings(rows: list[SummaryRow]) -> list[Block]:
    few = [row.metric for row in rows if 0 < row.n < FEW]
    which = "every metric" if len(few) == len(rows) else ", ".join(few)
    undefined = "undefined: queries for which a metric has no value (see the audit); they do not count as 0."
    return [
        *texts("warning", (few, f"too few queries for a reliable result: {which} (fewer than {FEW}).")),
        *narrow_warning(rows),
        *texts("note", (any(row.undefined for row in rows), undefined)),
    ]


class Bands(ReportSection):
    name = "bands"
    title = "Is that good?"
    order = 15

    def blocks(self, result: Result) -> list[Block]:
        found = result.bands
        if not found:
            return []
        capped = any(reading.band_of_share for reading in found)
        columns, note = ["metric", "value", "band"], CAVEAT
        if capped:
            columns.append("as a share of its ceiling")
            note += " They assume one right item per query; with several, use the share of the ceiling."
        return [table(columns, [_band_cells(reading, capped) for reading in found], note)]

    def headline(self, result: Result) -> str:
        found = {reading.metric: reading for reading in result.bands}
        reading = found.get("recall@5") or next(iter(found.values()), None)
        if reading is None:
            return ""
        own = "" if not reading.band_of_share else f"; as a share of its ceiling: {reading.band_of_share}"
        return f"{reading.metric} is {reading.band}{own} (a rough guide)"


def _band_cells(reading: Reading, capped: bool) -> list[Cell]:
    doubt = "" if reading.certain else f" (interval: {reading.lowest} to {reading.highest})"
    cells: list[Cell] = [reading.metric, written(reading.value), reading.band + doubt]
    if capped:
        cells.append(f"{written(reading.share_of_ceiling or reading.value)} {reading.band_of_share or reading.band}")
    return cells


class Spread(ReportSection):
    name = "spread"
    title = "Spread over queries"
    order = 20

    def blocks(self, result: Result) -> list[Block]:
        # A quantile of latency is a point of the spread itself.
        shown = {str(m): m for m in result.metrics if m.aggregate is None}
        summary = [row for row in result.summary_rows if row.metric in shown and row.n > 1]
        spreads = [
            (row, row.distribution) for row in summary if row.distribution is not None
        ]  # may be missing from a kept run
        rows = [_spread_cells(row.metric, spread, shown[row.metric], result.rules) for row, spread in spreads]
        names = ("metric", "lower quarter", "median", "upper quarter", "at 0", "at 1")
        return [table(names, rows)] if rows else []

    def headline(self, result: Result) -> str:
        rows = {row.metric: row.distribution for row in result.summary_rows if row.n > 1 and row.distribution}
        name = next((str(m) for m in leading_metrics(result.metrics) if str(m) in rows and m.range == (0.0, 1.0)), None)
        if name is None:
            return ""
        spread = rows[name]
        return f"{name} is 0 on {spread.zeros:.0%} of the queries and 1 on {spread.ones:.0%}"


def _spread_cells(name: str, spread: Distribution, metric: Metric, rules: Rules) -> list[Cell]:
    unit = metric.unit_by(rules)
    return [
        name,
        *(written(value, unit) for value in (spread.q1, spread.median, spread.q3)),
        f"{spread.zeros:.1%}",
        f"{spread.ones:.1%}" if metric.range[1] == 1 else None,  # for a count, 1 is not the maximum
    ]
