"""Was the right source asked."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from karat.data.gold import Gold
from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric


def sources_of(value: Any) -> frozenset[str] | None:
    """The sources that a route or a gold set names: one, several or none; None where nothing is said."""
    if value is None:
        return None
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset({str(value)})


def expected_sources(gold: Gold, queries: Ints) -> list[frozenset[str] | None]:
    """What each of these queries must ask; in a table `source` is a column like any other."""
    column = gold.fields.get("source") or gold.tags.get("source")
    return [None if column is None else sources_of(column[row]) for row in queries.tolist()]


class RouteAccuracy(Metric, frozen=True, kw_only=True):
    """1 where every source that the query needs was asked, else 0.

    `route` in the run log against `source` in the gold set, each one name or a list of names; names are compared
    letter by letter. Asking more sources than needed is right too, unless `match=exact`. Undefined where the gold set
    or the log does not say it.

    >>> import karat
    >>> run = [{"query_id": "a", "topk": [], "route": ["faq", "web"]}, {"query_id": "b", "topk": [], "route": "web"}]
    >>> gold = [{"query_id": q, "gold": ["x"], "source": "faq"} for q in "ab"]
    >>> karat.evaluate(run, gold, ["route_accuracy", "route_accuracy(match=exact)"]).means
    {'route_accuracy': 0.5, 'route_accuracy(match=exact)': 0.0}
    """

    name = "route_accuracy"
    needs = frozenset({"route"})
    aliases = {"routing_accuracy": "route_accuracy", "router_coverage": "route_accuracy"}

    match: Literal["covers", "exact"] = "covers"

    def lacks(self, judged: Judged) -> str | None:
        if "source" not in (*judged.gold.fields, *judged.gold.tags):
            return "the gold set has no source"
        return None if judged.hits is not None and "route" in judged.hits.fields else "the run has no route"

    def score(self, judged: Judged) -> Floats:
        values = np.full(judged.n, np.nan)
        routes = {} if judged.hits is None else judged.hits.fields
        if "route" not in routes:
            return values
        pairs = zip(expected_sources(judged.gold, judged.queries), map(sources_of, routes["route"]), strict=True)
        for at, (needed, asked) in enumerate(pairs):
            if needed is not None and asked is not None:
                values[at] = needed == asked if self.match == "exact" else needed <= asked
        return values
