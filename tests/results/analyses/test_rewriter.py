"""Rewritten queries against the original ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from refusals import refused

import karat
from karat.results.analyses.rewriter import Rewritten

Shown = Callable[[karat.Result, str], str]

GOLD = [{"query_id": q, "query": f"what is {q}", "gold": ["r"]} for q in ("better", "worse", "same", "kept", "bare")]


def line(query: str, topk: list[str], original: list[str] | None, rewritten: str | None = None) -> dict[str, Any]:
    return {"query_id": query, "topk": topk, "topk_original": original, "rewritten_query": rewritten}


RUN = [
    line("better", ["r"], ["x", "y", "r"], "better, in other words"),
    line("worse", ["x"], ["r"], "something else"),
    line("same", ["r"], ["r"], "the same, in other words"),
    line("kept", ["r", "x"], ["r", "x"], "what is kept"),
    line("bare", ["r"], None),
]


def found(run: Any = RUN, gold: Any = GOLD, **options: Any) -> Rewritten:
    rewritten: Rewritten = karat.evaluate(run, gold, **options).analyses.found["rewriter"]
    return rewritten


def test_harm_and_help() -> None:
    rewritten = found()
    assert (rewritten.queries, rewritten.without_original, rewritten.unchanged) == (4, 1, 1)
    assert (rewritten.harmed.mean, rewritten.helped.mean) == (0.25, 0.25)
    assert rewritten.harmed.low is not None
    assert rewritten.harmed.low < 0.25 < (rewritten.harmed.high or 0)
    ndcg, recall = rewritten.differences[:2]
    assert (ndcg.metric, ndcg.wins, ndcg.ties, ndcg.losses) == ("ndcg@5", 1, 2, 1)
    assert (recall.baseline, recall.candidate) == (1.0, 0.75)


@pytest.mark.parametrize("filters", [{"top_k": 1}, {"min_score": 0.5}, {"no_future": True}], ids=str)
def test_a_rewriter_that_changes_nothing_harms_nobody_under_filters(filters: Any) -> None:
    hits = [
        {"chunk_id": c, "score": s, "doc_version": v}
        for c, s, v in (("x", 0.9, "2025-09-01"), ("r", 0.4, "2025-01-01"))
    ]
    run = [{"query_id": f"q{i}", "topk": hits, "topk_original": hits, "rewritten_query": "w"} for i in range(5)]
    gold = [{"query_id": f"q{i}", "query": "w", "gold": ["r"], "as_of": "2025-06-01"} for i in range(5)]
    rewritten = found(run, gold, **filters)
    assert (rewritten.harmed.mean, rewritten.helped.mean) == (0.0, 0.0)


def test_examples_have_both_wordings() -> None:
    (worst,) = found().harmed_most
    assert (worst.query_id, worst.original, worst.rewritten) == ("worse", "what is worse", "something else")
    assert (worst.before, worst.after) == (1.0, 0.0)
    (best,) = found().helped_most
    assert best.query_id == "better"


def test_the_log_has_the_word_about_the_original() -> None:
    run = [{**RUN[1], "query": "as it was typed"}]
    assert found(run).harmed_most[0].original == "as it was typed"


def test_rounding_is_no_harm() -> None:
    """Three relevant items in the same places: whatever the sums round to, nothing changed."""
    gold = {"q": {"a": 0.1, "b": 0.2, "c": 0.7}}
    assert found([line("q", ["a", "b", "c"], ["a", "b", "c", "x"])], gold).harmed.mean == 0.0


def test_queries_without_relevant_gold_are_neither() -> None:
    gold = [*GOLD[:2], {"query_id": "same", "no_answer": True}]
    rewritten = found(RUN[:3], gold)
    assert (rewritten.queries, rewritten.harmed.n, rewritten.harmed.mean) == (3, 2, 0.5)


def test_conversations_are_resampled_whole() -> None:
    run = [line(f"q{i}", ["x"] if i < 20 else ["r"], ["r"]) for i in range(40)]
    alone = [{"query_id": f"q{i}", "gold": ["r"]} for i in range(40)]
    together = [{**entry, "conversation_id": str(i // 10)} for i, entry in enumerate(alone)]
    one, other = found(run, alone).harmed, found(run, together).harmed
    assert one.mean == other.mean
    assert (other.high or 0) - (other.low or 0) > (one.high or 0) - (one.low or 0)


def test_original_lists_of_another_run() -> None:
    final = [{k: v for k, v in record.items() if k != "topk_original"} for record in RUN]
    original = {record["query_id"]: record["topk_original"] for record in RUN if record["topk_original"]}
    assert found(final, original=original) == found()


def test_what_is_lacking_is_named() -> None:
    lacking = karat.evaluate([{"query_id": "q", "topk": ["r"]}], {"q": ["r"]}).analyses.lacking
    assert "`topk_original`" in lacking["rewriter"]


def test_the_report(shown: Shown) -> None:
    text = shown(karat.evaluate(RUN, GOLD), "rewriter")
    assert " 25% [" in text
    assert "1 query " in text
    assert re.search(r"worse \| .* \| 1\.00 → 0\.00 \| what is worse \| something else", text)


@pytest.mark.parametrize("field", ["rewritten_query", "query"])
def test_a_wording_of_the_wrong_type(field: str) -> None:
    with refused("wrong-type", field=field, got="5"):
        karat.evaluate([{"query_id": "q", "topk": ["r"], field: 5}], {"q": ["r"]})
