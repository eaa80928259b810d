"""Find the stage that lost each relevant item missing from the top k.

Lists are the best evidence: an item in any list was in the corpus and was found. For the rest, the first reason that
the data proves counts, in the order of the stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np

from karat.data.gold import CHUNK, DOC, Gold
from karat.data.ids import Bools, DocRule, Ints, take_list
from karat.results.analyses.base import Analysis, Lacking, Setup, with_lists
from karat.scoring.judged import cutoffs
from karat.scoring.metrics.base import Metric, Relevance
from karat.scoring.metrics.lists import Returned
from karat.scoring.metrics.query import expected_sources, sources_of
from karat.scoring.views import RAW, Need, View
from karat.statistics.lowest import lowest_rows

ALL = "all queries"
_MOST = 500  # items that are listed individually
# In the order in which a query passes them. Stages that the data cannot separate are one: `not_listed`.
NOT_IN_CORPUS, NOT_RUN, MISROUTED, NOT_RETRIEVED, NOT_LISTED = (
    "not_in_corpus",
    "not_run",
    "misrouted",
    "not_retrieved",
    "not_listed",
)
CUT_EARLY, DEMOTED, CUT, OVER_BUDGET = "cut_early", "demoted", "cut", "over_budget"
# Filter option of a view → its stage, in the order in which they act.
FILTERS = {"top_k": "over_top_k", "min_score": "low_score", "no_future": "too_new"}
_OFF = {"top_k": None, "min_score": None, "no_future": False}
STAGES = (
    NOT_IN_CORPUS,
    NOT_RUN,
    MISROUTED,
    NOT_RETRIEVED,
    NOT_LISTED,
    CUT_EARLY,
    DEMOTED,
    *FILTERS.values(),
    CUT,
    OVER_BUDGET,
)

if TYPE_CHECKING:
    from karat.data.corpus import Corpus
    from karat.results.result import Result
_FOUND = len(STAGES)


class Loss(msgspec.Struct, frozen=True):
    """The relevant items of some queries: `found` and the numbers of `lost` add up to `relevant`."""

    segment: str
    value: str
    queries: int
    relevant: int
    found: int  # in the top k
    lost: dict[str, int]  # stage → items, for the stages that the data can show
    no_room: int  # lost items that no order could have saved: more relevant items than k


class LostItem(msgspec.Struct, frozen=True):
    """One relevant item that is not in the top k."""

    query_id: str
    item: str
    grade: float
    stage: str
    raw_place: int | None  # null: no raw list; 0: not in it
    place: int  # in the final list, before any filter; 0: not in it


class Losses(msgspec.Struct, frozen=True):
    """Where relevant items were lost."""

    k: int
    own_k: int  # queries with their own k
    stages: list[str]  # those that the data can show, in order
    rows: list[Loss]  # all queries, then the requested segments
    items: list[LostItem]  # those of the queries that lost most first
    left_out: int  # further items that are not in `items`
    has_corpus: bool  # without one, items missing from it go unnoticed
    has_raw: bool  # without raw lists, retriever and reranker cannot be separated
    budget: int | None = None  # of tokens, instead of k


class Waterfall(Analysis):
    """Separates corpus, routing, raw candidates, reranking, filters and cutoff, as far as the data allows."""

    name = "waterfall"
    title = "Where relevant items were lost"
    finds: ClassVar[type[msgspec.Struct]] = Losses

    def need(self, setup: Setup) -> Need:
        return Need(
            metrics=_budgets(setup.metrics),
            views={View(lists=RAW): [], **{view: [] for _, view in _filter_views(setup.own)}},
            facts=frozenset({"route", "error"}),
        )

    def find(self, side: Result) -> Losses:
        items = locate(side)
        if not len(items.rows):
            raise Lacking("items in `gold` (ids with a grade above 0)")
        told = [stage for stage in STAGES if stage in items.told]
        groups = [(ALL, ALL, np.arange(len(side.rows)))]
        groups += [(by, value, at) for by in side.segmented_by for value, at in side.groups(by)]
        detail, left_out = items.detail()
        return Losses(
            k=side.rules.k,
            own_k=int((side.gold.k[side.rows] > 0).sum()),
            stages=told,
            rows=[items.loss(segment, value, at, told) for segment, value, at in groups],
            items=detail,
            left_out=left_out,
            has_corpus=side.corpus is not None,
            has_raw=NOT_RETRIEVED in told,
            budget=_budget(side),
        )


class LocatedItems(msgspec.Struct, frozen=True):
    """Relevant items of a side, one entry per item."""

    side: Result
    rows: Ints  # in the gold set
    query: Ints  # place of its query among the side's
    stage: Ints  # number in STAGES; past the last: found
    raw: Ints  # place in the raw list; −1: no raw list
    place: Ints  # in the final list before any filter
    told: frozenset[str]  # stages that the data can show

    def loss(self, segment: str, value: str, queries: Ints, told: list[str]) -> Loss:
        inside = np.zeros(len(self.side.rows), np.bool_)
        inside[queries] = True
        inside = inside[self.query]
        counts = np.bincount(self.stage[inside], minlength=_FOUND + 1).tolist()
        lost = {stage: counts[STAGES.index(stage)] for stage in told}
        relevant = np.bincount(self.query[inside], minlength=len(self.side.rows))
        no_room = np.maximum(relevant - cutoffs(self.side.gold, self.side.rows, self.side.rules), 0)
        without = 0 if _budget(self.side) else int(no_room.sum())  # unknown for a budget
        return Loss(segment, value, len(queries), sum(counts), counts[_FOUND], lost, without)

    def detail(self) -> tuple[list[LostItem], int]:
        """The lost items of the queries that found the smallest share, and the number of further ones."""
        lost = np.flatnonzero(self.stage < _FOUND)
        found = np.bincount(self.query, self.stage == _FOUND, len(self.side.rows))
        share = found / np.maximum(np.bincount(self.query, minlength=len(self.side.rows)), 1)
        first = lowest_rows([share[self.query]], lost, _MOST)  # items are in the order of the gold set
        names = take_list(self.side.gold.items, self.rows[first])
        return list(map(self._item, first.tolist(), names)), len(lost) - len(first)

    def by_query(self, places: Sequence[int]) -> dict[str, dict[str, int]]:
        """Query → relevant items lost per stage, in the order of the stages, for the queries at these places."""
        wanted = np.zeros(len(self.side.rows), np.bool_)
        wanted[list(places)] = True
        rows = np.flatnonzero((self.stage < _FOUND) & wanted[self.query])
        found: dict[str, dict[str, int]] = {}
        for at in rows[np.lexsort((self.stage[rows], self.query[rows]))].tolist():
            lost = found.setdefault(self.side.queries[int(self.query[at])], {})
            stage = STAGES[int(self.stage[at])]
            lost[stage] = lost.get(stage, 0) + 1
        return found

    def counts(self) -> dict[str, Ints]:
        """Stage → relevant items that it lost, for each query; only stages that lost some."""
        size = len(self.side.rows)
        found = {name: np.bincount(self.query[self.stage == at], minlength=size) for at, name in enumerate(STAGES)}
        return {name: counts for name, counts in found.items() if counts.any()}

    def _item(self, i: int, name: str) -> LostItem:
        gold, row = self.side.gold, int(self.rows[i])
        return LostItem(
            query_id=self.side.queries[int(self.query[i])],
            item=name,
            grade=float(gold.grades[row]),
            stage=STAGES[int(self.stage[i])],
            raw_place=None if self.raw[i] < 0 else int(self.raw[i]),
            place=int(self.place[i]),
        )


def locate(side: Result) -> LocatedItems:
    """The stage of every relevant item: the first reason that holds."""
    gold = side.gold
    if len(side.rows) == len(gold.queries):
        rows = np.flatnonzero(gold.grades > 0)
        query = gold.query_of_item[rows]
    else:
        place_of_row = np.full(len(gold.queries), -1)
        place_of_row[side.rows] = np.arange(len(side.rows))
        rows = np.flatnonzero((gold.grades > 0) & (place_of_row[gold.query_of_item] >= 0))
        query = place_of_row[gold.query_of_item[rows]]
    raw = _raw_places(side)[rows]
    steps = _filter_steps(side)
    reasons = _reasons(side, rows, query, raw, steps)
    stages: Ints = np.select([holds for _, holds in reasons], [STAGES.index(name) for name, _ in reasons], _FOUND)
    told = {name for name, _ in reasons}
    told -= set() if (raw >= 0).any() else {NOT_RETRIEVED, DEMOTED, CUT_EARLY}
    told -= set() if (raw < 0).any() else {NOT_LISTED}
    return LocatedItems(side, rows, query, stages, raw, steps[0][1].places[rows], frozenset(told))


def _reasons(
    side: Result, rows: Ints, query: Ints, raw: Ints, steps: list[tuple[str, Result]]
) -> list[tuple[str, Bools]]:
    """Stage → which items it lost, most certain first. Every item that was not found has a stage."""
    k = _limits(side)[query]
    final = side.places[rows]
    place = final if steps[0][1] is side else steps[0][1].places[rows]
    lost = (final == 0) | (final > k)
    unlisted = (place == 0) & (raw <= 0)
    ran, misrouted = _ran(side), _misrouted(side, rows, query)
    reasons: list[tuple[str, Bools]] = []
    if side.corpus is not None:
        reasons.append((NOT_IN_CORPUS, _not_in(side.corpus, side.gold, rows, unlisted, DocRule(side.rules.doc_of))))
    if not ran.all():
        reasons.append((NOT_RUN, ~ran[query]))
    for (_, before), (stage, after) in pairwise(steps):
        gone = (before.places[rows] > 0) & (after.places[rows] == 0)
        reasons.append((stage, (place > 0) & (place <= k) & gone))
    cut = OVER_BUDGET if _budget(side) else CUT
    if (raw >= 0).any():
        reach = np.minimum(k, steps[0][1].depths[query])  # places in the final list within the top k
        reasons.append((DEMOTED, (raw > 0) & (raw <= reach)))
    reasons += [(cut, place > 0), (CUT_EARLY, raw > 0)]
    if misrouted is not None:
        reasons.append((MISROUTED, misrouted))
    reasons += [(NOT_RETRIEVED, raw == 0), (NOT_LISTED, raw < 0)]
    return [(stage, lost & holds) for stage, holds in reasons]


def _budget(side: Result) -> int | None:
    """The token budget used instead of k, if any."""
    return next((m.budget for m in side.columns.metrics if isinstance(m, Returned) and m.budget is not None), None)


def _budgets(metrics: list[Metric]) -> list[Returned]:
    """The smallest budget, used instead of k if all requested metrics have token budgets."""
    asked = [m for m in metrics if isinstance(m, Relevance) and m.cutoff != "none"]
    budgets = [m.budget for m in asked if m.budget is not None]
    return [Returned(budget=min(budgets))] if budgets and len(budgets) == len(asked) else []


def _limits(side: Result) -> Ints:
    """How many hits of each query count: as many as fit into the budget if that is known, else k."""
    limits, budget = cutoffs(side.gold, side.rows, side.rules), _budget(side)
    if budget is None:
        return limits
    fitting = side.values[str(Returned(budget=budget))]
    return np.where(np.isnan(fitting), limits, fitting).astype(np.int64)


def _filter_views(own: View) -> list[tuple[str, View]]:
    """The final lists without filters, then with the filters added one by one, up to the run's own view."""
    active = [(name, stage) for name, stage in FILTERS.items() if getattr(own, name) != _OFF[name]]
    view = own.but(**{name: _OFF[name] for name, _ in active})
    steps = [("", view)]
    for name, stage in active:
        view = view.but(**{name: getattr(own, name)})
        steps.append((stage, view))
    return steps


