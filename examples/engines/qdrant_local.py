"""Qdrant without a server. Needs `pip install qdrant-client`. With a server: `karat run qdrant:http://host:6333/docs`.

cd examples/engines
karat run qdrant_local:Search -q ../helpdesk/gold.jsonl --corpus ../helpdesk/corpus.jsonl -o qdrant.jsonl
"""

from qdrant_client import QdrantClient, models

from karat.systems import make_embedder


class Search:
    def index(self, corpus):
        self.embedder = make_embedder()
        texts = [f"{title}\n{text}" for title, text in zip(corpus.titles, corpus.texts, strict=True)]
        vectors = self.embedder.embed(texts)
        self.client = QdrantClient(":memory:")  # or open your own: QdrantClient(path="data/qdrant")
        size = models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
        self.client.create_collection("docs", size)
        payload = [{"chunk_id": item} for item in corpus.ids]  # ids of points are numbers or UUIDs
        self.client.upload_collection("docs", vectors, payload)

    def search(self, query, k):
        vector = self.embedder.embed_query(query).tolist()
        found = self.client.query_points("docs", vector, limit=k, with_payload=True).points
        return [(point.payload["chunk_id"], point.score) for point in found]
