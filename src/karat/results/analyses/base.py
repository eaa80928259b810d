"""What an analysis is, what it needs of the pass over a run, and all analyses of one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.corpus import Corpus
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
    from karat.results.result import Result

PERMUTATIONS = 10_000


class Lacking(Exception):
    """Something cannot be computed; the text says which field of which file is missing."""


class NotAsked(Exception):
    """An analysis that is made only on demand."""


class Setup(msgspec.Struct, frozen=True):
    """What is known of an evaluation before its run is read."""

    gold: Gold
    rules: Rules
    metrics: list[Metric]  # those that were asked for
    corpus: Corpus | None
    labelling: Labelling  # labels beside the gold set, and whether bounds are asked for
    routes: tuple[str, ...]  # sources of which there is a run that asked them alone
    sourced: bool = False  # hits may say which source they are from

    @property
    def own(self) -> View:
        return View.own(self.rules)

    @property
    def unfiltered(self) -> View:
        """The final lists with every hit that was logged: what filters take from them, other lists still have."""
        return self.own.but(min_score=None, no_future=False, top_k=None)


Consumer: TypeAlias = Callable[[Setup], Need]  # declares what it will ask the results for


class Analysis:
    """Looks at one result and gives a struct that says what it found; one new file makes one."""

    name: ClassVar[str]
    title: ClassVar[str]  # in a few words, for a person
    finds: ClassVar[type[msgspec.Struct]]

    def need(self, setup: Setup) -> Need:
        """What the pass must bring; those of all analyses are added up. Raises Lacking or NotAsked."""
        return Need()

    def find(self, side: Result) -> msgspec.Struct:
        """`side` has the metrics that were needed. Raises Lacking where the data is missing."""
        raise NotImplementedError


def with_lists(side: Result) -> Bools:
    """Which of a side's queries the run has; the others were scored as failed."""
    return np.array([query not in side.missing for query in side.queries], np.bool_)


def pair(before: Result, after: Result, metrics: Sequence[str]) -> tuple[Paired, Ints]:
    """Both sides in these metrics on the queries that the first has, and the rows of these in the gold set.

    What the second lacks of them has failed; what the first lacks says nothing about a change.
    """
    rows = np.intersect1d(before.rows[with_lists(before)], after.rows, assume_unique=True)
    asked = parse_metrics(metrics)
    sides = [replace(side.columns.select(np.searchsorted(side.rows, rows)), metrics=asked) for side in (before, after)]
    return Paired(*sides), rows


REGISTRY: Registry[Analysis] = Registry("analysis", "karat.results.analyses", Analysis, "karat.analyses")


class Analyses(msgspec.Struct, frozen=True):
    """What was found by name, and what could not be looked at, with the reason."""

    found: dict[str, Any] = {}
    lacking: dict[str, str] = {}


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
    """From their saved form; one that no longer exists is left out."""
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
