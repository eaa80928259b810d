"""The worked examples of the documents that Karat was asked for with."""

from __future__ import annotations

import json
from math import log2
from pathlib import Path

import pytest

import karat

RANKING = ["7", "3", "1", "9", "2"]
RELEVANT = ["3", "9"]


def mean(run: object, gold: object, metric: str, **options: object) -> float | None:
    (value,) = karat.evaluate(run, gold, [metric], **options).means.values()
    return value


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("hit@5", 1.0),
        ("recall@5", 1.0),
        ("mrr", 0.5),
        ("ndcg@5", (1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3))),
        ("ndcg(gain=linear)@5", (1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3))),
        ("retrieval-hit-at-k", 1.0),
        ("retrieval-recall-at-k", 1.0),
        ("retrieval-mrr", 0.5),
        ("retrieval-ndcg-at-k", (1 / log2(3) + 1 / log2(5)) / (1 + 1 / log2(3))),
    ],
)
def test_complete_but_poorly_ordered(metric: str, value: float) -> None:
    assert mean({"q": RANKING}, {"q": RELEVANT}, metric) == pytest.approx(value, abs=1e-15)


def test_ndcg_is_about_two_thirds() -> None:
    assert mean({"q": RANKING}, {"q": RELEVANT}, "ndcg@5") == pytest.approx(0.65, abs=0.005)


def ranked(target: int, depth: int = 10) -> list[str]:
    """A list in which the target stands at the given rank, if that is not past its end."""
    return ["target" if rank == target else f"other-{rank}" for rank in range(1, depth + 1)]


@pytest.mark.parametrize(("metric", "depth"), [("mrr", 10), ("mrr@10", 11)])
def test_mrr_of_six_queries(metric: str, depth: int) -> None:
    """Targets at 1, 2, 3, 5, 10 and one outside of the top 10, where the document rounds 2.1333 / 6 to 0.355."""
    ranks = [1, 2, 3, 5, 10, 11]
    run = {f"q{rank}": ranked(rank, depth) for rank in ranks}
    result = karat.evaluate(run, {query: ["target"] for query in run}, [metric])
    assert list(result.score(metric).values()) == [1.0, 0.5, 1 / 3, 0.2, 0.1, 0.0]
    assert result.means[metric] == pytest.approx((1 + 1 / 2 + 1 / 3 + 1 / 5 + 1 / 10) / 6, abs=1e-15)
    assert result.means[metric] == pytest.approx(0.355, abs=0.001)


@pytest.mark.parametrize(("top", "mrr"), [(1, 0.82), (5, 0.18)])
def test_equal_recall_and_unequal_mrr(top: int, mrr: float) -> None:
    """80 targets at the top or at the end of the top 5, 20 at rank 10: recall@5 is 0.8 for both."""
    run = {f"q{i}": ranked(top if i < 80 else 10) for i in range(100)}
    result = karat.evaluate(run, {query: ["target"] for query in run}, ["recall@5", "mrr"])
    assert result.means == pytest.approx({"recall@5": 0.8, "mrr": mrr}, abs=1e-12)


@pytest.mark.parametrize(("k", "floor"), [(1, 0.005), (5, 0.025), (10, 0.05)])
def test_random_recall(k: int, floor: float) -> None:
    """k / N, for N = 200."""
    result = karat.evaluate({"q": RANKING}, {"q": RELEVANT}, [f"recall@{k}"], corpus_size=200)
    assert result.summary_rows[0].floor == pytest.approx(floor, abs=1e-15)


@pytest.mark.parametrize(
    ("alias", "text"),
    [
        ("retrieval-hit-at-k", "hit@k"),
        ("retrieval-recall-at-k", "recall@k"),
        ("retrieval-mrr", "mrr"),
        ("retrieval-ndcg-at-k", "ndcg(gain=linear)@k"),
        ("retrieval-ndcg-at-10", "ndcg(gain=linear)@10"),
        ("retrieval_recall_at_5", "recall@5"),
        ("retrieval_mrr", "mrr"),
        ("wrecall", "wrecall@k"),
        ("wrecall@5", "wrecall@5"),
        ("hit_rate@10", "hit@10"),
        ("P@5", "precision@5"),
        ("success@5", "hit@5"),
        ("ndcg_cut_10", "ndcg(gain=linear)@10"),
        ("Recall@5", "recall@5"),
        ("nDCG@5", "ndcg@5"),
        ("MRR", "mrr"),
    ],
)
def test_names(alias: str, text: str) -> None:
    assert str(karat.Metric.parse(alias)) == text
    assert karat.Metric.parse(alias) == karat.Metric.parse(text)


