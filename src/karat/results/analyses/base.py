"""What an analysis is, and what it may look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import msgspec
import numpy as np

from karat.data.audit import Audit
from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.data.hits import Run
from karat.data.ids import Bools, Floats, Ints
from karat.results.differences import Paired
from karat.results.summary import FEW, Scores, SummaryRow, mean_of, number
from karat.scoring.extra_labels import Labelling
from karat.scoring.judged import Rules
from karat.scoring.metrics.grammar import parse_metrics
from karat.statistics.intervals import Sampling, mean_intervals
from karat.statistics.sums import sum_up

PERMUTATIONS = 10_000
# Options of `evaluate` with which every hit that was logged counts. A threshold for final lists says nothing of others,
# whose scores are on another scale.
UNFILTERED: dict[str, Any] = {"min_score": None, "no_future": False}


def route_lists(source: str) -> str:
    """What the lists of a run that asked one source only are called."""
    return f"route {source}"


class Lacking(Exception):
    """An analysis cannot be made; the text says which field of which file is missing."""


class NotAsked(Exception):
    """An analysis that is made only on demand."""


class Side(Protocol):
    """One system measured on one gold set: what an analysis sees of a result. Columns have one entry a query."""

    @property
    def system(self) -> str: ...
    @property
    def gold(self) -> Gold: ...
    @property
    def rows(self) -> Ints: ...  # which queries of the gold set, in its order
    @property
    def queries(self) -> list[str]: ...
    @property
    def values(self) -> dict[str, Floats]: ...
    @property
    def ceilings(self) -> Mapping[str, Floats]: ...
    @property
    def columns(self) -> Scores: ...
    @property
    def summary_rows(self) -> list[SummaryRow]: ...
    @property
    def depths(self) -> Ints: ...  # hits that each query got
    @property
    def places(self) -> Ints: ...  # of each item of the gold set in the list of its query, 0 = not there
    @property
    def missing(self) -> frozenset[str]: ...  # queries that the run lacks, scored as failed
    @property
    def facts(self) -> dict[str, list[Any]]: ...  # what the run says of a query, None = nothing
    @property
    def stages(self) -> dict[str, Floats]: ...  # ms a query, where a metric of time was asked for
    @property
    def audit(self) -> Audit: ...
    @property
    def rules(self) -> Rules: ...
    @property
    def sampling(self) -> Sampling: ...
    @property
    def corpus(self) -> Corpus | None: ...
    @property
    def routes(self) -> tuple[str, ...]: ...  # sources whose own lists `measure(…, hits=route_lists(source))` gives
    @property
    def source(self) -> Run | None: ...  # to read the hits again; a saved result has none
    @property
    def segmented_by(self) -> tuple[str, ...]: ...
    @property
    def labelling(self) -> Labelling: ...  # labels beside the gold set, and whether bounds are asked for
    @property
    def provenance(self) -> dict[str, Any]: ...

    def groups(self, name: str) -> list[tuple[str, Ints]]: ...

    def measure(self, metrics: Iterable[str], hits: str | None = None, **changes: Any) -> Side:
        """The same run measured in these metrics, in another way where asked: other lists of the log (`raw`,
        `topk_original`), or other options of `evaluate`. Raises Lacking where the log has no such lists."""
        ...


class Analysis:
    """Looks at one side and gives a struct that says what it found; one new file makes one."""

    name: ClassVar[str]
    title: ClassVar[str]  # in a few words, for a person
    finds: ClassVar[type[msgspec.Struct]]
    facts: ClassVar[tuple[str, ...]] = ()  # what it needs of each line of the run besides the hits

    def metrics(self, side: Side) -> Sequence[str]:
        """Metrics of the run as it is; those of all analyses are measured in one pass. May raise Lacking."""
        return ()

    def find(self, side: Side) -> msgspec.Struct:
        """`side` has the metrics and facts asked for. Raises Lacking where the data is not there."""
        raise NotImplementedError


def with_lists(side: Side) -> Bools:
    """Which of a side's queries the run has; the others were scored as failed."""
    return np.array([query not in side.missing for query in side.queries], np.bool_)


def pair(before: Side, after: Side, metrics: Sequence[str]) -> tuple[Paired, Ints]:
    """Both sides in these metrics on the queries that the first has, and the rows of these in the gold set.

    What the second lacks of them has failed; what the first lacks says nothing about a change.
    """
    rows = np.intersect1d(before.rows[with_lists(before)], after.rows, assume_unique=True)
    asked = parse_metrics(metrics)
    sides = [replace(side.columns.select(np.searchsorted(side.rows, rows)), metrics=asked) for side in (before, after)]
    return Paired(*sides), rows


def unfiltered(side: Side, metrics: Iterable[str]) -> Side:
    """The side in these metrics without any filter; nothing is measured anew where there is none."""
    filtered = any(getattr(side.rules, name) != off for name, off in UNFILTERED.items())
    return side.measure(metrics, **UNFILTERED) if filtered else side


def other_lists(side: Side, metrics: Iterable[str], hits: str) -> Side:
    """Other lists of the log in these metrics, over the queries that have one. Raises Lacking where none has."""
    return side.measure(metrics, hits, missing="skip", **UNFILTERED)


def rate(name: str, happened: Floats, clusters: Ints | None, sampling: Sampling) -> SummaryRow:
    """The share of the queries (1 happened, 0 not, NaN not asked) with its interval."""
    ((low, high),) = mean_intervals(sum_up(happened[:, None], None, clusters), [(0.0, 1.0)], sampling).tolist()
    n = int((~np.isnan(happened)).sum())
    return SummaryRow(name, n, len(happened) - n, mean_of(happened), number(low), number(high), few=n < FEW)
