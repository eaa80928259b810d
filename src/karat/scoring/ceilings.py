"""What a perfect and what a random ranking would score: from the gold alone, and only when somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np

from karat.data.gold import Gold
from karat.data.ids import Bools, Floats, Ints
from karat.scoring.judged import Judged, Rules, judge_none
from karat.scoring.metrics.base import Metric, Relevance

_QUERIES = 10_000  # at a time


def level_of(metric: Metric) -> str:
    """Whether it asks for the right chunks or for the right documents."""
    return metric.level if isinstance(metric, Relevance) else "chunk"


class GoldLevel:
    """The gold of one level, and of which queries hits were matched by document or by passage."""

    def __init__(self, gold: Gold) -> None:
        self.gold = gold
        self.by_document: Bools | None = None

    def note(self, queries: Ints, by_document: Bools) -> None:
        if self.by_document is None:
            self.by_document = np.zeros(len(self.gold.queries), np.bool_)
        self.by_document[queries] = by_document


class Extremes:
    """Ceiling and floor of each metric, a value for each query. What fits into a budget, neither gold nor chance can
    say."""

    def __init__(
        self,
        metrics: Iterable[Metric],
        sides: Mapping[str, GoldLevel],
        rows: Ints,
        rules: Rules,
        corpus_size: int | None,
    ) -> None:
        self._metrics = {str(m): m for m in metrics}
        self._sides, self._rows, self._rules, self._corpus_size = sides, rows, rules, corpus_size or 1

    def ceiling(self, name: str) -> Floats:
        return self._ceilings[name]

    def floor(self, name: str) -> Floats:
        return self._floors[name]

    @cached_property
    def _ceilings(self) -> dict[str, Floats]:
        return self._each(lambda metric, judged: None if metric.budget else metric.ceiling(judged))

    @cached_property
    def _floors(self) -> dict[str, Floats]:
        return self._each(self._floor)

    def _floor(self, metric: Metric, judged: Judged) -> Floats | None:
        if metric.budget or level_of(metric) == "doc":  # how many chunks a document has, chance would have to know
            return None
        return metric.floor(judged, self._corpus_size)

    def _each(self, bound: Callable[[Metric, Judged], Floats | None]) -> dict[str, Floats]:
        """A bound of every metric; some queries at a time, for their gold is laid out anew."""
        found = {name: np.full(len(self._rows), np.nan) for name in self._metrics}
        for start in range(0, len(self._rows), _QUERIES):
            some = slice(start, start + _QUERIES)
            judged = {level: self._unanswered(side, self._rows[some]) for level, side in self._sides.items()}
            for name, metric in self._metrics.items():
                values = bound(metric, judged[level_of(metric)])
                if values is not None:
                    found[name][some] = values
        return found

    def _unanswered(self, side: GoldLevel, rows: Ints) -> Judged:
        matched = None if side.by_document is None else side.by_document[rows]
        return judge_none(side.gold, rows, matched, self._rules)


class LazyColumns(Mapping[str, Floats]):
    """Name → a value for each query, worked out when it is first asked for."""

    def __init__(self, names: Iterable[str], work_out: Callable[[str], Floats]) -> None:
        self._names, self._work_out = dict.fromkeys(names), work_out
        self._known: dict[str, Floats] = {}

    def __getitem__(self, name: str) -> Floats:
        if name not in self._names:
            raise KeyError(name)
        if name not in self._known:
            self._known[name] = self._work_out(name)
        return self._known[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