def _filter_steps(side: Result) -> list[tuple[str, Result]]:
    steps = _filter_views(side.view)
    return [(stage, side if view == side.view else side.measure((), view)) for stage, view in steps]


def _raw_places(side: Result) -> Ints:
    """The place of every gold item in the raw list of its query; −1: no raw list."""
    places = np.full(len(side.gold.grades), -1)
    try:
        raw = side.measure((), View(lists=RAW))
    except Lacking:
        return places
    items = side.gold.items_of(raw.rows)
    places[items] = raw.places[items]
    return places


def _ran(side: Result) -> Bools:
    """Which queries the system answered: not missing, and not an error without hits."""
    ran = with_lists(side)
    if side.has_fact("error"):
        errors = side.facts("error")
        ran = ran & ~(np.fromiter(map(bool, errors), np.bool_, len(errors)) & (side.depths == 0))
    return ran


def _not_in(corpus: Corpus, gold: Gold, rows: Ints, asked: Bools, doc_rule: DocRule) -> Bools:
    """Which of the given items are not in the corpus."""
    missing = np.zeros(len(rows), np.bool_)
    documents: set[str] | None = None
    held = None if gold.located is None or gold.located.known != "corpus" else set(gold.located.items.tolist())
    for at in np.flatnonzero(asked).tolist():
        item, kind = gold.ids[rows[at]], gold.kinds[rows[at]]
        if held is not None and gold.located is not None and gold.located.settled[rows[at]]:
            missing[at] = rows[at] not in held  # a passage that no chunk of the corpus contains
            continue
        if kind != DOC and item in corpus.index:
            continue
        if documents is None:
            documents = {doc_rule.doc(chunk) for chunk in corpus.ids}
            documents.update(str(doc) for doc in corpus.fields.get("doc_id", ()) if doc is not None)
        missing[at] = kind == CHUNK or item not in documents
    return missing


def _misrouted(side: Result, rows: Ints, query: Ints) -> Bools | None:
    """Which items are in a source that was not searched. The source is from the corpus, else from the gold.

    None if no query has both a route and an expected source.
    """
    if not side.has_fact("route"):
        return None
    routes, needed = side.facts("route"), expected_sources(side.gold, side.rows)
    if len(routes) in (routes.count(None), needed.count(None)):
        return None
    asked = list(map(sources_of, routes))
    if not any(a is not None and n is not None for a, n in zip(asked, needed, strict=True)):
        return None
    own: Any = None if side.corpus is None else side.corpus.column("source")
    index = {} if side.corpus is None or own is None else side.corpus.index
    wrong = np.zeros(len(rows), np.bool_)
    for at, (row, of) in enumerate(zip(rows.tolist(), query.tolist(), strict=True)):
        route, sources = asked[of], needed[of]
        found = index.get(side.gold.ids[row])
        if found is not None and own[found] is not None:
            sources = frozenset({str(own[found])})
        wrong[at] = route is not None and sources is not None and not sources <= route
    return wrong
