"""How long did it take."""

from __future__ import annotations

import numpy as np

from karat.data.ids import Floats
from karat.errors import did_you_mean
from karat.scoring.judged import Judged
from karat.scoring.metrics.base import Metric


class Latency(Metric, frozen=True, kw_only=True):
    """Mean milliseconds a query took: all stages together, or one with `stage=…`.

    Undefined for a query whose time was not logged; `total` in the log wins over the sum of the stages.

    >>> import karat
    >>> run = [{"query_id": "q", "topk": ["a"], "latency_ms": {"retrieve": 30, "rerank": 12}}]
    >>> karat.evaluate(run, {"q": ["a"]}, ["latency", "latency(stage=rerank)"]).means
    {'latency': 42.0, 'latency(stage=rerank)': 12.0}
    """

    name = "latency"
    direction = "lower"
    range = (0.0, float("inf"))
    needs = frozenset({"latency"})
    aliases = {"latency_mean": "latency", "latency_ms": "latency"}
    unit = "ms"

    stage: str | None = None

    def lacks(self, judged: Judged) -> str | None:
        stages = {} if judged.hits is None else judged.hits.latency
        if not stages:
            return "the run has no latency_ms"
        if self.stage is None or self.stage in stages:
            return None
        return f"no such stage; {did_you_mean(self.stage, sorted(stages))}"

    def score(self, judged: Judged) -> Floats:
        if judged.hits is None or not judged.hits.latency:
            return np.full(judged.n, np.nan)
        stages = dict(judged.hits.latency)
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
