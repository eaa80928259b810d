"""Reports of `karat gate` and its self-test; verdicts as comments on pull requests, and as CI servers read them."""

from __future__ import annotations

import hashlib
import html
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from karat.data.saved import json_text
from karat.errors import shorten
from karat.gates.criteria import Outcome
from karat.gates.selftest import Alarm, SelfTest
from karat.gates.verdict_form import GateVerdict, Verdicts
from karat.report.blocks import Block, Cell, Dot, Dots, Example, Report, Section, Text, Verdict
from karat.report.build import full_sections
from karat.report.cells import few_by, few_name, queries_cell, relevance_counts, table, value_cell, write_cell
from karat.report.comparison import comparison_sections
from karat.report.overview import data_name, run_names, score_note
from karat.report.renderers.markdown import MARKS, inert, safe
from karat.report.sections.findings import Findings, Glance, finding_lines, linked_findings
from karat.results.comparison.compare import Change, Moved
from karat.results.diagnosis.finding import Finding
from karat.results.differences import Difference
from karat.results.numbers import amount, counted, points, size
from karat.results.result import Result
from karat.results.summary import SummaryRow
from karat.scoring.metrics.grammar import parse_metric

SHARE = (0.0, 1.0)
_PICTURED = 30  # rows of a picture; the list has all of them
ANSWERS = {
    "pass": "May ship",
    "fail": "May not ship",
    "inconclusive": "May not ship: not proven",
    "invalid": "Could not be judged",
}
_COUNTED = {
    "pass": "passed",
    "fail": "failed",
    "inconclusive": "inconclusive",
    "invalid": "could not be judged",
    "not checked": "not checked",
}
_URGENT = ("doubts",)  # sections shown before any verdict
LIMIT = 60_000  # bytes; hosts take about 64 kB
_ROWS = 50
_METRICS = 2  # metrics per breakdown
_TEXT = 120  # characters of a query
_CELL = 160  # characters of anything else
_REASON = 500
_NOTES = 5
_ANNOTATIONS = 10  # that GitHub shows per kind and step
_CRITERIA = "ship-criteria.yaml"


def gate_report(found: Verdicts) -> Report:
    blocks: list[Block] = [Text(note, "warning") for note in found.notes]
    blocks += _checks(found)
    blocks.append(Text(f"{ANSWERS[found.outcome]}. {counts(found)}"))
    against = f", compared with {found.baseline}" if found.baseline else ""
    title = f"{found.run} on {counted(found.queries)} of {found.gold}{against}"
    return Report(title, [Section("gates", "May it ship?", blocks)], page_title=gate_title(found))


def gate_page(found: Verdicts, result: Result, baseline: Result | None) -> Report:
    """The verdicts, what to do, then what changed, then everything about the run."""
    compared = found.comparison if baseline is not None else None
    changes: tuple[list[Finding], list[str]] = (compared.pairs[0].findings if compared else [], ["pair-1"])
    findings = (changes, (result.diagnosis, ()))
    first = [*_verdict_blocks(found, result), *finding_lines(*findings), *_picture(found)]
    sections = [Section("gates", "May it ship?", first)]
    if cards := linked_findings(*findings):
        sections.append(Section(Findings.name, Findings.title, cards))
    about = full_sections(result, without=[Glance.name, Findings.name, *(["artifacts"] if compared else [])])
    urgent = [s for s in about if s.name in _URGENT]
    about = [s for s in about if s.name not in _URGENT]
    title = gate_title(found)
    if compared is None or baseline is None:
        return Report(title, [*urgent, *sections, *about])
    [before, name] = run_names([compared.baseline, found.run])
    changed = comparison_sections(compared, [baseline, result])
    seen = {b.query_id for s in changed for b in s.blocks if isinstance(b, Example)}
    parts = {f"Compared with {before}": changed, f"Everything about {name}": [_others(s, seen) for s in about]}
    sections += [msgspec.structs.replace(s, part=part) for part, shown in parts.items() for s in shown]
    return Report(title, [*urgent, *sections])


