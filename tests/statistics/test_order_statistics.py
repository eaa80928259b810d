"""Limits of quantiles: their ranks by brute force, and how often they hold."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from karat.statistics.tally import tally


def ranks(n: int, at: float, level: float) -> tuple[int, int] | None:
    """Ranks from 1 of the two values, with scipy's binomial: the innermost whose tails hold their share at most."""
    tail = (1 - level) / 2
    under = scipy.stats.binom.cdf(np.arange(-1, n + 1), n, at)  # under[r]: chance that fewer than r values lie under
    low = [r for r in range(1, n + 1) if under[r] <= tail]
    high = [r for r in range(1, n + 1) if under[r] >= 1 - tail]
    return (max(low), min(high)) if low and high else None


@pytest.mark.parametrize("level", [0.8, 0.95])
@pytest.mark.parametrize("at", [0.1, 0.5, 0.75, 0.9, 0.95, 0.99])
def test_the_ranks_are_those_of_the_binomial(at: float, level: float) -> None:
    for n in [*range(60), 100, 367, 368, 500, 1000]:
        found = tally(np.arange(1.0, n + 1)).quantile_interval(at, level)  # the values are their own ranks
        assert found == ranks(n, at, level), n


@pytest.mark.parametrize(("at", "enough"), [(0.5, 6), (0.9, 36), (0.99, 368)])
def test_the_least_number_of_values(at: float, enough: int) -> None:
    assert tally(np.arange(float(enough - 1))).quantile_interval(at) is None
    assert tally(np.arange(float(enough))).quantile_interval(at) is not None


@pytest.mark.parametrize(("at", "n"), [(0.5, 6), (0.5, 40), (0.9, 36), (0.9, 150), (0.99, 400)])
def test_limits_enclose_the_true_quantile_often_enough(at: float, n: int) -> None:
    rng = np.random.default_rng(5)
    true = scipy.stats.lognorm.ppf(at, 1.0)
    found = [tally(sample).quantile_interval(at) for sample in rng.lognormal(0, 1, (2000, n))]
    covered = np.mean([limits is not None and limits[0] <= true <= limits[1] for limits in found])
    assert covered >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 2000)


def test_the_order_of_the_values_does_not_matter() -> None:
    values = np.random.default_rng(1).exponential(100, 80)
    assert tally(values).quantile_interval(0.5) == tally(values[::-1]).quantile_interval(0.5)


def test_limits_are_among_the_values() -> None:
    values = np.random.default_rng(2).exponential(100, 80)
    found = tally(values).quantile_interval(0.9)
    assert found is not None
    assert set(found) <= set(values.tolist())
    assert found[0] < np.quantile(values, 0.9) < found[1]


@pytest.mark.parametrize("at", [0.0, 1.0])
def test_the_ends_themselves_have_no_limits(at: float) -> None:
    assert tally(np.arange(1000.0)).quantile_interval(at) is None


def test_nothing_says_nothing() -> None:
    assert tally(np.array([])).quantile_interval(0.5) is None
