"""The debugging playbook as a table of rules over one result. A new rule is one more entry in a file here.

Order matters twice: it is the order in which findings are told, and `unless` looks at those told before.
"""

from __future__ import annotations

from karat.results.diagnosis.evidence import Evidence
from karat.results.diagnosis.finding import RuleTable
from karat.results.diagnosis.rules import ranking, stages

TABLE: RuleTable[Evidence] = RuleTable([*ranking.TABLE, *stages.TABLE])
