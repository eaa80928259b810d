"""Each metric on cases that were worked out by hand."""

from __future__ import annotations

from math import comb, log2, sqrt
from typing import Any

import pytest

import karat


def score(run: Any, gold: Any, metric: str, **options: Any) -> float | None:
    """The value of one query."""
    return karat.evaluate({"q": run}, {"q": gold}, [metric], **options).score(metric)["q"]


def close(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, abs=1e-12)


# Grades of every kind: four relevant items, one judged not relevant, one relevant item not found

RANKING = ["x", "b", "a", "y", "c"]
GRADES = {"a": 3, "b": 1, "c": 0.5, "n": 0, "z": 2}


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("hit@1", 0.0),
        ("hit@2", 1.0),
        ("complete@5", 0.0),
        ("recall@1", 0.0),
        ("recall@2", 1 / 4),
        ("recall@5", 3 / 4),
        ("recall@100", 3 / 4),
        ("wrecall@2", 1 / 6.5),
        ("wrecall@5", 4.5 / 6.5),
        ("precision@1", 0.0),
        ("precision@5", 3 / 5),
        ("precision@10", 3 / 10),
        ("f1@1", 0.0),
        ("f1@5", 2 * 0.6 * 0.75 / (0.6 + 0.75)),
        ("rprecision", 2 / 4),
        ("mrr", 1 / 2),
        ("mrr@1", 0.0),
        ("mrr@2", 1 / 2),
        ("target_rank", 2.0),
        ("target_rank@1", None),
        ("map", (1 / 2 + 2 / 3 + 3 / 5) / 4),
        ("map@3", (1 / 2 + 2 / 3) / 4),
        ("map@1", 0.0),
        (
            "ndcg@5",
            (1 / log2(3) + 7 / log2(4) + (sqrt(2) - 1) / log2(6))
            / (7 + 3 / log2(3) + 1 / log2(4) + (sqrt(2) - 1) / log2(5)),
        ),
        ("ndcg@2", (1 / log2(3)) / (7 + 3 / log2(3))),
        (
            "ndcg(gain=linear)@5",
            (1 / log2(3) + 3 / log2(4) + 0.5 / log2(6)) / (3 + 2 / log2(3) + 1 / log2(4) + 0.5 / log2(5)),
        ),
        ("ndcg(gain=linear)@1", 0.0),
        ("bpref", 3 / 4),
        ("rbp(p=0.5)", 1 / 4 + 1 / 8 + 1 / 32),
        ("rbp(p=0.5)@3", 1 / 4 + 1 / 8),
        ("rbp", 0.2 * (0.8 + 0.64 + 0.4096)),
        ("rbp_residual(p=0.5)", 1 - (1 / 4 + 1 / 8 + 1 / 32)),
        ("judged@1", 0.0),
        ("judged@3", 2 / 3),
        ("judged@5", 3 / 5),
    ],
)
def test_any_grade_above_zero_is_relevant(metric: str, value: float | None) -> None:
    assert score(RANKING, GRADES, metric) == close(value)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("recall(rel=0.5)@5", 3 / 4),
        ("recall(rel=0.6)@5", 2 / 3),
        ("recall(rel=1)@5", 2 / 3),
        ("recall(rel=2)@2", 0.0),
        ("recall(rel=2)@3", 1 / 2),
        ("recall(rel=3)@3", 1.0),
        ("hit(rel=2)@2", 0.0),
        ("hit(rel=2)@3", 1.0),
        ("hit(rel=3.5)@3", None),
        ("complete(rel=3)@3", 1.0),
        ("complete(rel=2)@3", 0.0),
        ("wrecall(rel=2)@5", 3 / 5),
        ("precision(rel=2)@5", 1 / 5),
        ("f1(rel=2)@5", 2 * (1 / 5) * (1 / 2) / (1 / 5 + 1 / 2)),
        ("rprecision(rel=2)", 0.0),
        ("mrr(rel=2)", 1 / 3),
        ("target_rank(rel=2)", 3.0),
        ("map(rel=2)", (1 / 3) / 2),
        # What is under the level gains nothing, and nothing in the ideal.
        ("ndcg(rel=2)@5", (7 / log2(4)) / (7 + 3 / log2(3))),
        ("ndcg(rel=2,gain=linear)@5", (3 / log2(4)) / (3 + 2 / log2(3))),
        # Two relevant, three judged and not; b stands above a, and z is lost.
        ("bpref(rel=2)", (1 - 1 / 2) / 2),
        ("rbp(rel=2,p=0.5)", 1 / 8),
        ("rbp(rel=2,p=0.5,top=4)", 1 / 8 * 3 / 4),
        # What is judged is known, relevant or not.
        ("rbp_residual(rel=2,p=0.5)", 1 - (1 / 4 + 1 / 8 + 1 / 32)),
    ],
)
def test_relevance_level(metric: str, value: float | None) -> None:
    assert score(RANKING, GRADES, metric) == close(value)