def _verdict_blocks(found: Verdicts, result: Result) -> list[Block]:
    """The decision, and each check with the section that shows its number."""
    blocks: list[Block] = [Verdict(found.outcome, ANSWERS[found.outcome], counts(found), whole=True)]
    blocks += [Text(note, "warning") for note in found.notes]
    blocks += _checks(found)
    return [*blocks, score_note(found.statistics["level"], result.cluster)]


def _checks(found: Verdicts) -> list[Verdict]:
    return [Verdict(_counted_as(v), headline(v), v.reason, to=_explained_by(v)) for v in found.verdicts]


def _explained_by(verdict: GateVerdict) -> list[str]:
    """Names of sections, the most relevant first."""
    if any(part.kind == "regression" for part in verdict.parts):
        return ["segments-1", "pair-1", "panel"] if verdict.segment else ["pair-1", "panel"]
    measured = {"latency": "latency", "cost": "cost"}
    own = [section for name, section in measured.items() if verdict.metric.startswith(name)]
    return [*(["segments"] if verdict.segment else own), "panel"]


def gate_title(found: Verdicts) -> str:
    """`May not ship: hybrid against bm25 on helpdesk, 5 of 9 checks failed`"""
    names = run_names([found.run, *([found.baseline] if found.baseline else [])])
    checks, there = len(found.verdicts), [_counted_as(v) for v in found.verdicts]
    own = there.count(found.outcome)
    many = counted(checks, "check") if own == checks else f"{own} of {counted(checks, 'check')}"
    answer = ANSWERS[found.outcome].replace(":", ",")
    data = data_name(found.dataset, found.gold)
    return f"{answer}: {' against '.join(names)} on {data}, {many} {_COUNTED[found.outcome]}"


def _others(section: Section, changed: set[str]) -> Section:
    """Drops queries that the comparison already shows with both lists."""
    blocks = [b for b in section.blocks if not (isinstance(b, Example) and b.brief and b.query_id in changed)]
    moved = len(section.blocks) - len(blocks)
    if not moved:
        return section
    words = f"{moved:,} of these queries" if moved > 1 else "One of these queries"
    note = Text(f"{words} returned different hits than before: see Query by query for both lists.", "note")
    first = next((i for i, b in enumerate(blocks) if isinstance(b, Example)), len(blocks))
    return msgspec.structs.replace(section, blocks=[*blocks[:first], note, *blocks[first:]])


def _picture(found: Verdicts) -> list[Block]:
    """Every share that a gate checks, with its limit."""
    rows = [
        Dot(where(v), value_cell(SummaryRow(v.metric, v.n, 0, v.value, v.low, v.high)), [v.limit])
        for v in found.verdicts
        if v.value is not None and parse_metric(v.metric).range == SHARE
    ]
    return [Dots("Values that the gates check", "score", rows[:_PICTURED], SHARE, ["limit"])] if rows else []


def where(verdict: GateVerdict) -> str:
    """Gate and segment."""
    return verdict.gate + (f" in {verdict.segment}" if verdict.segment else "")


def headline(verdict: GateVerdict) -> str:
    """Gate and segment, and whether the verdict blocks or only warns."""
    follows = consequence(verdict)
    return where(verdict) if follows in ("pass", "not checked") else f"{where(verdict)} ({follows})"


def consequence(verdict: GateVerdict) -> str:
    if verdict.blocks:
        return "blocks"
    if verdict.outcome in ("fail", "inconclusive"):
        return "warning" if verdict.severity == "warning" else "does not block"
    return "not checked" if _unchecked(verdict) else "pass"


def _unchecked(verdict: GateVerdict) -> bool:
    """Whether no part of it could be checked."""
    return bool(verdict.parts) and all(part.outcome == "not checked" for part in verdict.parts)


def counts(found: Verdicts) -> str:
    """How many checks had which outcome."""
    outcomes = [_counted_as(v) for v in found.verdicts]
    said = [f"{outcomes.count(o)} {word}" for o, word in _COUNTED.items() if o in outcomes]
    return f"{counted(len(outcomes), 'check')}: {', '.join(said)}."


def _counted_as(verdict: GateVerdict) -> Outcome | Literal["not checked"]:
    return "not checked" if verdict.outcome == "pass" and _unchecked(verdict) else verdict.outcome


