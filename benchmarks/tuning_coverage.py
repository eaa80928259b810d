"""How often the interval of the honest gain of `karat eval tune` holds the truth, and how often the in-sample one does.

Without a true gain: all lists are random orders of the same candidates, so every setting has the same expected score.
With one: each list is good at other relevant items. "In sample" is the best setting on the queries that chose it: the
more there is to choose from, the more often it "finds" a gain. The page TUNING.md has what it prints.

    python benchmarks/tuning_coverage.py 300
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from karat.results.differences import Difference
from karat.systems.tuning import tune

QUERIES, CANDIDATES = 200, 20
Record = dict[str, Any]


def world(rng: np.random.Generator, lists: int, signal: float) -> tuple[list[list[Record]], list[Record]]:
    runs: list[list[Record]] = [[] for _ in range(lists)]
    gold = []
    for q in range(QUERIES):
        for at, run in enumerate(runs):
            score = rng.normal(size=CANDIDATES)
            score[at : at + 2] += signal
            order = np.argsort(-score)
            hits = [{"chunk_id": f"d{i:02d}", "score": float(score[i])} for i in order]
            run.append({"query_id": f"q{q}", "system": f"list{at}", "topk": hits})
        gold.append({"query_id": f"q{q}", "gold": ["d00", "d01", "d02"], "conversation_id": f"c{q // 2}"})
    return runs, gold


def holds(gain: Difference, true: float) -> bool:
    assert gain.low is not None
    assert gain.high is not None
    return gain.low <= true <= gain.high


def main(rounds: int) -> None:
    print(f"{rounds:,} simulated gold sets of {QUERIES} queries in conversations of two, in each row.\n")
    titles = ("lists", "compared with", "called worth it", "gain", "holds the truth", "in sample", "holds the truth")
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    for lists, signal in ((2, 0.0), (6, 0.0), (2, 2.0)):
        gains: dict[str, list[tuple[Difference, Difference]]] = {}
        found = 0
        for seed in range(rounds):
            runs, gold = world(np.random.default_rng([seed, lists, int(signal * 10)]), lists, signal)
            one = tune(runs, gold, "ndcg@10", resamples=1_000)
            gains.setdefault("the best simple setting", []).append((one.gain, one.in_sample))
            gains.setdefault("the first list", []).append((one.against[0].gain, one.against[0].in_sample))
            found += one.worth_it
        kind = f"{lists}, {'each good at other items' if signal else 'random'}"
        for name, pairs in gains.items():
            # What tuning gains on new queries: nothing, or the mean over all simulated sets.
            true = float(np.mean([honest.delta for honest, _ in pairs])) if signal else 0.0
            told = [f"{found / rounds:.1%}"]
            for side in zip(*pairs, strict=True):
                mean, held = np.mean([gain.delta for gain in side]), np.mean([holds(gain, true) for gain in side])
                told += [f"{100 * mean:+.2f} pp", f"{held:.1%}"]
            print(f"| {kind} | {name} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
