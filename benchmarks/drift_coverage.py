"""How often the intervals of a drift hold the truth, at 95 %: the change, its two parts, and the parts of each kind.

python benchmarks/drift_coverage.py [rounds]
"""

from __future__ import annotations

import sys

import numpy as np

from karat.statistics.decomposition import Observations, decompose, part_limits
from karat.statistics.sampling import Sampling

Row = tuple[float, ...]
NAMES = ("change", "mix", "quality", "mix of a kind", "quality of a kind", "share of a kind", "mean of a kind")
RISING, FLATTER = tuple(np.linspace(0.3, 0.9, 30)), tuple(np.linspace(0.35, 0.85, 30))
# name: queries before and after, shares before and after, means before and after, queries per conversation
WORLDS: dict[str, tuple[tuple[int, int], tuple[Row, Row], tuple[Row, Row], int]] = {
    "three kinds": ((200, 200), ((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)), ((0.9, 0.7, 0.5), (0.9, 0.7, 0.4)), 1),
    "few queries": ((40, 60), ((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)), ((0.9, 0.7, 0.5), (0.9, 0.7, 0.4)), 1),
    "all near 1": ((100, 100), ((0.7, 0.3), (0.5, 0.5)), ((0.99, 0.95), (0.98, 0.97)), 1),
    "nothing changed": ((150, 150), ((0.5, 0.3, 0.2), (0.5, 0.3, 0.2)), ((0.8, 0.8, 0.8), (0.8, 0.8, 0.8)), 1),
    "30 kinds": ((200, 200), ((1 / 30,) * 30, (0.5 / 30,) * 15 + (1.5 / 30,) * 15), (RISING, FLATTER), 1),
    "conversations": ((240, 240), ((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)), ((0.9, 0.7, 0.5), (0.9, 0.7, 0.4)), 4),
}


def drawn(rng: np.random.Generator, world: str) -> Observations:
    sizes, shares, means, several = WORLDS[world]
    parts = []
    for period, n in enumerate(sizes):
        kind = rng.choice(len(shares[0]), n // several, p=shares[period]).repeat(several)
        alike = np.where(rng.random(n) < 0.5, rng.random(n // several).repeat(several), rng.random(n))
        value = (alike < np.array(means[period])[kind]).astype(float)
        parts.append((np.full(n, period), kind, value, np.ones(n), np.arange(n) // several + period * n))
    return Observations(*(np.concatenate(columns) for columns in zip(*parts, strict=True)), kinds=len(shares[0]))


def coverage(world: str, rounds: int) -> list[float]:
    _, shares, means, _ = WORLDS[world]
    (p0, p1), (m0, m1) = (tuple(map(np.array, pair)) for pair in (shares, means))
    parts = decompose((p0, p1), (m0, m1))
    truths = [p1 @ m1 - p0 @ m0, parts.mix.sum(), parts.quality.sum(), *parts, p1 - p0, m1 - m0]
    held: list[list[bool]] = [[] for _ in NAMES]
    rng = np.random.default_rng(1)
    for seed in range(rounds):
        found = part_limits(drawn(rng, world), (0.0, 1.0), Sampling(resamples=1000, seed=seed))
        for into, limits, truth in zip(held, found, truths, strict=True):
            low, high = np.atleast_2d(limits).T
            known = ~np.isnan(low)
            into += ((low - 1e-9 <= truth) & (truth <= high + 1e-9))[known].tolist()
    return [float(np.mean(some)) for some in held]


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print("| queries | " + " | ".join(NAMES) + " |\n|---|" + "---|" * len(NAMES))
    for world in WORLDS:
        print(f"| {world} | " + " | ".join(f"{share:.1%}" for share in coverage(world, rounds)) + " |", flush=True)


if __name__ == "__main__":
    main()
