"""pytest plug-in: `def test_retrieval(karat_gate): karat_gate(run, gold, "recall@5 >= 0.85")`.

pytest loads this file at every start, also where nobody uses it: what is heavy is imported when the fixture is called.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Unpack

import pytest

if TYPE_CHECKING:
    from karat.gates.criteria import Criteria, Gate
    from karat.gates.verdict_form import GateVerdict, Verdicts
    from karat.options.keywords import EvaluateKeywords

    Condition = str | Path | Gate | Criteria | Iterable[str | Gate]


class KaratWarning(UserWarning):
    """A gate that tells and does not block."""


class KaratGate(Protocol):
    """What the fixture is: `karat.gate` whose verdict is the test's."""

    def __call__(
        self,
        run: Any,
        gold: Any = None,
        *criteria: Condition,
        baseline: Any = None,
        **options: Unpack[EvaluateKeywords],
    ) -> Verdicts: ...


@pytest.fixture
def karat_gate(request: pytest.FixtureRequest) -> KaratGate:
    """Fails the test unless the run may ship.

    karat_gate("run.jsonl", "gold.jsonl", "recall@5 >= 0.85", "ndcg@5 drop <= 0.02", baseline="baseline.json")
    karat_gate("run.jsonl", "gold.jsonl", "ship-criteria.yaml")    # without: the project's ship-criteria.yaml
    """

    def check(
        run: Any, gold: Any = None, *criteria: Condition, baseline: Any = None, **options: Unpack[EvaluateKeywords]
    ) -> Verdicts:
        from karat.errors import KaratError
        from karat.gates.criteria import find_criteria
        from karat.gates.gate import gate

        try:
            asked = _asked(criteria) if criteria else find_criteria(request.config.rootpath)
            found = gate(run, gold, asked, baseline=baseline, **options)
        except KaratError as error:
            refused = str(error)  # failed outside of `except`: no second traceback
        else:
            # As record_property does, which warns of a report form that takes properties all the same.
            _tell(found, request.node.user_properties)
            return found
        pytest.fail(f"Karat could not judge: {refused}", pytrace=False)

    return check


def _asked(criteria: tuple[Condition, ...]) -> Any:
    """One file or list as it is, several gates as a list."""
    from karat.gates.criteria import Gate

    if len(criteria) == 1 and not isinstance(criteria[0], Gate):
        return criteria[0]
    return [str(c) if isinstance(c, Path) else c for c in criteria]


def _tell(found: Verdicts, properties: list[tuple[str, object]]) -> None:
    """Every verdict as a property of the test, what only tells as a warning, what blocks as its failure."""
    from karat.report.gate import ANSWERS, consequence, counts, headline

    for verdict in found.verdicts:
        properties.append((f"karat: {_title(verdict)}", f"{verdict.outcome}: {verdict.reason}"))
        if consequence(verdict) == "tells only":
            warnings.warn(KaratWarning(f"{_title(verdict)}: {verdict.reason}"), stacklevel=3)
    for note in found.notes:
        warnings.warn(KaratWarning(note), stacklevel=3)
    if found.exit_code:
        order = sorted(found.verdicts, key=lambda v: not v.blocks)
        lines = [f"  {v.outcome}: {headline(v)}: {v.reason}" for v in order]
        pytest.fail("\n".join([f"{ANSWERS[found.outcome]}. {counts(found)}", *lines]), pytrace=False)


def _title(verdict: GateVerdict) -> str:
    return verdict.gate + (f" in {verdict.segment}" if verdict.segment else "")
