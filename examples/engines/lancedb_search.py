"""LanceDB: nearest vectors by cosine distance. Needs `pip install lancedb`.

cd examples/engines
karat run lancedb_search:Search -q ../helpdesk/gold.jsonl --corpus ../helpdesk/corpus.jsonl -o lancedb.jsonl
"""

import tempfile

import lancedb

from karat.systems import make_embedder


class Search:
    def index(self, corpus):
        self.embedder = make_embedder()
        texts = [f"{title}\n{text}" for title, text in zip(corpus.titles, corpus.texts, strict=True)]
        rows = zip(corpus.ids, self.embedder.embed(texts), strict=True)
        self.folder = tempfile.TemporaryDirectory()  # or open your own: lancedb.connect("data/lancedb")
        database = lancedb.connect(self.folder.name)
        self.table = database.create_table("helpdesk", [{"id": item, "vector": vector} for item, vector in rows])

    def search(self, query, k):
        vector = self.embedder.embed_query(query)
        found = self.table.search(vector).distance_type("cosine").limit(k).to_list()
        return [(row["id"], 1 - row["_distance"]) for row in found]
