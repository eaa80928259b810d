"""SQLite FTS5: BM25 over title and text. Needs nothing but Python.

cd examples/engines
karat run sqlite_search:Search -q ../helpdesk/gold.jsonl --corpus ../helpdesk/corpus.jsonl -o sqlite.jsonl
"""

import re
import sqlite3

SEARCH = "SELECT id, -bm25(docs) FROM docs WHERE docs MATCH ? ORDER BY bm25(docs) LIMIT ?"  # bm25() is negative


class Search:
    def index(self, corpus):
        # Queries come from other threads than this one. Or open your own: sqlite3.connect("data/docs.db", …)
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.execute("CREATE VIRTUAL TABLE docs USING fts5(id UNINDEXED, title, text, tokenize='porter')")
        rows = zip(corpus.ids, corpus.titles, corpus.texts, strict=True)
        self.database.executemany("INSERT INTO docs VALUES (?, ?, ?)", rows)

    def search(self, query, k):
        words = re.findall(r"\w+", query)  # each in quotes, because FTS5 has a syntax of its own
        return self.database.execute(SEARCH, (" OR ".join(f'"{word}"' for word in words), k)).fetchall()
