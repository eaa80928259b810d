"""Quartiles and shares."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from karat.statistics import distribution
from karat.statistics.distribution import quantile_difference_interval, quantiles
from karat.statistics.special import binomial_cdf
from karat.statistics.sums import Floats
from karat.statistics.tally import tally


def test_quartiles_and_ends() -> None:
    found = tally(np.array([1.0, 0.0, 0.25, 1.0, 0.5])).describe()
    assert found is not None
    assert (found.q1, found.median, found.q3) == (0.25, 0.5, 1.0)
    assert (found.zeros, found.ones) == pytest.approx((0.2, 0.4))


def test_one_value_is_all_its_quartiles() -> None:
    found = tally(np.array([0.5])).describe()
    assert found is not None
    assert (found.q1, found.median, found.q3, found.zeros, found.ones) == (0.5, 0.5, 0.5, 0.0, 0.0)


def test_nothing_defined_has_no_distribution() -> None:
    assert tally(np.array([])).describe() is None


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.floats(-1e9, 1e9) | st.just(np.nan)
    ),
    st.lists(st.floats(0, 1), min_size=1, max_size=3),
)
def test_quantiles_are_those_of_numpy(values: Floats, at: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = np.quantile(values, at, axis=0)
    assert np.array_equal(quantiles(values, at), expected, equal_nan=True)


@given(st.integers(1, 3_000), st.floats(0.01, 0.99), st.sampled_from([0.8, 0.95, 0.99]))
def test_limits_of_a_quantile_are_the_first_ranks_that_hold(n: int, at: float, level: float) -> None:
    """The search starts from a guess; counting up from 0 finds the same ranks."""
    tail = (1 - level) / 2
    chances = [binomial_cdf(rank, n, at) for rank in range(n + 1)]
    low = next((rank for rank in range(n + 1) if chances[rank] > tail), n)
    high = next((rank for rank in range(n + 1) if chances[rank] >= 1 - tail), n)
    expected = None if low < 1 or high >= n else (low - 1.0, float(high))
    assert tally(np.arange(float(n))).quantile_interval(at, level) == expected


@pytest.mark.parametrize("at", [0.5, 0.95])
def test_limits_of_a_difference_are_the_same_if_only_queries_near_the_quantile_are_drawn(
    monkeypatch: pytest.MonkeyPatch, at: float
) -> None:
    rng = np.random.default_rng(4)
    before = rng.lognormal(4.0, 0.5, 1500)
    after = before * rng.lognormal(0.1, 0.2, 1500)
    near = quantile_difference_interval(before, after, at, (0.025, 0.975), seed=1)
    monkeypatch.setattr(distribution, "_MANY", 10_000)
    every = quantile_difference_interval(before, after, at, (0.025, 0.975), seed=1)
    assert near is not None
    assert every is not None
    assert near != every  # other draws
    assert near == pytest.approx(every, abs=0.15 * (every[1] - every[0]))