def test_grades_are_never_truncated() -> None:
    """A program that reads grades as whole numbers sees nothing relevant here."""
    gold = {"a": 0.9, "b": 1e-9}
    assert score(["b"], gold, "recall@1") == 0.5
    assert score(["b"], gold, "wrecall@1") == close(1e-9 / 0.900000001)
    assert score(["b"], gold, "ndcg(gain=linear)@1") == close(1e-9 / 0.9)


@pytest.mark.parametrize("order", ["abc", "bca", "cba"])
def test_everything_found_is_exactly_one(order: str) -> None:
    """In whatever order the grades are added up."""
    gold = {"a": 0.7, "b": 0.2, "c": 0.1}
    assert score(list(order), gold, "wrecall@3") == 1.0


def test_exponential_and_linear_gain() -> None:
    """Equal for binary gold; where grades differ, exponential gain makes more of the best."""
    binary = {"a": 1, "b": 1, "c": 1}
    assert score(["a", "x", "c"], binary, "ndcg@3") == score(["a", "x", "c"], binary, "ndcg(gain=linear)@3")
    graded = {"best": 3, "good": 1}
    assert score(["best"], graded, "ndcg@2") == close(7 / (7 + 1 / log2(3)))
    assert score(["best"], graded, "ndcg(gain=linear)@2") == close(3 / (3 + 1 / log2(3)))


def test_ideal_comes_from_the_gold() -> None:
    """One of ten found at the top is no perfect ranking."""
    gold = dict.fromkeys("abcdefghij", 1)
    assert score(["a"], gold, "ndcg@10") == close(1 / sum(1 / log2(rank + 1) for rank in range(1, 11)))
    # … but nothing below k can be asked for.
    assert score(["a"], gold, "ndcg@1") == 1.0


@pytest.mark.parametrize("grade", [1000, 1100, 2000])
def test_large_grades(grade: float) -> None:
    """Counts of clicks as grades: 2^grade has no number of its own, and the ratio has."""
    gold = {"a": grade, "b": grade - 1}
    assert score(["a", "b"], gold, "ndcg@2") == close(1.0)
    assert score(["b"], gold, "ndcg@2") == close(0.5 / (1 + 0.5 / log2(3)))


# Judged and not relevant


def test_grade_zero_is_judged() -> None:
    gold = {"a": 1, "n": 0, "m": 0, "unjudged": -1}
    ranking = ["n", "unjudged", "?", "a"]
    assert score(ranking, gold, "judged@4") == 0.5
    assert score(ranking, gold, "mrr") == 0.25
    assert score(ranking, gold, "recall@4") == 1.0
    assert score(ranking, gold, "bpref") == 0.0  # n stands above the only relevant one
    assert score(ranking, gold, "rbp_residual(p=0.5)") == 1 - (1 / 2 + 1 / 16)


