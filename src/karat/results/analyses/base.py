"""The base class of analyses, what they need from the pass over a run, and all analyses of one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.gold import Gold
from karat.data.ids import Bools, Ints
from karat.errors import InputError
from karat.registry import Registry
from karat.results.differences import Paired
from karat.scoring.extra_labels import Labelling
from karat.scoring.judged import Rules
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metrics
from karat.scoring.views import Need, View

if TYPE_CHECKING:
    from karat.data.corpus import Corpus
    from karat.results.result import Result

PERMUTATIONS = 10_000


class Lacking(Exception):
    """Something cannot be computed; the text says which field of which file is missing."""


class NotAsked(Exception):
    """The analysis is made only on request."""


class Setup(msgspec.Struct, frozen=True):
    """What is known about an evaluation before its run is read."""

    gold: Gold
    rules: Rules
    metrics: list[Metric]  # the requested ones
    corpus: Corpus | None
    labelling: Labelling  # labels in addition to the gold set, and whether bounds are requested
    routes: tuple[str, ...]  # sources with a run that searched only them
    sourced: bool = False  # hits may have a source
    stepped: bool = False  # queries may have several searches
    sized: bool = False  # hits have tokens

    @property
    def own(self) -> View:
        return View.own(self.rules)

    @property
    def unfiltered(self) -> View:
        """The final lists with every logged hit, to compare with other lists, which are not filtered."""
        return self.own.but(min_score=None, no_future=False, top_k=None)


Consumer: TypeAlias = Callable[[Setup], Need]  # declares what it needs from the results


class Analysis:
    """Analyses one result and returns a struct with its findings. To add one, add a file."""

    name: ClassVar[str]
    title: ClassVar[str]  # in a few words, for a person
    finds: ClassVar[type[msgspec.Struct]]

    def need(self, setup: Setup) -> Need:
        """What the pass must collect; the needs of all analyses are merged. Raises Lacking or NotAsked."""
        return Need()

    def find(self, side: Result) -> msgspec.Struct:
        """Analyse `side`, which has the needed metrics. Raises Lacking if data is missing."""
        raise NotImplementedError


def with_lists(side: Result) -> Bools:
    """Which of a side's queries the run has; the others were scored as failed."""
    table = side.data.tables.get(side.view)
    if table is not None:
        return table.present[side.rows]
    return np.array([query not in side.missing for query in side.queries], np.bool_)


def pair(before: Result, after: Result, metrics: Sequence[str]) -> tuple[Paired, Ints]:
    """Both sides in these metrics on the queries that the first has, and the rows of these queries in the gold set.

    Queries missing from the second count as failed; those missing from the first say nothing about a change.
    """
    rows = np.intersect1d(before.rows[with_lists(before)], after.rows, assume_unique=True)
    asked = parse_metrics(metrics)
    sides = [replace(side.columns.select(np.searchsorted(side.rows, rows)), metrics=asked) for side in (before, after)]
    return Paired(*sides), rows


REGISTRY: Registry[Analysis] = Registry("analysis", "karat.results.analyses", Analysis, "karat.analyses")


class Analyses(msgspec.Struct, frozen=True):
    """Findings by name, and analyses that could not be made, with the reason."""

    found: dict[str, Any] = {}
    lacking: dict[str, str] = {}


def needs_of_analyses(setup: Setup) -> list[Need]:
    """What the pass over a run must collect for all analyses that the data allows."""
    needs = []
    for kind in REGISTRY.everything().values():
        try:
            needs.append(kind().need(setup))
        except (NotAsked, Lacking):
            continue
    return needs


def analyse(side: Result) -> Analyses:
    """All analyses that the data allows; none if the evaluation did not request analyses."""
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
    """Analyses from their saved form. Those that no longer exist are left out."""
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
