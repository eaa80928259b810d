"""pytest plug-in: `def test_retrieval(karat_gate): karat_gate(run, gold, "recall@5 >= 0.85")`.

pytest loads this file at every start, even if it is not used, so heavy imports happen when the fixture is called.
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
    """A gate that warns but does not block."""


class KaratGate(Protocol):
    """The type of the fixture: `karat.gate`, with the verdict as the outcome of the test."""

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
    karat_gate("run.jsonl", "gold.jsonl", "ship-criteria.yaml")    # by default, the project's ship-criteria.yaml
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
            refused = str(error)  # fails outside of `except` to avoid a second traceback
        else:
            # What record_property does, but without its warning about report formats.
            _tell(found, request.node.user_properties)
            return found
        pytest.fail(f"Karat could not judge: {refused}", pytrace=False)

    return check


def _asked(criteria: tuple[Condition, ...]) -> Any:
    """Returns a single file or list unchanged, and several gates as a list."""
    from karat.gates.criteria import Gate

    if len(criteria) == 1 and not isinstance(criteria[0], Gate):
        return criteria[0]
    return [str(c) if isinstance(c, Path) else c for c in criteria]


def _tell(found: Verdicts, properties: list[tuple[str, object]]) -> None:
    """Records every verdict as a test property, warns of non-blocking ones and fails on blocking ones."""
    from karat.report.gate import ANSWERS, consequence, counts, headline

    for verdict in found.verdicts:
        properties.append((f"karat: {_title(verdict)}", f"{verdict.outcome}: {verdict.reason}"))
        if consequence(verdict) == "warning":
            warnings.warn(KaratWarning(f"{_title(verdict)}: {verdict.reason}"), stacklevel=3)
    for note in found.notes:
        warnings.warn(KaratWarning(note), stacklevel=3)
    if found.exit_code:
        order = sorted(found.verdicts, key=lambda v: not v.blocks)
        lines = [f"  {v.outcome}: {headline(v)}: {v.reason}" for v in order]
        pytest.fail("\n".join([f"{ANSWERS[found.outcome]}. {counts(found)}", *lines]), pytrace=False)


def _title(verdict: GateVerdict) -> str:
    return verdict.gate + (f" in {verdict.segment}" if verdict.segment else "")