@pytest.mark.parametrize(
    ("ranking", "value"),
    [
        ("ab", 1.0),
        ("a?b", 1.0),  # unjudged hits are passed over
        ("nab", (1 / 2 + 1 / 2) / 2),
        ("anb", (1 + 1 / 2) / 2),
        ("anmb", (1 + 0) / 2),
        ("anmob", (1 + 0) / 2),  # no more than R judged ones above count
        ("nma", 0.0),
        ("a", 1 / 2),
        ("nmo", 0.0),
    ],
)
def test_bpref(ranking: str, value: float) -> None:
    """R = 2 relevant and N = 3 judged not relevant: each of the latter above costs 1 / min(R, N)."""
    assert score(list(ranking), {"a": 1, "b": 1, "n": 0, "m": 0, "o": 0}, "bpref") == close(value)


def test_bpref_with_fewer_bad_than_good() -> None:
    """R = 3, N = 1: one of them above costs all."""
    gold = {"a": 1, "b": 1, "c": 1, "n": 0}
    assert score(["a", "n", "b", "c"], gold, "bpref") == close(1 / 3)
    assert score(["a", "b", "c", "n"], gold, "bpref") == 1.0


def test_bpref_without_bad_ones() -> None:
    assert score(["?", "a"], {"a": 1, "b": 1}, "bpref") == 0.5


# Document-level gold: the first chunk counts, later ones keep their rank and gain nothing, but for precision

CHUNKS = ["d1#p1", "d2#p1", "d2#p2", "d3#p9", "d2#p5"]
DOCUMENTS = {"d2": 2, "d3": 1, "d9": 1}
BY_DOCUMENT = [
    ("hit@1", 0.0),
    ("hit@2", 1.0),
    ("recall@2", 1 / 3),
    ("recall@3", 1 / 3),
    ("recall@5", 2 / 3),
    ("wrecall@3", 2 / 4),
    ("wrecall@5", 3 / 4),
    ("precision@3", 2 / 3),
    ("precision@5", 4 / 5),
    ("f1@3", 2 * (2 / 3) * (1 / 3) / (2 / 3 + 1 / 3)),
    ("rprecision", 1 / 3),
    ("mrr", 1 / 2),
    ("target_rank", 2.0),
    ("map", (1 / 2 + 2 / 4) / 3),
    ("ndcg(gain=linear)@5", (2 / log2(3) + 1 / log2(5)) / (2 + 1 / log2(3) + 1 / log2(4))),
    ("ndcg@5", (3 / log2(3) + 1 / log2(5)) / (3 + 1 / log2(3) + 1 / log2(4))),
    ("rbp(p=0.5)", 1 / 4 + 1 / 16),
    ("rbp_residual(p=0.5)", 1 - (1 / 4 + 1 / 8 + 1 / 16 + 1 / 32)),
    ("complete@5", 0.0),
    ("bpref", 2 / 3),
    ("judged@5", 4 / 5),
    ("distinct_docs@5", 3.0),
    ("redundancy@5", 2 / 5),
]


@pytest.mark.parametrize(("metric", "value"), BY_DOCUMENT)
def test_document_gold(metric: str, value: float) -> None:
    result = karat.evaluate({"q": CHUNKS}, {"q": DOCUMENTS}, [metric])
    assert result.score(metric)["q"] == close(value)
    assert result.audit["doc_level_gold"] == 2


@pytest.mark.parametrize(("metric", "value"), BY_DOCUMENT)
def test_document_said_by_the_log(metric: str, value: float) -> None:
    """doc_id in the hit wins over the guess from the id; gold that says doc_id means documents."""
    hits = [{"chunk_id": f"chunk {i}", "doc_id": item.split("#")[0]} for i, item in enumerate(CHUNKS)]
    gold = [{"query_id": "q", "gold": [{"doc_id": doc, "grade": grade} for doc, grade in DOCUMENTS.items()]}]
    assert karat.evaluate([{"query_id": "q", "topk": hits}], gold, [metric]).score(metric)["q"] == close(value)


@pytest.mark.parametrize("doc_of", ["/", r"(\w+)/"])
@pytest.mark.parametrize(("metric", "value"), BY_DOCUMENT)
def test_document_by_another_rule(metric: str, value: float, doc_of: str) -> None:
    ranking = [item.replace("#", "/") for item in CHUNKS]
    assert score(ranking, DOCUMENTS, metric, doc_of=doc_of) == close(value)


