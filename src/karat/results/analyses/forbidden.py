"""Forbidden hits: what queries got and must not get."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import msgspec

from karat.data.gold import FORBIDDEN
from karat.results.analyses.base import Analysis, NotAsked, Setup
from karat.results.summary import SummaryRow
from karat.scoring.metrics.forbidden import LEAKS, Leak
from karat.scoring.views import Need
from karat.statistics.special import beta_quantile

if TYPE_CHECKING:
    from karat.results.result import Result

_EXAMPLES = 5


class LeakyQuery(msgspec.Struct, frozen=True):
    """A query with forbidden hits."""

    query: str
    hits: list[str]


class Leaks(msgspec.Struct, frozen=True):
    """How many queries and hits are forbidden ones."""

    k: int
    rules: list[str]
    queries: SummaryRow  # forbidden@k: share of the queries with a forbidden hit
    hits: SummaryRow  # forbidden_hits@k: share of the hits
    leaked: int  # queries with a forbidden hit
    most: float | None  # at most this share of all queries leaks, at the level of the intervals
    level: float
    unchecked: int  # hits in the top k that some rule could not check: a field is missing, or cannot be compared
    examples: list[LeakyQuery]


class ForbiddenAnalysis(Analysis):
    """Counts forbidden hits in the top k."""

    name = "forbidden"
    title = "Forbidden hits"
    finds: ClassVar[type[msgspec.Struct]] = Leaks

    def need(self, setup: Setup) -> Need:
        if not setup.rules.forbid and not any(setup.gold.fields.get(FORBIDDEN, ())):
            raise NotAsked
        return Need(metrics=_metrics(setup.rules.k), facts=frozenset({LEAKS}))

    def find(self, side: Result) -> Leaks:
        k, facts = (
            side.rules.k,
            [(query, Leak(*leak)) for query, leak in zip(side.queries, side.facts(LEAKS), strict=True) if leak],
        )
        found = [LeakyQuery(query, leak.ids) for query, leak in facts if leak.ids]
        queries, hits = map(side.row, _metrics(k))
        unchecked = sum(leak.unchecked for _, leak in facts)
        return Leaks(
            k=k,
            rules=list(side.rules.forbid),
            queries=queries,
            hits=hits,
            leaked=len(found),
            most=upper_bound(len(found), queries.n, side.sampling.level)
            if side.columns.clusters is None
            else queries.high,
            level=side.sampling.level,
            unchecked=unchecked,
            examples=sorted(found, key=lambda one: (-len(one.hits), one.query))[:_EXAMPLES],
        )


def upper_bound(count: int, n: int, level: float) -> float | None:
    """The exact one-sided bound of a share (Clopper–Pearson). With no case among n it is about 3/n at 95 %.

    >>> round(upper_bound(0, 300, 0.95), 5), round(upper_bound(1, 300, 0.95), 5)
    (0.00994, 0.01571)
    """
    return None if n == 0 else 1.0 if count >= n else beta_quantile(level, count + 1, n - count)


def _metrics(k: int) -> list[str]:
    return [f"forbidden@{k}", f"forbidden_hits@{k}"]
