"""What a perfect and what a random ranking would score on each query: functions of the gold alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged, Rules, judge_none
from karat.scoring.metrics.base import Metric
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.table import JudgedTable
from karat.scoring.views import Level, View, level_of

_QUERIES = 10_000  # at a time
_SMALL = 2_000_000  # gold items that may stay laid out between two metrics


class Bounds(Protocol):
    """Metric → a value per query."""

    def __getitem__(self, name: str, /) -> Floats: ...
    def __contains__(self, name: object, /) -> bool: ...


class _QueryBounds:
    """Ceilings or floors by metric, computed when a metric is asked for."""

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
        """The queries without any of their hits, some at a time."""
        found = self._laid_out.get(level)
        if found is None:
            table = self._tables[level]
            starts = range(0, len(self._rows), _QUERIES)
            found = [self._unanswered(table, self._rows[start : start + _QUERIES]) for start in starts]
            if len(table.gold.grades) <= _SMALL:
                self._laid_out[level] = found
        return found

    def _unanswered(self, table: JudgedTable, rows: Ints) -> Judged:
        matched = None if table.by_document is None else table.by_document[rows]
        return judge_none(table.gold, rows, matched, self._rules)


class Ceilings(_QueryBounds):
    """What a perfect ranking of the gold scores. The gold does not tell what fits into a token budget."""

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
        # How many chunks a document has is not known.
        if metric.budget or level_of(metric) == "doc":
            return np.full(judged.n, np.nan)
        return metric.floor(judged, self._corpus_size)
