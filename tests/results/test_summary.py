"""Intervals end where the queries' own values can end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import karat
from karat.results.differences import Paired
from karat.results.summary import SummaryRow
from karat.statistics.sampling import Method, Sampling

METHODS: list[Method] = ["bayes", "strict"]


def row(run: Any, gold: Any, metric: str, **options: Any) -> SummaryRow:
    return karat.evaluate(run, gold, [metric], **options).summary_rows[0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("found", [0, 1, 10, 29, 30])
def test_one_relevant_item_and_ten_places(found: int, method: Method) -> None:
    """No query can score more than 0.1, so precision@10 is a tenth of hit@10, and so is its interval."""
    gold = {f"q{i}": ["a"] for i in range(30)}
    run = {query: ["a" if i < found else "x"] for i, query in enumerate(gold)}
    precision, hit = (row(run, gold, metric, method=method) for metric in ("precision@10", "hit@10"))
    assert precision.low is not None
    assert precision.high is not None
    assert (precision.low, precision.high) == pytest.approx((hit.low / 10, hit.high / 10), abs=1e-6)  # type: ignore[operator]
    assert precision.high <= 0.1


@pytest.mark.parametrize("method", METHODS)
def test_differences_too(method: Method) -> None:
    gold = {f"q{i}": ["a"] for i in range(30)}
    before = {query: ["a" if i < 12 else "x"] for i, query in enumerate(gold)}
    after = {query: ["a" if 4 <= i < 20 else "x"] for i, query in enumerate(gold)}
    sides = [karat.evaluate(run, gold, ["precision@10", "hit@10"], method=method).columns for run in (before, after)]
    precision, hit = Paired(*sides).differences(Sampling(method), 0)
    assert [precision.low, precision.high] == pytest.approx([hit.low / 10, hit.high / 10], abs=1e-6)  # type: ignore[operator]


@pytest.mark.parametrize("method", METHODS)
def test_segments_have_the_ends_of_their_own_queries(method: Method) -> None:
    gold = [{"query_id": f"q{i}", "gold": list("abcde")[: 1 + 4 * (i % 2)], "kind": f"k{i % 2}"} for i in range(40)]
    run = {f"q{i}": ["a"] if i % 3 else ["x"] for i in range(40)}
    result = karat.evaluate(run, gold, ["precision@5"], segments=["kind"], method=method)
    highs = {segment.value: segment.summary[0].high for segment in result.segment_rows}
    assert highs["k0"] is not None
    assert highs["k0"] <= 0.2
    assert highs["k1"] is not None


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("metric", "value", "most"), [("distinct_docs@5", 2.0, 5), ("returned@4", 3.0, 4)])
def test_the_same_count_on_every_query(metric: str, value: float, most: int, method: Method) -> None:
    gold = {f"q{i}": ["a#1"] for i in range(22)}
    found = row({query: ["a#1", "a#2", "b#1"] for query in gold}, gold, metric, method=method)
    assert found.mean == value
    assert found.low is not None
    assert found.high is not None
    assert 0 < found.low < value < found.high < most


def test_the_same_time_on_every_query() -> None:
    """Nothing is known of how slow a query can be."""
    gold = {f"q{i}": ["a"] for i in range(200)}
    run = [{"query_id": query, "topk": ["a"], "latency_ms": {"total": 5.0}} for query in gold]
    found = row(run, gold, "latency")
    assert (found.mean, found.low, found.high) == (5.0, None, None)


def test_the_farthest_end_counts() -> None:
    """recall@1 of queries with one and with four relevant items."""
    gold = {f"q{i}": list("abcd")[: 1 + 3 * (i % 2)] for i in range(40)}
    scores = karat.evaluate({query: ["a"] for query in gold}, gold, ["recall@1"]).columns
    assert scores.ends(scores.metrics[0]) == (0, 1)
    assert scores.select(np.arange(1, 40, 2)).ends(scores.metrics[0]) == (0, 1 / 4)


def searching(queries: int, more: int = 0) -> list[dict[str, Any]]:
    """Every fifth query takes three searches; the next ones take `more` of them besides."""
    counts = {i: 3 if i % 5 == 0 else 1 + more * (i % 5 == 1) for i in range(queries)}
    return [{"query_id": f"q{i}", "steps": [{"topk": ["a"]}] * n} for i, n in counts.items()]


@pytest.mark.parametrize(
    ("queries", "talks", "narrow"), [(40, 0, True), (99, 0, True), (100, 0, False), (120, 2, True), (200, 2, False)]
)
def test_an_interval_without_an_upper_end_may_be_too_narrow(queries: int, talks: int, narrow: bool) -> None:
    gold = [{"query_id": f"q{i}", "gold": ["a"], "conversation_id": f"c{i // (talks or 1)}"} for i in range(queries)]
    metrics = ["steps", "relevant_per_step", "union_recall"]
    result = karat.evaluate(searching(queries), gold, metrics, resamples=200)
    expected = {"steps": narrow, "relevant_per_step": narrow, "union_recall": False}
    assert {row.metric: row.narrow for row in result.summary_rows} == expected
    pair = karat.compare(searching(queries), searching(queries, 1), gold, metrics, resamples=200).pairs[0]
    assert {d.metric: d.narrow for d in pair.differences} == expected


def test_quantiles_and_counts_of_places_have_no_such_doubt() -> None:
    run = [{"query_id": f"q{i}", "topk": ["a", "b"][: 1 + i % 2], "latency_ms": float(i)} for i in range(40)]
    gold = {f"q{i}": ["a"] for i in range(40)}
    result = karat.evaluate(run, gold, ["latency_p50", "returned@5", "latency"], resamples=200)
    assert {row.metric: row.narrow for row in result.summary_rows} == {
        "latency_p50": False,
        "returned@5": False,
        "latency": True,
    }


def test_an_interval_of_places_ends_at_the_longest_list() -> None:
    """A system that returns three hits cannot have more than three different documents among five places."""
    gold = {f"q{i}": ["a#1"] for i in range(12)}
    three = karat.evaluate({q: ["a#1", "b#1", "c#1"] for q in gold}, gold, ["distinct_docs@5"])["distinct_docs@5"]
    assert (three.mean, three.high) == (3.0, 3.0)
    mixed = {**{q: ["a#1", "b#1", "c#1"] for q in gold}, "q0": ["a#1", "b#1", "c#1", "d#1", "e#1", "f#1"]}
    found = karat.evaluate(mixed, gold, ["distinct_docs@5"])["distinct_docs@5"]
    assert found.high is not None
    assert 3.2 < found.high <= 5.0