def test_chunk_gold_takes_no_other_chunk() -> None:
    gold = {"d2#p2": 1}
    assert score(CHUNKS, gold, "mrr") == 1 / 3
    assert score(CHUNKS, gold, "precision@5") == 1 / 5
    assert score(["d2#p1"], gold, "recall@1") == 0.0


def test_documents_and_chunks_in_one_gold_set() -> None:
    """The exact id wins; what is left of the document's chunks goes to the document."""
    ranking = ["d1#p1", "d1#p2", "d1#p3", "d2#p2", "d2#p1"]
    gold = {"d1": 1, "d1#p2": 2, "d2#p1": 1}
    assert score(ranking, gold, "recall@2") == 2 / 3
    assert score(ranking, gold, "recall@5") == 1.0
    assert score(ranking, gold, "precision@5") == 4 / 5
    assert score(ranking, gold, "wrecall@2") == 3 / 4
    assert score(ranking, gold, "map") == close((1 + 1 + 3 / 5) / 3)


@pytest.mark.parametrize(
    ("ranking", "value"),
    [
        (["n#1", "a#1", "b#1"], (1 / 2 + 1 / 2) / 3),
        (["n#1", "n#2", "a#1", "b#1"], (1 / 2 + 1 / 2) / 3),
        (["n#1", "n#2", "m#1", "a#1"], 0.0),
        (["a#1", "n#1", "n#2", "n#3", "a#2", "b#1"], (1 + 1 / 2) / 3),
    ],
)
def test_bpref_counts_a_bad_document_once(ranking: list[str], value: float) -> None:
    """R = 3 and N = 2 documents: a later chunk of a bad one adds nothing, as that of a good one."""
    assert score(ranking, {"a": 1, "b": 1, "c": 1, "n": 0, "m": 0}, "bpref") == close(value)


def test_bpref_of_documents_is_never_negative() -> None:
    assert score(["n#1", "n#2", "n#3", "a#1", "b#1", "c#1"], {"n": 0, "a": 1, "b": 1, "c": 1}, "bpref") == 0.0


# Short and empty lists


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("precision@5", 1 / 5),  # divides by k all the same
        ("f1@5", 2 * (1 / 5) * (1 / 2) / (1 / 5 + 1 / 2)),
        ("recall@5", 1 / 2),
        ("hit@5", 1.0),
        ("complete@5", 0.0),
        ("ndcg@5", 1 / (1 + 1 / log2(3))),
        ("map@5", 1 / 2),
        ("judged@5", 1 / 2),  # what is shown is judged or not: divides by the hits
        ("distinct_docs@5", 2.0),
        ("redundancy@5", 3 / 5),
        ("redundancy(by=returned)@5", 0.0),
        ("precision(by=returned)@5", 1 / 2),
        ("rprecision", 1 / 2),
    ],
)
def test_fewer_hits_than_k(metric: str, value: float) -> None:
    assert score(["a", "x"], {"a": 1, "b": 1}, metric) == close(value)


EMPTY = [
    ("hit@5", 0.0),
    ("complete@5", 0.0),
    ("recall@5", 0.0),
    ("wrecall@5", 0.0),
    ("precision@5", 0.0),
    ("f1@5", 0.0),
    ("rprecision", 0.0),
    ("mrr", 0.0),
    ("map", 0.0),
    ("ndcg@5", 0.0),
    ("bpref", 0.0),
    ("rbp", 0.0),
    ("rbp_residual", 1.0),
    ("target_rank", None),
    ("judged@5", None),
    ("redundancy@5", None),
    ("redundancy(by=returned)@5", None),
    ("precision(by=returned)@5", 0.0),
    ("rbp(top=3)", 0.0),
    ("novelty@5", None),
]


@pytest.mark.parametrize(("metric", "value"), [*EMPTY, ("distinct_docs@5", 0.0)])
def test_empty_list(metric: str, value: float | None) -> None:
    """The query was answered, with nothing: it failed."""
    result = karat.evaluate({"q": [], "p": ["a"]}, {"q": ["a"], "p": ["a"]}, [metric])
    assert result.score(metric)["q"] == value
    assert result.audit["empty_results"] == 1
    assert result.audit["missing_queries"] == 0


