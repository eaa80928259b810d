"""The saved form of gate verdicts."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from karat.data.gold import Dataset
from karat.data.saved import SavedObject
from karat.gates.criteria import Outcome
from karat.results.comparison.compare import Comparison
from karat.results.differences import Difference
from karat.results.summary import SegmentRow


class Condition(msgspec.Struct, frozen=True):
    """One condition of a gate: its floor, or its regression limit against one baseline."""

    kind: Literal["floor", "regression", "queries", "data"]
    outcome: Outcome | Literal["not checked"]
    reason: str
    certain: bool = True
    needed: int | None = None  # queries in total that would settle it
    baseline: str | None = None
    difference: Difference | None = None


class GateVerdict(msgspec.Struct, frozen=True):
    """The verdict of one gate on one group of queries."""

    gate: str
    metric: str
    segment: str | None
    severity: Literal["error", "warning"]
    outcome: Outcome
    blocks: bool
    reason: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    unit: str
    parts: list[Condition]
    file: str | None = None  # where the gate is defined
    line: int | None = None
    limit: float | None = None  # the minimum or maximum allowed value


class Verdicts(SavedObject, frozen=True, kw_only=True):
    """What `karat gate` saves. True if the run may ship, so a test is `assert karat.gate(…)`."""

    schema: Literal["karat/gates/1"] = "karat/gates/1"
    outcome: Outcome  # of all gates: the worst one that blocks
    exit_code: int
    run: str
    baseline: str | None
    gold: str
    dataset: Dataset
    statistics: dict[str, Any]
    queries: int
    verdicts: list[GateVerdict]
    notes: list[str]
    comparison: Comparison | None = None  # with the baseline, by tag and with the queries that changed most
    segments: list[SegmentRow] = []  # by tag, if there is no baseline

    def __bool__(self) -> bool:
        return self.exit_code == 0
