"""All analyses of one result."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from karat.errors import InputError
from karat.registry import Registry
from karat.results.analyses.base import Analysis, Lacking, NotAsked, Setup
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result

REGISTRY: Registry[Analysis] = Registry("analysis", "karat.results.analyses", Analysis, "karat.analyses")


@dataclass(frozen=True)
class Analyses:
    """What was found by name, and what could not be looked at, with the reason."""

    found: dict[str, Any] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)


def needs_of_analyses(setup: Setup) -> list[Need]:
    """What the pass over a run must bring for all analyses that the data allows."""
    needs = []
    for kind in REGISTRY.everything().values():
        try:
            needs.append(kind().need(setup))
        except (NotAsked, Lacking):
            continue
    return needs


def analyse(side: Result) -> Analyses:
    """Everything that the data allows; nothing where an evaluation was not asked for analyses."""
    found: dict[str, Any] = {}
    lacking: dict[str, str] = {}
    for name, kind in sorted(REGISTRY.everything().items()) if side.context.analysed else ():
        analysis = kind()
        try:
            found[name] = analysis.find(side.measure(analysis.need(side.setup).metrics))
        except NotAsked:
            continue
        except Lacking as error:
            lacking[name] = str(error)
    return Analyses(found, lacking)


def restore_analyses(saved: dict[str, Any], lacking: dict[str, str]) -> Analyses:
    """From their saved form; one that no longer exists, or has another shape, is left out."""
    found: dict[str, Any] = {}
    for name, value in saved.items():
        kind = REGISTRY.get(name)
        if kind is None:
            continue
        try:
            found[name] = msgspec.convert(value, kind.finds)
        except msgspec.ValidationError as error:
            raise InputError(f"the saved analysis {name!r} cannot be read: {error}", code="damaged-result") from error
    return Analyses(found, lacking)
