"""DuckDB: nearest vectors by cosine similarity. Needs `pip install duckdb`.

cd examples/engines
karat run duckdb_search:Search -q ../helpdesk/gold.jsonl --corpus ../helpdesk/corpus.jsonl -o duckdb.jsonl
"""

import duckdb

from karat.systems import make_embedder

SEARCH = """SELECT id, array_cosine_similarity(vector, ?::FLOAT[256]) AS score
FROM docs ORDER BY score DESC, id LIMIT ?"""


class Search:
    def index(self, corpus):
        self.embedder = make_embedder()
        texts = [f"{title}\n{text}" for title, text in zip(corpus.titles, corpus.texts, strict=True)]
        self.database = duckdb.connect()  # or open your own: duckdb.connect("data/docs.duckdb", read_only=True)
        self.database.execute("CREATE TABLE docs (id VARCHAR, vector FLOAT[256])")
        rows = zip(corpus.ids, self.embedder.embed(texts).tolist(), strict=True)
        self.database.executemany("INSERT INTO docs VALUES (?, ?)", list(map(list, rows)))

    def search(self, query, k):
        vector = self.embedder.embed_query(query).tolist()
        return self.database.cursor().execute(SEARCH, [vector, k]).fetchall()  # a cursor for each thread
