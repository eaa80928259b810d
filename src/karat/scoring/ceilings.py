"""What a perfect and a random ranking would score on each query: functions of the gold alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.gold import DOC
from karat.data.ids import Bools, Floats, Ints
from karat.scoring.judged import Judged, Rules, cutoffs, judge_none
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.table import JudgedTable
from karat.scoring.views import Level, View, level_of
from karat.statistics.tally import Tallies, tally_kinds

if TYPE_CHECKING:
    from numpy.typing import NDArray

_QUERIES = 10_000  # queries at a time
_SMALL = 2_000_000  # gold items kept in memory between two metrics, at most
_FEW = 1_000  # queries up to which it does not pay to look for equal ones
_KINDS = 2**20  # kinds of queries that are told apart, at most


class Bounds(Protocol):
    """Metric → a value per query."""

    def __getitem__(self, name: str, /) -> Floats: ...
    def __contains__(self, name: object, /) -> bool: ...


class _Alike(msgspec.Struct, frozen=True):
    """Queries with the same grades and cutoff have the same ceiling."""

    judged: Judged  # one query of each kind
    which: Ints  # of these, for each query
    counts: Ints  # queries of each kind


class _QueryBounds:
    """Ceilings or floors by metric, computed on demand."""

    def __init__(
        self,
        tables: Mapping[View, JudgedTable],
        view: View,
        rows: Ints,
        rules: Rules,
        tallies: Tallies | None = None,  # what was counted; columns made here are added
    ) -> None:
        self._tallies: Tallies = {} if tallies is None else tallies
        self._tables = {level: tables[at] for level in ("chunk", "doc") if (at := view.but(level=level)) in tables}
        self._rows, self._rules = rows, rules
        self._known: dict[str, Floats] = {}
        self._laid_out: dict[Level, list[Judged]] = {}
        self._kinds: dict[Level, _Alike | None] = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and level_of(parse_metric(name)) in self._tables

    def __getitem__(self, name: str) -> Floats:
        if name not in self._known:
            metric = parse_metric(name)
            alike = self._alike(level_of(metric)) if self._by_grades(metric) else None
            if alike is None:
                pieces = [self._bound(metric, judged) for judged in self._judged(level_of(metric))]
                self._known[name] = np.concatenate([np.zeros(0), *pieces])
            else:
                bound = self._bound(metric, alike.judged)
                column = self._known[name] = bound[alike.which]
                self._tallies[id(column)] = column, tally_kinds(bound, alike.counts)
        return self._known[name]

    def _by_grades(self, metric: Metric) -> bool:
        """Whether the bound depends on nothing but the grades and the cutoff of a query."""
        return False

    def _alike(self, level: Level) -> _Alike | None:
        """One query of each kind; None if there may be too many kinds."""
        if level not in self._kinds:
            self._kinds[level] = _find_alike(self._tables[level], self._rows, self._rules)
        return self._kinds[level]

    def _bound(self, metric: Metric, judged: Judged) -> Floats:
        raise NotImplementedError

    def _judged(self, level: Level) -> list[Judged]:
        """The queries without their hits, some at a time."""
        found = self._laid_out.get(level)
        if found is None:
            found, table = [], self._tables[level]
            for start in range(0, len(self._rows), _QUERIES):
                rows = self._rows[start : start + _QUERIES]
                matched = None if table.by_document is None else table.by_document[rows]
                found.append(judge_none(table.gold, rows, matched, self._rules))
            if len(table.gold.grades) <= _SMALL:
                self._laid_out[level] = found
        return found


def _find_alike(table: JudgedTable, rows: Ints, rules: Rules) -> _Alike | None:
    gold = table.gold
    if gold.located is not None or len(rows) < _FEW:
        return None
    grades, level = gold.levels
    items, k = np.diff(gold.offsets), cutoffs(gold, rows, rules)
    # A number for each kind: how many items there are of each grade, then the cutoff, then the two marks.
    base, depths = int(items.max()) + 1, int(k.max() - k.min()) + 1
    if base ** len(grades) * depths * 4 > _KINDS:
        return None
    before = np.zeros(len(level) + 1, np.int64)
    np.cumsum((base ** np.arange(len(grades)))[level], out=before[1:])
    number = np.diff(before[gold.offsets])
    number = number if len(rows) == len(number) else number[rows]
    number *= 4 * depths
    if depths > 1:
        number += 4 * (k - k.min())
    if gold.no_answer.any():
        number += 2 * (gold.no_answer[rows] > 0)
    number += 0 if table.by_document is None else table.by_document[rows]
    one = np.full(int(number.max()) + 1, -1)
    one[number] = np.arange(len(rows))  # the last of each kind
    kinds = np.flatnonzero(one >= 0)
    some = rows[one[kinds]]
    one[kinds] = np.arange(len(kinds))
    matched = None if table.by_document is None else table.by_document[some]
    which = one[number]
    return _Alike(judge_none(gold, some, matched, rules), which, np.bincount(which))


def where_known(bound: Floats, otherwise: Floats | float) -> Floats:
    """A bound, or another value on queries where it is unknown (NaN); usually it is known on all."""
    unknown = np.isnan(bound)
    return np.where(unknown, otherwise, bound) if unknown.any() else bound


class Extremes(msgspec.Struct, frozen=True, eq=False):
    """The lowest and highest value that a metric can have on each query: the limits of its interval."""

    ceilings: Bounds
    k: Ints  # cutoff of each query for metrics without their own
    longest: int | None = None  # hits of the longest list: a system that returns three has no fourth place to fill
    rows: Ints | None = None  # only these queries

    def select(self, rows: Ints) -> Extremes:
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def of(self, metric: Metric) -> tuple[Floats, Floats]:
        count = len(self.k if self.rows is None else self.rows)
        low, high = (np.broadcast_to(end, count) for end in metric.range)
        if metric.counts_places and metric.budget is None:
            high = (
                self._here(self.k).astype(np.float64) if metric.k is None else np.broadcast_to(float(metric.k), count)
            )
            if self.longest and metric.within_list:
                high = np.minimum(high, float(self.longest))
        elif str(metric) in self.ceilings:
            best = self._here(self.ceilings[str(metric)])
            if metric.direction == "higher":
                high = where_known(best, high)
            else:
                low = where_known(best, low)
        return low, high

    def _here(self, column: NDArray[Any]) -> NDArray[Any]:
        return column if self.rows is None else column[self.rows]


class Ceilings(_QueryBounds):
    """What a perfect ranking of the gold scores. Unknown for token budgets: the gold has no token counts."""

    def _by_grades(self, metric: Metric) -> bool:
        return metric.by_grades and metric.budget is None

    def _bound(self, metric: Metric, judged: Judged) -> Floats:
        return np.full(judged.n, np.nan) if metric.budget else metric.ceiling(judged)


class Floors(_QueryBounds):
    """What a random ranking of the corpus scores on average."""

    def __init__(
        self, tables: Mapping[View, JudgedTable], view: View, rows: Ints, rules: Rules, corpus_size: int
    ) -> None:
        super().__init__(tables, view, rows, rules)
        self._corpus_size = corpus_size

    def _bound(self, metric: Metric, judged: Judged) -> Floats:
        if metric.budget:
            return np.full(judged.n, np.nan)
        return np.where(_countable(judged), metric.floor(judged, self._corpus_size), np.nan)


def _countable(judged: Judged) -> Bools:
    """Queries where it is known how many items of the corpus each gold item is."""
    gold = judged.gold
    if gold.in_corpus is not None:
        return np.ones(judged.n, np.bool_)
    # Without a corpus, an id counts as one item; the number of chunks of a document or a passage is unknown.
    by_name: Bools = gold.count_items(gold.kinds == DOC)[judged.queries] == 0
    return by_name if judged.by_document is None else by_name & ~judged.by_document
