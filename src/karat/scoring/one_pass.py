"""One pass over a run: every slice is judged once per view, and memory grows with queries and gold only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from karat.data.audit import Audit
from karat.data.bulk import Bulk
from karat.data.gold import Gold
from karat.data.hits import Hits, Run
from karat.data.ids import DocRule, Floats, Hashes, Ints, take
from karat.errors import InputError
from karat.files.machine import keep_freed_memory
from karat.scoring.doubts import SeenScores, seen_order
from karat.scoring.judge import judge
from karat.scoring.judged import Judged, Rules
from karat.scoring.list_hashes import DEPTHS, list_hashes
from karat.scoring.metrics.base import INFINITE, Metric
from karat.scoring.metrics.evidence import LOOKED, Covering
from karat.scoring.metrics.forbidden import LEAKS, RuleUse, leaks, rule_use
from karat.scoring.metrics.searches import SEARCHED, searched
from karat.scoring.name_watch import NameWatch, SeenNames
from karat.scoring.overlap import ReturnedNames
from karat.scoring.sources import SOURCES, returned_sources
from karat.scoring.table import TablePart
from karat.scoring.top_lists import top_lists
from karat.scoring.unjudged import FAR, OpenPart
from karat.scoring.views import OWN, SEARCHES, Level, View

if TYPE_CHECKING:
    from karat.scoring.dates import OddVersion
    from karat.statistics.rank_overlap import Rankings


class Golds(Bulk, frozen=True):
    """The gold set for each view: by chunk or document, with or without a judge's labels."""

    gold: Gold
    sets: dict[tuple[Level, str], Gold] = {}
    # (lists, labels) → system → the gold set with its passages located in the hits of these lists.
    located: dict[tuple[str, str], Callable[[str], Gold]] = {}

    _returned: dict[str, ReturnedNames] = {}

    def returned(self, system: str, request: PassRequest) -> ReturnedNames:
        """Searches the hits of one system for the names of the gold set."""
        if system not in self._returned:
            self._returned[system] = ReturnedNames(self.of(system, request.own), DocRule(request.rules.doc_of))
        return self._returned[system]

    def of(self, system: str, view: View) -> Gold:
        for lists in (view.lists, OWN) if view.lists == SEARCHES else (view.lists,):
            if view.level == "chunk" and (lists, view.labels) in self.located:
                return self.located[lists, view.labels](system)
        return self.sets.get((view.level, view.labels), self.gold)


class PassRequest(Bulk, frozen=True):
    """What one pass must collect: the union of the needs of an evaluation."""

    rules: Rules
    own: View
    views: Mapping[View, tuple[Metric, ...]]  # with the metrics of each that need the hits themselves
    main: str = OWN  # which lists the run has; the others come with its lines
    columns: frozenset[str] = frozenset()  # what must be read for each hit and query
    facts: frozenset[str] = frozenset()  # fields of a query to keep
    lists: int = 0  # hits of each query to keep
    texts: bool = False  # with their texts
    open_levels: frozenset[Level] = frozenset()  # levels at which hits without a grade are collected
    returned: bool = False
    hashes: bool = False
    tops: int = 0  # hits of each query to keep as short hashes
    near_every: int = 1  # one in this many queries is checked for other spellings of ids

    @property
    def other_lists(self) -> frozenset[str]:
        """Other lists of the same log."""
        return frozenset(view.lists for view in self.views) - {self.main}

    def depth(self, view: View, gold: Gold) -> int:
        """How many ranks of each list must be exact also for unjudged hits."""
        if view.level in self.open_levels and view.but(level=self.own.level) == self.own:
            return FAR
        deepest = max((metric_depth(m, gold, self.rules) for m in self.views[view]), default=0)
        shown = max(self.lists, self.tops, DEPTHS[-1] if self.hashes else 0) if view == self.own else 0
        return max(deepest, shown)