GRADES = {"a": 3, "b": 1}
# Of the ideal a, b the run has b at 1 and a at 3.
LINEAR = (1 + 3 / log2(4)) / (3 + 1 / log2(3))
EXPONENTIAL = (1 + 7 / log2(4)) / (7 + 1 / log2(3))


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("retrieval-ndcg-at-k", LINEAR),
        ("retrieval-ndcg-at-3", LINEAR),
        ("ndcg_cut_3", LINEAR),
        ("ndcg(gain=linear)@3", LINEAR),
        ("ndcg@3", EXPONENTIAL),
        ("ndcg", EXPONENTIAL),
    ],
)
def test_gain_of_each_name(metric: str, value: float) -> None:
    assert mean({"q": ["b", "x", "a"]}, {"q": GRADES}, metric) == pytest.approx(value, abs=1e-15)


@pytest.fixture
def samples(tmp_path: Path) -> tuple[Path, Path]:
    """Outputs and samples of the contract: the first sample has a k of its own."""
    gold = tmp_path / "samples.yaml"
    gold.write_text(
        "samples:\n"
        "- {id: s1, input: {question: one?}, expected_output: [doc-3, doc-9], metadata: {k: 2}}\n"
        "- {id: s2, input: {question: two?}, expected_output: {doc-3: 1, doc-9: 2}}\n"
    )
    hits = [{"id": f"doc-{i}", "text": "…"} for i in RANKING]
    outputs = [
        {"id": "s1", "actualOutput": json.dumps({"retrieved": hits})},
        {"id": "s2", "actualOutput": [hit["id"] for hit in hits]},
    ]
    run = tmp_path / "outputs.jsonl"
    run.write_text("".join(json.dumps(output) + "\n" for output in outputs))
    return run, gold


@pytest.mark.parametrize(
    ("metric", "k", "scores"),
    [
        ("retrieval-recall-at-k", 5, {"s1": 0.5, "s2": 1.0}),  # the sample's own k, else the one asked for
        ("retrieval-recall-at-k", 3, {"s1": 0.5, "s2": 0.5}),
        ("recall", 1, {"s1": 0.5, "s2": 0.0}),
        ("recall@5", 1, {"s1": 1.0, "s2": 1.0}),  # k in the name wins over both
        ("precision", 5, {"s1": 0.5, "s2": 0.4}),
        ("retrieval-hit-at-k", 1, {"s1": 1.0, "s2": 0.0}),
        ("retrieval-mrr", 1, {"s1": 0.5, "s2": 0.5}),  # looks as deep as the run goes
        ("judged", 4, {"s1": 0.5, "s2": 0.5}),
        ("distinct_docs", 4, {"s1": 2.0, "s2": 4.0}),
        (
            "retrieval-ndcg-at-k",
            5,
            {"s1": 1 / log2(3) / (1 + 1 / log2(3)), "s2": (1 / log2(3) + 2 / log2(5)) / (2 + 1 / log2(3))},
        ),
    ],
)
def test_k_of_a_sample(samples: tuple[Path, Path], metric: str, k: int, scores: dict[str, float]) -> None:
    run, gold = samples
    assert karat.evaluate(run, gold, [metric], k=k).score(metric) == pytest.approx(scores, abs=1e-15)


def test_default_k_is_five() -> None:
    run = {"q": ["a", "b", "c", "d", "e", "f"]}
    assert mean(run, {"q": ["e"]}, "recall") == 1.0
    assert mean(run, {"q": ["f"]}, "recall") == 0.0
