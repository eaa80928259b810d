"""Load the demo set into PostgreSQL with pgvector, for postgres-fulltext.yaml and pgvector.yaml.

export DATABASE_URL=postgresql://user:password@localhost/helpdesk
python load_postgres.py
"""

import json
import os
from pathlib import Path

import psycopg

from karat.systems import make_embedder

TABLE = """
CREATE EXTENSION IF NOT EXISTS vector;
DROP TABLE IF EXISTS docs;
CREATE TABLE docs (
  id text PRIMARY KEY,
  text text NOT NULL,
  embedding vector(256),
  words tsvector GENERATED ALWAYS AS (to_tsvector('english', text)) STORED
);
CREATE INDEX ON docs USING gin (words);
"""


def load(url):
    lines = (Path(__file__).parent / "../helpdesk/corpus.jsonl").read_text().splitlines()
    docs = {doc["chunk_id"]: f"{doc['title']}\n{doc['text']}" for doc in map(json.loads, lines)}
    vectors = make_embedder().embed(list(docs.values())).tolist()
    rows = [(item, text, str(vector)) for (item, text), vector in zip(docs.items(), vectors, strict=True)]
    with psycopg.connect(url) as connection:
        connection.execute(TABLE)
        connection.cursor().executemany("INSERT INTO docs (id, text, embedding) VALUES (%s, %s, %s)", rows)


if __name__ == "__main__":
    load(os.environ["DATABASE_URL"])
