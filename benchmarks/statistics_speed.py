"""Intervals and randomization against scipy and against the loop that people write; prints one page of Markdown.

    python benchmarks/statistics_speed.py [--quick] [--repeat N] [--output FILE]

Contenders take turns in one process, each turn on new data from a fixed seed; of the repeats the least CPU and the
least wall time count, and CPU is what the targets are about. Matrix products run on one thread: with two, Karat was no
faster and took twice the CPU, for a thread that waits spins, also into the turn of the next contender.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is first imported

import sys
import time
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

import numpy as np
import scipy.stats
from pages import Target, conditions, joined, options, publish, table, target_table

from karat.statistics import intervals
from karat.statistics.intervals import Sampling, mean_intervals
from karat.statistics.significance import sign_flip_p
from karat.statistics.sums import Floats, sum_up

METRICS, RESAMPLES, PERMUTATIONS = 12, 10_000, 100_000
SCORES = [0.0, 0.2, 0.25, 1 / 3, 0.4, 0.5, 0.6, 2 / 3, 0.75, 0.8, 1.0]
DISTINCT = 1_300  # rows of scores among 200,000 queries
BATCH = 100  # of scipy's resamples: the fastest of 10, 50, 100 and 500


class Seconds(NamedTuple):
    cpu: float
    wall: float

    def better(self, other: Seconds | None) -> Seconds:
        return self if other is None else Seconds(min(self.cpu, other.cpu), min(self.wall, other.wall))


class Task(NamedTuple):
    name: str
    data: Callable[[np.random.Generator], Floats]
    contenders: dict[str, Callable[[Floats], object]]


def karat_intervals(values: Floats) -> Floats:
    return mean_intervals(sum_up(values), [(0.0, 1.0)] * METRICS, Sampling(resamples=RESAMPLES))


def drawn_intervals(values: Floats) -> Floats:
    """With draws although there are enough queries to do without: what peers do, and what conversations need."""
    with mock.patch.object(intervals, "_from_moments", return_value=None):
        return karat_intervals(values)


def scipy_intervals(values: Floats) -> object:
    return scipy.stats.bootstrap(
        (values,), np.mean, axis=0, vectorized=True, method="percentile", n_resamples=RESAMPLES, batch=BATCH
    )


def naive_intervals(values: Floats) -> list[Floats]:
    rng = np.random.default_rng(0)
    found = []
    for column in values.T:
        means = [rng.choice(column, len(column)).mean() for _ in range(RESAMPLES)]
        found.append(np.percentile(means, [2.5, 97.5]))
    return found


def karat_p(differences: Floats) -> float:
    return sign_flip_p(differences, PERMUTATIONS, 0)


def looped_p(differences: Floats) -> float:
    rng = np.random.default_rng(0)
    observed, found = abs(differences.mean()), 1
    for _ in range(PERMUTATIONS):
        signs = rng.choice([-1, 1], len(differences))
        found += abs((signs * differences).mean()) >= observed
    return found / (PERMUTATIONS + 1)


def scores(rng: np.random.Generator) -> Floats:
    """All rows differ: there is nothing to put together."""
    return rng.choice(SCORES, (1_000, METRICS))


def repeated_scores(rng: np.random.Generator) -> Floats:
    return rng.choice(SCORES, (DISTINCT, METRICS))[rng.integers(0, DISTINCT, 200_000)]


def repeated_differences(rng: np.random.Generator) -> Floats:
    return np.asarray(rng.choice(SCORES, 1_000) - rng.choice(SCORES, 1_000))


def different_differences(rng: np.random.Generator) -> Floats:
    return rng.normal(0.01, 0.3, 1_000)


SMALL = f"intervals, 1,000 × {METRICS} × {RESAMPLES:,}"
LARGE = f"intervals, 200,000 × {METRICS} × {RESAMPLES:,}, {DISTINCT:,} distinct rows"
RECALLS = f"sign-flip, {PERMUTATIONS:,} of 1,000 differences of recall"
REALS = f"sign-flip, {PERMUTATIONS:,} of 1,000 differences, no two equal"
OWN, DRAWN = "Karat", "Karat, drawn"
INTERVALS = {OWN: karat_intervals, DRAWN: drawn_intervals, "scipy": scipy_intervals, "loop": naive_intervals}
RANDOMIZATION = {DRAWN: karat_p, "loop": looped_p}
TASKS = [
    Task(SMALL, scores, {**INTERVALS}),
    Task(LARGE, repeated_scores, {OWN: karat_intervals, DRAWN: drawn_intervals}),
    Task(RECALLS, repeated_differences, {**RANDOMIZATION}),
    Task(REALS, different_differences, {**RANDOMIZATION}),
]
Measured = dict[tuple[str, str], Seconds]


def main() -> None:
    description = "Intervals and randomization against scipy and plain loops."
    given = options(description, "one repeat: does everything run?", "STATISTICS.md", repeats=5)
    repeats = 1 if given.quick else given.repeat
    publish(_page(_measure(repeats), repeats), given.output)


def _measure(repeats: int) -> Measured:
    best: Measured = {}
    for repeat in range(repeats):
        for task in TASKS:
            values = task.data(np.random.default_rng(repeat))
            for name, contender in task.contenders.items():
                found = _time(contender, values)
                print(
                    f"[{repeat + 1}/{repeats}] {task.name}, {name}: {found.cpu:.3f} s CPU", file=sys.stderr, flush=True
                )
                best[task.name, name] = found.better(best.get((task.name, name)))
    return best


def _time(contender: Callable[[Floats], object], values: Floats) -> Seconds:
    wall, cpu = time.perf_counter(), time.process_time()
    contender(values)
    return Seconds(time.process_time() - cpu, time.perf_counter() - wall)


def _page(best: Measured, repeats: int) -> str:
    parts = [
        "# Benchmarks: statistics",
        "Written by `benchmarks/statistics_speed.py`. Ratios are peer / Karat's draws: above 1, these are faster. "
        "Of more than 512 queries Karat needs no draws where the mean is nearly normal (decision 006).",
        conditions(
            f"{repeats} repeats, interleaved; lowest CPU and wall time of them; OpenBLAS on "
            f"{os.environ['OPENBLAS_NUM_THREADS']} thread (by default it takes all cores, "
            "and Karat more CPU for its waiting threads)",
            ["karat", "numpy", "scipy"],
        ),
        "## Targets",
        target_table(_targets(best)),
        "## Seconds",
        table(
            ["task", "contender", ">CPU", ">wall", ">CPU ratio", ">wall ratio"],
            [_row(best, task, name) for task, name in best],
        ),
    ]
    return joined(parts)


def _row(best: Measured, task: str, name: str) -> list[str]:
    own, found = best[task, DRAWN], best[task, name]
    ratios = (found.cpu / own.cpu, found.wall / own.wall)
    return [task, name, f"{found.cpu:.3f}", f"{found.wall:.3f}", *(f"{ratio:.1f}×" for ratio in ratios)]


def _targets(best: Measured) -> list[Target]:
    large = best[LARGE, DRAWN].cpu
    return [
        _at_least(best, SMALL, "scipy", 3),
        _at_least(best, SMALL, "loop", 20),
        Target(f"{LARGE}, CPU", "≤ 3 s", f"{large:.2f} s", large <= 3),
        _at_least(best, RECALLS, "loop", 15),
        _at_least(best, REALS, "loop", 15),
    ]


def _at_least(best: Measured, task: str, peer: str, wanted: float) -> Target:
    ratio = best[task, peer].cpu / best[task, DRAWN].cpu
    return Target(f"{task}, CPU against {peer}", f"≥ {wanted:g}×", f"{ratio:.1f}×", ratio >= wanted)


if __name__ == "__main__":
    main()
