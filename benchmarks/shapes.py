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
}
LINEAR = ["L1", "L2", "L3"]
WITHOUT_RANK = "W3-without-rank"  # the run log of W3 with scores only; its gold is W3's


def is_jsonl(workload: str) -> bool:
    return workload.startswith("W3")


def run_file(workload: str) -> str:
    return os.path.join(DATA, f"{workload}.jsonl" if is_jsonl(workload) else f"{workload}.run")


def gold_file(workload: str) -> str:
    return os.path.join(DATA, "W3.gold.jsonl" if is_jsonl(workload) else f"{workload}.qrels")


def rows(workload: str) -> int:
    queries, depth = SHAPES[workload]
    return queries * depth
