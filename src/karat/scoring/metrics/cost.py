"""What a query used, and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from karat.data.ids import Floats
from karat.data.prices import Usage, unpriced
from karat.errors import did_you_mean
from karat.scoring.judged import Judged, Rules
from karat.scoring.metrics.base import Metric


def _logged(judged: Judged) -> list[Sequence[Usage] | None]:
    """The usage of each query, None where nothing is said."""
    fields: dict[str, Any] = {} if judged.hits is None else judged.hits.fields
    return fields.get("usage") or [None] * judged.n


class _Used(Metric, frozen=True, kw_only=True):
    """A number out of the `usage` of a query."""

    direction = "lower"
    range = (0.0, float("inf"))
    needs = frozenset({"usage"})

    stage: str | None = None

    def lacks(self, judged: Judged) -> str | None:
        logged = [used for usage in _logged(judged) for used in usage or ()]
        if not logged:
            return "the run has no usage"
        stages = {used.stage for used in logged if used.stage}
        if self.stage is None or self.stage in stages:
            return None
        return f"no such stage; {did_you_mean(self.stage, sorted(stages))}"

    def total(self, judged: Judged, add: Callable[[Sequence[Usage]], float | None]) -> Floats:
        """One sum a query over all stages, or over one; NaN where nothing is said, or `add` cannot tell."""
        values = np.full(judged.n, np.nan)
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
        return self.total(judged, lambda usage: _sum([used.prompt_tokens for used in usage]))


class CompletionTokens(PromptTokens, frozen=True, kw_only=True):
    """Tokens that the models wrote for a query, in all stages or in one with `stage=…`."""

    name = "completion_tokens"
    aliases = {"output_tokens": "completion_tokens"}

    def score(self, judged: Judged) -> Floats:
        return self.total(judged, lambda usage: _sum([used.completion_tokens for used in usage]))


def _sum(tokens: list[int | None]) -> float | None:
    """None where there are entries and none of them says it."""
    said = [count for count in tokens if count is not None]
    return float(sum(said)) if said or not tokens else None
