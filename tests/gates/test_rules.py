"""The rules of gates, word for word as they were decided, over every order of value, interval and limit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.gates.rules import (
    ConfidenceLevels,
    GatedValue,
    failing_level,
    floor_on_bound,
    floor_on_mean,
    regression_on_bound,
    regression_on_mean,
)
from karat.statistics.significance import holm
from karat.statistics.special import normal_cdf, normal_quantile

GRID = [i / 10 for i in range(-4, 5)]
ORDERS = [(low, value, high) for low, value, high in itertools.product(GRID, repeat=3) if low <= value <= high]
LEVELS = ConfidenceLevels(0.95, 0.95)


def fixed(low: float | None, value: float, high: float | None, n: int = 100) -> GatedValue:
    return GatedValue(value, lambda level: (low, high), n)


def around(value: float, error: float, n: int = 100) -> GatedValue:
    """With a normal interval."""

    def limits(level: float) -> tuple[float, float]:
        reach = normal_quantile((1 + level) / 2) * error
        return value - reach, value + reach

    return GatedValue(value, limits, n)


@pytest.mark.parametrize("floor", GRID)
def test_a_floor_on_the_mean(floor: float) -> None:
    """The mean decides; "not certain" when the interval straddles the floor."""
    for low, value, high in ORDERS:
        ruling = floor_on_mean(fixed(low, value, high), floor, LEVELS)
        assert ruling.outcome == ("pass" if value >= floor else "fail")
        assert ruling.certain == (low >= floor if value >= floor else high < floor)
        assert (ruling.needed is not None) == (not ruling.certain and value != floor)


@pytest.mark.parametrize("floor", GRID)
def test_a_floor_on_the_bound(floor: float) -> None:
    """The near end must clear it; fail when the far end misses too, not proven otherwise."""
    for low, value, high in ORDERS:
        outcome = floor_on_bound(fixed(low, value, high), floor, LEVELS).outcome
        assert outcome == ("pass" if low >= floor else "fail" if high < floor else "inconclusive")


@pytest.mark.parametrize("most", [0.0, 0.1, 0.2, 0.3, 0.4])
def test_a_regression_on_the_mean(most: float) -> None:
    """Fails when the drop exceeds m and the interval of the difference lies below 0; a drop that could be noise
    is inconclusive."""
    for low, delta, high in ORDERS:
        outcome = regression_on_mean(fixed(low, delta, high), most, LEVELS).outcome
        assert outcome == ("pass" if delta >= -most else "fail" if high < 0 else "inconclusive")


@pytest.mark.parametrize("most", [0.0, 0.1, 0.2, 0.3, 0.4])
def test_a_regression_on_the_bound(most: float) -> None:
    """Passes only when the lower end is above −m, fails when the upper end is below −m, else inconclusive."""
    for low, delta, high in ORDERS:
        outcome = regression_on_bound(fixed(low, delta, high), most, LEVELS).outcome
        assert outcome == ("pass" if low > -most else "fail" if high < -most else "inconclusive")


def test_without_an_interval_nothing_is_proven_and_nothing_ruled_out() -> None:
    value = fixed(None, 0.5, None)
    assert floor_on_mean(value, 0.4, LEVELS) == floor_on_mean(value, 0.5, LEVELS)
    assert (floor_on_mean(value, 0.4, LEVELS).outcome, floor_on_mean(value, 0.4, LEVELS).certain) == ("pass", False)
    assert floor_on_mean(value, 0.6, LEVELS).outcome == "fail"
    assert floor_on_bound(value, 0.4, LEVELS).outcome == "inconclusive"
    assert regression_on_mean(fixed(None, -0.2, None), 0.1, LEVELS).outcome == "inconclusive"
    assert regression_on_bound(fixed(None, 0.2, None), 0.1, LEVELS).outcome == "inconclusive"


def test_a_mean_that_is_at_the_limit_on_paper_passes() -> None:
    assert 0.3 - 0.2 < 0.1
    assert floor_on_mean(fixed(0.0, 0.3 - 0.2, 1.0), 0.1, LEVELS).outcome == "pass"
    assert floor_on_mean(fixed(0.0, 0.0999, 1.0), 0.1, LEVELS).outcome == "fail"
    assert 0.87 - 0.9 < -0.03
    assert regression_on_mean(fixed(-0.05, 0.87 - 0.9, -0.01), 0.03, LEVELS).outcome == "pass"
    assert regression_on_mean(fixed(-0.05, -0.0301, -0.01), 0.03, LEVELS).outcome == "fail"


def test_one_of_many_fails_only_with_more_certainty_but_passes_with_the_same() -> None:
    drop = around(-0.05, 0.02)  # 2.5 standard errors
    many = ConfidenceLevels(0.95, 0.99)
    assert regression_on_mean(drop, 0.02, LEVELS).outcome == "fail"
    found = regression_on_mean(drop, 0.02, many)
    assert found.outcome == "inconclusive"
    assert found.needed is not None
    assert found.needed > drop.n
    assert floor_on_bound(around(0.8, 0.02), 0.85, LEVELS).outcome == "fail"
    assert floor_on_bound(around(0.8, 0.02), 0.85, many).outcome == "inconclusive"
    assert floor_on_bound(around(0.9, 0.02), 0.86, many).outcome == "pass"
    assert regression_on_bound(around(0.0, 0.02), 0.04, many).outcome == "pass"


def test_queries_needed_grow_with_the_noise_and_shrink_with_the_gap() -> None:
    by_noise = [floor_on_bound(around(0.82, error), 0.8, LEVELS).needed for error in (0.02, 0.04, 0.08, 0.16)]
    by_gap = [floor_on_bound(around(value, 0.1), 0.8, LEVELS).needed for value in (0.801, 0.81, 0.84, 0.88)]
    for needed in (by_noise, by_gap[::-1]):
        assert all(n is not None and n > 100 for n in needed)
        assert needed == sorted(needed)
        assert len(set(needed)) == 4
    # Four times the queries halve the interval.
    assert by_noise[2] == pytest.approx(4 * by_noise[1], rel=0.01)
    assert floor_on_bound(around(0.8, 0.1), 0.8, LEVELS).needed is None  # on the line no number settles it


@pytest.mark.parametrize(("true", "line"), [(0.82, 0.8), (0.6, 0.63), (-0.03, 0.0)])
def test_with_as_many_queries_as_are_named_half_of_the_intervals_clear_the_line(true: float, line: float) -> None:
    """If the value stays what it is: a coin's toss at least, for half of the new values lie further away."""
    rng = np.random.default_rng(1)
    spread, n = 0.45, 200
    needed = floor_on_bound(around(true, spread / n**0.5, n), line, LEVELS).needed
    assert needed is not None
    values = rng.normal(true, spread / needed**0.5, 2000)
    settled = [
        floor_on_bound(around(float(v), spread / needed**0.5), line, LEVELS).outcome
        == ("pass" if true > line else "fail")
        for v in values
    ]
    assert 0.47 < np.mean(settled) < 0.55


