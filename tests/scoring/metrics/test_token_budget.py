"""A budget of tokens in the place of k: `recall@2000tok`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from karat.data.corpus import Corpus
from karat.data.prices import estimate_tokens
from karat.errors import ConfigError, InputError
from karat.results.save import saved_form
from karat.scoring.metrics.recall import Recall


def hits(*sizes: int | None) -> list[dict[str, Any]]:
    """Hits a, b, c … with so many tokens."""
    return [{"chunk_id": item} | ({} if size is None else {"tokens": size}) for item, size in zip("abcdef", sizes)]  # noqa: B905


def score(metric: str, topk: list[Any], gold: Any = ("a", "b", "c"), **options: Any) -> float | None:
    result = karat.evaluate([{"query_id": "q", "topk": topk}], {"q": list(gold)}, [metric], **options)
    return result.score(metric)["q"]


@pytest.mark.parametrize(
    ("budget", "found"), [(1, 0), (9, 0), (10, 1), (19, 1), (20, 2), (49, 2), (50, 3), (10_000, 3)]
)
def test_the_top_that_fits(budget: int, found: int) -> None:
    assert score(f"recall@{budget}tok", hits(10, 10, 30)) == pytest.approx(found / 3)


def test_the_first_hit_that_does_not_fit_ends_the_list() -> None:
    """Whoever fills a prompt from the top stops there; what is smaller and stands lower is not moved up."""
    assert score("recall@25tok", hits(10, 100, 10)) == pytest.approx(1 / 3)
    assert score("recall@5tok", hits(10, 1, 1)) == 0.0


def test_hits_go_by_rank_not_by_their_place_in_the_log() -> None:
    listed = [{**hit, "rank": 3 - i} for i, hit in enumerate(hits(10, 10, 10))]
    assert score("hit@10tok", listed, ["c"]) == 1.0
    assert score("hit@10tok", listed, ["a"]) == 0.0
    tied = [{**hit, "score": 1.0} for hit in hits(10, 10, 10)]  # ties: id descending, also among unjudged hits
    assert score("hit@20tok", tied, ["b"]) == 1.0
    assert score("hit@20tok", tied, ["a"]) == 0.0


def test_tokens_are_as_logged_else_estimated_from_the_text() -> None:
    text = "x" * 40
    assert estimate_tokens(text) == 10
    mixed = [{"chunk_id": "a", "text": text}, {"chunk_id": "b", "text": text, "tokens": 3}, {"chunk_id": "c"}]
    assert score("recall@13tok", mixed[:2]) == pytest.approx(2 / 3)
    assert score("recall@12tok", mixed[:2]) == pytest.approx(1 / 3)
    result = karat.evaluate([{"query_id": "q", "topk": mixed}], {"q": ["a"]}, ["recall@12tok", "mrr"])
    assert result.audit["estimated_tokens"] == 1
    assert karat.evaluate([{"query_id": "q", "topk": mixed}], {"q": ["a"]}, ["mrr"]).audit["estimated_tokens"] == 0


def test_a_hit_of_unknown_size_leaves_the_query_undefined_unless_the_budget_was_spent_before_it() -> None:
    assert score("recall@25tok", hits(10, None, 10)) is None
    assert score("recall@10tok", hits(10, 5, None)) == pytest.approx(1 / 3)
    assert score("recall@25tok", ["a", "b"]) is None
    assert score("recall@25tok", []) == 0.0
    result = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, ["recall@25tok"])
    (entry,) = [entry for entry in result.audit if entry.code == "no_data"]
    assert [example.startswith("recall@25tok: ") for example in entry.examples] == [True]


def test_a_corpus_lends_texts_and_tokens(tmp_path: Path) -> None:
    lent = Corpus("c", ["a", "b"], ["", ""], ["x" * 40, "y" * 40], {"tokens": [None, 90]})
    assert score("recall@10tok", ["a", "b"], "ab", corpus=lent) == 0.5
    assert score("recall@99tok", ["a", "b"], "ab", corpus=lent) == 0.5
    assert score("recall@100tok", ["a", "b"], "ab", corpus=lent) == 1.0
    bare = Corpus("c", ["a", "b"], ["", ""], ["", ""])
    assert score("recall@10tok", ["a", "b"], "ab", corpus=bare) is None  # no texts at all are not empty texts
    table = tmp_path / "run.csv"
    table.write_text("query_id,chunk_id,rank,tokens\nq,a,1,10\nq,b,2,15\n")
    assert karat.evaluate(table, {"q": ["a", "b"]}, ["recall@24tok", "recall@25tok"]).means == {
        "recall@24tok": 0.5,
        "recall@25tok": 1.0,
    }


def test_repeats_are_paid_once() -> None:
    twice = [*hits(10), *hits(10), {"chunk_id": "b", "tokens": 10}]
    assert score("recall@20tok", twice, "ab") == 1.0


def test_what_each_metric_makes_of_it() -> None:
    found = hits(10, 10, 10)  # of which two fit
    assert score("precision@25tok", found, "bc") == 0.5  # of the hits that fit
    assert score("precision@5tok", found, "bc") == 0.0
    assert score("mrr@25tok", found, "bc") == 0.5
    assert score("mrr@25tok", found, "c") == 0.0
    assert score("f1@25tok", found, "bc") == 0.5
    assert score("distinct_docs@25tok", found, "bc") == 2.0
    assert score("judged@25tok", found, "bc") == 0.5
    ideal = 1 + 1 / np.log2(3)  # of the whole gold, whatever would fit
    assert score("ndcg@25tok", found, "ab") == 1.0
    assert score("ndcg@15tok", found, "ab") == pytest.approx(1 / ideal)


def test_neither_ceiling_nor_floor() -> None:
    result = karat.evaluate([{"query_id": "q", "topk": hits(5)}], {"q": ["a"]}, ["recall@9tok"], corpus_size=10)
    assert (result.summary_rows[0].ceiling, result.summary_rows[0].floor) == (None, None)


def test_a_missing_query_has_failed() -> None:
    result = karat.evaluate([{"query_id": "q", "topk": hits(5)}], {"q": ["a"], "r": ["a"]}, ["recall@9tok"])
    assert result.score("recall@9tok") == {"q": 1.0, "r": 0.0}


def test_a_saved_result_and_a_gate_know_it(tmp_path: Path) -> None:
    run = [{"query_id": "q", "topk": hits(5)}]
    result = karat.evaluate(run, {"q": ["a"]}, ["recall@9tok"])
    saved = json.loads(json.dumps({"metric": saved_form(result).summary[0].metric}))
    assert karat.Metric.parse(saved["metric"]) == Recall(budget=9)
    assert karat.gate(run, {"q": ["a"]}, ["recall@9tok >= 0.9"]).outcome == "pass"


# --- how it is written


@pytest.mark.parametrize(
    "text", ["recall@2000tok", "recall@2000tokens", "Recall @ 2000 TOK", "recall@2000token", "r@2000tok"]
)
def test_written_in_many_ways_and_printed_in_one(text: str) -> None:
    assert karat.Metric.parse(text) == Recall(budget=2000)
    assert str(karat.Metric.parse(text)) == "recall@2000tok"


def test_a_budget_is_no_k() -> None:
    assert karat.Metric.parse("recall@5tok") != karat.Metric.parse("recall@5")
    assert str(karat.Metric.parse("recall(rel=2)@5tok")) == "recall(rel=2)@5tok"


@pytest.mark.parametrize(
    "text",
    [
        "recall@0tok",
        "recall@2ktok",
        "recall@-5tok",
        "recall@1.5tok",
        "recall@ktok",
        "recall@tok",
        "recall@2000chars",
        f"recall@{10**30}tok",
        "auc_recall@2000tok",
        "rprecision@2000tok",
        "recall(budget=5)@5",
    ],
)
def test_budgets_that_are_refused(text: str) -> None:
    with refused("bad-metric", ConfigError) as caught:
        karat.Metric.parse(text)
    assert repr(text) in caught.value.what


@pytest.mark.parametrize("tokens", [-1, 1.5, "many", True])
def test_tokens_that_are_no_number_of_tokens(tokens: Any) -> None:
    with pytest.raises(InputError) as caught:
        score("recall@9tok", [{"chunk_id": "a", "tokens": tokens}])
    assert "tokens" in (caught.value.field or "")
    lent = Corpus("c", ["a"], [""], ["text"], {"tokens": [tokens]})
    with refused("bad-value", InputError, field="tokens", got=tokens):
        score("recall@9tok", ["a"], corpus=lent)


# --- the estimate


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \n\t ", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("a   b\n\nc", 2),  # white space is collapsed
        ("日本語", 3),
        ("שלום", 2),
        ("\x00\x07", 1),
        ("\ud800", 1),  # half a character
        ("x" * 1_000_000, 250_000),
    ],
)
def test_the_estimate(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens


def test_a_text_of_a_megabyte(tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    huge = [{"chunk_id": "a", "text": "word " * 200_000}, {"chunk_id": "b", "text": "small"}]
    run.write_text(json.dumps({"query_id": "q", "topk": huge}) + "\n")
    assert karat.evaluate(run, {"q": ["a"]}, ["recall@249999tok", "recall@250000tok"]).means == {
        "recall@249999tok": 0.0,
        "recall@250000tok": 1.0,
    }
