"""One reranker serves `karat run` and `karat stress`, and both put the same hits in the same order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from refusals import refused

import karat
from karat.data.corpus import Corpus
from karat.systems.run import run_retriever

TEXTS = {"a": "apple red", "b": "apple", "c": "apple apple tree", "n": "pear"}
CORPUS = Corpus("fruit", list(TEXTS), [""] * 4, list(TEXTS.values()))
GOLD = [{"query_id": "q", "query": "apple", "gold": ["a"], "negatives": ["n"]}]
LENGTHS = {item: float(len(text)) for item, text in TEXTS.items()}


def of_texts(query: str, texts: list[str]) -> list[float]:
    return [float(len(text)) for text in texts]


async def waits(query: str, texts: list[str]) -> list[int]:
    return [len(text) for text in texts]


def of_hits(query: str, hits: list[dict[str, Any]]) -> list[float]:
    return [float(len(hit["text"])) for hit in hits]


def ids(query: str, hits: list[dict[str, Any]]) -> list[str]:
    return sorted((hit["chunk_id"] for hit in hits), key=lambda item: -LENGTHS[item])


def pairs(query: str, hits: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(item, LENGTHS[item]) for item in ids(query, hits)]


class Model:
    def rerank(self, query: str, documents: list[str]) -> list[float]:
        return of_texts(query, documents)


def in_run(reranker: Any) -> list[str]:
    """The order that `karat run` logs."""
    from karat.retrievers.combined import Rerank

    (record,) = run_retriever(Rerank(reranker=reranker), GOLD, corpus=CORPUS, warm_up=0).run
    assert "error" not in record, record["error"]
    return [hit["chunk_id"] for hit in record["topk"]]


def in_stress(reranker: Any) -> float | None:
    """nDCG of the same candidates, reranked by `karat stress`."""
    run = run_retriever("bm25", GOLD, corpus=CORPUS, warm_up=0).run
    return karat.systems.stress_test(run, GOLD, at=[1], reranker=reranker, corpus=CORPUS).rows[0].change.baseline


@pytest.mark.parametrize("reranker", [of_texts, waits, of_hits, ids, pairs, Model()])
def test_every_form_works_in_both(reranker: Callable[..., Any]) -> None:
    order = sorted("abc", key=lambda item: -LENGTHS[item])
    assert in_run(reranker) == order
    expected = karat.evaluate({"q": order}, GOLD, ["ndcg@5"]).means["ndcg@5"]
    assert in_stress(reranker) == pytest.approx(expected)


def test_static_vectors_serve_both() -> None:
    expected = karat.evaluate({"q": in_run("static")}, GOLD, ["ndcg@5"]).means["ndcg@5"]
    assert in_stress("static") == pytest.approx(expected)


def test_a_service_serves_both(server: Any) -> None:
    def answer(path: str, body: Any) -> Any:
        scores = of_texts(body["query"], body["documents"])
        return {"results": [{"index": i, "relevance_score": score} for i, score in enumerate(scores)]}

    server.answer = answer
    assert in_run(f"{server.url}/rerank") == in_run(of_texts)
    assert in_stress(f"{server.url}/rerank") == in_stress(of_texts)


@pytest.mark.parametrize(
    "answer", [lambda query, hits: ["a", "made up"], lambda query, hits: ["a", "a"], lambda query, texts: [0.1]]
)
def test_a_bad_answer_is_one_in_both(answer: Callable[..., Any]) -> None:
    with refused("bad-answer", query="q"):
        in_stress(answer)
    with pytest.raises(AssertionError):
        in_run(answer)
