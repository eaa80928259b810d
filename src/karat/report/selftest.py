"""How often would the gates cry wolf, as a report."""

from __future__ import annotations

from karat.gates.selftest import Alarm, SelfTest
from karat.report.blocks import Block, Cell, Column, Report, Section, Table, Text
from karat.results.numbers import size


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
