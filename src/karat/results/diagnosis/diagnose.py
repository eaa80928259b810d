"""`diagnose`: what stands out in a result, and in its comparison with another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karat.errors import ConfigError
from karat.results.diagnosis import changes, rules
from karat.results.diagnosis.finding import Finding
from karat.results.diagnosis.rule import Rule

if TYPE_CHECKING:
    from karat.results.comparison.compare import CandidateComparison, Comparison
    from karat.results.result import Result


def diagnose(result: Result, comparison: Comparison | None = None) -> list[Finding]:
    """What to look at and what to try, each with its evidence; nothing that could be noise.

    `comparison`: with the result as its candidate; tells also what the change did.
    """
    if comparison is None:
        return result.findings
    return [*result.findings, *_pair(result, comparison).findings]


def _pair(result: Result, comparison: Comparison) -> CandidateComparison:
    if len(comparison.pairs) == 1:
        return comparison.pairs[0]
    name = result.system or result.run
    found = [pair for pair in comparison.pairs if pair.candidate == name]
    if len(found) != 1:
        there = ", ".join(pair.candidate for pair in comparison.pairs)
        raise ConfigError(
            f"the comparison has no single candidate {name!r}", code="unknown-candidate", hint=f"it has: {there}"
        )
    return found[0]


def reference() -> str:
    """The table of rules as Markdown."""
    rows = ["| finding | when | what to try |", "|---|---|---|"]
    entries: list[Rule[Any]] = [*rules.TABLE.rules, *changes.TABLE.rules]
    for rule in entries:
        said = f"| `{rule.code}` {rule.title} | {rule.when} | {'; '.join(rule.what_to_try)} |"
        rows.append(said.format(attribute="NAME", values="VALUE", where=""))
    return "\n".join(rows) + "\n"
