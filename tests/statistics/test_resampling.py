"""Means of very many units are drawn from a normal distribution: the one that the Bayesian bootstrap has."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from karat.statistics import resampling
from karat.statistics.resampling import bayesian_means
from karat.statistics.sums import sum_up


@pytest.mark.parametrize("clustered", [False, True])
def test_normal_draws_spread_as_those_of_the_bootstrap(clustered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    size = 4_000
    curve = np.sort(rng.integers(0, 4, (size, 3)) / 3, axis=1)  # rises, so columns go together
    clusters = np.sort(rng.integers(0, 1_500, size)) if clustered else None
    sums = sum_up(curve, None, clusters)
    drawn = bayesian_means(sums, 1, 20_000)
    monkeypatch.setattr(resampling, "NEARLY_NORMAL", 100)
    normal = bayesian_means(sums, 1, 20_000)
    assert not np.array_equal(normal, drawn)
    np.testing.assert_allclose(normal.mean(0), drawn.mean(0), atol=4 * drawn.std(0).max() / 140)
    np.testing.assert_allclose(np.cov(normal.T), np.cov(drawn.T), rtol=0.06)
    np.testing.assert_allclose(
        np.quantile(normal, [0.025, 0.5, 0.975], axis=0), np.quantile(drawn, [0.025, 0.5, 0.975], axis=0), atol=5e-4
    )


def test_weights_drawn_bit_by_bit_are_those_drawn_at_once() -> None:
    """A unit has the same weights, whether smaller or larger sets were asked for before."""
    at_once = np.random.default_rng([7, 3]).standard_exponential((40, 50))
    weights = resampling._Weights(7, 50)
    for units in (3, 1, 5, 11, 40, 2):
        assert np.array_equal(weights.of(units), at_once[:units])


def test_weights_are_the_same_for_threads_that_draw_together() -> None:
    at_once = np.random.default_rng([7, 3]).standard_exponential((64, 2_000))
    weights = resampling._Weights(7, 2_000)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(weights.of, range(1, 65)))
    assert all(np.array_equal(one, at_once[: len(one)]) for one in found)
