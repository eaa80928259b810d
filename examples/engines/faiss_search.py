"""FAISS: exact search by inner product. Needs `pip install faiss-cpu`.

cd examples/engines
karat run faiss_search:Search -q ../helpdesk/gold.jsonl --corpus ../helpdesk/corpus.jsonl -o faiss.jsonl
"""

import faiss

from karat.systems import make_embedder


class Search:
    def index(self, corpus):
        self.embedder = make_embedder()
        texts = [f"{title}\n{text}" for title, text in zip(corpus.titles, corpus.texts, strict=True)]
        vectors = self.embedder.embed(texts)
        self.ids = corpus.ids
        self.vectors = faiss.IndexFlatIP(vectors.shape[1])  # put your own index here
        self.vectors.add(vectors)

    def search(self, query, k):
        scores, rows = self.vectors.search(self.embedder.embed_query(query)[None], k)
        found = zip(rows[0].tolist(), scores[0].tolist(), strict=True)
        return [(self.ids[row], score) for row, score in found if row >= 0]  # -1: fewer than k
