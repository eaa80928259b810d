"""The examples for engines that are libraries: each runs as its first lines say, and finds what it should."""

from __future__ import annotations

from collections.abc import Callable

import pytest

# Recall in the first ten hits. Exact search with the static model is the same everywhere; words differ by the stemmer.
DENSE, WORDS = 0.404, 0.42


@pytest.mark.parametrize(
    ("example", "floor"),
    [
        ("duckdb_search", DENSE),
        ("faiss_search", DENSE),
        ("lancedb_search", DENSE),
        ("milvus_lite_search", DENSE),
        ("qdrant_local", DENSE),
        ("sqlite_search", WORDS),
        ("tantivy_search", WORDS),
    ],
)
def test_an_example_finds_what_it_should(example: str, floor: float, recall_of: Callable[..., float]) -> None:
    found = recall_of(f"{example}:Search", "--corpus", "../helpdesk/corpus.jsonl", "--workers", "2")
    assert found >= floor