@pytest.mark.parametrize(("metric", "value"), [*EMPTY, ("distinct_docs@5", None)])
def test_missing_query(metric: str, value: float | None) -> None:
    result = karat.evaluate({"p": ["a"]}, {"q": ["a"], "p": ["a"]}, [metric])
    assert result.score(metric)["q"] == value
    assert result.audit["missing_queries"] == 1


@pytest.mark.parametrize("metric", ["recall@5", "hit@5", "ndcg@5", "mrr", "map", "bpref", "rbp", "rbp_residual"])
@pytest.mark.parametrize("gold", [{}, {"a": 0}, {"a": -1}, {"a": 0, "b": -1}])
def test_no_relevant_gold(metric: str, gold: dict[str, float]) -> None:
    result = karat.evaluate({"q": ["a"], "p": ["a"]}, {"q": gold, "p": ["a"]}, [metric])
    assert result.score(metric)["q"] is None
    (row,) = result.summary_rows
    assert (row.n, row.undefined) == (1, 1)
    assert row.mean == result.score(metric)["p"]


def test_hits_under_a_score_are_cut() -> None:
    run = {"x": 3.0, "a": 2.0, "y": 1.0, "b": 0.5}
    gold = ["a", "b"]
    assert score(run, gold, "recall@4") == 1.0
    assert score(run, gold, "recall@4", min_score=1.0) == 0.5  # a hit at the threshold stays
    assert score(run, gold, "judged@4", min_score=2.0) == 0.5
    assert score(run, gold, "distinct_docs@4", min_score=2.5) == 1.0
    assert score(run, gold, "recall@4", min_score=9.0) == 0.0


# RBP and what is unknown of it


@pytest.mark.parametrize(
    ("ranking", "rbp", "residual"),
    [
        ([], 0.0, 1.0),
        (["?"], 0.0, 1.0),
        (["n"], 0.0, 1 / 2),  # judged: it is known that nothing is gained there
        (["a"], 1 / 2, 1 / 2),  # the places past the end
        (["?", "a"], 1 / 4, 3 / 4),
        (["a", "n", "?", "b"], 1 / 2 + 1 / 16, 1 / 8 + 1 / 16),
    ],
)
def test_rbp_residual(ranking: list[str], rbp: float, residual: float) -> None:
    gold = {"a": 1, "b": 2, "n": 0}
    assert score(ranking, gold, "rbp(p=0.5)") == close(rbp)
    assert score(ranking, gold, "rbp_residual(p=0.5)") == close(residual)


def test_rbp_of_a_long_list_stays_in_range() -> None:
    """All of 500 hits relevant: rounding must not bring more than 1 nor leave less than 0."""
    ids = [str(i) for i in range(500)]
    persistences = [i / 100 for i in range(1, 100)]
    metrics = [f"{name}(p={p})" for p in persistences for name in ("rbp", "rbp_residual")]
    means = karat.evaluate({"q": ids}, {"q": ids}, metrics).means
    assert {metric: value for metric, value in means.items() if not 0.0 <= value <= 1.0} == {}


# Do hits repeat each other


@pytest.mark.parametrize(
    ("k", "distinct", "redundancy"),
    [(1, 1.0, 0.0), (2, 1.0, 1 / 2), (3, 2.0, 1 / 3), (4, 2.0, 1 / 2), (100, 2.0, 98 / 100)],
)
def test_redundancy(k: int, distinct: float, redundancy: float) -> None:
    """1 − distinct / k; by hits returned where they are fewer than k, and lists that are shorter are counted."""
    ranking = ["a#1", "a#2", "b#1", "b#2"]
    assert score(ranking, ["a#1"], f"redundancy(by=returned)@{k}") == close(1 - distinct / min(k, 4))
    run, gold = {"q": ranking, "p": [], "r": ranking * 2}, {name: ["a#1"] for name in "qpr"}
    result = karat.evaluate(run, gold, [f"redundancy@{k}", "redundancy@1"])
    assert result.audit["short_lists"] == (2 if k > 4 else 0)
    assert karat.evaluate(run, gold, [f"redundancy(by=returned)@{k}"]).audit["short_lists"] == 0
    assert score(ranking, ["a#1"], f"distinct_docs@{k}") == distinct
    assert score(ranking, ["a#1"], f"redundancy@{k}") == close(redundancy)


