"""Two retrievers fused by rank."""

from __future__ import annotations

from collections import Counter
from typing import Any

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.errors import ConfigError
from karat.retrievers.base import Found, Retriever, Stopwatch, ranked, timed
from karat.retrievers.specs import make_retriever
from karat.retrievers.templates import as_field


class Hybrid(Retriever):
    """Reciprocal rank fusion: a hit's score is the sum of 1 / (constant + rank) over the two lists.

    `prefetch` is how many hits each of the two brings (more where k asks for more). Each rank counts, no score does:
    scores of two retrievers cannot be compared.
    """

    name = "hybrid"

    def __init__(
        self, first: Retriever | None = None, second: Retriever | None = None, prefetch: int = 100, constant: float = 60
    ) -> None:
        if prefetch < 1 or constant < 0:
            raise ConfigError("the prefetch limit is 1 or more, the constant 0 or more", got=f"{prefetch}, {constant}")
        self.first, self.second = first or make_retriever("bm25"), second or make_retriever("dense")
        self.prefetch, self.constant = prefetch, constant
        self.searches_corpus = self.first.searches_corpus or self.second.searches_corpus

    def index(self, corpus: Corpus) -> None:
        self.first.index(corpus)
        self.second.index(corpus)

    def depth(self, k: int) -> int:
        return max(k, self.prefetch)

    def answer(self, question: Question, k: int) -> Found:
        parts = [timed(part, question, self.depth(k)) for part in (self.first, self.second)]
        watch = Stopwatch()
        with watch.stage("fuse"):
            hits = fused([part.hits[: self.depth(k)] for part in parts], self.constant)[:k]
        # A stage that both have took the time of both: one is asked after the other.
        spent = Counter(parts[0].latency_ms) + Counter(parts[1].latency_ms)
        used = [entry for part in parts for entry in part.fields.get("usage", ())]
        return Found(hits, dict(spent) | watch.latency_ms, fields=as_field(used))


def fused(lists: list[list[dict[str, Any]]], constant: float) -> list[dict[str, Any]]:
    """The hits of several lists, best first; the first place of a hit in a list counts.

    >>> [hit["chunk_id"] for hit in fused([[{"chunk_id": "a"}, {"chunk_id": "b"}], [{"chunk_id": "b"}]], 60)]
    ['b', 'a']
    """
    scores: dict[str, float] = {}
    known: dict[str, dict[str, Any]] = {}
    for hits in lists:
        first = list({hit["chunk_id"]: hit for hit in reversed(hits)}.values())[::-1]
        for rank, hit in enumerate(first, 1):
            scores[hit["chunk_id"]] = scores.get(hit["chunk_id"], 0.0) + 1 / (constant + rank)
            known.setdefault(hit["chunk_id"], hit)
    best = ranked(list(scores), list(scores.values()), len(scores))
    return [{**known[item], "score": score} for item, score in best]
