"""Report of `karat compare --drift`."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text
from karat.report.cells import narrow_warning, table, texts
from karat.results.comparison.compare import headline_metric
from karat.results.comparison.drift import Drift, Effect, KindDrift, MetricDrift
from karat.results.numbers import counted, difference, percent, titled, written
from karat.results.summary import FEW
from karat.scoring.metrics.grammar import parse_metric

_METRICS = 3  # with more, only the most telling one has a table of kinds
_KINDS = 15
_NOTE = (
    "mix: because the share of a kind changed, seen against the average of all kinds. quality: because its own value "
    "changed. Both add up to the change (Kitagawa's decomposition). In brackets: the {level:g} % interval; if it "
    "contains 0, the difference may be chance."
)
_NEW = "A kind that only one period has counts as mix."


def drift_report(found: Drift) -> Report:
    title = f"{found.after} against {found.before} by {found.by}"
    queries = f"{counted(found.queries_before)} before, {found.queries_after:,} after"
    sections = [Section("drift", f"What changed, by {found.by}", _overall(found))]
    shown = _with_kinds(found)
    sections += [
        Section(f"kinds-{i}", f"{one.metric} by {found.by}", _kinds(found, one)) for i, one in enumerate(shown, 1)
    ]
    return Report(f"{title} ({queries})", sections)


def _with_kinds(found: Drift) -> list[MetricDrift]:
    if len(found.metrics) <= _METRICS:
        return found.metrics
    headline = headline_metric([parse_metric(one.metric) for one in found.metrics])
    return [one for one in found.metrics if one.metric == str(headline)] or found.metrics[:1]


def _overall(found: Drift) -> list[Block]:
    rows: list[list[Cell]] = [
        [
            one.metric,
            _values(one.before, one.after, _unit(found, one)),
            *(_cell(effect, found.units[one.metric]) for effect in (one.change, one.mix, one.quality)),
        ]
        for one in found.metrics
    ]
    columns = ["metric", "value", "change", "mix", "quality"]
    units = "Changes of shares are in percentage points. " if "pp" in found.units.values() else ""
    note = "value: before → after. " + units + _NOTE.format(level=found.statistics["level"] * 100)
    return [
        *(Text(one.in_words) for one in _with_kinds(found)),
        *([table(columns, rows, note)] if rows else [Text("Nothing could be compared.")]),
        *narrow_warning(found.metrics),
        *(Text(note, "warning") for note in found.notes),
    ]


def _kinds(found: Drift, one: MetricDrift) -> list[Block]:
    unit = found.units[one.metric]
    heads = [titled(name, unit) for name in ("mix", "quality")]
    columns = [Column(found.by), Column("queries"), Column("share"), Column("value"), *map(Column, heads)]
    rows = [_row(kind, _unit(found, one), unit) for kind in one.kinds[:_KINDS]]
    more = f"{counted(len(one.kinds) - _KINDS, 'more kind')} in the JSON." if len(one.kinds) > _KINDS else ""
    alone = any(kind.change is None for kind in one.kinds)
    few = any(kind.few for kind in one.kinds[:_KINDS])
    return [
        Table(columns, rows, note="Before → after, the largest effects first."),
        *texts("note", (alone, _NEW), (more, more)),
        *texts("warning", (few, f"* fewer than {FEW} queries in a period: too few to rely on.")),
    ]


def _row(kind: KindDrift, shown: str, unit: str) -> list[Cell]:
    return [
        f"{kind.kind}{' *' if kind.few else ''}",
        f"{kind.queries_before:,} → {kind.queries_after:,}",
        f"{percent(kind.share_before, 1)} → {percent(kind.share_after, 1)}",
        _values(kind.before, kind.after, shown),
        _cell(kind.mix, unit),
        _cell(kind.quality, unit) if kind.change is not None else "–",
    ]


def _values(before: float | None, after: float | None, unit: str) -> str:
    first, second = (
        f"{value:.3f}" if not unit and value is not None else written(value, unit) for value in (before, after)
    )
    return f"{first} → {second}"


def _cell(effect: Effect, unit: str) -> str:
    return difference(effect.value, unit, (effect.low, effect.high), 1)


def _unit(found: Drift, one: MetricDrift) -> str:
    """The unit of values, not of differences."""
    unit = found.units[one.metric]
    return "" if unit == "pp" else unit
