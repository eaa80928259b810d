"""Make the two run logs of the demo set by running two real retrievers over its corpus.

    python examples/helpdesk/make_runs.py        (needs karat[baselines,dense])

`bm25.jsonl` is BM25 alone; `bm25_rerank.jsonl` is BM25's top 50, put in a new order by the mean of its own
score and the similarity of static word vectors. Both are logged with the times that were measured.
"""

from __future__ import annotations

import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import karat
from karat.data.corpus import Corpus
from karat.data.gold import Gold
from karat.formats.corpus import read_corpus
from karat.retrievers.bm25 import BM25
from karat.retrievers.dense import StaticEmbedder

HERE = Path(__file__).parent
K_RAW, K = 50, 10
CHUNKER = {"algo": "by hand, a paragraph each", "overlap": 0}
Hits = list[tuple[str, float]]


def main() -> None:
    corpus, gold = read_corpus(HERE / "corpus.jsonl"), karat.read_gold(HERE / "gold.jsonl")
    retriever = BM25()
    retriever.index(corpus)
    reranker = Reranker(corpus)
    common = {"k_raw": K_RAW, "index_version": f"helpdesk-{gold.dataset.version}", "chunker": CHUNKER}
    plain = karat.RunLogWriter(str(HERE / "bm25.jsonl"), system="bm25", retriever=retriever.settings(), **common)
    better = karat.RunLogWriter(
        str(HERE / "bm25_rerank.jsonl"),
        system="bm25 + static rerank",
        retriever=retriever.settings(),
        reranker=reranker.settings(),
        **common,
    )
    versions = dict(zip(corpus.ids, corpus.fields["version"], strict=True))
    with plain, better:
        for query_id, text, language in questions(gold):
            started = time.perf_counter()
            raw = retriever.search(text, K_RAW, language=language)
            retrieved = time.perf_counter()
            final = reranker.rerank(text, raw)
            done = time.perf_counter()
            times = {"retrieve": ms(retrieved - started)}
            plain.write(query_id, described(raw[:K], versions), raw=pairs(raw), latency_ms=times, query=text)
            times = {**times, "rerank": ms(done - retrieved)}
            better.write(query_id, described(final[:K], versions), raw=pairs(raw), latency_ms=times, query=text)
    print(f"wrote {len(gold.queries)} queries to bm25.jsonl and bm25_rerank.jsonl", file=sys.stderr)


class Reranker:
    """BM25's score and the similarity of static vectors, each scaled to 0 … 1 among the candidates, half each."""

    def __init__(self, corpus: Corpus) -> None:
        self.model = StaticEmbedder()
        texts = [f"{title}\n{text}" for title, text in zip(corpus.titles, corpus.texts, strict=True)]
        self.vectors = self.model.embed(texts)
        self.row = {chunk: i for i, chunk in enumerate(corpus.ids)}

    def rerank(self, query: str, hits: Hits) -> Hits:
        if not hits:
            return []
        (vector,) = self.model.embed([query])
        similarity = self.vectors[[self.row[chunk] for chunk, _ in hits]] @ vector
        score = (scaled(similarity) + scaled(np.array([s for _, s in hits]))) / 2
        order = np.argsort(-score, kind="stable")
        return [(hits[i][0], round(float(score[i]), 6)) for i in order.tolist()]

    def settings(self) -> dict[str, object]:
        return {"model": "wordllama l2_supercat 256", "weight": 0.5, "depth": K_RAW}


@cache
def reranker() -> Reranker:
    return Reranker(read_corpus(HERE / "corpus.jsonl"))


def rerank(query: str, hits: list[dict[str, Any]]) -> Hits:
    """The same reranker for `karat stress … --reranker make_runs:rerank`, in this folder."""
    return reranker().rerank(query, [(hit["chunk_id"], hit["score"]) for hit in hits])


def scaled(values: np.ndarray) -> np.ndarray:
    span = float(values.max() - values.min())
    return (values - values.min()) / span if span > 0 else np.zeros(len(values))


def questions(gold: Gold) -> list[tuple[str, str, str]]:
    return list(zip(gold.queries, gold.fields["query"], gold.tags["language"], strict=True))


def described(hits: Hits, versions: dict[str, str]) -> list[dict[str, object]]:
    return [{"chunk_id": chunk, "score": round(score, 6), "doc_version": versions[chunk]} for chunk, score in hits]


def pairs(hits: Hits) -> list[dict[str, object]]:
    return [{"rank": rank, "chunk_id": chunk, "score": round(score, 6)} for rank, (chunk, score) in enumerate(hits, 1)]


def ms(seconds: float) -> float:
    return round(seconds * 1000, 3)


if __name__ == "__main__":
    main()