def test_document_of_a_hit() -> None:
    """The log's doc_id where it says one, else the part before the mark."""
    hits = [{"chunk_id": "a#1", "doc_id": "one"}, {"chunk_id": "b#1", "doc_id": "one"}, {"chunk_id": "one#7"}, "c"]
    run = [{"query_id": "q", "topk": hits}]
    assert karat.evaluate(run, {"q": ["x"]}, ["distinct_docs@4"]).means == {"distinct_docs@4": 2.0}


def novelty(texts: list[str | None], metric: str) -> float | None:
    run = [{"query_id": "q", "topk": [{"chunk_id": str(i), "text": text} for i, text in enumerate(texts)]}]
    return karat.evaluate(run, {"q": ["0"]}, [metric]).score(metric)["q"]


FIVE = "one two three four five"  # three shingles of three words


@pytest.mark.parametrize(
    ("texts", "metric", "value"),
    [
        ([FIVE], "novelty@5", 1.0),
        ([FIVE, FIVE], "novelty@5", 1 / 2),
        ([FIVE, "ONE, two; three (four) five!"], "novelty@5", 1 / 2),  # words, in lower case
        ([FIVE, "five four three two one"], "novelty@5", 1.0),  # their order matters
        ([FIVE, FIVE], "novelty@1", 1.0),
        # one of three shingles stands higher up: less than a half, not less than a third
        ([FIVE, "one two three 4 5"], "novelty@2", 1.0),
        ([FIVE, "one two three 4 5"], "novelty(threshold=0.3)@2", 1 / 2),
        # one of two: a half is not less than a half
        ([FIVE, "one two three 4"], "novelty@2", 1 / 2),
        ([FIVE, "one two three 4"], "novelty(threshold=0.6)@2", 1.0),
        # all higher ranks together, not one of them
        (["a b c d", "c d e f", "a b c d e f"], "novelty(shingle=2)@3", 2 / 3),
        # single words, and pairs
        ([FIVE, "five one"], "novelty(shingle=1)@2", 1 / 2),
        ([FIVE, "five one"], "novelty(shingle=2)@2", 1.0),
        # a text shorter than a shingle is one shingle
        (["cards", "cards", "refunds"], "novelty@3", 2 / 3),
        (["", ""], "novelty@2", 1 / 2),
        # of three hits shown, not of k
        ([FIVE, FIVE, "something else entirely"], "novelty@10", 2 / 3),
        # without every text it cannot be told
        ([FIVE, None], "novelty@2", None),
        ([FIVE, None], "novelty@1", 1.0),
        ([None, None], "novelty@2", None),
    ],
)
def test_novelty(texts: list[str | None], metric: str, value: float | None) -> None:
    assert novelty(texts, metric) == close(value)


def test_novelty_looks_at_the_ranking() -> None:
    """Not at the order in which the log lists the hits."""
    topk = [
        {"chunk_id": "low", "text": "one two three", "rank": 2},
        {"chunk_id": "high", "text": "one two three four five six", "rank": 1},
    ]
    run = [{"query_id": "q", "topk": topk}]
    # Read from the top, the second says nothing new; read as listed, a quarter of its words would be old.
    assert karat.evaluate(run, {"q": ["high"]}, ["novelty@2"]).means == {"novelty@2": 0.5}


# Time


def latency(logged: list[dict[str, float | None] | None], metric: str) -> karat.Result:
    run = [{"query_id": str(i), "topk": ["a"], "latency_ms": stages} for i, stages in enumerate(logged)]
    return karat.evaluate(run, {str(i): ["a"] for i in range(len(logged))}, [metric])


