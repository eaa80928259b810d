"""Verdicts as a pull-request comment, for readers who are no engineers: the answer first, details folded."""

from __future__ import annotations

import html
from collections.abc import Iterator

from karat.errors import shorten
from karat.gates.verdicts import GateVerdict, Verdicts
from karat.report.gate import ANSWERS, consequence, counts
from karat.report.renderers.markdown import inert, safe
from karat.results.comparison.changes import Change, Moved
from karat.results.differences import Difference
from karat.results.numbers import amount, points
from karat.scoring.metrics.grammar import parse_metric

LIMIT = 60_000  # bytes; hosts take about 64 kB
_MARKS = {"pass": "✅", "fail": "❌", "inconclusive": "❔", "invalid": "⚠️"}
_ROWS = 50
_METRICS = 2  # metrics in a breakdown
_FEW = " *"
_TEXT = 120  # characters of a query
_CELL = 160  # characters of anything else
_REASON = 500
_NOTES = 5


def comment(found: Verdicts, limit: int = LIMIT) -> str:
    """Markdown, never longer than `limit` bytes: what comes last is left out first."""
    answer = _answer(found)
    text = answer + "\n" + _gates(found, room=(limit - _bytes(answer)) * 3 // 4) + "\n"
    for part in _folded(found):
        if _bytes(text) + _bytes(part) + 200 > limit:
            return text + "\n_More was left out: the comment would be too long. The saved result has all of it._\n"
        text += part + "\n"
    return text


def _bytes(text: str) -> int:
    return len(text.encode())


def _answer(found: Verdicts) -> str:
    against = f", compared with **{_name(found.baseline)}**" if found.baseline else ""
    dataset = " ".join(x for x in (found.dataset.name, found.dataset.version) if x) or found.gold
    told = [shorten(note, _REASON) for note in found.notes[:_NOTES]]
    more = [f"{len(found.notes) - _NOTES} more notes."] if len(found.notes) > _NOTES else []
    notes = "".join(f"\n> {safe(note)}\n" for note in (*told, *more))
    return (
        f"## {_MARKS[found.outcome]} Karat: {ANSWERS[found.outcome].lower()}\n\n"
        f"**{_name(found.run)}** on {found.queries:,} queries of {_name(dataset)}{against}. "
        f"{counts(found)}\n{notes}"
    )


def _name(name: str | None) -> str:
    return safe(shorten(name or "", 80))


def _gates(found: Verdicts, room: int) -> str:
    """One line a gate, what blocks first, as many as there is room for."""
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
    where = f" in {_name(verdict.segment)}" if verdict.segment else ""
    outcome = f"{_MARKS[verdict.outcome]} {consequence(verdict)}"
    return f"| {outcome} | **{_name(verdict.gate)}**{where} | {safe(shorten(verdict.reason, _REASON))} |"


def _folded(found: Verdicts) -> Iterator[str]:
    if found.comparison is not None:
        pair = found.comparison.pairs[0]
        losses = [change for change in pair.changes if _is_loss(change, found.comparison.lower_is_better)]
        if losses:
            yield _details("Worst losses", _losses(losses))
    names = list(dict.fromkeys(v.metric for v in found.verdicts))[:_METRICS]
    for segment, rows in _breakdown(found, names).items():
        few = any(row[0].endswith(_FEW) for row in rows)
        columns = [f"{name}, change" if found.comparison is not None else name for name in names]
        yield _details(f"By {segment}", _table([segment, "queries", *columns], rows, few))
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
    by_name = {d.metric: d for d in differences}  # a saved baseline may lack some
    found = [by_name.get(name) for name in names]
    return ["–" if d is None else points(d.delta, units[d.metric], (d.low, d.high)) for d in found]


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
        *(f"{name}: {_definition(name)}" for name in dict.fromkeys(v.metric for v in found.verdicts)),
        f"In brackets: where the value would lie in {level} of 100 sets of other queries of the same kind. "
        "pp: percentage points.",
        "A drop blocks when it exceeds its limit and is beyond chance; one that could be chance is said to be so.",
        f"Gold set {shorten(found.gold, _CELL)}, {found.dataset.hash or 'no hash'}; Karat {found.karat}.",
    ]
    return "\n".join(f"- {safe(line)}" for line in lines)


def _definition(metric: str) -> str:
    """What a metric measures, in one sentence."""
    return (type(parse_metric(metric)).__doc__ or "").partition("\n")[0]


def _details(title: str, body: str) -> str:
    # The line is HTML, in which Markdown's escapes mean nothing.
    return f"<details><summary>{html.escape(inert(shorten(title)))}</summary>\n\n{body}\n\n</details>\n"


def _table(columns: list[str], rows: list[list[str]], few: bool) -> str:
    shown = rows[:_ROWS]
    lines = [_row(columns), "|" + "---|" * len(columns), *map(_row, shown)]
    if len(rows) > len(shown):
        lines.append(f"| {len(rows) - len(shown)} more |" + " |" * (len(columns) - 1))
    return "\n".join(lines) + ("\n\n\\* too few queries to judge by" if few else "")


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(safe(shorten(c, _CELL)) for c in cells) + " |"
