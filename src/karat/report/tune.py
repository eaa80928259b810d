"""The report of `karat eval tune`."""

from __future__ import annotations

from karat.report.blocks import Block, Cell, Column, Report, Section, Text
from karat.report.cells import count, difference_cell, interval_column, table, texts
from karat.report.overview import data_name
from karat.results.differences import Difference
from karat.results.numbers import counted, enumerated, points, written
from karat.scoring.metrics.grammar import parse_metric
from karat.systems.tuning import TriedSetting, Tuning


def tuning_report(found: Tuning) -> Report:
    unit = _unit(found)
    sections = [
        Section("tuning", "Tuning", [Text(sentence(found)), _gains(found, unit)]),
        Section("settings", "Settings", [*_settings(found), Text(_how(found), "note"), *_warnings(found)]),
    ]
    lists = enumerated(found.lists, most=6)
    title = f"Tuning of {lists} for {found.metric}"
    return Report(
        f"{title}, against {found.gold}", sections, page_title=f"{title} on {data_name(found.dataset, found.gold)}"
    )


def sentence(found: Tuning) -> str:
    gain = points(found.gain.delta, _unit(found), (found.gain.low, found.gain.high))
    measured = f"Over the best simple setting, {found.metric} changes by {gain} on queries that did not choose"
    if found.worth_it:
        return f"Tuning is worth it: use {found.best.told}. {measured}."
    reason = "too few queries to tell" if found.gain.reading == "too few" else "that is not more than chance"
    return f"Tuning is not worth it: use {found.simple.told}{_others(found)}. {measured}: {reason}."


def _others(found: Tuning) -> str:
    """What the best simple setting scores, and the next one."""
    others = [one for one in found.against if one.told != found.simple.told and one.gain.baseline is not None]
    if found.what != "fusion" or not others:
        return ""
    sign = 1 if parse_metric(found.metric).direction == "higher" else -1
    second = max(others, key=lambda one: sign * (one.gain.baseline or 0.0))
    return f" ({found.metric} {written(found.simple.mean)}; {second.told}: {written(second.gain.baseline)})"


def _unit(found: Tuning) -> str:
    metric = parse_metric(found.metric)
    return "pp" if metric.range == (0.0, 1.0) and metric.is_share else metric.unit


def _gains(found: Tuning, unit: str) -> Block:
    rows = [_gain_row("the best simple setting", found.gain, found.in_sample, unit)]
    if len(found.against) > 1:
        rows += [_gain_row(one.told, one.gain, one.in_sample, unit) for one in found.against]
    titles = [f"{name} ({unit})" if unit else name for name in ("gain", "in sample")]
    columns = [interval_column(title, (row[at] for row in rows)) for at, title in enumerate(titles, 1)]
    note = (
        "gain: on queries that did not choose, with an interval for choosing and measuring. in sample: on the queries "
        "that chose, which looks better than it is."
    )
    return table(["tuning, compared with", *columns], rows, note)


def _gain_row(name: str, gain: Difference, in_sample: Difference, unit: str) -> list[Cell]:
    return [name, difference_cell(gain, unit), difference_cell(in_sample, unit)]


def _settings(found: Tuning) -> list[Block]:
    sized = found.budget is not None
    titles: list[str | Column] = ["setting", found.metric, *(["tokens"] if sized else []), count("chosen in folds")]
    shown = [*found.settings, *([] if found.simple in found.settings else [found.simple])]
    return [table(titles, [_row(one, sized) for one in shown], "scores on all queries")]


def _row(one: TriedSetting, sized: bool) -> list[Cell]:
    tokens = [] if not sized else ["–" if one.tokens is None else f"{one.tokens:,.0f}"]
    return [f"{one.told}{' (simple)' * one.simple}", written(one.mean), *tokens, one.chosen]


def _how(found: Tuning) -> str:
    cluster = found.statistics.get("cluster")
    together = f"; queries with the same {cluster} are in the same fold" if cluster else ""
    budget = "" if found.budget is None else f" At most {found.budget:,} tokens per query on average."
    return (
        f"{counted(found.tried, 'setting')}, {counted(found.queries)}, {found.folds} outer and {found.folds} inner "
        f"folds{together}; the first {found.prefetch:,} hits of each list.{budget}"
    )


def _warnings(found: Tuning) -> list[Block]:
    lost = sum(entry.count for entry in found.counted)
    over = found.budget is not None and (found.recommended.tokens or 0) > found.budget
    return texts(
        "warning",
        (lost, f"{counted(lost)} not used: {found.metric} is undefined there for some setting."),
        (over, f"No setting stays within {found.budget or 0:,} tokens: the one with the fewest is shown."),
    )
