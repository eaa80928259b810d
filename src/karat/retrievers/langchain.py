"""Retrievers of LangChain."""

from __future__ import annotations

from typing import Any

from karat.data.question import Question
from karat.errors import ConfigError
from karat.net.waiting import settled
from karat.retrievers.base import Found, Retriever, Unusable, as_hits
from karat.retrievers.named import load, title_of


class LangChain(Retriever):
    """`langchain:module:retriever`: anything with `invoke(query) → [Document]`, or a function that makes one.

    `id` is the field of `metadata` that names a chunk (default: the document's own `id`). A retriever of a vector store
    is asked for k hits.
    """

    name = "langchain"
    searches_corpus = False

    def __init__(self, target: Any, id: str | None = None) -> None:
        self.target, self.id = target, id
        found = load(target) if isinstance(target, str) else target
        self._retriever = found if hasattr(found, "invoke") else found()
        if not hasattr(self._retriever, "invoke"):
            raise ConfigError(
                f"{title_of(self._retriever)} is no retriever of LangChain",
                code="bad-callable",
                expected="invoke(query)",
            )

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"target": self.target if isinstance(self.target, str) else title_of(self.target)}

    def answer(self, question: Question, k: int) -> Found:
        # Only vector stores take k here; others would refuse it.
        more = {"k": k} if isinstance(getattr(self._retriever, "search_kwargs", None), dict) else {}
        found = settled(self._retriever.invoke(question.text, **more), question.timeout)
        return Found(as_hits(map(self._hit, found)))

    def _hit(self, document: Any) -> dict[str, Any]:
        named = document.id if self.id is None else document.metadata.get(self.id)
        if named is None:
            hint = "name the field of metadata: langchain(module:retriever, id=chunk_id)"
            raise Unusable("a document has no id", got=document.metadata, hint=hint)
        return {"chunk_id": named, "text": document.page_content, "score": document.metadata.get("score")}
