"""Search by meaning: the nearest vectors, found exactly."""

from __future__ import annotations

import numpy as np

from karat.data.corpus import Corpus
from karat.data.question import Question
from karat.retrievers.base import Found, Nothing, Retriever, Stopwatch, as_hits, ranked, refuse_empty
from karat.retrievers.embedding import STATIC, Embedder, Vectors, make_embedder
from karat.retrievers.templates import Used, as_field


class Dense(Retriever):
    """The documents whose vectors are nearest to the query's, by cosine; every document is compared.

    `model` is `static` (offline, comes with karat[dense]), a model of sentence-transformers, or with `url` the name of
    a model that a service with OpenAI's API has; `key` names the environment variable with its key. Documents without
    text are never found.
    """

    name = "dense"

    def __init__(self, model: str = STATIC, url: str | None = None, key: str | None = None) -> None:
        self.model, self.url, self.key = model, url, key

    def index(self, corpus: Corpus) -> None:
        refuse_empty(corpus)
        texts = [f"{title}\n{text}".strip() for title, text in zip(corpus.titles, corpus.texts, strict=True)]
        there = [i for i, text in enumerate(texts) if text]
        if not there:
            raise Nothing("the texts of the corpus are all empty", code="empty-corpus", file=corpus.label)
        self._embedder: Embedder = make_embedder(self.model, self.url, self.key)
        self._ids = [corpus.ids[i] for i in there]
        self._vectors: Vectors = self._embedder.embed([texts[i] for i in there])

    def answer(self, question: Question, k: int) -> Found:
        watch, used = Stopwatch(), Used()
        with watch.stage("embed"):
            vector = self._embedder.embed_query(question.text, question.timeout, used)
        with watch.stage("retrieve"):
            found = self._nearest(vector, k)
        return Found(as_hits(found), watch.latency_ms, fields=as_field(used))

    def search(self, query: str, k: int, *, language: str | None = None) -> list[tuple[str, float]]:
        return self._nearest(self._embedder.embed_query(query), k)

    def _nearest(self, vector: Vectors, k: int) -> list[tuple[str, float]]:
        scores = self._vectors @ vector
        found = np.arange(len(scores))
        if len(scores) > k:
            least = np.partition(scores, -k)[-k]
            found = np.flatnonzero(scores >= least)
        return ranked([self._ids[i] for i in found.tolist()], scores[found].tolist(), k)