def selftest_report(found: SelfTest) -> Report:
    columns = ("gate", "segment", "queries", "this run", "alarms", "unclear", "blocked", "catches")
    alarms = table(columns, [_alarm_row(alarm) for alarm in found.alarms], _rounds(found))
    rounds = f"{found.blocked:.0%} of {found.rounds} rounds"
    unmet = sum(alarm.unmet is not None for alarm in found.alarms)
    said = [Text(f"With nothing changed, at least one gate would have blocked in {rounds}.")]
    if unmet:
        of = "the gate. It is" if len(found.alarms) == 1 else f"{unmet} of {len(found.alarms):,} gates. They are"
        said = [Text(f"This run itself does not meet {of} right to fail, and that is no false alarm.")]
        if unmet < len(found.alarms):
            said.append(Text(f"With nothing changed, at least one of the other gates would have blocked in {rounds}."))
    sections = [Section("selftest", "How often would these gates raise a false alarm?", [alarms, *said])]
    [name] = run_names([found.run])
    blocked = "the run meets none of the gates" if unmet == len(found.alarms) else f"a gate blocked in {rounds}"
    sentence = f"{name} against itself: {blocked}"
    return Report(f"{found.run} against itself", sections, page_title=sentence)


def _alarm_row(alarm: Alarm) -> list[Cell]:
    shares: list[Cell] = [f"{share:.0%}" for share in (alarm.failed, alarm.inconclusive, alarm.blocked)]
    return [
        alarm.gate,
        alarm.segment,
        f"{alarm.queries:.0f}",
        "misses it" if alarm.unmet == "missed" else alarm.unmet,
        *(shares if alarm.unmet is None else [None] * len(shares)),
        None if alarm.caught is None else size(alarm.caught, alarm.unit),
    ]


def _rounds(found: SelfTest) -> str:
    other = f"{found.baseline}'s and the run's scores, swapped at random" if found.baseline else "the run's own scores"
    return (
        f"Each round resamples the queries and compares two versions that are equally good ({other}). "
        "alarms: rounds in which the gate failed. unclear: rounds in which it was inconclusive. "
        "catches: the smallest true drop that makes it fail in 80 % of rounds."
    )


