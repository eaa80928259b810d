"""How often the interval of the honest gain of `karat eval tune` holds the truth, and how often the in-sample one does.

Without a true gain: all lists are random orders of the same candidates, so every setting has the same expected score.
With one: each list is good at other relevant items. "In sample" is the best setting on the queries that chose it,
compared with the first list: the more there is to choose from, the more often it "finds" a gain.

    python benchmarks/tuning_coverage.py 300
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from karat.results.differences import Difference
from karat.systems.tuning import tune

QUERIES, CANDIDATES = 400, 20
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


def holds_0(gain: Difference) -> bool:
    assert gain.low is not None
    assert gain.high is not None
    return gain.low <= 0 <= gain.high


def main(rounds: int) -> None:
    for lists, signal in ((2, 0.0), (6, 0.0), (2, 2.0)):
        held: dict[str, list[bool]] = {}
        gains: dict[str, list[float]] = {}
        found = 0
        for seed in range(rounds):
            runs, gold = world(np.random.default_rng([seed, lists, int(signal * 10)]), lists, signal)
            one = tune(runs, gold, "ndcg@10", resamples=2_000)
            measured = {"over the best simple setting": one.gain, "the same, in sample": one.in_sample}
            measured |= {"over the first list": one.against[0].gain, "over it, in sample": one.against[0].in_sample}
            for name, gain in measured.items():
                held.setdefault(name, []).append(holds_0(gain))
                gains.setdefault(name, []).append(gain.delta or 0.0)
            found += one.worth_it
        print(f"{lists} lists, signal {signal:g}: called worth it in {found / rounds:.1%} of {rounds} rounds")
        for name, flags in held.items():
            print(f"  {name}: {np.mean(gains[name]):+.4f} on average, the interval holds 0 in {np.mean(flags):.1%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
