"""Were the right entities recognised in the query."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from karat.data.entities import Links, link
from karat.data.ids import Floats
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric


def links_of(judged: Judged) -> list[Links | None]:
    """The links of each query on both sides; None where the gold or the run does not speak of entities."""
    found: list[Links | None] | None = judged.__dict__.get("_links")
    if found is None:
        found = judged.__dict__["_links"] = [_links(judged, at) for at in range(judged.n)]
    return found


def _links(judged: Judged, at: int) -> Links | None:
    gold = judged.gold.fields.get("entities")
    wanted = None if gold is None else gold[int(judged.queries[at])]
    logged = None if judged.hits is None else judged.hits.fields.get("entities")
    # A query that the run lacks has failed, and so linked nothing.
    said = (None if logged is None else logged[at]) if judged.present[at] else []
    return None if wanted is None or said is None else link(wanted, said)


class EntityF1(Metric, frozen=True, kw_only=True):
    """Harmonic mean of entity precision and recall of the query: 2 × right / (linked + wanted).

    A link is right when gold and run name the same entity at the same place: `start` and `end` where every link of
    both sides has them, else the `mention`, else the entity alone. Repeats count once. `NIL` (or null: a mention that
    the knowledge base does not have) is kept apart: `of=nil` counts those and nothing else. `average=micro` counts
    every link once instead of every query. Undefined where gold or run say nothing of entities, and where neither
    has one.

    >>> import karat
    >>> run = [{"query_id": "q", "topk": ["a"], "entities": ["visa", "paypal", "NIL"]}]
    >>> gold = [{"query_id": "q", "gold": ["a"], "entities": ["visa", "stripe", "klarna"]}]
    >>> karat.evaluate(run, gold, ["entity_precision", "entity_f1", "entity_f1(of=nil)"]).means
    {'entity_precision': 0.5, 'entity_f1': 0.4, 'entity_f1(of=nil)': 0.0}
    """

    name = "entity_f1"
    aliases = {"el_f1": "entity_f1", "entity_linking_f1": "entity_f1"}
    needs = frozenset({"entities"})
    divides: ClassVar[tuple[str, ...]] = ("gold", "run")  # the sides whose links the right ones are divided by

    average: Literal["macro", "micro"] = "macro"
    of: Literal["linked", "nil"] = "linked"

    def lacks(self, judged: Judged) -> str | None:
        if judged.gold.fields.get("entities") is None:
            return "the gold set has no entities"
        return None if judged.hits is None or "entities" in judged.hits.fields else "the run has no entities"

    def score(self, judged: Judged) -> Floats:
        right, links = self._counts(judged)
        with np.errstate(divide="ignore", invalid="ignore"):
            return len(self.divides) * right / links

    def votes(self, judged: Judged) -> Floats | None:
        return self._counts(judged)[1] if self.average == "micro" else None

    def _counts(self, judged: Judged) -> tuple[Floats, Floats]:
        """Of each query: right links, and all links of the sides that are divided by."""
        right, links = np.zeros(judged.n), np.zeros(judged.n)
        for at, both in enumerate(links_of(judged)):
            if both is not None:
                counted = both.only(nil=self.of == "nil")
                right[at] = counted.right.total()
                links[at] = sum(getattr(counted, side).total() for side in self.divides)
        return right, links


class EntityPrecision(EntityF1, frozen=True, kw_only=True):
    """Share of the run's links that are right (see entity_f1); undefined where it linked nothing."""

    name = "entity_precision"
    aliases = {"el_precision": "entity_precision"}
    divides = ("run",)


class EntityRecall(EntityF1, frozen=True, kw_only=True):
    """Share of the gold's links that the run has (see entity_f1); undefined where there is nothing to link."""

    name = "entity_recall"
    aliases = {"el_recall": "entity_recall"}
    divides = ("gold",)
