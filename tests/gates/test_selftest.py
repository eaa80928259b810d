"""Would the gates cry wolf: alarms over rounds in which nothing changed, and the drop that would be caught."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from refusals import refused

import karat
from karat.errors import ConfigError
from karat.gates.criteria import Criteria, Gate
from karat.gates.gate import as_criteria
from karat.gates.selftest import SelfTest, selftest
from karat.gates.verdicts import Baseline, GateJudge
from karat.report.gate import selftest_report
from karat.results.result import Result
from karat.statistics.intervals import Sampling

FAST = Sampling(resamples=1000)


def result_of(hits: Any, *, backwards: bool = False, **tags: Any) -> Result:
    size = len(hits)
    gold = [{"query_id": f"q{i:04}", "gold": ["a"], **{n: of(i) for n, of in tags.items()}} for i in range(size)]
    gold = gold[::-1] if backwards else gold
    run = {f"q{i:04}": ["a", "b"] if hit else ["b", "a"] for i, hit in enumerate(hits)}
    return karat.evaluate(run, gold, ["hit@1", "mrr"], sampling=FAST)


def alarms_of(result: Result, *gates: str, **options: Any) -> SelfTest:
    return selftest(result, as_criteria(gates), **{"rounds": 100, **options})


@pytest.fixture(scope="module")
def coin() -> Result:
    """150 queries, 70 % of them answered."""
    return result_of([i % 10 < 7 for i in range(150)], topic=lambda i: f"t{i % 3}")


def test_a_regression_gate_cries_wolf_rarely_and_a_floor_at_the_mean_half_of_the_time(coin: Result) -> None:
    found = alarms_of(
        coin, "hit@1 drop <= 0.01", "hit@1 >= 0.7", "hit@1 >= 0.4 on bound", "hit@1 drop <= 0.01 in each topic"
    )
    drop, floor, safe, *topics = found.alarms
    assert drop.failed <= 0.06
    assert drop.inconclusive > 0.2  # drops over a point are common, and said to be chance
    assert 0.35 <= floor.failed <= 0.65
    assert (safe.failed, safe.passed) == (0, 1)
    assert [t.segment for t in topics] == ["topic t0", "topic t1", "topic t2"]
    assert sum(t.failed for t in topics) <= 0.08  # Holm: all of them together
    assert found.blocked == pytest.approx(floor.failed, abs=0.1)
    for alarm in found.alarms:
        assert alarm.passed + alarm.failed + alarm.inconclusive + alarm.invalid == pytest.approx(1)
        assert alarm.unit == "pp"


def test_the_same_seed_gives_the_same_alarms(coin: Result) -> None:
    first, again, other = (alarms_of(coin, "hit@1 >= 0.7", rounds=40, seed=seed) for seed in (1, 1, 2))
    assert msgspec.json.encode(first) == msgspec.json.encode(again)
    assert first.alarms != other.alarms


@pytest.mark.parametrize(
    ("text", "on"), [("hit@1 drop <= 0.02", "mean"), ("hit@1 drop <= 0.10", "bound"), ("hit@1 >= 0.6", "bound")]
)
def test_the_drop_that_it_names_is_caught_in_four_of_five_rounds(text: str, on: str) -> None:
    """A version that is worse by just that much, on queries of the same kind, in rounds of our own."""
    rng = np.random.default_rng(3)
    size = 200
    truth = rng.random(size) < 0.7
    before = np.where(rng.random(size) < 0.5, truth, rng.permutation(truth))
    result, baseline = result_of(truth), result_of(before)
    (alarm,) = alarms_of(result, f"{text} on {on}", baseline=baseline).alarms
    assert alarm.caught is not None
    assert 0.02 < alarm.caught < 0.4
    (gate,) = as_criteria([f"{text} on {on}"]).gates
    failed = 0
    rounds = 80
    for _ in range(rounds):
        at = rng.integers(0, size, size)
        swapped = rng.random(size) < 0.5
        one = np.where(swapped, before, truth)[at].astype(float)
        other = np.where(swapped, truth, before)[at].astype(float)
        ones = np.flatnonzero(one)
        lost = rng.choice(ones, round(alarm.caught * size), replace=False)
        one[lost] = 0.0
        judge = GateJudge(_with(result, one), Baseline("before", _with(result, other)))
        failed += judge.judge(gate)[0].outcome == "fail"
    assert 0.6 <= failed / rounds <= 0.97


def _with(result: Result, values: Any) -> Result:
    return replace(result, values={"hit@1": values})


def test_conversations_are_drawn_whole() -> None:
    """Forty queries of four conversations, each all right or all wrong: a mean jumps in quarters."""
    talk = result_of([i // 10 % 2 == 0 for i in range(40)], conversation_id=lambda i: f"c{i // 10}")
    alone = result_of([i // 10 % 2 == 0 for i in range(40)])
    together, apart = (alarms_of(r, "hit@1 >= 0.3", rounds=200).alarms[0].failed for r in (talk, alone))
    # P(at most one good of four draws) = 5/16; P(at most 11 good of 40) is under 1 %.
    assert together == pytest.approx(5 / 16, abs=0.1)
    assert apart < 0.03
    assert alarms_of(talk, "hit@1 >= 0.3", rounds=20).alarms[0].queries == 40


def test_tags_stay_with_their_queries_whatever_the_order_of_the_baseline() -> None:
    """All of topic good is right in both versions: its gate must never fail."""
    hits = [i % 2 == 0 for i in range(60)]
    result, backwards = (
        result_of(hits, topic=lambda i: "good" if i % 2 == 0 else "bad", backwards=way) for way in (False, True)
    )
    assert backwards.queries == result.queries[::-1]
    found = alarms_of(result, "hit@1 >= 0.9 in topic=good", baseline=backwards, rounds=20)
    assert (found.alarms[0].passed, found.blocked) == (1, 0)


def test_queries_that_only_one_side_has_are_left_out() -> None:
    result, baseline = result_of([True] * 60), result_of([True] * 40)
    (alarm,) = alarms_of(result, "hit@1 drop <= 0.02", baseline=baseline, rounds=20).alarms
    assert alarm.queries == 40


def test_an_anchor_does_not_stand_in_the_way(coin: Result) -> None:
    """A saved result cannot be drawn anew."""
    criteria = Criteria([Gate(metric="hit@1", regression_max=0.02, anchor="none.json")])
    assert len(selftest(coin, criteria, rounds=20).alarms) == 1


def test_undefined_segments_are_counted_as_such() -> None:
    gold = [
        {"query_id": f"q{i}", "gold": ["a"] if i < 20 else [], "no_answer": i >= 20, "topic": "ab"[i // 20]}
        for i in range(40)
    ]
    result = karat.evaluate({f"q{i}": ["a"] for i in range(40)}, gold, ["hit@1"], sampling=FAST)
    good, none = alarms_of(result, "hit@1 >= 0.5 in each topic", rounds=20).alarms
    assert good.passed == 1
    assert (none.invalid, none.passed) == (1, 0)


@pytest.mark.parametrize("rounds", [-1, 0, 19])
def test_too_few_rounds_are_refused(coin: Result, rounds: int) -> None:
    with refused("bad-setting", ConfigError, got=rounds) as caught:
        alarms_of(coin, "hit@1 >= 0.7", rounds=rounds)
    assert caught.value.exit_code == 2


def test_the_report_says_it_in_a_sentence(coin: Result) -> None:
    found = alarms_of(coin, "hit@1 >= 0.7", "hit@1 drop <= 0.05", rounds=20)
    table, said = selftest_report(found).sections[0].blocks
    assert [row[0] for row in table.rows] == ["hit@1", "hit@1"]
    assert f"{found.blocked:.0%}" in said.text
    assert "20" in said.text
