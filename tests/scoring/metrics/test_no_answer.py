"""Queries without an answer, with and without a score threshold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

import karat

Record = dict[str, Any]
NAMES = ("false_evidence@3", "false_evidence(min_score=0.5)@3", "miss@3", "miss(min_score=0.5)@3")


def without(name: str) -> Record:
    return {"query_id": name, "no_answer": True}


def asked(name: str, *gold: str) -> Record:
    return {"query_id": name, "gold": list(gold) or ["a"]}


def scores(topk: list[Any], entry: Record, *metrics: str, **options: Any) -> list[float | None]:
    result = karat.evaluate([{"query_id": entry["query_id"], "topk": topk}], [entry], metrics or NAMES, **options)
    return [result.score(metric)[entry["query_id"]] for metric in metrics or NAMES]


def scored(*values: float | None) -> list[Record]:
    return [{"chunk_id": "abcdef"[i], "score": value} for i, value in enumerate(values)]


@pytest.mark.parametrize(
    ("topk", "entry", "expected"),
    [
        (scored(0.9, 0.2), without("q"), [1.0, 1.0, None, None]),
        (scored(0.4, 0.2), without("q"), [1.0, 0.0, None, None]),
        (scored(0.5), without("q"), [1.0, 1.0, None, None]),  # at the threshold it counts
        ([], without("q"), [0.0, 0.0, None, None]),
        (["a", "b"], without("q"), [1.0, 1.0, None, None]),  # no scores: nothing says that they are lower
        (scored(0.4, None), without("q"), [1.0, 1.0, None, None]),
        (scored(0.9, 0.2), asked("q"), [None, None, 0.0, 0.0]),
        (scored(0.9, 0.2), asked("q", "b"), [None, None, 0.0, 1.0]),  # found, but under the threshold
        (scored(0.9, 0.8, 0.7, 0.6), asked("q", "d"), [None, None, 1.0, 1.0]),  # below the cutoff
        ([], asked("q"), [None, None, 1.0, 1.0]),
        (["a"], asked("q"), [None, None, 0.0, 0.0]),
        (["b"], asked("q"), [None, None, 1.0, 1.0]),
        (scored(0.9), {"query_id": "q", "gold": {"a": 0}}, [None, None, None, None]),  # neither of the two
    ],
)
def test_values(topk: list[Any], entry: Record, expected: list[float | None]) -> None:
    assert scores(topk, entry) == expected


def test_a_hit_beyond_k_is_no_evidence_at_k() -> None:
    """Rank decides the order, so that the best score may stand below the cutoff."""
    topk = [{"chunk_id": "a", "rank": 1, "score": 0.1}, {"chunk_id": "b", "rank": 2, "score": 0.9}]
    metrics = [f"false_evidence(min_score=0.5)@{k}" for k in (1, 2)]
    assert scores(topk, without("q"), *metrics) == [0.0, 1.0]
    assert scores(topk, asked("q"), "top_score@1", "top_score@2", "top_score") == [0.1, 0.9, 0.9]


def test_any_chunk_of_the_document_may_reach_the_threshold() -> None:
    topk = [{"chunk_id": "d#1", "rank": 1, "score": 0.1}, {"chunk_id": "d#2", "rank": 2, "score": 0.9}]
    assert scores(topk, asked("q", "d"), "miss(min_score=0.5)@5", "top_score(of=relevant)@5") == [0.0, 0.9]


def test_queries_that_the_run_lacks() -> None:
    gold = [asked("there"), asked("lost"), without("silent")]
    result = karat.evaluate([{"query_id": "there", "topk": scored(0.9)}], gold, (*NAMES, "top_score"))
    rows = [[result.score(metric)[query] for metric in (*NAMES, "top_score")] for query in ("there", "lost", "silent")]
    assert rows == [[None, None, 0.0, 0.0, 0.9], [None, None, 1.0, 1.0, None], [0.0, 0.0, None, None, None]]


def test_after_the_threshold_of_the_run() -> None:
    topk = scored(0.4, 0.2)
    assert scores(topk, without("q"), "false_evidence@5", min_score=0.3) == [1.0]
    assert scores(topk, without("q"), "false_evidence@5", min_score=0.5) == [0.0]
    assert scores(topk, asked("q", "b"), "miss@5", min_score=0.3) == [1.0]


def test_what_is_lacking_is_said() -> None:
    for topk, entry, metric, reason in (
        (["a"], asked("q"), "false_evidence@5", "no answer"),
        (["a"], asked("q"), "top_score", "score"),
    ):
        result = karat.evaluate([{"query_id": "q", "topk": topk}], [entry], [metric])
        (said,) = [e for e in result.audit if e.code == "no_data"]
        assert reason in said.examples[0]


@pytest.mark.parametrize("value", ["nan", "inf", "x"])
def test_a_threshold_is_a_finite_number(value: str) -> None:
    with refused("bad-metric"):
        karat.Metric.parse(f"false_evidence(min_score={value})@5")


HITS = st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.7]), max_size=5)


@given(st.lists(st.tuples(st.booleans(), HITS, st.sampled_from("abcde")), min_size=1, max_size=5), st.integers(1, 4))
def test_a_threshold_in_the_metric_is_a_threshold_of_the_run(queries: list[Any], k: int) -> None:
    """Where scores decide the order, cutting hits first or asking for their score afterwards is the same; and a miss
    is what is no hit."""
    gold = [without(str(i)) if none else asked(str(i), item) for i, (none, _, item) in enumerate(queries)]
    run = [{"query_id": str(i), "topk": scored(*values)} for i, (_, values, _) in enumerate(queries)]
    names = [f"false_evidence@{k}", f"miss@{k}", f"hit@{k}"]
    inside = karat.evaluate(run, gold, [f"false_evidence(min_score=0.4)@{k}", f"miss(min_score=0.4)@{k}"])
    before = karat.evaluate(run, gold, names, min_score=0.4)
    for name in ("false_evidence", "miss"):
        assert inside.score(f"{name}(min_score=0.4)@{k}") == before.score(f"{name}@{k}")
    misses, found = before.score(f"miss@{k}"), before.score(f"hit@{k}")
    assert {q: None if v is None else 1 - v for q, v in misses.items()} == found


# Which queries have no answer


def test_a_field_may_say_which_queries_have_no_answer() -> None:
    gold = [
        {"query_id": "a", "gold": [], "type": "Null"},
        {"query_id": "b", "gold": [], "type": "None"},
        {"query_id": "c", "gold": ["x"], "type": "Single"},
        {"query_id": "d", "no_answer": True},
    ]
    run = {query: {"x": 1.0} for query in "abcd"}
    for rule, expected in (("type=Null", 2), ("type = Null, None", 3)):
        result = karat.evaluate(run, gold, ["false_evidence@5"], no_answer=rule)
        assert result.summary_rows[0].n == expected
        assert result.audit["no_answer_queries"] == expected


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("type", "bad-setting"),
        ("=Null", "bad-setting"),
        ("kind=Null", "unknown-attribute"),
        ("type=Nul", "no-queries"),
        ("type=Single", "contradiction"),
    ],
)
def test_a_rule_that_makes_no_sense(rule: str, code: str) -> None:
    gold = [{"query_id": "a", "gold": [], "type": "Null"}, {"query_id": "c", "gold": ["x"], "type": "Single"}]
    with refused(code):
        karat.evaluate({"a": {"x": 1.0}, "c": {"x": 1.0}}, gold, no_answer=rule)
