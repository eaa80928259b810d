"""How long answers take."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from karat.data.ids import Floats
from karat.errors import shorten
from karat.results.diagnosis import thresholds as at
from karat.results.diagnosis.evidence import Evidence
from karat.results.diagnosis.rule import Proof, RuleTable
from karat.results.numbers import ms_of, share_of

TABLE: RuleTable[Evidence] = RuleTable()
rule = TABLE.rule


@rule(
    "slow",
    "Answers take long{where}.",
    "look into the stage that takes most: fewer candidates (`k_raw`), a smaller model, batches",
    "cache frequent queries",
)
def slow(e: Evidence) -> Iterator[Proof]:
    """The median time is above 110 ms (60 ms to retrieve and 50 ms to rerank); names the stage that takes more than
    half of it."""
    total = e.column("latency_p50")
    median = e.quantile("latency_p50", total, 0.5)
    sure = median.above(at.SLOW_MS)
    if not sure:
        return
    said, numbers, where = f"Half of the queries take longer than {ms_of(median)}.", [median.number], ""
    stages = _stages(e)
    for name, times in stages.items():
        part = e.estimate(f"share of the time in {name}", times / total)
        more = e.estimate("stage − all others", times - (total - times), (-np.inf, np.inf))
        if len(stages) > 1 and more.above(0):
            said += f" On average {share_of(part)} of a query's time goes into {name}."
            numbers.append(part.number)
            where = f", and most of the time goes into {shorten(name, 40)}"
    first = () if len(stages) > 1 else ("log the time of each stage: it tells where to look",)
    yield Proof(sure, said, numbers, about={"where": where}, first_try=first)


@rule(
    "slow_tail",
    "One query in ten takes far longer than the usual one.",
    "look at the slowest queries: long texts, many candidates, cold caches, waiting for another service",
    "set a time limit after which the order of the first stage is used",
)
def slow_tail(e: Evidence) -> Iterator[Proof]:
    """The 90th percentile is more than three times the median, and above 110 ms."""
    total = e.column("latency_p90")
    usual, tail = e.quantile("latency_p50", total, 0.5), e.quantile("latency_p90", total, 0.9)
    if sure := min(tail.above(at.SLOW_MS), tail.above(at.LONG_TAIL * usual.limits[1])):
        said = f"Half of the queries take up to {ms_of(usual)}, one in ten {ms_of(tail)} or more."
        yield Proof(sure, said, [usual.number, tail.number])


def _stages(e: Evidence) -> dict[str, Floats]:
    prefix = "latency(stage="
    found = {name[len(prefix) : -1]: values for name, values in e.values.items() if name.startswith(prefix)}
    return {name: values for name, values in found.items() if name != "total"}
