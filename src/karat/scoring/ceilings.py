"""What a perfect and a random ranking would score on each query: functions of the gold alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from karat.data.gold import DOC
from karat.data.ids import Bools, Floats, Ints
from karat.scoring.judged import Judged, Rules, judge_none
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.table import JudgedTable
from karat.scoring.views import Level, View, level_of

_QUERIES = 10_000  # queries at a time
_SMALL = 2_000_000  # gold items kept in memory between two metrics, at most


class Bounds(Protocol):
    """Metric → a value per query."""

    def __getitem__(self, name: str, /) -> Floats: ...
    def __contains__(self, name: object, /) -> bool: ...


class _QueryBounds:
    """Ceilings or floors by metric, computed on demand."""

    def __init__(self, tables: Mapping[View, JudgedTable], view: View, rows: Ints, rules: Rules) -> None:
        self._tables = {level: tables[at] for level in ("chunk", "doc") if (at := view.but(level=level)) in tables}
        self._rows, self._rules = rows, rules
        self._known: dict[str, Floats] = {}
        self._laid_out: dict[Level, list[Judged]] = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and level_of(parse_metric(name)) in self._tables

    def __getitem__(self, name: str) -> Floats:
        if name not in self._known:
            metric = parse_metric(name)
            pieces = [self._bound(metric, judged) for judged in self._judged(level_of(metric))]
            self._known[name] = np.concatenate([np.zeros(0), *pieces])
        return self._known[name]

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


class Extremes(msgspec.Struct, frozen=True, eq=False):
    """The lowest and highest value that a metric can have on each query: the limits of its interval."""

    ceilings: Bounds
    k: Ints  # cutoff of each query for metrics without their own
    rows: Ints | None = None  # only these queries

    def select(self, rows: Ints) -> Extremes:
        return replace(self, rows=rows if self.rows is None else self.rows[rows])

    def of(self, metric: Metric) -> tuple[Floats, Floats]:
        low, high = (np.broadcast_to(end, len(self.k)) for end in metric.range)
        if metric.counts_places and metric.budget is None:
            high = self.k.astype(np.float64) if metric.k is None else np.broadcast_to(float(metric.k), len(self.k))
        elif str(metric) in self.ceilings:
            best = self.ceilings[str(metric)]
            if metric.direction == "higher":
                high = np.where(np.isnan(best), high, best)
            else:
                low = np.where(np.isnan(best), low, best)
        return (low, high) if self.rows is None else (low[self.rows], high[self.rows])


class Ceilings(_QueryBounds):
    """What a perfect ranking of the gold scores. Unknown for token budgets: the gold has no token counts."""

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
