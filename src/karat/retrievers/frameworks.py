"""Retrievers of LangChain, LlamaIndex and Haystack."""

from __future__ import annotations

from typing import Any

from karat.data.question import Question
from karat.errors import ConfigError
from karat.net.timeouts import settled
from karat.registry import load_callable, made_by, title_of
from karat.retrievers.base import Found, Retriever, Stopwatch, Unusable, as_hits

_COMPONENT = ("run", "run(…)", "component of Haystack")


class _Framework(Retriever):
    """Loads `target`, or calls it, to get an object with the framework's method."""

    searches_corpus = False

    def __init__(self, target: Any, id: str | None, method: str, expected: str, what: str) -> None:
        self.target = target
        self.id = id
        self._retriever = _made(target, method, expected, what)

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"target": title_of(self.target)}


def _made(target: Any, method: str, expected: str, what: str) -> Any:
    found = load_callable(target)
    if (isinstance(found, type) or not hasattr(found, method)) and callable(found):
        found = made_by(found, f"name an object with {expected}, or a function without arguments that makes one")
    if not hasattr(found, method):
        raise ConfigError(f"{title_of(found)} is not a {what}", code="bad-callable", expected=expected)
    return found


class LangChain(_Framework):
    """`langchain:module:retriever`: anything with `invoke(query) → [Document]`, or a function that makes one.

    `id` is the field of `metadata` that names a chunk (default: the document's own `id`). A retriever of a vector store
    is asked for k hits.
    """

    name = "langchain"

    def __init__(self, target: Any, id: str | None = None) -> None:
        super().__init__(target, id, "invoke", "invoke(query)", "retriever of LangChain")

    def answer(self, question: Question, k: int) -> Found:
        # Only vector stores accept k here.
        more = {"k": k} if isinstance(getattr(self._retriever, "search_kwargs", None), dict) else {}
        found = settled(self._retriever.invoke(question.text, **more), question.timeout)
        return Found(as_hits(map(self._hit, found)))

    def _hit(self, document: Any) -> dict[str, Any]:
        named = document.id if self.id is None else document.metadata.get(self.id)
        if named is None:
            hint = "give the metadata field of the id: langchain(module:retriever, id=chunk_id)"
            raise Unusable("a document has no id", got=document.metadata, hint=hint)
        return {"chunk_id": named, "text": document.page_content, "score": document.metadata.get("score")}


class LlamaIndex(_Framework):
    """`llama_index:module:retriever`: anything with `retrieve(query) → [NodeWithScore]`, or a function that makes one.

    `id` is the field of `metadata` that names a chunk (default: the node's own id). A retriever with `similarity_top_k`
    is asked for k hits.
    """

    name = "llama_index"

    def __init__(self, target: Any, id: str | None = None) -> None:
        super().__init__(target, id, "retrieve", "retrieve(query)", "retriever of LlamaIndex")

    def answer(self, question: Question, k: int) -> Found:
        if getattr(self._retriever, "similarity_top_k", k) != k:
            self._retriever.similarity_top_k = k
        return Found(as_hits(map(self._hit, self._retriever.retrieve(question.text))))

    def _hit(self, found: Any) -> dict[str, Any]:
        node = found.node
        named = node.node_id if self.id is None else node.metadata.get(self.id)
        if named is None:
            raise Unusable(f"a node has no {self.id!r}", got=node.metadata, hint="set `id` to a field of the metadata")
        return {"chunk_id": named, "score": found.score, "text": node.get_content(), "doc_id": node.ref_doc_id}


class Haystack(_Framework):
    """`haystack:module:retriever`: a component with `run(query=…, top_k=…) → {documents}`, or a function making one.

    One that takes `query_embedding` needs `embedder`, a component with `run(text=…) → {embedding}`. `id` is the field
    of `meta` that names a chunk (default: the document's own id).
    """

    name = "haystack"

    def __init__(self, target: Any, embedder: Any = None, id: str | None = None) -> None:
        super().__init__(target, id, *_COMPONENT)
        self.embedder = embedder
        self._embedder = None if embedder is None else _made(embedder, *_COMPONENT)
        if self._embedder is not None and hasattr(self._embedder, "warm_up"):
            self._embedder.warm_up()

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"embedder": None if self.embedder is None else title_of(self.embedder)}

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
            raise Unusable(f"a document has no {self.id!r}", got=document.meta, hint="set `id` to a field of `meta`")
        return {"chunk_id": named, "score": document.score, "text": document.content}
