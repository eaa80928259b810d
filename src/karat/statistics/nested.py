"""Nested cross-validation of settings that need no fitting: inner folds choose, outer folds measure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def fold_numbers(names: Sequence[str], count: int, clusters: Ints | None = None, salt: str = "") -> Ints:
    """A fold for each query, from the hash of its name; queries of a cluster share one. Folds have equal numbers of
    clusters, up to one. Neither the order of the queries nor the numbers of the clusters matter.

    >>> fold_numbers(["a", "b", "c", "d"], 2).tolist() == fold_numbers(["d", "c", "b", "a"], 2).tolist()[::-1]
    True
    """
    keys = [hashlib.blake2b(f"{salt}\0{name}".encode("utf-8", "backslashreplace"), digest_size=8) for name in names]
    hashed = np.array([int.from_bytes(key.digest(), "big") for key in keys], np.uint64)
    unit = np.arange(len(hashed)) if clusters is None else np.unique(clusters, return_inverse=True)[1].reshape(-1)
    first = np.full(int(unit.max(initial=-1)) + 1, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(first, unit, hashed)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    return np.asarray(place[unit] % count, np.int64)


class Nested(msgspec.Struct, frozen=True):
    """The folds of each query, and what settings score on them. A higher score is better."""

    values: Floats  # setting × query, all defined
    outer: Ints
    inner: Ints
    spent: Floats | None = None  # setting × query, such as tokens
    most: float = np.inf  # of the mean of `spent`

    def choose(self, among: Ints, rows: Bools) -> int:
        """The setting with the best mean over the inner folds of these queries; of equal ones the first.

        Settings that spend too much on these queries are left out. If all do, the one that spends least is chosen.
        """
        if self.spent is not None:
            spent = self.spent[among][:, rows].mean(axis=1)
            if (spent > self.most).all():
                return int(among[np.argmin(spent)])
            among = among[spent <= self.most]
        inner, values = self.inner[rows], self.values[among][:, rows]
        folds = [values[:, inner == fold].mean(axis=1) for fold in np.unique(inner)]
        means = np.mean(folds, axis=0)
        return int(among[np.argmax(np.round(means, 12))])

    def held_out(self, among: Ints) -> tuple[Ints, Floats]:
        """The setting chosen for each outer fold without its queries, and each query's score by that setting."""
        chosen, scores = [], np.empty(self.values.shape[1])
        for fold in np.unique(self.outer):
            rows = self.outer == fold
            chosen.append(self.choose(among, ~rows))
            scores[rows] = self.values[chosen[-1], rows]
        return np.array(chosen, np.int64), scores
