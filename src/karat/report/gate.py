"""Verdicts as a report for the terminal."""

from __future__ import annotations

from karat.gates.verdicts import GateVerdict, Verdicts
from karat.report.blocks import Block, Report, Section, Text, Verdict

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
    return f"{len(outcomes)} {'check' if len(outcomes) == 1 else 'checks'}: {', '.join(said)}."
