"""The workloads: names, sizes and files. Kept free of imports, since every measured process loads it."""

from __future__ import annotations

import os

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")

METRICS = ["hit@5", "recall@5", "recall@10", "precision@5", "mrr", "map", "ndcg(gain=linear)@10"]

# name → (queries, hits of a query)
SHAPES = {
    "W1": (6980, 1000),
    "W2": (50, 1000),
    "W3": (200_000, 10),
    "L1": (500, 1000),
    "L2": (1000, 1000),
    "L3": (2000, 1000),
    "Q1": (698, 1000),
    "Q3": (20_000, 10),
}
LINEAR = ["L1", "L2", "L3"]
QUICK = {"W1": "Q1", "W2": "W2", "W3": "Q3"}  # the same at a tenth of the size
WITHOUT_RANK = "W3-without-rank"  # the run log of W3 with scores only; its gold is W3's


def is_jsonl(workload: str) -> bool:
    return workload.startswith(("W3", "Q3"))


def without_rank(workload: str) -> str:
    return f"{workload}-without-rank"


def changed(workload: str) -> str:
    """Run log of another system that answered the same queries, most of them in the same way."""
    return f"{workload}-changed"


def run_file(workload: str) -> str:
    return os.path.join(DATA, f"{workload}.jsonl" if is_jsonl(workload) else f"{workload}.run")


def gold_file(workload: str) -> str:
    return os.path.join(DATA, f"{workload[:2]}.gold.jsonl" if is_jsonl(workload) else f"{workload}.qrels")


def rows(workload: str) -> int:
    queries, depth = SHAPES[workload]
    return queries * depth
