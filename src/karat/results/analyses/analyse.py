"""All analyses of one side."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from karat.errors import InputError
from karat.registry import Registry
from karat.results.analyses.base import Analysis, Lacking, NotAsked, Side

REGISTRY: Registry[Analysis] = Registry("analysis", "karat.results.analyses", Analysis, "karat.analyses")


@dataclass(frozen=True)
class Analyses:
    """What was found by name, and what could not be looked at, with the reason."""

    found: dict[str, Any] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)


def analyse(side: Side) -> Analyses:
    """Everything that the data allows. One pass measures the metrics of all analyses."""
    analyses = {name: kind() for name, kind in sorted(REGISTRY.everything().items())}
    found: dict[str, Any] = {}
    lacking: dict[str, str] = {}
    asked: dict[str, list[str]] = {}
    for name, analysis in analyses.items():
        try:
            asked[name] = list(analysis.metrics(side))
        except NotAsked:
            continue
        except Lacking as error:
            lacking[name] = str(error)
    metrics = list(dict.fromkeys(metric for names in asked.values() for metric in names))
    facts = sorted({fact for name in asked for fact in analyses[name].facts})
    measured = side.measure(metrics, facts=facts) if metrics or facts else side
    for name in asked:
        try:
            found[name] = analyses[name].find(measured)
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
