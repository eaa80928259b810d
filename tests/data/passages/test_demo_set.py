"""The evidence texts of the demo set as passages: each is found in a chunk that people labelled."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import karat

DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"


def quoted(entry: dict[str, Any], documents: dict[str, str]) -> dict[str, Any]:
    """The entry with a quote in the place of every chunk, from a document of one of its relevant chunks."""
    relevant = sorted({chunk.partition("#")[0] for chunk, grade in entry["gold"].items() if grade > 0})
    items = [
        {"doc_id": next(doc for doc in relevant if evidence in documents[doc]), "quote": evidence}
        for evidence in entry["evidence"]
    ]
    return {"query_id": entry["query_id"], "gold": items}


def test_evidence_is_found_in_labelled_chunks() -> None:
    documents: dict[str, str] = {}
    for line in (DEMO / "corpus.jsonl").read_text().splitlines():
        chunk = json.loads(line)
        documents[chunk["doc_id"]] = documents.get(chunk["doc_id"], "") + "\n" + chunk["text"]
    entries = [json.loads(line) for line in (DEMO / "gold.jsonl").read_text().splitlines()]
    labelled = {e["query_id"]: e["gold"] for e in entries if e.get("evidence")}
    gold = karat.read_gold([quoted(e, documents) for e in entries if e.get("evidence")])
    result = karat.evaluate(DEMO / "bm25.jsonl", gold, ["recall@5"], corpus=DEMO / "corpus.jsonl")
    assert result.audit["passages_found"] == len(result.gold.ids) > 400
    located = result.gold.located
    assert located is not None
    for at, chunk in enumerate(located.chunks):
        for item in located.items[slice(*located.firsts[at : at + 2])]:
            query = result.gold.queries[int(result.gold.query_of_item[item])]
            assert labelled[query].get(chunk, 0) > 0, (query, chunk)
