"""Quartiles and shares."""

from __future__ import annotations

import numpy as np
import pytest

from karat.statistics.distribution import describe


def test_quartiles_and_ends() -> None:
    found = describe(np.array([1.0, 0.0, 0.25, 1.0, 0.5]))
    assert found is not None
    assert (found.q1, found.median, found.q3) == (0.25, 0.5, 1.0)
    assert (found.zeros, found.ones) == pytest.approx((0.2, 0.4))


def test_one_value_is_all_its_quartiles() -> None:
    found = describe(np.array([0.5]))
    assert found is not None
    assert (found.q1, found.median, found.q3, found.zeros, found.ones) == (0.5, 0.5, 0.5, 0.0, 0.0)


def test_nothing_defined_has_no_distribution() -> None:
    assert describe(np.array([])) is None
