"""Retrievers of LlamaIndex."""

from __future__ import annotations

from typing import Any

from karat.data.question import Question
from karat.errors import ConfigError
from karat.retrievers.base import Found, Retriever, Unusable, as_hits
from karat.retrievers.named import load, title_of


class LlamaIndex(Retriever):
    """`llama_index:module:retriever`: anything with `retrieve(query) → [NodeWithScore]`, or a function that makes one.

    `id` is the field of `metadata` that names a chunk (default: the node's own id). A retriever with `similarity_top_k`
    is asked for k hits.
    """

    name = "llama_index"
    searches_corpus = False

    def __init__(self, target: Any, id: str | None = None) -> None:
        self.target, self.id = target, id
        found = load(target) if isinstance(target, str) else target
        self._retriever = found if hasattr(found, "retrieve") else found()
        if not hasattr(self._retriever, "retrieve"):
            raise ConfigError(
                f"{title_of(self._retriever)} is no retriever of LlamaIndex",
                code="bad-callable",
                expected="retrieve(query)",
            )

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"target": self.target if isinstance(self.target, str) else title_of(self.target)}

    def answer(self, question: Question, k: int) -> Found:
        if getattr(self._retriever, "similarity_top_k", k) != k:
            self._retriever.similarity_top_k = k
        return Found(as_hits(map(self._hit, self._retriever.retrieve(question.text))))

    def _hit(self, found: Any) -> dict[str, Any]:
        node = found.node
        named = node.node_id if self.id is None else node.metadata.get(self.id)
        if named is None:
            raise Unusable(f"a node has no {self.id!r}", got=node.metadata, hint="`id` names a field of the metadata")
        return {"chunk_id": named, "score": found.score, "text": node.get_content(), "doc_id": node.ref_doc_id}
