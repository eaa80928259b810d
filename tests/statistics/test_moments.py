"""Quantiles from moments are those that draws come near to."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from karat.statistics import intervals
from karat.statistics.intervals import mean_intervals, mean_quantiles
from karat.statistics.sampling import Method, Sampling
from karat.statistics.special import beta_quantile
from karat.statistics.sums import sum_up


@settings(deadline=None)
@given(ones=st.integers(200, 3000), zeros=st.integers(200, 3000), at=st.sampled_from([0.005, 0.025, 0.5, 0.95, 0.975]))
def test_of_zeros_and_ones_they_are_those_of_a_beta(ones: int, zeros: int, at: float) -> None:
    found = mean_quantiles(np.array([0.0, 1.0]), np.array([zeros, ones], np.float64), [at])
    spread = np.sqrt(ones * zeros / (ones + zeros) ** 3)
    assert found is not None
    assert found[0] == pytest.approx(beta_quantile(at, ones, zeros), abs=0.002 * spread)


@settings(deadline=None, max_examples=15)
@given(
    counts=st.lists(st.integers(1, 400), min_size=3, max_size=8),
    seed=st.integers(0, 1000),
    level=st.sampled_from([0.9, 0.99]),
)
@pytest.mark.parametrize("method", ["bayes", "strict"])
def test_draws_come_near_to_them(method: Method, counts: list[int], seed: int, level: float) -> None:
    assume(sum(counts) > 512)
    values = np.repeat(np.random.default_rng(seed).random(len(counts)), counts)
    sums, sampling = sum_up(values[:, None]), Sampling(method=method, level=level, resamples=200_000, seed=seed)
    ((low, high),) = mean_intervals(sums, [(0.0, 1.0)], sampling)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "_from_moments", lambda *_: None)
        ((drawn_low, drawn_high),) = mean_intervals(sums, [(0.0, 1.0)], sampling)
    noise = 5 * values.std() / np.sqrt(len(values)) * 0.012  # the farthest quantile of so many draws
    assert low == pytest.approx(drawn_low, abs=noise)
    assert high == pytest.approx(drawn_high, abs=noise)


def test_a_mean_far_from_normal_is_drawn() -> None:
    """Four of 800 fail: as if there were four observations."""
    values = np.array([0.0, 0.2, 0.5, 0.7, *[1.0] * 796])
    assert mean_quantiles(values, np.ones(800), [0.5]) is None
    sums = sum_up(values[:, None])
    first, other = (mean_intervals(sums, [(0.0, 1.0)], Sampling(seed=seed)) for seed in (1, 2))
    assert (first != other).all()
    nearly = sum_up(np.linspace(0, 1, 800)[:, None])
    first, other = (mean_intervals(nearly, [(0.0, 1.0)], Sampling(seed=seed)) for seed in (1, 2))
    assert (first == other).all()  # nothing is drawn


def test_equal_values_leave_nothing_open() -> None:
    assert mean_quantiles(np.full(3, 0.25), np.ones(3), [0.025, 0.975]) == [0.25, 0.25]


def test_values_without_bounds_have_no_observation_at_an_end() -> None:
    values = np.random.default_rng(3).gamma(9, 3, 2000)
    ((low, high),) = mean_intervals(sum_up(values[:, None]), [(0.0, np.inf)], Sampling())
    error = values.std() / np.sqrt(len(values))
    assert [low, high] == pytest.approx([values.mean() - 1.96 * error, values.mean() + 1.96 * error], abs=0.05 * error)


def test_conversations_and_votes_are_drawn() -> None:
    values, clusters = np.random.default_rng(4).random((1200, 1)), np.repeat(np.arange(600), 2)
    for sums in (sum_up(values, None, clusters), sum_up(values, values + 1)):
        first, other = (mean_intervals(sums, [(0.0, 1.0)], Sampling(seed=seed)) for seed in (1, 2))
        assert (first != other).all()