def metric_depth(metric: Metric, gold: Gold, rules: Rules) -> int:
    """Hits of a query that a metric needs, at most; unknown in advance for a token budget."""
    if not (metric.uses_hits or metric.budget):
        return 0
    deepest = INFINITE if metric.budget or metric.cutoff == "optional" else max(gold.largest_k, rules.k)
    return metric.k or int(deepest)


class Part(Bulk, frozen=True):
    """What is kept of a slice."""

    system: str
    tables: dict[View, TablePart]
    audits: dict[View, Audit]
    values: dict[View, dict[str, Floats]] = {}  # metrics that need the hits
    votes: dict[View, dict[str, Floats]] = {}
    lacking: dict[str, str] = {}  # metric → what it needs and the slice does not have
    facts: dict[str, list[Any]] = {}
    stages: dict[str, Floats] = {}
    names: SeenNames | None = None  # whether they match the gold set's
    slopes: SeenScores | None = None  # whether scores fall down the lists
    odd_version: OddVersion | None = None  # the first that cannot be compared with its query's
    unknown: list[str] = []  # queries that the gold set does not have
    hashes: Hashes | None = None  # a row per query: the ordered ids at each depth, and of the whole list
    tops: Rankings | None = None  # the first hits of each query, as short hashes
    places: Ints | None = None  # where each query can be read again
    lists: Hits | None = None  # the first hits of each query, in ranking order
    opened: dict[Level, OpenPart] = {}
    returned: tuple[Ints, Ints, Ints] | None = None  # what `ReturnedNames` found
    rule_use: RuleUse = RuleUse()  # of rules about forbidden hits
    notes: Any = None  # for `Run.take_notes`, where a worker read the run


class Kernel:
    """Judges slices one after the other."""

    def __init__(self, request: PassRequest, golds: Golds) -> None:
        self.request = request
        self.golds = golds
        self._watches: dict[str, NameWatch] = {}
        self._rules: dict[View, Rules] = {view: view.rules(request.rules) for view in request.views}
        self._shown: dict[tuple[str, View], set[str]] = {}  # codes of the audit that have examples
        self._next: dict[
            tuple[str, str], int
        ] = {}  # where in the gold set the next slice begins, if the order is the same

    def score(self, hits: Hits) -> Part:
        request, system = self.request, hits.system
        judged: dict[View, Judged] = {}
        audits: dict[View, Audit] = {}
        for view in request.views:
            lists = hits if view.lists == request.main else hits.others.get(view.lists)
            if lists is None and view.lists == SEARCHES:
                lists = hits  # each query had one search
            if lists is not None:
                shown = self._shown.setdefault((system, view), set())
                audits[view] = Audit(shown)
                judged[view] = self._judge(lists, view, audits[view])
                shown |= audits[view].shown
        for view, one in judged.items():
            if one.n:
                self._next[system, view.lists] = int(one.queries[-1]) + 1
        measured = {view: _Measured(one, request.views[view]) for view, one in judged.items()}
        for view, one in judged.items():
            if view.level == "chunk":
                odd = _odd_versions(one)
                audits[view].count("odd_versions", len(odd), map(str, odd[:3]))
        own = judged.get(request.own)
        if own is not None:
            audits[request.own].merge(Audit.of(hits.counted))
        part = Part(
            system=system,
            tables={view: TablePart.of(one) for view, one in judged.items()},
            audits=audits,
            values={view: found.values for view, found in measured.items() if found.values},
            votes={view: found.votes for view, found in measured.items() if found.votes},
            lacking={} if request.own not in measured else measured[request.own].lacking,
        )
        return part if own is None else self._with_own(part, own, judged, hits)

    def _judge(self, lists: Hits, view: View, audit: Audit) -> Judged:
        request = self.request
        gold, start = self.golds.of(lists.system, view), self._next.get((lists.system, view.lists), 0)
        return judge(lists, gold, self._rules[view], audit, request.depth(view, gold), start)

    def _with_own(self, part: Part, own: Judged, judged: dict[View, Judged], hits: Hits) -> Part:
        """Collect the other data of the run's own lists."""
        request, system, settled = self.request, hits.system, own.hits
        assert settled is not None
        if system not in self._watches:
            self._watches[system] = NameWatch(own.gold, own.doc_rule, request.near_every)
        odd = _odd_versions(own)
        returned = None
        if request.returned:
            returned = self.golds.returned(system, request)
            returned.look(hits, own)
        searches = judged.get(request.own.over(SEARCHES))
        unknown = [] if own.n == len(hits.queries) else [q for q in hits.queries if q not in own.gold.index]
        return replace(
            part,
            facts={name: said for name in sorted(request.facts) if (said := _said(own, settled, name, searches))},
            stages=settled.latency,
            names=self._watches[system].look(own, hits),
            slopes=seen_order(hits, request.rules),
            odd_version=odd[0] if odd else None,
            unknown=unknown,
            hashes=list_hashes(own) if request.hashes else None,
            tops=top_lists(own, request.tops) if request.tops else None,
            places=settled.places,
            lists=_top(own, request.lists, texts=request.texts) if request.lists else None,
            opened={level: OpenPart.of(judged[request.own.but(level=level)]) for level in request.open_levels},
            returned=None if returned is None else returned.taken(),
            rule_use=rule_use(own, request.views[request.own], part.audits[request.own]),
        )


