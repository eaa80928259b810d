"""Milvus Lite, a file instead of a server. Needs `pip install pymilvus milvus-lite`. With a server: milvus.yaml.

cd examples/engines
karat run milvus_lite_search:Search -q ../helpdesk/gold.jsonl --corpus ../helpdesk/corpus.jsonl -o milvus.jsonl
"""

import tempfile

from pymilvus import MilvusClient

from karat.systems import make_embedder


class Search:
    def index(self, corpus):
        self.embedder = make_embedder()
        texts = [f"{title}\n{text}" for title, text in zip(corpus.titles, corpus.texts, strict=True)]
        vectors = self.embedder.embed(texts)
        self.folder = tempfile.TemporaryDirectory()  # or open your own: MilvusClient("data/milvus.db")
        self.client = MilvusClient(f"{self.folder.name}/milvus.db")
        self.client.create_collection(
            "docs", vectors.shape[1], id_type="string", max_length=200, metric_type="COSINE", auto_id=False
        )
        rows = zip(corpus.ids, vectors.tolist(), strict=True)
        self.client.insert("docs", [{"id": item, "vector": vector} for item, vector in rows])

    def search(self, query, k):
        (found,) = self.client.search("docs", [self.embedder.embed_query(query).tolist()], limit=k)
        return [(hit["id"], hit["distance"]) for hit in found]  # with COSINE, its distance is a similarity