def comment(found: Verdicts, limit: int = LIMIT) -> str:
    """The verdicts as Markdown for non-engineers: the answer first, details folded.

    Never longer than `limit` bytes: the last parts are left out first.
    """
    answer = _answer(found)
    text = answer + "\n" + _gates(found, room=(limit - _bytes(answer)) * 3 // 4) + "\n"
    for part in _folded(found):
        if _bytes(text) + _bytes(part) + 200 > limit:
            return text + "\n_The rest was left out to keep the comment short. The saved result has everything._\n"
        text += part + "\n"
    return text


def _bytes(text: str) -> int:
    return len(text.encode())


def _answer(found: Verdicts) -> str:
    against = f", compared with **{_name(found.baseline)}**" if found.baseline else ""
    dataset = " ".join(x for x in (found.dataset.name, found.dataset.version) if x) or found.gold
    told = [shorten(note, _REASON) for note in found.notes[:_NOTES]]
    more = [f"{counted(len(found.notes) - _NOTES, 'more note')}."] if len(found.notes) > _NOTES else []
    notes = "".join(f"\n> {safe(note)}\n" for note in (*told, *more))
    return (
        f"## {MARKS[found.outcome]} Karat: {ANSWERS[found.outcome].lower()}\n\n"
        f"**{_name(found.run)}** on {counted(found.queries)} of {_name(dataset)}{against}. "
        f"{counts(found)}\n{notes}"
    )


def _name(name: str | None) -> str:
    return safe(shorten(name or "", 80))


def _gates(found: Verdicts, room: int) -> str:
    """One line per gate, blocking ones first, as many as fit."""
    order = sorted(found.verdicts, key=lambda v: (not v.blocks, v.outcome == "pass"))
    lines = ["| | check | |", "|---|---|---|"]
    for shown, verdict in enumerate(order):
        line = _gate(verdict)
        room -= _bytes(line) + 1
        if shown == _ROWS or room < 0:
            lines.append(f"| | {len(order) - shown:,} more | |")
            break
        lines.append(line)
    return "\n".join(lines) + "\n"


def _gate(verdict: GateVerdict) -> str:
    group = f" in {_name(verdict.segment)}" if verdict.segment else ""
    check = f"**{_name(verdict.gate)}**{group} | {safe(shorten(verdict.reason, _REASON))}"
    return f"| {MARKS[_counted_as(verdict)]} {consequence(verdict)} | {check} |"


def _folded(found: Verdicts) -> Iterator[str]:
    if found.comparison is not None:
        pair = found.comparison.pairs[0]
        lower = found.comparison.lower_is_better
        losses = [c for c in pair.changes if (c.delta > 0 if c.metric in lower else c.delta < 0)]
        if losses:
            yield _details("Worst losses", _losses(losses))
    names = list(dict.fromkeys(v.metric for v in found.verdicts))[:_METRICS]
    for segment, rows in _breakdown(found, names).items():
        few = any(row[0].endswith(" *") for row in rows)
        columns = [f"{name}, change" if found.comparison is not None else name for name in names]
        yield _details(f"By {segment}", _table([segment, "queries", *columns], rows, few))
    yield _details("How this was measured", _how(found))


def _breakdown(found: Verdicts, names: list[str]) -> dict[str, list[list[str]]]:
    """Segment → rows: the change if there is a baseline, otherwise the value."""
    rows: dict[str, list[list[str]]] = {}
    if found.comparison is not None:
        for group in found.comparison.pairs[0].segments:
            cells = _deltas(group.differences, names, found.comparison.units)
            rows.setdefault(group.segment, []).append(
                [few_name(few_by(group, names)), _behind(group.queries, group.differences), *cells]
            )
    units = {v.metric: v.unit for v in found.verdicts}
    for row in found.segments:
        means = {s.metric: s.mean for s in row.summary}
        cells = ["–" if means[n] is None else amount(means[n] or 0.0, units[n]) for n in names]
        rows.setdefault(row.segment, []).append(
            [few_name(few_by(row, names)), _behind(row.queries, row.summary), *cells]
        )
    return rows


def _behind(queries: int, rows: Iterable[SummaryRow | Difference]) -> str:
    return write_cell(queries_cell(queries, relevance_counts(rows)), "count")


def _deltas(differences: list[Difference], names: list[str], units: dict[str, str]) -> list[str]:
    by_name = {d.metric: d for d in differences}  # some may be missing from a saved baseline
    found = [by_name.get(name) for name in names]
    return ["–" if d is None else points(d.delta, units[d.metric], (d.low, d.high)) for d in found]


def _losses(changes: list[Change]) -> str:
    lists = any(c.fell_out or c.came_in for c in changes)  # a saved baseline has no hits
    rows = []
    for c in changes:
        asked = [shorten(c.query_id, 40), shorten(c.query or "", _TEXT)]
        moved = [_moved(c.fell_out), _moved(c.came_in)] if lists else []
        rows.append([*asked, f"{c.baseline:.2f} → {c.candidate:.2f}", *moved])
    return _table(["query", "text", changes[0].metric, *lists * ("fell out", "came in")], rows, few=False)


def _moved(hits: list[Moved]) -> str:
    shown = [shorten(h.id, 40) + (" (relevant)" if h.grade else "") for h in hits[:3]]
    return ", ".join(shown) + (f", {len(hits) - 3} more" if len(hits) > 3 else "") or "–"


def _how(found: Verdicts) -> str:
    level = f"{found.statistics['level'] * 100:g}"
    lines = [
        *(f"{name}: {_definition(name)}" for name in dict.fromkeys(v.metric for v in found.verdicts)),
        f"In brackets: the {level} % confidence interval, which shows how much the choice of queries matters. "
        "pp: percentage points.",
        "A drop fails when it exceeds its limit and is unlikely to be chance. One that could be chance says so.",
        f"Gold set {shorten(found.gold, _CELL)}, {found.dataset.hash or 'no hash'}; Karat {found.karat}.",
    ]
    return "\n".join(f"- {safe(line)}" for line in lines)


def _definition(metric: str) -> str:
    """Returns what a metric measures, in one sentence."""
    return (type(parse_metric(metric)).__doc__ or "").partition("\n")[0]


def _details(title: str, body: str) -> str:
    # This line is HTML, where Markdown's escapes have no effect.
    return f"<details><summary>{html.escape(inert(shorten(title)))}</summary>\n\n{body}\n\n</details>\n"


def _table(columns: list[str], rows: list[list[str]], few: bool) -> str:
    shown = rows[:_ROWS]
    lines = [_row(columns), "|" + "---|" * len(columns), *map(_row, shown)]
    if len(rows) > len(shown):
        lines.append(f"| {len(rows) - len(shown)} more |" + " |" * (len(columns) - 1))
    return "\n".join(lines) + ("\n\n\\* too few queries for a reliable result" if few else "")


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(safe(shorten(c, _CELL)) for c in cells) + " |"


def render_annotations(found: Verdicts) -> str:
    """`::error …::` and `::warning …::` lines; passed checks have none."""
    errors = [v for v in found.verdicts if v.blocks]
    warnings = [v for v in found.verdicts if not v.blocks and v.outcome in ("fail", "inconclusive")]
    lines = []
    for kind, verdicts in (("error", errors), ("warning", warnings)):
        # The last line says how many more there are: GitHub drops them silently.
        shown = verdicts if len(verdicts) <= _ANNOTATIONS else verdicts[: _ANNOTATIONS - 1]
        lines += [_command(kind, v) for v in shown]
        if len(verdicts) > len(shown):
            lines.append(f"::{kind} title=Karat::{len(verdicts) - len(shown)} more checks")
    return "".join(line + "\n" for line in lines)


def _command(kind: str, verdict: GateVerdict) -> str:
    place = {"file": verdict.file, "line": verdict.line, "title": f"Karat: {_place(verdict)}"}
    properties = ",".join(f"{name}={_property(str(value))}" for name, value in place.items() if value is not None)
    return f"::{kind} {properties}::{_data(verdict.reason)}"


def _place(verdict: GateVerdict) -> str:
    return verdict.gate + (f" [{verdict.segment}]" if verdict.segment else "")


def _data(text: str) -> str:
    """Escapes text so that it cannot end the command and start another."""
    plain = "".join(c if c.isprintable() or c in "\r\n" else "\ufffd" for c in text)
    return plain.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def render_code_quality(found: Verdicts) -> bytes:
    """GitLab's list of issues."""
    seen: Counter[str] = Counter()
    return json_text([_issue(v, seen) for v in found.verdicts if v.outcome != "pass"])


def _issue(verdict: GateVerdict, seen: Counter[str]) -> dict[str, object]:
    """`seen`: GitLab shows one issue per fingerprint, and two gates may check the same thing."""
    identity = "\0".join((verdict.gate, verdict.metric, verdict.segment or ""))
    seen[identity] += 1
    identity += "\0" * (seen[identity] - 1)
    return {
        "description": f"{where(verdict)}: {verdict.reason}",
        "check_name": "karat",
        "fingerprint": hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:32],
        "severity": "blocker" if verdict.blocks else "minor",
        "location": {"path": verdict.file or _CRITERIA, "lines": {"begin": verdict.line or 1}},
    }


def render_junit(found: Verdicts) -> bytes:
    from xml.etree import ElementTree

    cases = found.verdicts
    failures = sum(v.blocks and v.outcome != "invalid" for v in cases)
    errors = sum(v.outcome == "invalid" for v in cases)
    facts = {"name": "karat", "tests": str(len(cases)), "failures": str(failures), "errors": str(errors)}
    suites = ElementTree.Element("testsuites", facts)
    suite = ElementTree.SubElement(suites, "testsuite", {**facts, "skipped": "0"})
    for verdict in cases:
        named = {"classname": "karat", "name": _clean(_place(verdict)), "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", named)
        if verdict.outcome == "invalid" or verdict.blocks:
            kind = "error" if verdict.outcome == "invalid" else "failure"
            ElementTree.SubElement(case, kind, {"message": _clean(verdict.reason), "type": verdict.outcome})
        else:
            ElementTree.SubElement(case, "system-out").text = _clean(f"{_counted_as(verdict)}: {verdict.reason}")
    ElementTree.indent(suites)
    return bytes(ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)) + b"\n"


def _clean(text: str) -> str:
    """Replaces characters that XML does not allow."""
    return "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