def _odd_versions(judged: Judged) -> list[OddVersion]:
    """Only where versions were read."""
    if judged.hits is None or "doc_version" not in judged.hits.columns:
        return []
    from karat.scoring.dates import odd_versions

    return odd_versions(judged.hits, judged.gold, judged.queries)


def _said(judged: Judged, hits: Hits, name: str, searches: Judged | None) -> list[Any]:
    if name == SEARCHED:
        return [] if searches is None else searched(judged, searches)
    if name == SOURCES:
        return returned_sources(judged)
    if name == LEAKS:
        return leaks(judged)
    return Covering.of(judged).looked() if name == LOOKED else hits.fields.get(name, [])


def _top(judged: Judged, depth: int, *, texts: bool) -> Hits:
    """The first hits of each query, in final order."""
    hits = judged.hits
    assert hits is not None
    if not texts and "text" in hits.columns:
        hits = replace(hits, columns={name: values for name, values in hits.columns.items() if name != "text"})
    query, rows = judged.top(depth)
    kept = hits.select_rows(rows, np.minimum(judged.depth, depth))
    places = (np.arange(len(query)) - kept.offsets[query] + 1).astype(np.float64)
    return replace(
        kept, ids=take(kept.ids, np.arange(len(query))), rank=places, fields={}, latency={}, written=None, others={}
    )


class _Measured:
    """The metrics of one view that need the hits."""

    def __init__(self, judged: Judged, metrics: Iterable[Metric]) -> None:
        self.values: dict[str, Floats] = {}
        self.votes: dict[str, Floats] = {}
        self.lacking: dict[str, str] = {}
        for metric in metrics:
            self._add(metric, judged)

    def _add(self, metric: Metric, judged: Judged) -> None:
        name = str(metric)
        self.values[name] = metric.score(judged)
        if metric.budget:
            self.values[name] = np.where(judged.fitting(metric.budget)[1], self.values[name], np.nan)
        if judged.hits is not None and (reason := metric.lacks(judged)):
            self.lacking[name] = reason
        votes = metric.votes(judged)
        if votes is not None:
            self.votes[name] = votes


def measured_missing(judged: Judged, metrics: Iterable[Metric]) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Values and weights of queries that the run does not have."""
    found = _Measured(judged, metrics)
    return found.values, found.votes


def read_parts(run: Run, request: PassRequest, golds: Golds) -> Iterator[Part]:
    """Judge slice by slice, in this process."""
    keep_freed_memory()
    kernel, unread = Kernel(request, golds), Audit()
    for hits in run.slices(request.columns, unread, request.other_lists):
        try:
            part = kernel.score(hits)
        except InputError as error:
            error.file = error.file or run.label  # hits have a line but no file
            raise
        yield part