@given(st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=9), st.sampled_from([0.8, 0.9, 0.95, 0.99]))
def test_the_bar_for_failing_is_holms(p_values: list[float], level: float) -> None:
    """Each test fails at every level under 1 − p: those over the bar are those that Holm rejects."""
    tests = [lambda at, p=p: p < 1 - at for p in p_values]
    bar = failing_level(tests, level)
    adjusted = holm(np.array(p_values))
    close = np.abs(adjusted - (1 - level)) < 1e-9
    assert [test(bar) for test, tie in zip(tests, close, strict=True) if not tie] == [
        bool(a < 1 - level) for a, tie in zip(adjusted, close, strict=True) if not tie
    ]
    assert level <= bar + 1e-12


def test_of_eight_tests_without_an_effect_one_fails_in_five_percent() -> None:
    rng = np.random.default_rng(0)
    named = alone = 0
    for z in rng.normal(size=(2000, 8)):
        p_values = [2 * normal_cdf(-abs(float(x))) for x in z]
        tests = [lambda at, p=p: p < 1 - at for p in p_values]
        bar = failing_level(tests, 0.95)
        named += any(test(bar) for test in tests)
        alone += any(test(0.95) for test in tests)
    assert 0.035 < named / 2000 < 0.065
    assert alone / 2000 > 0.3
