"""Could this difference be chance: paired randomization by flipping signs."""

from __future__ import annotations

import numpy as np

from karat.statistics.sums import Floats, Ints, by_cluster

_EXACT = 14  # up to this many differences every combination of signs is looked at
_OFTEN = 64  # a difference that occurs so often has its number of pluses drawn at once
_SIGNS = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)  # byte → eight signs


def sign_flip_p(differences: Floats, permutations: int, seed: int, clusters: Ints | None = None) -> float:
    """Two-sided p-value of the mean of paired differences.

    If neither side were better, each difference could as well have had the other sign. Queries of one cluster flip
    together. The observed signs count as one of the permutations, so p is never 0. Ties never matter: they are 0
    whatever their sign.

    >>> sign_flip_p(np.array([1.0, 1.0, 1.0, 0.0]), 1000, 0)  # all pluses or all minuses: 2 of 8
    0.25
    """
    units = differences if clusters is None else by_cluster(differences[:, None], clusters)[:, 0]
    sizes, counts = np.unique(np.abs(units[units != 0]), return_counts=True)
    observed = abs(float(np.sort(units).sum()))
    rounding = 1e-10 * float(sizes @ counts)
    if counts.sum() <= _EXACT:
        sums = _every_sum(np.repeat(sizes, counts))
        return float(np.mean(np.abs(sums) >= observed - rounding))
    sums = _drawn_sums(sizes, counts, permutations, np.random.default_rng(seed))
    return float((1 + np.count_nonzero(np.abs(sums) >= observed - rounding)) / (permutations + 1))


def _every_sum(sizes: Floats) -> Floats:
    sums = np.zeros(1)
    for size in sizes.tolist():
        sums = np.concatenate([sums + size, sums - size])
    return sums


def _drawn_sums(sizes: Floats, counts: Ints, permutations: int, rng: np.random.Generator) -> Floats:
    often = counts > _OFTEN
    sums = np.zeros(permutations)
    for size, count in zip(sizes[often].tolist(), counts[often].tolist(), strict=True):
        sums += size * (2.0 * rng.binomial(count, 0.5, permutations) - count)
    rest = np.repeat(sizes[~often], counts[~often])
    for start in range(0, len(rest), 8):
        # One random byte signs eight differences: their sum stands ready in a table.
        eight = rest[start : start + 8]
        table = _SIGNS[:, : len(eight)] @ eight
        sums += table[np.frombuffer(rng.bytes(permutations), np.uint8)]
    return sums
