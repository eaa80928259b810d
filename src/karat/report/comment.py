"""Verdicts as a pull-request comment, for readers who are no engineers: the answer first, details folded."""

from __future__ import annotations

from collections.abc import Iterator

from karat.comparison.changes import Change, Moved
from karat.comparison.differences import Difference
from karat.errors import shorten
from karat.gates.verdicts import GateVerdict, Verdicts
from karat.gates.wording import amount
from karat.report.gate import ANSWERS, consequence, counts
from karat.report.numbers import points
from karat.report.renderers.markdown import safe

LIMIT = 60_000  # characters; hosts take about 64 kB
_MARKS = {"pass": "✅", "fail": "❌", "inconclusive": "❔", "invalid": "⚠️"}
_ROWS = 50
_METRICS = 2  # metrics in a breakdown
_FEW = " *"
_TEXT = 120  # characters of a query


def comment(found: Verdicts, limit: int = LIMIT) -> str:
    """Markdown, never longer than `limit`: what comes last is left out first."""
    parts = [_answer(found), _gates(found), *_folded(found)]
    text = ""
    for part in parts:
        if len(text) + len(part) + 200 > limit:
            return text + "\n_More was left out: the comment would be too long. The saved result has all of it._\n"
        text += part + "\n"
    return text


def _answer(found: Verdicts) -> str:
    against = f", compared with **{_name(found.baseline)}**" if found.baseline else ""
    dataset = " ".join(x for x in (found.dataset.name, found.dataset.version) if x) or found.gold
    notes = "".join(f"\n> {safe(note)}\n" for note in found.notes)
    return (
        f"## {_MARKS[found.outcome]} Karat: {ANSWERS[found.outcome].lower()}\n\n"
        f"**{_name(found.run)}** on {found.queries:,} queries of {safe(shorten(dataset, 80))}{against}. "
        f"{counts(found)}\n{notes}"
    )


def _name(name: str | None) -> str:
    return safe(shorten(name or "", 80))


def _gates(found: Verdicts) -> str:
    """One line a gate: what blocks first."""
    order = sorted(found.verdicts, key=lambda v: (not v.blocks, v.outcome == "pass"))
    shown = order[:_ROWS]
    lines = ["| | check | |", "|---|---|---|", *(_gate(v) for v in shown)]
    if len(order) > len(shown):
        lines.append(f"| | {len(order) - len(shown)} more | |")
    return "\n".join(lines) + "\n"


def _gate(verdict: GateVerdict) -> str:
    where = f" in {_name(verdict.segment)}" if verdict.segment else ""
    outcome = f"{_MARKS[verdict.outcome]} {consequence(verdict)}"
    return f"| {outcome} | **{_name(verdict.gate)}**{where} | {safe(verdict.reason)} |"


def _folded(found: Verdicts) -> Iterator[str]:
    if found.comparison is not None:
        pair = found.comparison.pairs[0]
        losses = [change for change in pair.changes if _is_loss(change, found.comparison.lower_is_better)]
        if losses:
            yield _details("Worst losses", _losses(losses))
    names = list(dict.fromkeys(v.metric for v in found.verdicts))[:_METRICS]
    for segment, rows in _breakdown(found, names).items():
        few = any(row[0].endswith(_FEW) for row in rows)
        yield _details(f"By {segment}", _table([segment, "queries", *names], rows, few))
    yield _details("How this was measured", _how(found))


def _breakdown(found: Verdicts, names: list[str]) -> dict[str, list[list[str]]]:
    """Segment → rows: the change where there is a baseline, the value where there is none."""
    rows: dict[str, list[list[str]]] = {}
    if found.comparison is not None:
        for group in found.comparison.pairs[0].segments:
            cells = _deltas(group.differences, names, found.comparison.units)
            rows.setdefault(group.segment, []).append([_few(group.value, group.few), str(group.queries), *cells])
    units = {v.metric: v.unit for v in found.verdicts}
    for row in found.segments:
        means = {s.metric: s.mean for s in row.summary}
        cells = ["–" if means[n] is None else amount(means[n] or 0.0, units[n]) for n in names]
        rows.setdefault(row.segment, []).append([_few(row.value, row.few), str(row.queries), *cells])
    return rows


def _few(value: str, few: bool) -> str:
    return value + (_FEW if few else "")


def _is_loss(change: Change, lower: list[str]) -> bool:
    return change.delta > 0 if change.metric in lower else change.delta < 0


def _deltas(differences: list[Difference], names: list[str], units: dict[str, str]) -> list[str]:
    by_name = {d.metric: d for d in differences}
    return [points(by_name[n].delta, units[n], (by_name[n].low, by_name[n].high)) for n in names]


def _losses(changes: list[Change]) -> str:
    metric = changes[0].metric
    rows = [
        [
            shorten(c.query_id, 40),
            shorten(c.query or "", _TEXT),
            f"{c.baseline:.2f} → {c.candidate:.2f}",
            _moved(c.fell_out),
            _moved(c.came_in),
        ]
        for c in changes
    ]
    return _table(["query", "text", metric, "fell out", "came in"], rows, few=False)


def _moved(hits: list[Moved]) -> str:
    shown = [shorten(h.id, 40) + (" (relevant)" if h.grade else "") for h in hits[:3]]
    return ", ".join(shown) + (f", {len(hits) - 3} more" if len(hits) > 3 else "") or "–"


def _how(found: Verdicts) -> str:
    level = f"{found.statistics['level'] * 100:g}"
    lines = [
        f"Numbers in brackets are {level} % intervals: with other queries of the same kind the value would lie there.",
        "A drop blocks when it exceeds its limit and is beyond chance; one that could be chance is said to be so.",
        f"Gold set {found.gold}, {found.dataset.hash or 'no hash'}; Karat {found.karat}.",
    ]
    return "\n".join(f"- {safe(line)}" for line in lines)


def _details(title: str, body: str) -> str:
    return f"<details><summary>{safe(title)}</summary>\n\n{body}\n\n</details>\n"


def _table(columns: list[str], rows: list[list[str]], few: bool) -> str:
    shown = rows[:_ROWS]
    lines = [_row(columns), "|" + "---|" * len(columns), *map(_row, shown)]
    if len(rows) > len(shown):
        lines.append(f"| {len(rows) - len(shown)} more |" + " |" * (len(columns) - 1))
    return "\n".join(lines) + ("\n\n\\* too few queries to judge by" if few else "")


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(safe(c) for c in cells) + " |"
