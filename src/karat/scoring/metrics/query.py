"""Query understanding: which sources were asked, which entities were recognised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from karat.data.gold import Gold
from karat.data.ids import Floats, Ints
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Basis, Metric, share

if TYPE_CHECKING:
    from karat.data.entities import Links


def sources_of(value: Any) -> frozenset[str] | None:
    """The sources in a route or a gold set: one, several or none; None where not given."""
    if value is None:
        return None
    return frozenset(map(str, value)) if isinstance(value, list) else frozenset({str(value)})


def expected_sources(gold: Gold, queries: Ints) -> list[frozenset[str] | None]:
    """The sources that each query needs; in a table `source` is a normal column."""
    column = gold.fields.get("source") or gold.tags.get("source")
    return [None] * len(queries) if column is None else [sources_of(column[row]) for row in queries.tolist()]


class RouteAccuracy(Metric, frozen=True, kw_only=True):
    """1 if every source that the query needs was asked, else 0.

    Compares `route` in the run log with `source` in the gold set. Each is one name or a list of names, and names must
    match exactly. Asking more sources than needed is right too, unless `match=exact`. Undefined if the gold set or the
    log does not have the field.

    >>> import karat
    >>> run = [{"query_id": "a", "topk": [], "route": ["faq", "web"]}, {"query_id": "b", "topk": [], "route": "web"}]
    >>> gold = [{"query_id": q, "gold": ["x"], "source": "faq"} for q in "ab"]
    >>> karat.evaluate(run, gold, ["route_accuracy", "route_accuracy(match=exact)"]).means
    {'route_accuracy': 0.5, 'route_accuracy(match=exact)': 0.0}
    """

    name = "route_accuracy"
    rests_on: ClassVar[frozenset[Basis]] = frozenset()
    needs: ClassVar[frozenset[str]] = frozenset({"route"})
    aliases: ClassVar[dict[str, str]] = {"routing_accuracy": "route_accuracy", "router_coverage": "route_accuracy"}

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


def links_of(judged: Judged) -> list[Links | None]:
    """The links of each query on both sides; None where the gold or the run has no entities."""
    found: list[Links | None] | None = judged.__dict__.get("_links")
    if found is None:
        found = judged.__dict__["_links"] = [_links(judged, at) for at in range(judged.n)]
    return found


def _links(judged: Judged, at: int) -> Links | None:
    from karat.data.entities import link

    gold = judged.gold.fields.get("entities")
    wanted = None if gold is None else gold[int(judged.queries[at])]
    logged = None if judged.hits is None else judged.hits.fields.get("entities")
    # A query that the run lacks has failed, so it linked nothing.
    said = (None if logged is None else logged[at]) if judged.present[at] else []
    return None if wanted is None or said is None else link(wanted, said)


class EntityF1(Metric, frozen=True, kw_only=True):
    """Harmonic mean of entity precision and recall of the query: 2 × right / (linked + wanted).

    A link is right if gold set and run name the same entity at the same place. The place is `start` and `end` if every
    link of both sides has them, otherwise the `mention`; without either, the entity alone decides. Repeats count once.
    `NIL` (or null) is a mention that is not in the knowledge base; `of=nil` counts only those. `average=micro` counts
    every link once instead of every query. Undefined if gold set or run has no `entities`, and if both are empty.

    >>> import karat
    >>> run = [{"query_id": "q", "topk": ["a"], "entities": ["visa", "paypal", "NIL"]}]
    >>> gold = [{"query_id": "q", "gold": ["a"], "entities": ["visa", "stripe", "klarna"]}]
    >>> karat.evaluate(run, gold, ["entity_precision", "entity_f1", "entity_f1(of=nil)"]).means
    {'entity_precision': 0.5, 'entity_f1': 0.4, 'entity_f1(of=nil)': 0.0}
    """

    name = "entity_f1"
    rests_on: ClassVar[frozenset[Basis]] = frozenset()
    aliases: ClassVar[dict[str, str]] = {"el_f1": "entity_f1", "entity_linking_f1": "entity_f1"}
    needs: ClassVar[frozenset[str]] = frozenset({"entities"})
    divides: ClassVar[tuple[str, ...]] = ("gold", "run")  # the sides whose links the right ones are divided by

    average: Literal["macro", "micro"] = "macro"
    of: Literal["linked", "nil"] = "linked"

    def lacks(self, judged: Judged) -> str | None:
        if judged.gold.fields.get("entities") is None:
            return "the gold set has no entities"
        return None if judged.hits is None or "entities" in judged.hits.fields else "the run has no entities"

    def score(self, judged: Judged) -> Floats:
        right, links = self._counts(judged)
        return share(len(self.divides) * right, links)

    def votes(self, judged: Judged) -> Floats | None:
        return self._counts(judged)[1] if self.average == "micro" else None

    def _counts(self, judged: Judged) -> tuple[Floats, Floats]:
        """Right links of each query, and all links of the sides in the denominator."""
        right, links = np.zeros(judged.n), np.zeros(judged.n)
        for at, both in enumerate(links_of(judged)):
            if both is not None:
                counted = both.only(nil=self.of == "nil")
                right[at] = counted.right.total()
                links[at] = sum(getattr(counted, side).total() for side in self.divides)
        return right, links


class EntityPrecision(EntityF1, frozen=True, kw_only=True):
    """Share of the run's links that are right (see `entity_f1`); undefined if it linked nothing."""

    name = "entity_precision"
    aliases: ClassVar[dict[str, str]] = {"el_precision": "entity_precision"}
    divides: ClassVar[tuple[str, ...]] = ("run",)


class EntityRecall(EntityF1, frozen=True, kw_only=True):
    """Share of the gold set's links that the run has (see `entity_f1`); undefined if there is nothing to link."""

    name = "entity_recall"
    aliases: ClassVar[dict[str, str]] = {"el_recall": "entity_recall"}
    divides: ClassVar[tuple[str, ...]] = ("gold",)
