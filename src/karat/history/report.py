"""Reports of a history: lists of runs, trends, and changes of the gold set."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from karat.data.gold import Dataset
from karat.errors import ConfigError
from karat.history.rows import Measure, Page, Pin, RunRow, TrendPoint
from karat.history.store import short
from karat.report.blocks import Block, Cell, Chart, Column, Mark, Report, Section, Series, Table, Text
from karat.report.cells import queries_cell, value_cell
from karat.report.sections.segments import leading_metrics
from karat.report.time_axis import seconds
from karat.results.numbers import counted, titled, written
from karat.results.summary import SummaryRow
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric

Lines = Literal["system", "branch"]
_SHOWN = 2  # metrics in a list: more do not fit on a terminal
_LINES = 3  # in a trend: with bands, more would be hard to distinguish
_BRANCHES = 4
_NAMED = 3  # systems without a line, gold sets, and runs of each
_RELEASE = re.compile(r"v?\d+(\.\d+)+\S*|release\S+", re.IGNORECASE)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_HASH = 8  # characters of a hash


def list_report(page: Page, total: int) -> Report:
    shown = leading(page.rows)[:_SHOWN]
    columns = [
        Column(title) for title in ("run", "saved (UTC)", "system", "branch", *map(str, shown), "gates", "tags, pins")
    ]
    rows = [
        [
            short(row.id),
            minute(row.saved_at),
            f"{row.title} ({row.head.system})" if row.title else row.head.system or row.head.run,
            row.head.branch,
            *(written(m.mean, one.unit) if (m := row.measures.get(str(one))) else None for one in shown),
            row.outcome,
            ", ".join([*row.tags, *(f"{pin.kind} {pin.name}" for pin in row.pins)]),
        ]
        for row in page.rows
    ]
    note = f"{len(page.rows):,} of {counted(total, 'run')}."
    more = f" Older ones: --after '{page.after}'" if page.after else ""
    table = Table(columns, rows, note + more)
    return Report("History", [Section("runs", "Runs", [table if rows else Text("No run matches.")])])


def trend_report(metric: str, segment: str | None, points: Sequence[TrendPoint]) -> Report:
    title = f"{metric} over time" + (f", {segment}" if segment else "")
    return Report(title, [Section("trend", title, trend_blocks(metric, points, segment))])


def trend_blocks(
    metric: str, points: Sequence[TrendPoint], segment: str | None = None, lines: Lines = "system"
) -> list[Block]:
    """A chart, and a table of the same numbers."""
    blocks = trend_picture(metric, points, segment, lines)
    if not points:
        return blocks
    parsed, several, on_several = parse_metric(metric), several_definitions(points), several_gold_sets(points)
    titles = ("saved (UTC)", "run", "system", "branch", "code", titled(metric, parsed.unit), "queries")
    more = (*on_several * ("gold set",), *several * ("definition",))
    columns = [Column(title) for title in (*titles, *more)]
    rows: list[list[Cell]] = [
        [
            minute(p.saved_at),
            short(p.run_id),
            p.system,
            p.branch,
            p.code_version,
            _value(p.measure, parsed),
            queries_cell(p.queries, [p.measure.n]),
            *on_several * (brief_gold_set(p.dataset),),
            *several * (p.measure.definition,),
        ]
        for p in points
    ]
    return [*blocks, Table(columns, rows)]


def trend_picture(
    metric: str, points: Sequence[TrendPoint], segment: str | None = None, lines: Lines = "system"
) -> list[Block]:
    """A chart, and what keeps its points from being compared."""
    if not points:
        return [Text(f"No run has {metric}{f' for the segment {segment}' if segment else ''}.")]
    blocks: list[Block] = [trend_chart(metric, points, lines)] if len(points) > 1 else []
    if several_definitions(points):
        blocks.append(
            Text(f"The definition or settings of {metric} differ between runs: see the last column.", "warning")
        )
    if several_gold_sets(points):
        blocks.append(Text(gold_set_note(points), "warning"))
    return blocks


def trend_chart(metric: str, points: Sequence[TrendPoint], lines: Lines = "system") -> Chart:
    """Lines over time with a band each, of systems or of branches; if there are many, those with the newest runs."""
    name = _namer(points, lines)
    newest = list(dict.fromkeys(name(point) for point in reversed(points)))
    shown = sorted(newest[: _LINES if lines == "system" else _BRANCHES])
    named = [(seconds(point.saved_at), _names(point)) for point in points if name(point) in shown]
    left_out = newest[len(shown) :]  # named in the title
    broken = _broken(points, name)
    marks = [Mark(place, ", ".join(names)) for place, names in named if names]
    others = [Mark(seconds(point.saved_at), "other gold set") for point in broken if name(point) in shown]
    return Chart(
        f"{metric} over time{f'; not drawn: {_first(left_out)}' if left_out else ''}",
        "saved (UTC)",
        metric,
        [
            _line(one if len(newest) > 1 else metric, [p for p in points if name(p) == one], broken, len(shown))
            for one in shown
        ],
        [*marks, *others],
        x_scale="time",
        told=True,
    )


def _namer(points: Sequence[TrendPoint], lines: Lines) -> Callable[[TrendPoint], str]:
    """The line that a point is on. Systems on one branch are not mixed."""
    if lines == "system":
        return lambda point: point.system
    several = len({point.system for point in points}) > 1
    return lambda point: (point.branch or "no branch") + (f", {point.system}" if several else "")


def _names(point: TrendPoint) -> list[str]:
    """Names of a run: its pins, and tags that look like releases."""
    return [*(pin.name for pin in point.pins), *(tag for tag in point.tags if _RELEASE.fullmatch(tag))]


def _first(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _line(name: str, points: Sequence[TrendPoint], broken: Sequence[TrendPoint], lines: int) -> Series:
    """A line, broken where the gold set changes. With many lines, without bands: they would hide each other."""
    own: list[tuple[float, float | None, float | None, float | None]] = []
    for point in points:
        place, measure = seconds(point.saved_at), point.measure
        if any(point is other for other in broken):
            own.append((place, None, None, None))
        own.append((place, measure.mean, measure.low, measure.high))
    x, y, low, high = map(list, zip(*own, strict=True))
    return Series(name, x, y, low, high) if lines <= _LINES else Series(name, x, y)


def pins_report(pins: Sequence[Pin], rows: Mapping[str, RunRow]) -> Report:
    columns = [Column(title) for title in ("name", "kind", "run", "system", "branch", "code", "pinned (UTC)")]
    found: list[list[Cell]] = []
    for pin in pins:
        head = rows[pin.run_id].head
        pinned = minute(pin.pinned_at)
        found.append([pin.name, pin.kind, short(pin.run_id), head.system, head.branch, head.code_version, pinned])
    blocks: list[Block] = [Table(columns, found)] if found else [Text("Nothing is pinned.")]
    return Report("History", [Section("pins", "Baselines and anchors", blocks)])


def origin_section(row: RunRow) -> Section:
    """What the history knows about a run in addition to its result."""
    facts: dict[str, Any] = {
        "run": row.id,
        "title": row.title,
        "note": row.note,
        "saved (UTC)": minute(row.saved_at),
        "branch": row.head.branch,
        "tags": ", ".join(row.tags),
        "gates": row.outcome,
        "pinned as": ", ".join(f"{pin.kind} {pin.name}" for pin in row.pins),
    }
    rows = [[name, value] for name, value in facts.items() if value]
    return Section("history", "In the history", [Table([Column("what"), Column("value")], rows, layout="facts")])


def leading(rows: Sequence[RunRow]) -> list[Metric]:
    """The key metrics of these runs."""
    names = dict.fromkeys(name for row in rows for name in row.measures)
    known = []
    for name in names:
        try:
            known.append(parse_metric(name))
        except ConfigError:  # from a plug-in that is not installed
            continue
    return leading_metrics(known)


def day(time: str) -> str:
    """
    >>> day("2025-06-01T08:00:00.000000Z")
    '1 Jun'
    """
    return f"{int(time[8:10])} {_MONTHS[int(time[5:7]) - 1]}"


def minute(time: str) -> str:
    """
    >>> minute("2025-06-01T08:00:00.000000Z")
    '2025-06-01 08:00'
    """
    return time[:16].replace("T", " ")


def _value(measure: Measure, metric: Metric) -> Cell:
    return value_cell(SummaryRow(str(metric), measure.n, 0, measure.mean, measure.low, measure.high), metric.unit)


def gold_set(dataset: Dataset) -> str:
    """Returns a name for a gold set.

    >>> gold_set(Dataset(version="v3", hash="abcdef0123456789", name="helpdesk")), gold_set(Dataset())
    ('helpdesk v3 abcdef01', 'unnamed')
    """
    known = (dataset.name, dataset.version, _letters(dataset))
    return " ".join(part for part in known if part) or "unnamed"


def brief_gold_set(dataset: Dataset) -> str:
    """Returns a short name for a narrow column."""
    return _letters(dataset) or gold_set(dataset)


def other_gold(one: TrendPoint, another: TrendPoint) -> bool:
    return _identity(one.dataset) != _identity(another.dataset)


def several_definitions(points: Sequence[TrendPoint]) -> bool:
    return len({point.measure.definition for point in points}) > 1


def several_gold_sets(points: Sequence[TrendPoint]) -> bool:
    return any(other_gold(point, points[0]) for point in points)


def gold_set_note(points: Sequence[TrendPoint]) -> str:
    """Says which runs used another gold set than the newest run."""
    newest, groups = points[-1], dict[object, list[TrendPoint]]()
    for point in reversed(points):
        if other_gold(point, newest):
            groups.setdefault(_identity(point.dataset), []).append(point)
    found = list(groups.values())[:_NAMED]
    told = [f"On {gold_set(runs[0].dataset)}: {_first([short(run.run_id) for run in runs])}" for runs in found]
    more = len(groups) - len(told)
    return (
        f"Some runs used another gold set than the newest ({gold_set(newest.dataset)}). Scores on different gold sets "
        f"cannot be compared. {'. '.join(told)}{f'. And {more:,} more gold sets' if more else ''}."
    )


def _broken(points: Sequence[TrendPoint], name: Callable[[TrendPoint], str]) -> list[TrendPoint]:
    """Points with another gold set than the one before on the same line."""
    found, last = list[TrendPoint](), dict[str, TrendPoint]()
    for point in points:
        before = last.get(name(point))
        if before is not None and other_gold(before, point):
            found.append(point)
        last[name(point)] = point
    return found


def _letters(dataset: Dataset) -> str:
    return (dataset.hash or "").removeprefix("sha256:")[:_HASH]


def _identity(dataset: Dataset) -> object:
    """The hash, or name and version if the hash is unknown."""
    return dataset.hash or (dataset.name, dataset.version)
