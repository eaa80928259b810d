"""What an analysis is, and what it may look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Protocol

import msgspec
import numpy as np

from karat.audit import Audit
from karat.corpus import Corpus
from karat.differences import Paired
from karat.gold import Gold
from karat.hits import Run
from karat.ids import Floats, Ints
from karat.judged import Rules
from karat.metrics.grammar import parse_metrics
from karat.statistics.intervals import Sampling
from karat.summary import Scores, SummaryRow

PERMUTATIONS = 10_000


class Lacking(Exception):
    """An analysis cannot be made; the text says which field of which file is missing."""


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
    def ceilings(self) -> dict[str, Floats]: ...
    @property
    def columns(self) -> Scores: ...
    @property
    def summary_rows(self) -> list[SummaryRow]: ...
    @property
    def depths(self) -> Ints: ...  # hits that each query got
    @property
    def missing(self) -> frozenset[str]: ...  # queries that the run lacks, scored as failed
    @property
    def facts(self) -> dict[str, list[Any]]: ...  # what the run says of a query, None = nothing
    @property
    def audit(self) -> Audit: ...
    @property
    def rules(self) -> Rules: ...
    @property
    def sampling(self) -> Sampling: ...
    @property
    def corpus(self) -> Corpus | None: ...
    @property
    def source(self) -> Run | None: ...  # to read the hits again; a saved result has none
    @property
    def segmented_by(self) -> tuple[str, ...]: ...
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


def pair(before: Side, after: Side, metrics: Sequence[str]) -> tuple[Paired, Ints]:
    """Both sides in these metrics on the queries that the first has, and the rows of these in the gold set.

    What the second lacks of them has failed; what the first lacks says nothing about a change.
    """
    had = np.array([query not in before.missing for query in before.queries], np.bool_)
    rows = np.intersect1d(before.rows[had], after.rows, assume_unique=True)
    asked = parse_metrics(metrics)
    sides = [replace(side.columns.select(np.searchsorted(side.rows, rows)), metrics=asked) for side in (before, after)]
    return Paired(*sides), rows
