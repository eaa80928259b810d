"""Usage and cost of the queries, by stage and by model; one-off costs separately."""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, ClassVar

import msgspec

from karat.data.prices import Prices, Usage, unpriced
from karat.results.analyses.base import Analysis, Lacking, Setup
from karat.results.summary import SummaryRow
from karat.scoring.views import Need

if TYPE_CHECKING:
    from karat.results.result import Result

_METRICS = ("cost", "prompt_tokens", "completion_tokens")


class CostPart(msgspec.Struct, frozen=True):
    """The usage of one stage or one model over all queries."""

    name: str | None  # null: the log does not say
    queries: int
    calls: int
    prompt_tokens: int
    completion_tokens: int
    cost: float | None  # null if a part of it is unknown
    share: float | None  # of the whole cost


class OneOffLine(msgspec.Struct, frozen=True):
    """A cost that does not depend on queries."""

    name: str
    amount: float
    per: str | None


class Costs(msgspec.Struct, frozen=True):
    """Costs of the queries with logged usage. `total` and the cost per query cover those whose cost is known."""

    queries: int  # with logged usage
    currency: str | None  # null: there is no price table
    per_query: list[SummaryRow]  # cost, prompt and completion tokens
    total: float | None  # null without a price table
    stages: list[CostPart]
    models: list[CostPart]
    unpriced: list[str]  # why the cost of some queries is unknown
    one_off: list[OneOffLine]


class CostAnalysis(Analysis):
    """Prices the `usage` in the run log with the price table."""

    name = "cost"
    title = "Cost"
    finds: ClassVar[type[msgspec.Struct]] = Costs

    def need(self, setup: Setup) -> Need:
        return Need(metrics=_METRICS, facts=frozenset({"usage"}))

    def find(self, side: Result) -> Costs:
        if not side.has_fact("usage"):
            raise Lacking("`usage` in the run log")
        logged: list[list[Usage]] = [usage for usage in side.facts("usage") if usage is not None]
        if not logged:
            raise Lacking("`usage` in the run log")
        prices = side.rules.prices
        costs = side.values["cost"]
        return Costs(
            queries=len(logged),
            currency=None if prices is None else prices.currency,
            per_query=[row for name in _METRICS if (row := side.row(name)).n],
            total=None if prices is None else math.fsum(costs[costs == costs].tolist()),  # only NaN differs from itself
            stages=_parts(logged, "stage", prices),
            models=_parts(logged, "model", prices),
            unpriced=sorted({why for used in chain(*logged) if prices and (why := unpriced(used, prices))}),
            one_off=[OneOffLine(line.name, prices.one_off_amount(line), line.per) for line in prices.one_off]
            if prices
            else [],
        )


def _parts(logged: list[list[Usage]], by: str, prices: Prices | None) -> list[CostPart]:
    """Parts by cost, most expensive first; if costs are unknown, by tokens."""
    groups: dict[str | None, list[list[Usage]]] = {}
    for usage in logged:
        for name in dict.fromkeys(getattr(used, by) for used in usage):
            groups.setdefault(name, []).append([used for used in usage if getattr(used, by) == name])
    parts = [_part(name, group, prices) for name, group in groups.items()]
    costs = [part.cost for part in parts]
    whole = 0.0 if None in costs else math.fsum(cost for cost in costs if cost is not None)
    if whole:
        parts = [msgspec.structs.replace(part, share=(part.cost or 0.0) / whole) for part in parts]
    return sorted(parts, key=lambda p: (-(p.cost or 0.0), -p.prompt_tokens - p.completion_tokens, p.name or ""))


def _part(name: str | None, group: list[list[Usage]], prices: Prices | None) -> CostPart:
    used = [one for usage in group for one in usage]
    return CostPart(
        name=name,
        queries=len(group),
        calls=sum(one.calls for one in used),
        prompt_tokens=sum(one.prompt_tokens or 0 for one in used),
        completion_tokens=sum(one.completion_tokens or 0 for one in used),
        cost=None if prices is None else prices.total(used),
        share=None,
    )
