"""How often the intervals of searches per question hold the truth, at 95 %.

python benchmarks/searches_coverage.py [rounds]

Agents search until they have what they need: most questions take one or two searches, some take many. Each search
finds one further relevant item, or none (wasted).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import karat

METRICS = ("steps", "wasted_steps", "relevant_per_step", "union_recall")
LENGTHS = np.arange(1, 9)
# how often a question takes 1, 2, 3 … searches
AGENTS = {
    "mostly one search": np.array([0.7, 0.15, 0.06, 0.04, 0.02, 0.01, 0.01, 0.01]),
    "two or three": np.array([0.1, 0.45, 0.3, 0.1, 0.05, 0.0, 0.0, 0.0]),
    "a few take eight": np.array([0.6, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1]),
}
FINDS = 0.6  # probability that a search finds a further relevant item
RELEVANT = 8


def drawn(rng: np.random.Generator, queries: int, shares: Any) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
    run, gold = [], {}
    for query in range(queries):
        length = int(rng.choice(LENGTHS, p=shares))
        found = iter(f"r{i}" for i in range(RELEVANT))
        steps = [
            {"query": f"{query} {step}", "topk": [next(found) if rng.random() < FINDS else f"x{step}", f"y{step}"]}
            for step in range(length)
        ]
        run.append({"query_id": f"q{query}", "steps": steps})
        gold[f"q{query}"] = [f"r{i}" for i in range(RELEVANT)]
    return run, gold


def truth(shares: Any) -> tuple[float, ...]:
    steps = float(LENGTHS @ shares)
    return steps, (1 - FINDS) * steps, FINDS, FINDS * steps / RELEVANT


def coverage(queries: int, shares: Any, rounds: int) -> list[float]:
    rng, held = np.random.default_rng(queries), np.zeros((rounds, len(METRICS)), np.bool_)
    for at in range(rounds):
        result = karat.evaluate(*drawn(rng, queries, shares), METRICS, resamples=1000, seed=at)
        for column, (name, true) in enumerate(zip(METRICS, truth(shares), strict=True)):
            low, high = result[name].low, result[name].high
            held[at, column] = low is not None and high is not None and low - 1e-9 <= true <= high + 1e-9
    return held.mean(axis=0).tolist()


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{rounds:,} simulated gold sets in each row.\n")
    print("| agent | queries | " + " | ".join(METRICS) + " |\n|---|---|" + "---|" * len(METRICS))
    for name, shares in AGENTS.items():
        for queries in (20, 50, 200):
            shown = " | ".join(f"{share:.1%}" for share in coverage(queries, shares, rounds))
            print(f"| {name} | {queries} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
