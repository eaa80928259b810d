"""Retrievers of LangChain, LlamaIndex and Haystack, with the real libraries (`karat[test-frameworks]`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from commands import run_here
from libraries import library

from karat.data.corpus import Corpus
from karat.retrievers.dense import StaticEmbedder
from karat.systems.run import Finished, run_retriever

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # tests tell nobody
os.environ["LANGSMITH_TRACING"] = "false"

TEXTS = {
    "a#1": "You can refund a card payment for ninety days.",
    "b#1": "Transfers abroad take three working days.",
    "c#1": "The weather is fine today.",
}
GOLD = [
    {"query_id": "q1", "query": "refund of a card payment", "gold": ["a#1"]},
    {"query_id": "q2", "query": "how long do transfers abroad take", "gold": ["b#1"]},
]
CORPUS = Corpus("texts", list(TEXTS), [""] * 3, list(TEXTS.values()))


def first_hits(done: Finished) -> list[str]:
    assert done.failed == 0, done.first_error
    return [record["topk"][0]["chunk_id"] for record in done.run]


# LangChain


def langchain_store(with_ids: bool = True) -> Any:
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import InMemoryVectorStore

    model = StaticEmbedder()

    class Static(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [list(map(float, vector)) for vector in model.embed(texts)]

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    store = InMemoryVectorStore(Static())
    for name, text in TEXTS.items():
        store.add_documents([Document(page_content=text, id=name if with_ids else None, metadata={"chunk": name})])
    return store


def test_langchain_vector_store() -> None:
    library("langchain_core")
    retriever = langchain_store().as_retriever(search_kwargs={"k": 1})
    done = run_retriever(retriever, GOLD, corpus=CORPUS, k=2, warm_up=0)
    assert first_hits(done) == ["a#1", "b#1"]
    assert [len(record["topk"]) for record in done.run] == [2, 2], "asked for k"
    assert done.run[0]["topk"][0]["text"] == TEXTS["a#1"]
    assert done.run[0]["retriever"]["name"] == "langchain"


def test_langchain_names_chunks_in_metadata() -> None:
    library("langchain_core")
    retriever = langchain_store(with_ids=False).as_retriever()
    done = run_retriever({"retriever": "langchain", "target": retriever, "id": "chunk"}, GOLD, warm_up=0)
    assert first_hits(done) == ["a#1", "b#1"]
    done = run_retriever({"retriever": "langchain", "target": retriever, "id": "other"}, GOLD, warm_up=0)
    assert done.failed == len(done.run)


def test_langchain_retriever_of_ones_own() -> None:
    library("langchain_core")
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever

    class Fixed(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
            return [Document(page_content="x", id=name) for name in TEXTS]

    done = run_retriever(Fixed(), GOLD, k=2, warm_up=0)
    assert [[hit["chunk_id"] for hit in r["topk"]] for r in done.run] == [["a#1", "b#1"]] * 2


# LlamaIndex


def llama_retriever(**options: Any) -> Any:
    from llama_index.core import VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.schema import TextNode

    model = StaticEmbedder()

    class Static(BaseEmbedding):
        def _get_text_embedding(self, text: str) -> list[float]:
            return list(map(float, model.embed([text])[0]))

        def _get_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    nodes = [TextNode(text=text, id_=name, metadata={"chunk": f"meta-{name}"}) for name, text in TEXTS.items()]
    return VectorStoreIndex(nodes, embed_model=Static()).as_retriever(**options)


def test_llama_index() -> None:
    library("llama_index.core")
    done = run_retriever(llama_retriever(similarity_top_k=1), GOLD, corpus=CORPUS, k=3, warm_up=0)
    assert first_hits(done) == ["a#1", "b#1"]
    assert [len(record["topk"]) for record in done.run] == [3, 3], "asked for k"
    assert done.run[0]["topk"][0]["score"] > done.run[0]["topk"][1]["score"]
    named = {"retriever": "llama_index", "target": llama_retriever(), "id": "chunk"}
    assert first_hits(run_retriever(named, GOLD, warm_up=0)) == ["meta-a#1", "meta-b#1"]


# Haystack


def haystack_store() -> Any:
    from haystack import Document
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    vectors = StaticEmbedder().embed(list(TEXTS.values()))
    store = InMemoryDocumentStore(embedding_similarity_function="cosine")
    store.write_documents(
        [
            Document(id=name, content=text, meta={"chunk": f"meta-{name}"}, embedding=list(map(float, vector)))
            for (name, text), vector in zip(TEXTS.items(), vectors, strict=True)
        ]
    )
    return store


def test_haystack_bm25() -> None:
    library("haystack")
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever

    done = run_retriever(InMemoryBM25Retriever(haystack_store()), GOLD, corpus=CORPUS, k=2, warm_up=0)
    assert first_hits(done) == ["a#1", "b#1"]
    assert set(done.run[0]["latency_ms"]) == {"retrieve"}


def test_haystack_with_an_embedder() -> None:
    library("haystack")
    from haystack import component
    from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever

    @component
    class Static:
        @component.output_types(embedding=list[float])
        def run(self, text: str) -> dict[str, list[float]]:
            return {"embedding": list(map(float, StaticEmbedder().embed([text])[0]))}

    retriever = InMemoryEmbeddingRetriever(haystack_store())
    spec = {"retriever": "haystack", "target": retriever, "embedder": Static(), "id": "chunk"}
    done = run_retriever(spec, GOLD, k=2, warm_up=0)
    assert first_hits(done) == ["meta-a#1", "meta-b#1"]
    assert set(done.run[0]["latency_ms"]) == {"embed", "retrieve"}


def test_a_function_that_makes_the_retriever_can_be_named_on_the_command_line(tmp_path: Path) -> None:
    library("haystack")
    (tmp_path / "my_search.py").write_text(
        "def make():\n"
        "    from haystack import Document\n"
        "    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever\n"
        "    from haystack.document_stores.in_memory import InMemoryDocumentStore\n"
        "    store = InMemoryDocumentStore()\n"
        "    store.write_documents([Document(id='a', content='refund a card'), Document(id='b', content='hello')])\n"
        "    return InMemoryBM25Retriever(store)\n"
    )
    (tmp_path / "gold.jsonl").write_text('{"query_id": "q", "query": "refund", "gold": ["a"]}\n')
    for spec in ("my_search:make", "haystack:my_search:make"):
        done = run_here("run", spec, "-q", "gold.jsonl", "--overwrite", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert '"topk":[{"rank":1,"chunk_id":"a"' in (tmp_path / "run.jsonl").read_text()