@pytest.mark.parametrize(
    ("stages", "metric", "value"),
    [
        ({"retrieve": 30, "rerank": 12.5}, "latency", 42.5),
        ({"retrieve": 30, "rerank": 12.5}, "latency(stage=rerank)", 12.5),
        ({"retrieve": 30, "rerank": 12.5}, "latency(stage=embed)", None),
        ({"retrieve": 30, "rerank": 12.5}, "latency(stage=total)", None),
        ({"retrieve": 30, "total": 50}, "latency", 50.0),  # what was measured wins over the sum
        ({"retrieve": 30, "total": 50}, "latency(stage=retrieve)", 30.0),
        ({"retrieve": 30, "total": 50}, "latency(stage=total)", 50.0),
        ({"retrieve": 30, "rerank": None}, "latency", 30.0),
        ({"retrieve": 30, "total": None}, "latency", 30.0),
        ({"retrieve": None}, "latency", None),
        ({"retrieve": 0}, "latency", 0.0),
        ({}, "latency", None),
        (None, "latency", None),
    ],
)
def test_latency_of_a_query(stages: dict[str, float | None] | None, metric: str, value: float | None) -> None:
    assert latency([stages], metric).score(metric)["0"] == value


def test_latency_of_each_query_is_its_own() -> None:
    """One query with a total does not take the stages from another that has none."""
    result = latency([{"retrieve": 1, "rerank": 2}, {"retrieve": 3, "total": 9}, {"rerank": 5}, None], "latency")
    assert list(result.score("latency").values()) == [3.0, 9.0, 5.0, None]
    assert result.means["latency"] == close(17 / 3)


@pytest.mark.parametrize(
    ("metric", "value"),
    [("latency", 40.0), ("latency_p50", 30.0), ("latency_p90", 80.0), ("latency_p99", 98.0)],
)
def test_latency_quantiles(metric: str, value: float) -> None:
    """Linear interpolation between order statistics, over the queries that were timed."""
    timed = [{"retrieve": ms} for ms in (100, 10, 30, 50, 10)]
    result = latency([*timed, None], metric)
    assert result.means[metric] == close(value)
    (row,) = result.summary_rows
    assert (row.n, row.undefined) == (5, 1)


def test_latency_of_a_missing_query() -> None:
    run = [{"query_id": "a", "topk": ["x"], "latency_ms": {"retrieve": 7}}]
    assert karat.evaluate(run, {"a": ["x"], "b": ["x"]}, ["latency"]).score("latency") == {"a": 7.0, "b": None}


# Where the ceiling is


@pytest.mark.parametrize(
    ("metric", "ceiling"),
    [
        ("hit@1", 1.0),
        ("complete@1", 0.0),
        ("complete@2", 1.0),
        ("recall@1", 1 / 2),
        ("recall@2", 1.0),
        ("recall(rel=2)@1", 1.0),
        ("wrecall@1", 3 / 4),
        ("precision@1", 1.0),
        ("precision@5", 2 / 5),
        ("f1@1", 2 / 3),
        ("f1@5", 2 * (2 / 5) / (2 / 5 + 1)),
        ("rprecision", 1.0),
        ("mrr", 1.0),
        ("target_rank", 1.0),
        ("map", 1.0),
        ("map@1", 1 / 2),
        ("ndcg@1", 1.0),
        ("ndcg@5", 1.0),
        ("bpref", 1.0),
        ("rbp(p=0.5)", 3 / 4),
        ("rbp(p=0.5)@1", 1 / 2),
        ("rbp(p=0.5,top=3)", 1 / 2 + 1 / 12),
        ("rbp(p=0.5,top=2)", 1 / 2 + 1 / 8),
        ("precision(by=returned)@5", 1.0),
        ("rbp_residual", None),
        ("judged@5", None),
        ("distinct_docs@5", None),
        ("redundancy@5", None),
        ("novelty@5", None),
        ("latency", None),
    ],
)
def test_ceiling(metric: str, ceiling: float | None) -> None:
    """Two relevant items, of grades 3 and 1, and a run that found neither."""
    result = karat.evaluate({"q": ["x"]}, {"q": {"a": 3, "b": 1, "n": 0}}, [metric])
    assert result.summary_rows[0].ceiling == close(ceiling)


