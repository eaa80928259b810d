"""Retrievers of LangChain, LlamaIndex and Haystack."""

from __future__ import annotations

from typing import Any

from karat.data.question import Question
from karat.errors import ConfigError
from karat.net.timeouts import settled
from karat.registry import load_callable, title_of
from karat.retrievers.base import Found, Retriever, Stopwatch, Unusable, as_hits


class LangChain(Retriever):
    """`langchain:module:retriever`: anything with `invoke(query) → [Document]`, or a function that makes one.

    `id` is the field of `metadata` that names a chunk (default: the document's own `id`). A retriever of a vector store
    is asked for k hits.
    """

    name = "langchain"
    searches_corpus = False

    def __init__(self, target: Any, id: str | None = None) -> None:
        self.target, self.id = target, id
        found = load_callable(target)
        self._retriever = found if hasattr(found, "invoke") else found()
        if not hasattr(self._retriever, "invoke"):
            raise ConfigError(
                f"{title_of(self._retriever)} is no retriever of LangChain",
                code="bad-callable",
                expected="invoke(query)",
            )

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"target": title_of(self.target)}

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


class LlamaIndex(Retriever):
    """`llama_index:module:retriever`: anything with `retrieve(query) → [NodeWithScore]`, or a function that makes one.

    `id` is the field of `metadata` that names a chunk (default: the node's own id). A retriever with `similarity_top_k`
    is asked for k hits.
    """

    name = "llama_index"
    searches_corpus = False

    def __init__(self, target: Any, id: str | None = None) -> None:
        self.target, self.id = target, id
        found = load_callable(target)
        self._retriever = found if hasattr(found, "retrieve") else found()
        if not hasattr(self._retriever, "retrieve"):
            raise ConfigError(
                f"{title_of(self._retriever)} is no retriever of LlamaIndex",
                code="bad-callable",
                expected="retrieve(query)",
            )

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"target": title_of(self.target)}

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
        texts = {n: v if v is None else title_of(v) for n, v in named.items()}
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
    found = load_callable(target)
    made = found if hasattr(found, "run") and not isinstance(found, type) else found()
    if not hasattr(made, "run"):
        raise ConfigError(f"{title_of(made)} is no component of Haystack", code="bad-callable", expected="run(…)")
    return made
