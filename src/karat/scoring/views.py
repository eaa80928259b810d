"""A view is one way to look at a run's lists; a need is what one consumer requires from the pass over a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from karat.data.hits import SEARCHES, STEPS, step_lists
from karat.scoring.judged import Rules
from karat.scoring.metrics.base import Metric, Relevance

OWN = "topk"  # the final lists of a run
RAW, ORIGINAL, BM25 = "raw", "topk_original", "bm25"
# Lists of a query with several searches are `STEPS` (all of them) and `step_lists(1)`, `step_lists(2)` …. `SEARCHES` is
# the same as `STEPS`, but also has queries with one search.
__all__ = (
    "BM25",
    "ORIGINAL",
    "OWN",
    "RAW",
    "SEARCHES",
    "STEPS",
    "Level",
    "Need",
    "View",
    "level_of",
    "route_lists",
    "step_lists",
)

Level = Literal["chunk", "doc"]


def route_lists(source: str) -> str:
    """Name of the lists of a run that asked only one source."""
    return f"route {source}"


class View(msgspec.Struct, frozen=True):
    """Which lists, at which level, through which filters, with which labels."""

    lists: str = OWN
    level: Level = "chunk"
    min_score: float | None = None
    top_k: int | None = None
    no_future: bool = False
    labels: Literal["gold", "judge"] = "gold"

    @classmethod
    def own(cls, rules: Rules) -> View:
        """The final lists with the filters of the user."""
        return cls(min_score=rules.min_score, top_k=rules.top_k, no_future=rules.no_future)

    def but(self, **changes: object) -> View:
        return msgspec.structs.replace(self, **changes)

    def rules(self, rules: Rules) -> Rules:
        """The same rules with the filters of this view."""
        return rules.replace(min_score=self.min_score, top_k=self.top_k, no_future=self.no_future)

    def of(self, metric: Metric) -> View:
        """The view that a metric uses: by document if it scores documents, and other lists than the final ones if it
        scores those. Filters apply to final lists only."""
        view = self if metric.lists is None or self.lists != OWN else self.over(metric.lists)
        return view.but(level="doc") if level_of(metric) == "doc" else view

    def over(self, lists: str) -> View:
        """Other lists of the run, with all their hits."""
        return self.but(lists=lists, min_score=None, top_k=None)


def level_of(metric: Metric) -> Level:
    """Whether a metric scores chunks or documents."""
    return metric.level if isinstance(metric, Relevance) else "chunk"


class Need(msgspec.Struct, frozen=True):
    """What a consumer requires from the pass over a run. Needs are data, and are added up before the run is read."""

    metrics: Iterable[str | Metric] = ()  # of the run's own view
    views: Mapping[View, Iterable[str | Metric]] = msgspec.field(
        default_factory=dict
    )  # other views, with their metrics
    facts: frozenset[str] = frozenset()  # fields of each line of the run
    lists: int = 0  # hits of each query to show
    texts: bool = False  # with their texts
    every: bool = False  # hits to show also of runs with very many queries, without their texts
    open_hits: bool = False  # all hits without a grade
    returned: bool = False  # which gold items were returned for any query
    hashes: bool = False  # of ordered lists
    tops: int = 0  # first hits of each query, as short hashes, to compare the lists of two runs

    @classmethod
    def union(cls, needs: Iterable[Need]) -> Need:
        needs = list(needs)
        views: dict[View, list[str | Metric]] = {}
        for need in needs:
            for view, metrics in need.views.items():
                views.setdefault(view, []).extend(metrics)
        return cls(
            metrics=[metric for need in needs for metric in need.metrics],
            views=views,
            facts=frozenset().union(*(need.facts for need in needs)),
            lists=max((need.lists for need in needs), default=0),
            texts=any(need.texts for need in needs),
            every=any(need.every for need in needs),
            open_hits=any(need.open_hits for need in needs),
            returned=any(need.returned for need in needs),
            hashes=any(need.hashes for need in needs),
            tops=max((need.tops for need in needs), default=0),
        )