def test_ceiling_is_a_mean_over_queries() -> None:
    gold = {"one": ["a"], "two": ["a", "b"], "missing": ["a", "b", "c", "d"], "none": {"a": 0}}
    run = {"one": ["x"], "two": ["x"], "none": ["a"]}
    result = karat.evaluate(run, gold, ["recall@1"])
    assert result.summary_rows[0].ceiling == close((1 + 1 / 2 + 1 / 4) / 3)


@pytest.mark.parametrize("metric", ["precision@2", "f1@2"])
def test_no_ceiling_where_documents_are_gold(metric: str) -> None:
    """Two chunks of the one relevant document: any number of them may count."""
    result = karat.evaluate({"q": ["d#1", "d#2"]}, {"q": ["d"]}, [metric])
    assert result.means[metric] == 1.0
    assert result.summary_rows[0].ceiling is None


# Where chance would be


def floor(metric: str, relevant: int, corpus: int, **options: Any) -> float | None:
    gold = {"q": {str(i): 1 for i in range(relevant)}}
    return karat.evaluate({"q": ["x"]}, gold, [metric], corpus_size=corpus, **options).summary_rows[0].floor


@pytest.mark.parametrize("k", [1, 2, 5, 10, 19, 20, 50])
@pytest.mark.parametrize("relevant", [1, 2, 7, 19, 20])
@pytest.mark.parametrize("corpus", [20, 1000])
def test_floor_of_hit_is_hypergeometric(k: int, relevant: int, corpus: int) -> None:
    """At least one of G in k draws out of N without putting back: 1 − C(N−G, k) / C(N, k)."""
    drawn = min(k, corpus)
    value = 1 - comb(corpus - relevant, drawn) / comb(corpus, drawn)
    assert floor(f"hit@{k}", relevant, corpus) == close(value)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("recall@1", 1 / 50),
        ("recall@5", 5 / 50),
        ("recall@50", 1.0),
        ("recall@80", 1.0),
        ("precision@1", 4 / 50),
        ("precision@5", 4 / 50),
        ("mrr", None),
        ("ndcg@5", None),
        ("latency", None),
    ],
)
def test_floor(metric: str, value: float | None) -> None:
    assert floor(metric, 4, 50) == close(value)


def test_floor_of_precision_past_the_corpus() -> None:
    """Precision divides by k, so places past the end of the corpus gain nothing: all 4 of 50 in 80 places."""
    assert floor("precision@80", 4, 50) == close(4 / 80)


def test_floor_of_a_level() -> None:
    gold = {"q": {"a": 2, "b": 1, "c": 1}, "p": {"a": 1}}
    result = karat.evaluate({"q": ["x"], "p": ["x"]}, gold, ["hit(rel=2)@3", "precision(rel=2)@3"], corpus_size=30)
    rows = {row.metric: row.floor for row in result.summary_rows}
    # p has nothing of that level and stays out.
    assert rows == pytest.approx({"hit(rel=2)@3": 3 / 30, "precision(rel=2)@3": 1 / 30}, abs=1e-12)


def test_floor_with_the_cutoff_of_each_query() -> None:
    gold = [{"query_id": "a", "gold": ["x"], "k": 2}, {"query_id": "b", "gold": ["x"]}]
    result = karat.evaluate({"a": ["y"], "b": ["y"]}, gold, ["recall", "hit"], k=4, corpus_size=20)
    assert [row.floor for row in result.summary_rows] == [close((2 / 20 + 4 / 20) / 2)] * 2


def test_no_floor_without_a_corpus() -> None:
    assert karat.evaluate({"q": ["x"]}, {"q": ["a"]}, ["recall@1"]).summary_rows[0].floor is None


def test_no_floor_by_document() -> None:
    """Of five documents cut into a thousand chunks each, chance finds the right one far more often than k / N."""
    result = karat.evaluate({"q": ["d#1"]}, {"q": ["d#2"]}, ["recall@5", "recall(level=doc)@5"], corpus_size=5000)
    assert [row.floor for row in result.summary_rows] == [close(0.001), None]
