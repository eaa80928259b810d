"""How sure can a set of queries be: what it can find, and how many queries a wanted difference needs."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.errors import ConfigError
from karat.results.power import PlanRow, plan
from karat.results.result import Result
from karat.statistics.sampling import Sampling

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
BEFORE, AFTER, GOLD = (str(DEMO / name) for name in ("bm25.jsonl", "bm25_rerank.jsonl", "gold.jsonl"))


def found(hits: list[bool], conversations: list[str] | None = None, **options: Any) -> Result:
    run = {f"q{i}": ["a" if hit else "x"] for i, hit in enumerate(hits)}
    gold: list[dict[str, Any]] = [{"query_id": q, "gold": ["a"]} for q in run]
    for entry, conversation in zip(gold, conversations or (), strict=False):
        entry["conversation_id"] = conversation
    return karat.evaluate(run, gold, options.pop("metrics", "recall@1"), **options)


def row(*sides: Result, **options: Any) -> PlanRow:
    return plan(*sides, **options).rows[0]


def effort(level: float, power: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2) + NormalDist().inv_cdf(power)


_hits = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=40)


@settings(max_examples=30)
@given(_hits, st.floats(0.001, 0.5), st.floats(0.5, 0.99), st.floats(-1, 0.95))
def test_figures_follow_the_formula(hits: list[tuple[bool, bool]], detect: float, power: float, alike: float) -> None:
    first, second = (found([pair[side] for pair in hits]) for side in (0, 1))
    deltas = [b - a for a, b in hits]
    for got, spread in (
        (row(first, second, detect=detect, power=power), np.std(deltas, ddof=1)),
        (
            row(first, detect=detect, power=power, correlation=alike),
            np.std([a for a, _ in hits], ddof=1) * math.sqrt(2 * (1 - alike)),
        ),
    ):
        assert got.spread == pytest.approx(spread, abs=1e-9)
        assert (got.n, got.units, got.few) == (len(hits), len(hits), len(hits) < 20)
        if spread == 0:
            assert (got.detectable, got.needed, got.enough) == (None, None, None)
            continue
        assert got.detectable == pytest.approx(effort(0.95, power) * spread / math.sqrt(len(hits)), rel=1e-6)
        needed = (effort(0.95, power) * spread / detect) ** 2
        assert got.needed == max(2, math.ceil(needed)) or needed % 1 < 1e-6
        assert got.enough == (len(hits) >= got.needed)


def test_what_is_needed_can_just_find_it() -> None:
    """With as many queries as are said to be needed, the detectable difference is the wanted one."""
    one = row(found([True, False] * 50), detect=0.05)
    assert one.needed is not None
    assert one.spread is not None
    assert effort(0.95, 0.8) * one.spread / math.sqrt(one.needed) <= 0.05
    assert effort(0.95, 0.8) * one.spread / math.sqrt(one.needed - 1) > 0.05


def test_more_queries_find_less_and_more_power_needs_more() -> None:
    small, large = row(found([True, False] * 20)), row(found([True, False] * 80))
    assert large.detectable == pytest.approx(small.detectable / 2, rel=0.02)
    result = found([True, False] * 20)
    assert row(result, power=0.9).needed > row(result, power=0.8).needed
    assert row(result, detect=0.01).needed > row(result, detect=0.02).needed
    strict = found([True, False] * 20, sampling=Sampling(level=0.99))
    assert row(strict).needed > row(result).needed


def test_the_spread_is_measured_where_a_second_run_tells() -> None:
    a, b = (karat.evaluate(run, GOLD, ["recall@5", "latency"], cluster="none") for run in (BEFORE, AFTER))
    found = plan(a, b)
    assert (found.against, found.correlation) == ("bm25 + static rerank", None)
    assert [r.metric for r in found.rows] == ["recall@5"]  # a time has no percentage points
    deltas = (b.values["recall@5"] - a.values["recall@5"])[~np.isnan(a.values["recall@5"])]
    assert found.rows[0].spread == pytest.approx(np.std(deltas, ddof=1), abs=1e-9)
    assert found.rows[0].n == len(deltas) == 259
    guess = plan(a)
    assert (guess.against, guess.correlation) == (None, 0.5)
    alone = a.values["recall@5"][~np.isnan(a.values["recall@5"])]
    assert guess.rows[0].spread == pytest.approx(np.std(alone, ddof=1), abs=1e-9)  # √(2 (1 − ½)) = 1


def test_conversations_count_together() -> None:
    hits = [i < 20 for i in range(40)]
    talks = [f"c{i // 4}" for i in range(40)]
    together, alone = row(found(hits, talks)), row(found(hits, talks, cluster="none"))
    assert (together.n, together.units, alone.units) == (40, 10, 40)
    # All queries of a conversation agree: ten of them tell as much as ten queries.
    assert together.spread == pytest.approx(np.std([1] * 5 + [0] * 5, ddof=1), abs=1e-9)
    assert together.detectable > 1.9 * alone.detectable
    assert together.needed == 4 * math.ceil((effort(0.95, 0.8) * together.spread / 0.03) ** 2)
    assert plan(found(hits, talks)).cluster == "conversation_id"


def test_micro_recall_is_planned_by_what_a_query_adds() -> None:
    run = {f"q{i}": ["a"] if i % 3 else ["x"] for i in range(30)}
    gold = {f"q{i}": ["a", "b", "c"] if i % 2 else ["a"] for i in range(30)}
    micro, macro = plan(karat.evaluate(run, gold, ["recall(average=micro)@1", "recall@1"])).rows
    assert micro.spread is not None
    assert macro.spread is not None
    assert micro.spread > 0
    assert micro.spread != macro.spread


@pytest.mark.parametrize("hits", [[True], [True] * 30, [False] * 30])
def test_scores_that_do_not_differ_promise_nothing(hits: list[bool]) -> None:
    got = row(found(hits))
    assert (got.detectable, got.needed, got.enough) == (None, None, None)
    same = row(found([True, False] * 15), found([True, False] * 15))
    assert (same.spread, same.detectable, same.needed, same.enough) == (0.0, None, None, None)


@pytest.mark.parametrize(
    "bad",
    [
        {"detect": 0},
        {"detect": -0.1},
        {"detect": math.nan},
        {"detect": math.inf},
        {"detect": 3},
        {"detect": 1e-300},
        {"power": 0},
        {"power": 0.01},
        {"power": 1},
        {"power": 1.5},
        {"correlation": 1},
        {"correlation": -1.5},
        {"correlation": math.nan},
    ],
)
def test_wishes_that_make_no_sense_are_refused(bad: dict[str, float]) -> None:
    with refused("bad-setting", ConfigError):
        plan(found([True, False]), **bad)


def test_only_shares_can_be_planned() -> None:
    log = [{"query_id": f"q{i}", "topk": ["a"], "latency_ms": {"total": i}} for i in range(3)]
    gold = {f"q{i}": ["a"] for i in range(3)}
    only_time = karat.evaluate(log, gold, "latency")
    with refused("unsuitable-metric", ConfigError):
        plan(only_time)
    both = karat.evaluate(log, gold, ["recall@1", "latency"])
    with refused("unsuitable-metric", ConfigError):
        plan(both, only_time)


def test_another_dataset_is_refused() -> None:
    from msgspec.structs import replace

    first = found([True, False])
    other = replace(first, gold=replace(first.gold, dataset=karat.read_gold(GOLD).dataset))
    known = replace(first, gold=replace(first.gold, dataset=type(first.gold.dataset)(version="7")))
    with refused("not-comparable", ConfigError):
        plan(known, other)
