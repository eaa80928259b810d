"""Does the promised difference get found as often as promised?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.statistics.significance import detectable_difference, sign_flip_p, units_needed


@pytest.mark.parametrize(("units", "power"), [(50, 0.8), (200, 0.8), (200, 0.9)])
def test_the_detectable_difference_is_detected(units: int, power: float) -> None:
    spread, tried = 0.3, 800
    difference = detectable_difference(spread, units, power=power)
    samples = np.random.default_rng(units).normal(difference, spread, (tried, units))
    found = np.mean([sign_flip_p(sample, 999, i) <= 0.05 for i, sample in enumerate(samples)])
    assert found == pytest.approx(power, abs=4 * np.sqrt(power * (1 - power) / tried))


@given(st.floats(0.01, 2), st.floats(0.005, 0.5), st.sampled_from([0.9, 0.95, 0.99]), st.sampled_from([0.8, 0.9]))
def test_units_needed_are_just_enough(spread: float, difference: float, level: float, power: float) -> None:
    units = units_needed(spread, difference, level, power)
    assert detectable_difference(spread, units, level, power) <= difference * (1 + 1e-9)
    if units > 2:
        assert detectable_difference(spread, units - 1, level, power) > difference * (1 - 1e-9)


def test_more_queries_find_smaller_differences() -> None:
    assert detectable_difference(0.3, 800) == pytest.approx(detectable_difference(0.3, 200) / 2)


def test_no_spread_needs_two_queries() -> None:
    assert units_needed(0.0, 0.01) == 2
    assert detectable_difference(0.0, 10) == 0.0
