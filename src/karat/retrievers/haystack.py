"""Retrievers of Haystack."""

from __future__ import annotations

from typing import Any

from karat.data.question import Question
from karat.errors import ConfigError
from karat.retrievers.base import Found, Retriever, Stopwatch, Unusable, as_hits
from karat.retrievers.named import load, title_of


class Haystack(Retriever):
    """`haystack:module:retriever`: a component with `run(query=…, top_k=…) → {documents}`, or a function making one.

    One that takes `query_embedding` needs `embedder`, a component with `run(text=…) → {embedding}`. `id` is the field
    of `meta` that names a chunk (default: the document's own id).
    """

    name = "haystack"
    searches_corpus = False

    def __init__(self, target: Any, embedder: Any = None, id: str | None = None) -> None:
        self.target, self.embedder, self.id = target, embedder, id
        self._retriever = _component(target)
        self._embedder = None if embedder is None else _component(embedder)
        if self._embedder is not None and hasattr(self._embedder, "warm_up"):
            self._embedder.warm_up()

    def settings(self) -> dict[str, Any]:
        named = {"target": self.target, "embedder": self.embedder}
        texts = {n: v if v is None or isinstance(v, str) else title_of(v) for n, v in named.items()}
        return super().settings() | texts

    def answer(self, question: Question, k: int) -> Found:
        watch = Stopwatch()
        asked: dict[str, Any] = {"query": question.text}
        if self._embedder is not None:
            with watch.stage("embed"):
                asked = {"query_embedding": self._embedder.run(text=question.text)["embedding"]}
        with watch.stage("retrieve"):
            found = self._retriever.run(**asked, top_k=k)["documents"]
        return Found(as_hits(map(self._hit, found)), watch.latency_ms)

    def _hit(self, document: Any) -> dict[str, Any]:
        named = document.id if self.id is None else document.meta.get(self.id)
        if named is None:
            raise Unusable(f"a document has no {self.id!r}", got=document.meta, hint="`id` names a field of `meta`")
        return {"chunk_id": named, "score": document.score, "text": document.content}


def _component(target: Any) -> Any:
    found = load(target) if isinstance(target, str) else target
    made = found if hasattr(found, "run") and not isinstance(found, type) else found()
    if not hasattr(made, "run"):
        raise ConfigError(f"{title_of(made)} is no component of Haystack", code="bad-callable", expected="run(…)")
    return made
