"""Retrievers made of others: fusion of two, and reranking of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.errors import ConfigError
from karat.registry import title_of
from karat.retrievers.base import Found, Retriever, Stopwatch, ranked, timed
from karat.retrievers.dense import STATIC
from karat.retrievers.rerankers import make_reranker
from karat.retrievers.specs import make_retriever
from karat.retrievers.templates import Used, as_field


class Hybrid(Retriever):
    """Reciprocal rank fusion: a hit's score is the sum of 1 / (constant + rank) over the two lists.

    `prefetch` is the number of hits from each of the two (more if k is larger). `weight` is that of the
    first list, and 1 − `weight` that of the second; `karat eval tune` chooses it. Only ranks count, because scores of
    two retrievers cannot be compared.
    """

    name = "hybrid"

    def __init__(
        self,
        first: Retriever | None = None,
        second: Retriever | None = None,
        prefetch: int = 100,
        constant: float = 60,
        weight: float = 0.5,
    ) -> None:
        if prefetch < 1 or constant < 0:
            raise ConfigError("prefetch must be 1 or more, the constant 0 or more", got=f"{prefetch}, {constant}")
        if not 0 < weight < 1:
            raise ConfigError("must be between 0 and 1", field="weight", got=weight)
        self.first: Retriever = first or make_retriever("bm25")
        self.second: Retriever = second or make_retriever("dense")
        self.prefetch = prefetch
        self.constant = constant
        self.weight = weight
        self.searches_corpus: bool = self.first.searches_corpus or self.second.searches_corpus

    def index(self, corpus: Corpus) -> None:
        self.first.index(corpus)
        self.second.index(corpus)

    def depth(self, k: int) -> int:
        return max(k, self.prefetch)

    def answer(self, question: Question, k: int) -> Found:
        parts = [timed(part, question, self.depth(k)) for part in (self.first, self.second)]
        watch = Stopwatch()
        with watch.stage("fuse"):
            weights = (2 * self.weight, 2 * round(1 - self.weight, 9))
            hits = fused([part.hits[: self.depth(k)] for part in parts], self.constant, weights)[:k]
        # Times of a stage that both have are added, since they run one after the other.
        spent = Counter(parts[0].latency_ms) + Counter(parts[1].latency_ms)
        used = [entry for part in parts for entry in part.fields.get("usage", ())]
        return Found(hits, dict(spent) | watch.latency_ms, fields=as_field(used))


def fused(
    lists: list[list[dict[str, Any]]], constant: float, weights: Sequence[float] | None = None
) -> list[dict[str, Any]]:
    """Fuse several lists, best first; the first rank of a hit in a list counts. `weights` of the lists: default 1.

    >>> [hit["chunk_id"] for hit in fused([[{"chunk_id": "a"}, {"chunk_id": "b"}], [{"chunk_id": "b"}]], 60)]
    ['b', 'a']
    """
    scores: dict[str, float] = {}
    known: dict[str, dict[str, Any]] = {}
    for hits, weight in zip(lists, weights or [1.0] * len(lists), strict=True):
        first = list({hit["chunk_id"]: hit for hit in reversed(hits)}.values())[::-1]
        for rank, hit in enumerate(first, 1):
            scores[hit["chunk_id"]] = scores.get(hit["chunk_id"], 0.0) + weight * (1 / (constant + rank))
            known.setdefault(hit["chunk_id"], hit)
    best = ranked(list(scores), list(scores.values()), len(scores))
    return [{**known[item], "score": score} for item, score in best]


class Rerank(Retriever):
    """Reorders the best `top_n` hits of `first` with a reranker; the hits below keep their order.

    `reranker` is as in `karat.retrievers.rerankers`: `module:callable`, the address of a service, or `static`.
    `request` is your own body for a service, with `{query}` and `{documents}`; `headers` as in `http`. The list before
    reranking is logged as `raw`.
    """

    name = "rerank"

    def __init__(
        self,
        first: Retriever | None = None,
        reranker: Any = STATIC,
        top_n: int = 50,
        request: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        if top_n < 1:
            raise ConfigError("must be 1 or more", field="top_n", got=top_n)
        self.first: Retriever = first or make_retriever("bm25")
        self.reranker = reranker
        self.top_n = top_n
        self.request = request
        self.headers = headers
        self.searches_corpus: bool = self.first.searches_corpus
        self._reranker = make_reranker(reranker, request, headers)
        self._corpus: Corpus | None = None

    def index(self, corpus: Corpus) -> None:
        self.first.index(corpus)
        self._corpus = corpus

    def depth(self, k: int) -> int:
        return max(k, self.top_n)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"reranker": title_of(self.reranker)}

    def answer(self, question: Question, k: int) -> Found:
        found = timed(self.first, question, self.depth(k))
        raw = found.hits
        looked_at, below = raw[: self.top_n], raw[self.top_n :]
        watch, used = Stopwatch(), Used(found.fields.get("usage", ()))
        with watch.stage("rerank"):
            hits = self._reordered(question, looked_at, used) if looked_at else []
        hits += [{name: value for name, value in hit.items() if name != "score"} for hit in below]
        return Found(hits[:k], found.latency_ms | watch.latency_ms, raw, found.fields | as_field(used))

    def _reordered(self, question: Question, hits: list[dict[str, Any]], used: Used) -> list[dict[str, Any]]:
        given = [{**hit, "rank": rank, **self._text(hit)} for rank, hit in enumerate(hits, 1)]
        order = self._reranker.order(question, given, used)
        bare = [{name: value for name, value in hit.items() if name != "score"} for hit in hits]
        return [{**bare[at], **({} if score is None else {"score": score})} for at, score in order]

    def _text(self, hit: dict[str, Any]) -> dict[str, str]:
        if "text" in hit:
            return {"text": str(hit["text"])}
        at = None if self._corpus is None else self._corpus.index.get(hit["chunk_id"])
        if at is None or self._corpus is None:
            return {}
        return {"text": f"{self._corpus.titles[at]}\n{self._corpus.texts[at]}".strip()}
