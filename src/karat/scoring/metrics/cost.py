"""What a query used, what that costs, and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from karat.data.ids import Floats
from karat.data.prices import Usage, unpriced
from karat.scoring.judged import Judged, Rules
from karat.scoring.metrics.base import Metric, unknown_stage


def _logged(judged: Judged) -> list[Sequence[Usage] | None]:
    """The usage of each query, None where nothing is said."""
    fields: dict[str, Any] = {} if judged.hits is None else judged.hits.fields
    return fields.get("usage") or [None] * judged.n


class _Used(Metric, frozen=True, kw_only=True):
    """A number out of the `usage` of a query."""

    direction = "lower"
    range = (0.0, float("inf"))
    needs = frozenset({"usage"})
    rests_on = frozenset()

    stage: str | None = None

    def lacks(self, judged: Judged) -> str | None:
        if judged.hits is None or "usage" not in judged.hits.fields:
            return "the run has no usage"
        logged = [used for usage in _logged(judged) for used in usage or ()]
        if not logged:
            return "the run has no usage"
        return unknown_stage(self.stage, {used.stage for used in logged if used.stage})

    def total(self, judged: Judged, add: Callable[[Sequence[Usage]], float | None]) -> Floats:
        """One sum a query over all stages, or over one; NaN where nothing is said, or `add` cannot tell."""
        values = np.full(judged.n, np.nan)
        if judged.hits is None or "usage" not in judged.hits.fields:
            return values
        for at, usage in enumerate(_logged(judged)):
            picked = usage if self.stage is None else [used for used in usage or () if used.stage == self.stage]
            if picked is None or (self.stage is not None and not picked):
                continue
            found = add(picked)
            values[at] = np.nan if found is None else found
        return values


class Cost(_Used, frozen=True, kw_only=True):
    """What a query costs by the price table (`--prices`): all stages together, or one with `stage=…`.

    In the currency of the table. Undefined where the log says nothing of `usage`, where a model has no price, and where
    tokens have a price and were not logged: an unknown cost is not a cost of 0. The cost of a stage is that of the
    queries which used it, and undefined for the others. One-off costs are never part of it.

    >>> import karat
    >>> embedded = {"stage": "embed", "model": "small", "prompt_tokens": 20}
    >>> reranked = {"stage": "rerank", "model": "cross", "calls": 2}
    >>> prices = {"currency": "USD", "models": {"small": {"per_1m": 0.5}, "cross": {"per_call": 0.002}}}
    >>> run = [{"query_id": "q", "topk": ["a"], "usage": [embedded, reranked]}]
    >>> karat.evaluate(run, {"q": ["a"]}, ["cost", "cost(stage=rerank)"], prices=prices).means
    {'cost': 0.00401, 'cost(stage=rerank)': 0.004}
    """

    name = "cost"
    needs = frozenset({"usage", "prices"})
    aliases = {"cost_per_query": "cost"}
    unit = "currency"

    def unit_by(self, rules: Rules) -> str:
        return self.unit if rules.prices is None else rules.prices.currency

    def lacks(self, judged: Judged) -> str | None:
        reason = super().lacks(judged)
        if reason is not None or judged.prices is None:
            return reason or "no price table: --prices FILE"
        reasons = (unpriced(used, judged.prices) for usage in _logged(judged) for used in usage or ())
        return next((why for why in reasons if why), None)

    def score(self, judged: Judged) -> Floats:
        return np.full(judged.n, np.nan) if judged.prices is None else self.total(judged, judged.prices.total)


class PromptTokens(_Used, frozen=True, kw_only=True):
    """Tokens that went into the models for a query, in all stages or in one with `stage=…`.

    Undefined where the log says nothing of them.

    >>> import karat
    >>> rewritten = {"stage": "rewrite", "prompt_tokens": 60, "completion_tokens": 12}
    >>> run = [{"query_id": "q", "topk": ["a"], "usage": [rewritten, {"stage": "rerank", "prompt_tokens": 900}]}]
    >>> karat.evaluate(run, {"q": ["a"]}, ["prompt_tokens", "prompt_tokens(stage=rewrite)", "completion_tokens"]).means
    {'prompt_tokens': 960.0, 'prompt_tokens(stage=rewrite)': 60.0, 'completion_tokens': 12.0}
    """

    name = "prompt_tokens"
    aliases = {"input_tokens": "prompt_tokens"}
    unit = "tokens"

    def score(self, judged: Judged) -> Floats:
        return self.total(judged, lambda usage: _sum([getattr(used, self.name) for used in usage]))


class CompletionTokens(PromptTokens, frozen=True, kw_only=True):
    """Tokens that the models wrote for a query, in all stages or in one with `stage=…`."""

    name = "completion_tokens"
    aliases = {"output_tokens": "completion_tokens"}


def _sum(tokens: list[int | None]) -> float | None:
    """None where there are entries and none of them says it."""
    said = [count for count in tokens if count is not None]
    return float(sum(said)) if said or not tokens else None


class Latency(Metric, frozen=True, kw_only=True):
    """Mean milliseconds a query took: all stages together, or one with `stage=…`.

    Undefined for a query whose time was not logged; `total` in the log wins over the sum of the stages.

    >>> import karat
    >>> run = [{"query_id": "q", "topk": ["a"], "latency_ms": {"retrieve": 30, "rerank": 12}}]
    >>> karat.evaluate(run, {"q": ["a"]}, ["latency", "latency(stage=rerank)"]).means
    {'latency': 42.0, 'latency(stage=rerank)': 12.0}
    """

    name = "latency"
    rests_on = frozenset()
    direction = "lower"
    range = (0.0, float("inf"))
    needs = frozenset({"latency"})
    aliases = {"latency_mean": "latency", "latency_ms": "latency"}
    unit = "ms"

    stage: str | None = None

    def lacks(self, judged: Judged) -> str | None:
        stages = {} if judged.hits is None else judged.hits.latency
        return unknown_stage(self.stage, stages) if stages else "the run has no latency_ms"

    def score(self, judged: Judged) -> Floats:
        stages = {} if judged.hits is None else dict(judged.hits.latency)
        nothing = np.full(judged.n, np.nan)
        if self.stage is not None:
            return stages.get(self.stage, nothing)
        total = stages.pop("total", nothing)
        if not stages:
            return total
        # One after the other by name: the order in which stages were logged must not change the last digit.
        summed, logged = np.zeros(judged.n), np.zeros(judged.n, np.bool_)
        for name in sorted(stages):
            summed += np.nan_to_num(stages[name])
            logged |= ~np.isnan(stages[name])
        summed[~logged] = np.nan
        return np.where(np.isnan(total), summed, total)


class LatencyP50(Latency, frozen=True, kw_only=True):
    """Median milliseconds a query took (linear interpolation between order statistics)."""

    name = "latency_p50"
    aggregate = 0.5
    aliases = {"latency_median": "latency_p50"}


class LatencyP90(Latency, frozen=True, kw_only=True):
    """Milliseconds that 90 % of the queries stayed under."""

    name = "latency_p90"
    aggregate = 0.9
    aliases = {}


class LatencyP99(Latency, frozen=True, kw_only=True):
    """Milliseconds that 99 % of the queries stayed under."""

    name = "latency_p99"
    aggregate = 0.99
    aliases = {}
