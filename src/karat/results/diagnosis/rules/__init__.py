"""The debugging playbook as a table of rules over one result, one file a theme. A new rule is one more entry there.

Order matters twice: it is the order in which findings are told, and `unless` looks at those told before.
"""

from __future__ import annotations

from karat.results.diagnosis.evidence import Evidence, MissingEvidence
from karat.results.diagnosis.finding import Finding
from karat.results.diagnosis.rule import RuleTable
from karat.results.diagnosis.rules import data, ranking, refusing, segments, speed, stages

TABLE: RuleTable[Evidence] = RuleTable.of(
    data.TABLE, ranking.TABLE, stages.TABLE, segments.TABLE, speed.TABLE, refusing.TABLE
)


def find(evidence: Evidence) -> list[Finding]:
    """Everything that stands out beyond noise in one result."""
    return TABLE.apply(evidence, silent=MissingEvidence)
