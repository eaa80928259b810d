"""Reports of `karat gate` and `karat selftest`."""

from __future__ import annotations

import msgspec

from karat.gates.selftest import Alarm, SelfTest
from karat.gates.verdicts import GateVerdict, Verdicts
from karat.report.blocks import Block, Cell, Column, Dot, Dots, Example, Interval, Report, Section, Table, Text, Verdict
from karat.report.build import full_sections
from karat.report.cells import value_cell
from karat.report.comparison import comparison_report
from karat.results.numbers import counted, size
from karat.results.result import Result
from karat.results.summary import SummaryRow
from karat.scoring.metrics.grammar import parse_metric

SHARE = (0.0, 1.0)
_PICTURED = 30  # rows of a picture; the list has all
ANSWERS = {
    "pass": "May ship",
    "fail": "May not ship",
    "inconclusive": "May not ship: not proven",
    "invalid": "Could not be judged",
}


def gate_report(found: Verdicts) -> Report:
    blocks: list[Block] = [Text(note, "warning") for note in found.notes]
    blocks += [Verdict(v.outcome, headline(v), v.reason) for v in found.verdicts]
    blocks.append(Text(f"{ANSWERS[found.outcome]}. {counts(found)}"))
    against = f", compared with {found.baseline}" if found.baseline else ""
    title = f"{found.run} on {found.queries:,} queries of {found.gold}{against}"
    return Report(title, [Section("gates", "May it ship?", blocks)])


def gate_page(found: Verdicts, result: Result, baseline: Result | None) -> Report:
    """The verdicts with pictures, then what changed, then everything about the run."""
    report = gate_report(found)
    whole = Verdict(found.outcome, ANSWERS[found.outcome], counts(found), whole=True)
    blocks = [whole, *report.sections[0].blocks[:-1], *_picture(found)]
    sections = [Section("gates", "May it ship?", blocks)]
    if found.comparison is None or baseline is None:
        return Report(report.title, [*sections, *full_sections(result)])
    compared = comparison_report(found.comparison, [baseline, result])
    told = _without_changed(full_sections(result, without=["artifacts"]), compared)  # the comparison has them
    parts = {compared.title: compared.sections, f"Everything about {found.run}": told}
    sections += [msgspec.structs.replace(s, part=title) for title, part in parts.items() for s in part]
    return Report(report.title, sections)


def _without_changed(sections: list[Section], compared: Report) -> list[Section]:
    """No query twice in brief: where both lists stand beside each other, it has all that it has here."""
    changed = {b.query_id for s in compared.sections for b in s.blocks if isinstance(b, Example)}
    return [_others(section, changed) for section in sections]


def _others(section: Section, changed: set[str]) -> Section:
    blocks = [b for b in section.blocks if not (isinstance(b, Example) and b.brief and b.query_id in changed)]
    moved = len(section.blocks) - len(blocks)
    if not moved:
        return section
    words = f"{moved:,} of these queries have" if moved > 1 else "One of these queries has"
    note = Text(f"{words} other hits than before and can be found under Query by query, with both lists.", "note")
    first = next((i for i, b in enumerate(blocks) if isinstance(b, Example)), len(blocks))
    return msgspec.structs.replace(section, blocks=[*blocks[:first], note, *blocks[first:]])


def _picture(found: Verdicts) -> list[Block]:
    """Every share that a gate looks at, with its limit."""
    rows = [
        Dot(v.gate + (f" in {v.segment}" if v.segment else ""), _value(v), [v.limit])
        for v in found.verdicts
        if v.value is not None and parse_metric(v.metric).range == SHARE
    ]
    return [Dots("What the gates look at", "score", rows[:_PICTURED], SHARE, ["limit"])] if rows else []


def _value(verdict: GateVerdict) -> Interval:
    row = SummaryRow(verdict.metric, verdict.n, 0, verdict.value, verdict.low, verdict.high)
    return value_cell(row)


def headline(verdict: GateVerdict) -> str:
    """Gate, segment, and what follows from the verdict."""
    where = f" in {verdict.segment}" if verdict.segment else ""
    return f"{verdict.gate}{where} ({consequence(verdict)})"


def consequence(verdict: GateVerdict) -> str:
    if verdict.blocks:
        return "blocks"
    if verdict.outcome in ("fail", "inconclusive"):
        return "tells only"
    return "not checked" if _unchecked(verdict) else "ok"


def _unchecked(verdict: GateVerdict) -> bool:
    """Whether nothing of it could be looked at."""
    return all(part.outcome == "not checked" for part in verdict.parts)


def counts(found: Verdicts) -> str:
    """How many checks came out how."""
    words = {"pass": "passed", "fail": "failed", "inconclusive": "not certain", "invalid": "could not be judged"}
    words["not checked"] = "not checked"
    outcomes = ["not checked" if _unchecked(v) else v.outcome for v in found.verdicts]
    said = [f"{outcomes.count(o)} {word}" for o, word in words.items() if o in outcomes]
    return f"{counted(len(outcomes), 'check')}: {', '.join(said)}."


def selftest_report(found: SelfTest) -> Report:
    columns = ("gate", "segment", "queries", "alarms", "unclear", "blocked", "catches")
    table = Table([Column(c) for c in columns], [_row(alarm) for alarm in found.alarms], _how(found))
    said = (
        f"With nothing changed, at least one gate would have blocked in {found.blocked:.0%} of {found.rounds} rounds."
    )
    blocks: list[Block] = [table, Text(said)]
    return Report(f"{found.run} against itself", [Section("selftest", "Would these gates cry wolf?", blocks)])


def _row(alarm: Alarm) -> list[Cell]:
    return [
        alarm.gate,
        alarm.segment,
        f"{alarm.queries:.0f}",
        f"{alarm.failed:.0%}",
        f"{alarm.inconclusive:.0%}",
        f"{alarm.blocked:.0%}",
        None if alarm.caught is None else size(alarm.caught, alarm.unit),
    ]


def _how(found: SelfTest) -> str:
    other = f"{found.baseline}'s and the run's scores, swapped at random" if found.baseline else "the run's own scores"
    return (
        f"Each round draws the queries anew and compares two versions of which neither is better ({other}). "
        "alarms: rounds in which the gate failed. unclear: rounds in which it could not say. "
        "catches: the smallest true drop that it would fail in 80 % of rounds."
    )
