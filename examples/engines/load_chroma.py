"""Load the demo set into a Chroma server, for chroma.yaml, and print the id of the collection.

chroma run --path data/chroma
python load_chroma.py
"""

import json
import sys
from pathlib import Path

import chromadb

from karat.systems import make_embedder


def load(host="localhost", port=8000):
    lines = (Path(__file__).parent / "../helpdesk/corpus.jsonl").read_text().splitlines()
    docs = {doc["chunk_id"]: f"{doc['title']}\n{doc['text']}" for doc in map(json.loads, lines)}
    vectors = make_embedder().embed(list(docs.values()))
    client = chromadb.HttpClient(host, port)
    space = {"hnsw": {"space": "cosine"}}
    collection = client.get_or_create_collection("helpdesk", configuration=space, embedding_function=None)
    collection.upsert(list(docs), embeddings=vectors, documents=list(docs.values()))
    return str(collection.id)


if __name__ == "__main__":
    print(load(*sys.argv[1:]))
