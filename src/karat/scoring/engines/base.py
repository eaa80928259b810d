"""Slices of whole queries → scores: the one kernel that every engine runs, and what an engine is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import numpy as np

from karat.data.audit import Audit
from karat.data.gold import Gold
from karat.data.hits import Hits, Run
from karat.data.ids import Bools, Floats, Ints
from karat.errors import InputError
from karat.formats.read import read_run
from karat.scoring.ceilings import level_of
from karat.scoring.dates import OddVersion, odd_versions
from karat.scoring.judged import Judged, Rules, judge
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.covering import LOOKED, Covering
from karat.scoring.overlap import SharedItems

_KEPT = 24 << 20  # bytes; glibc then keeps twice as much, and takes no notice of blocks over 32 MB


@dataclass(frozen=True, eq=False, repr=False)
class Task:
    """What to score, and by which rules: everything but the hits."""

    gold_of: Callable[[str], Gold]  # of a system; they differ where passages were looked for in the run's own hits
    documents: Gold | None  # the same by document, where a metric asks for it
    metrics: list[Metric]
    rules: Rules
    depth: int  # how many places of each list must be exact also for unjudged hits
    columns: frozenset[str]  # what of the run has to be read
    facts: frozenset[str]  # what the run says of a query and somebody wants to keep


@dataclass(frozen=True, eq=False, repr=False)
class Scored:
    """All that is kept of a slice: it grows with queries and gold items, never with hits."""

    system: str
    queries: Ints  # rows of the gold set
    depth: Ints  # hits of each query
    values: dict[str, Floats]  # metric → a value a query
    votes: dict[str, Floats] = field(default_factory=dict)
    items: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # gold items that were found …
    ranks: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # … and where
    by_document: dict[str, Bools] = field(default_factory=dict)  # level → queries matched by document or passage
    lacking: dict[str, str] = field(default_factory=dict)  # metric → what it needs and the slice does not have
    facts: dict[str, list[Any]] = field(default_factory=dict)
    stages: dict[str, Floats] = field(default_factory=dict)
    audit: Audit = field(default_factory=Audit)
    shared: bool = False  # does any relevant gold item stand among the hits so far
    seen: str | None = None  # an id of the run
    odd_version: OddVersion | None = None  # the first that cannot be compared with its query's
    unknown: list[str] = field(default_factory=list)  # queries that the gold set does not have


class Kernel:
    """Scores slices one after the other."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self._shared: dict[str, SharedItems] = {}
        self._next: dict[str, int] = {}  # where in the gold set the next slice begins, if the run keeps its order

    def score(self, hits: Hits) -> Scored:
        task, system, audit = self.task, hits.system, Audit()
        gold, start = task.gold_of(system), self._next.get(system, 0)
        chunks = judge(hits, gold, task.rules, audit, task.depth, start)
        documents = chunks
        if task.documents is not None:
            # What was settled for the documents was settled, and counted, for the chunks already.
            documents = judge(hits, task.documents, task.rules, Audit(), task.depth, start)
        if chunks.n:
            self._next[system] = int(chunks.queries[-1]) + 1
        shared = self._shared.setdefault(system, SharedItems(gold))
        shared.look(chunks)
        scored = collect(task, system, chunks, documents, audit, shared)
        if chunks.n < len(hits.queries):
            scored.unknown.extend(query for query in hits.queries if query not in gold.index)
        return scored


def collect(
    task: Task, system: str, chunks: Judged, documents: Judged, audit: Audit, shared: SharedItems | None = None
) -> Scored:
    """Every metric of one slice, and what else is kept of it."""
    found = _Measured(chunks, documents)
    for metric in task.metrics:
        found.add(metric)
    none = np.zeros(0, np.int64)
    new = chunks.hit_new
    sides = {"chunk": chunks, "doc": documents}
    odd = _odd_versions(chunks)
    audit.count("odd_versions", len(odd), map(str, odd[:3]))
    return Scored(
        system=system,
        queries=chunks.queries,
        depth=chunks.depth,
        values=found.values,
        votes=found.votes,
        items=none if chunks.hit_item is None else chunks.hit_item[new],
        ranks=none if chunks.hit_item is None else chunks.hit_rank[new],
        by_document={level: side.by_document for level, side in sides.items() if side.by_document is not None},
        lacking=found.lacking,
        facts={} if chunks.hits is None else {name: _said(chunks, chunks.hits, name) for name in sorted(task.facts)},
        stages={} if chunks.hits is None else chunks.hits.latency,
        audit=audit,
        shared=shared is not None and shared.found,
        seen=None if shared is None else shared.seen,
        odd_version=odd[0] if odd else None,
    )


def _odd_versions(chunks: Judged) -> list[OddVersion]:
    """Only where somebody asked for versions."""
    if chunks.hits is None or "doc_version" not in chunks.hits.columns:
        return []
    return odd_versions(chunks.hits, chunks.gold, chunks.queries)


class _Measured:
    def __init__(self, chunks: Judged, documents: Judged) -> None:
        self._chunks, self._documents = chunks, documents
        self.values: dict[str, Floats] = {}
        self.votes: dict[str, Floats] = {}
        self.lacking: dict[str, str] = {}

    def add(self, metric: Metric) -> None:
        name, judged = str(metric), self._documents if level_of(metric) == "doc" else self._chunks
        self.values[name] = metric.score(judged)
        if metric.budget:
            self.values[name] = np.where(judged.fitting(metric.budget)[1], self.values[name], np.nan)
        if judged.hits is not None and (reason := metric.lacks(judged)):
            self.lacking[name] = reason
        votes = metric.votes(judged)
        if votes is not None:
            self.votes[name] = votes


def _said(chunks: Judged, hits: Hits, name: str) -> list[Any]:
    return Covering.of(chunks).looked() if name == LOOKED else hits.fields.get(name, [])


class Engine(ABC):
    """Where slices are scored."""

    name: ClassVar[str]

    def read_run(self, run: Any, **options: Any) -> Run:
        """Anything a user has → a run that this engine can score. Options are those of `karat.read_run`."""
        return read_run(run, **options)

    @abstractmethod
    def scores(self, run: Run, task: Task) -> Iterator[Scored]:
        """Every slice of a run. Raises Ungrouped where the hits of a query do not stand together."""


def score_slices(run: Run, task: Task) -> Iterator[Scored]:
    """Slice after slice, here."""
    _keep_freed_memory()
    kernel, unread = Kernel(task), Audit()
    for hits in run.slices(task.columns, unread):
        try:
            scored = kernel.score(hits)
        except InputError as error:
            error.file = error.file or run.label  # hits know their line and not their file
            raise
        yield scored


@cache
def _keep_freed_memory() -> None:
    """glibc gives freed megabytes back to the system, and gets them anew, page by page, for the next slice: a fifth of
    the time of reading a large run. What it keeps grows with the largest block that was ever freed."""
    np.empty(_KEPT, np.uint8)
