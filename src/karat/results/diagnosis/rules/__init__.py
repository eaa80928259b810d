"""The debugging playbook as a table of rules over one result. To add a rule, add an entry in a file here.

The order matters: findings are reported in this order, and `unless` looks at earlier findings.
"""

from __future__ import annotations

from karat.results.diagnosis.evidence import Evidence
from karat.results.diagnosis.finding import RuleTable
from karat.results.diagnosis.rules import ranking, stages

TABLE: RuleTable[Evidence] = RuleTable([*ranking.TABLE, *stages.TABLE])
