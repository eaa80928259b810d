"""How often the interval of judge-calibrated nDCG holds the truth, in simulations.

python benchmarks/judged_ndcg_coverage.py --trials 600

    by query    nDCG@5; the judge is kinder to some queries
    by rank     nDCG@10; it is also kinder the lower the rank, and rank 1 is always relevant
    one answer  nDCG@10; nearly all relevant hits stand first, where the judge misses as many as elsewhere
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "statistics"))

from test_imputed_gain import falling, items, judged, one_answer, people, ten, truth

from karat.statistics.imputed_gain import GradedItems, imputed_ndcg
from karat.statistics.sampling import Sampling

SIZES = {
    "by query": ((40, 160), (80, 160), (80, 240), (80, 480), (200, 240), (200, 480)),
    "by rank": ((60, 100), (100, 200), (300, 200), (500, 400)),
    "one answer": ((60, 100), (100, 200), (300, 200), (500, 400)),
}


def drawn(rng: np.random.Generator, judge: str, queries: int) -> tuple[np.ndarray, np.ndarray]:
    """Grades by people, and by the judge."""
    if judge == "by query":
        grades = people(rng, queries)
        return grades, judged(rng, grades)
    return (falling if judge == "by rank" else one_answer)(rng, queries)


def made(judge: str, grades: np.ndarray, said: np.ndarray, labelled: np.ndarray) -> GradedItems:
    return items(grades, said, labelled) if judge == "by query" else ten(grades, said, labelled)


def coverage(judge: str, queries: int, labels: int, trials: int) -> tuple[float, float, float]:
    """Share of intervals that hold the truth, their mean width, and how far off the value is on average."""
    rng = np.random.default_rng(queries + labels)
    wanted = truth(drawn(rng, judge, 400_000)[0], 5 if judge == "by query" else 10).mean()
    held, widths, off = 0, [], []
    for trial in range(trials):
        grades, said = drawn(rng, judge, queries)
        labelled = np.zeros(grades.size, np.bool_)
        labelled[rng.permutation(grades.size)[:labels]] = True
        found = imputed_ndcg(
            made(judge, grades, said, labelled.reshape(grades.shape)), Sampling(resamples=300, seed=trial)
        )
        held += found.low <= wanted <= found.high
        widths.append(found.high - found.low)
        off.append(found.value - wanted)
    return held / trials, float(np.mean(widths)), float(np.mean(off))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=600)
    trials = parser.parse_args().trials
    print("| judge | queries | labels of people | coverage | width | off |\n|---|---|---|---|---|---|")
    for judge, sizes in SIZES.items():
        for queries, labels in sizes:
            share, width, off = coverage(judge, queries, labels, trials)
            print(f"| {judge} | {queries} | {labels} | {share:.1%} | {width:.3f} | {off:+.3f} |", flush=True)


if __name__ == "__main__":
    main()
