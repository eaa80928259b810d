"""Resampled means: one draw of weights for all columns, as a matrix product, in blocks of bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from threading import Lock, Thread
from typing import Protocol

import numpy as np

from karat.files.machine import cores
from karat.statistics.draws import Draws
from karat.statistics.sums import Floats, Sums

_BLOCK = 4 << 20  # weights at a time: 32 MB
# Products up to this size stay on one thread; larger ones occupy all cores for almost no gain in time.
_ONE_THREAD = 1 << 18
_FEWEST = 8  # fewest resamples in a block that are worth a call
MANY = 512  # units: weights are cached for at most this many, 40 MB for 10,000 resamples
NEARLY_NORMAL = 10_000  # units: above, means differ from a normal distribution by less than the noise of draws


class Draw(Protocol):
    """Makes `size` rows of weights, one weight per distinct unit. Blocks must continue one stream."""

    def __call__(self, size: int) -> Floats: ...


def bayesian_sums(sums: Sums, seed: int, resamples: int) -> tuple[Floats, Floats]:
    """(numerators, denominators) of the Bayesian bootstrap, resample × column: Exp(1) per unit."""
    if sums.units > MANY:
        return resampled_sums(sums, _bayesian_weights(sums, seed), resamples)
    weights = _kept_weights(seed, resamples).of(sums.units)
    table = np.repeat(np.column_stack([sums.above, sums.below]), sums.counts, axis=0)
    ends = np.cumsum([0, *blocks(resamples, *table.shape)]).tolist()
    drawn = np.concatenate([table.T @ weights[:, start:end] for start, end in pairwise(ends)], axis=1).T
    width = sums.above.shape[1]
    return drawn[:, :width], drawn[:, width:]


def bayesian_means(sums: Sums, seed: int, resamples: int) -> Floats:
    """Ratios of the Bayesian bootstrap, resample × column.

    Over very many units they are drawn from the normal distribution with the same means and covariances.
    """
    if sums.units <= NEARLY_NORMAL:
        above, below = bayesian_sums(sums, seed, resamples)
        return above / below
    rest = (sums.above - sums.estimate * sums.below) / (sums.counts @ sums.below)
    rng, spread = np.random.default_rng([seed, 4]), (rest.T * sums.counts) @ rest
    return rng.multivariate_normal(sums.estimate, spread, resamples, method="eigh", check_valid="ignore")


class _Weights:
    """Weights of units, unit × resample, drawn when they are first needed. They do not depend on how many units follow,
    and serve every column of every set of queries: there are many, and drawing is expensive."""

    def __init__(self, seed: int, resamples: int) -> None:
        self._draws = Draws([seed, 3])
        self._drawn = np.empty((0, resamples))
        self._lock = Lock()

    def of(self, units: int) -> Floats:
        with self._lock:
            there, resamples = self._drawn.shape
            if there < units:
                more = np.empty((max(units, min(2 * there, MANY)), resamples))
                more[:there] = self._drawn
                self._draws.exponential(more[there:])
                self._drawn = more
            return self._drawn[:units]


_kept_weights = lru_cache(maxsize=4)(_Weights)


def draw_ahead(units: int, seed: int, resamples: int) -> None:
    """Begin to draw the weights of so many units in a thread, if there is a core for it: they are ready, or nearly so,
    when the run has been read."""
    if units <= MANY and cores() > 1:
        with suppress(RuntimeError):  # no more threads are allowed
            Thread(target=_kept_weights(seed, resamples).of, args=(units,), daemon=True).start()


def _bayesian_weights(sums: Sums, seed: int) -> Draw:
    """The weights of equal units add up to a Gamma of their count."""
    single, several = np.flatnonzero(sums.counts == 1), np.flatnonzero(sums.counts > 1)
    first, second = (np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2))

    def draw(size: int) -> Floats:
        if not len(several):
            return first.standard_exponential((size, len(single)))
        weights = np.empty((size, len(sums.counts)))
        weights[:, single] = first.standard_exponential((size, len(single)))
        weights[:, several] = second.standard_gamma(sums.counts[several], (size, len(several)))
        return weights

    return draw


def multinomial_weights(sums: Sums, seed: int) -> Draw:
    """How often each unit occurs in a sample with replacement: the bootstrap as Efron described it."""
    rng = np.random.default_rng(seed)
    share = sums.counts / sums.units

    def draw(size: int) -> Floats:
        return rng.multinomial(sums.units, share, size).astype(np.float64)

    return draw


def resampled_sums(sums: Sums, draw: Draw, resamples: int) -> tuple[Floats, Floats]:
    """(numerators, denominators) of every resample: resample × column."""
    width = sums.above.shape[1]
    # Columns that are defined on the same queries share one denominator.
    places: dict[bytes, int] = {}
    place = [places.setdefault(column.tobytes(), len(places)) for column in sums.below.T]
    table = np.column_stack([sums.above, *(np.frombuffer(column) for column in places)])
    drawn = np.concatenate([draw(size) @ table for size in blocks(resamples, *table.shape)])
    return drawn[:, :width], drawn[:, width:][:, place]


def blocks(resamples: int, units: int, columns: int = 1) -> Iterator[int]:
    """Sizes of blocks of resamples: bounded memory, and small enough for one thread unless they would be tiny."""
    largest, small = _BLOCK // max(units, 1), _ONE_THREAD // max(units * columns, 1)
    size = max(1, min(largest, small if small >= _FEWEST else largest))
    for start in range(0, resamples, size):
        yield min(size, resamples - start)
