"""What an analysis is, what it needs of the pass over a run, and what it may look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import msgspec
import numpy as np

from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.ids import Bools, Floats, Ints
from karat.results.differences import Paired
from karat.results.summary import FEW, SummaryRow, mean_of, number
from karat.scoring.extra_labels import Labelling
from karat.scoring.judged import Rules
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metrics
from karat.scoring.views import Need, View
from karat.statistics.intervals import mean_intervals
from karat.statistics.sampling import Sampling
from karat.statistics.sums import sum_up

if TYPE_CHECKING:
    from karat.results.result import Result

PERMUTATIONS = 10_000


class Lacking(Exception):
    """Something cannot be computed; the text says which field of which file is missing."""


class NotAsked(Exception):
    """An analysis that is made only on demand."""


@dataclass(frozen=True)
class Setup:
    """What is known of an evaluation before its run is read."""

    gold: Gold
    rules: Rules
    metrics: list[Metric]  # those that were asked for
    corpus: Corpus | None
    labelling: Labelling  # labels beside the gold set, and whether bounds are asked for
    routes: tuple[str, ...]  # sources of which there is a run that asked them alone

    @property
    def own(self) -> View:
        return View.own(self.rules)

    @property
    def unfiltered(self) -> View:
        """The final lists with every hit that was logged: a threshold for their scores says nothing of other lists."""
        return self.own.but(min_score=None, no_future=False)


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


def rate(name: str, happened: Floats, clusters: Ints | None, sampling: Sampling) -> SummaryRow:
    """The share of the queries (1 happened, 0 not, NaN not asked) with its interval."""
    ((low, high),) = mean_intervals(sum_up(happened[:, None], None, clusters), [(0.0, 1.0)], sampling).tolist()
    n = int((~np.isnan(happened)).sum())
    return SummaryRow(name, n, len(happened) - n, mean_of(happened), number(low), number(high), few=n < FEW)
