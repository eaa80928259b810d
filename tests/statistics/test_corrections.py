"""Corrections by their definitions and against scipy."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from karat.statistics.significance import benjamini_hochberg, holm
from karat.statistics.sums import Floats

CHANCES = st.lists(st.floats(0, 1) | st.sampled_from([0.01, 0.02, 0.05]), min_size=1, max_size=12)


def rejected_by_holm(p: list[float], level: float) -> set[int]:
    """Holm 1979, as written: smallest first, each against level / (number left), until one is not rejected."""
    found: set[int] = set()
    for left, i in zip(range(len(p), 0, -1), sorted(range(len(p)), key=p.__getitem__), strict=True):
        if p[i] > level / left:
            break
        found.add(i)
    return found


def test_a_known_example_of_holm() -> None:
    found = holm(np.array([0.01, 0.04, 0.03, 0.005]))
    assert found.tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(CHANCES, st.sampled_from([0.01, 0.049, 0.1, 0.31]))
def test_holm_rejects_what_its_definition_rejects(p: list[float], level: float) -> None:
    adjusted = holm(np.array(p))
    # At the level itself rounding decides; nobody's decision should hang on that.
    if np.abs(adjusted - level).min() > 1e-12:
        assert set(np.flatnonzero(adjusted <= level).tolist()) == rejected_by_holm(p, level)


@given(CHANCES)
def test_benjamini_hochberg_is_that_of_scipy(p: list[float]) -> None:
    assert benjamini_hochberg(np.array(p)) == pytest.approx(scipy.stats.false_discovery_control(p), abs=1e-12)


@given(CHANCES)
def test_adjusting_never_helps_and_holm_is_the_stricter(p: list[float]) -> None:
    raw, careful, curious = np.array(p), holm(np.array(p)), benjamini_hochberg(np.array(p))
    assert (raw <= curious + 1e-12).all()
    assert (curious <= careful + 1e-12).all()
    assert (careful <= 1).all()
    assert (np.diff(careful[np.argsort(raw)]) >= 0).all()


@given(CHANCES, st.randoms(use_true_random=False))
def test_each_p_keeps_its_place(p: list[float], random: Random) -> None:
    order = np.array(random.sample(range(len(p)), len(p)))
    for adjust in (holm, benjamini_hochberg):
        assert adjust(np.array(p)[order]).tolist() == adjust(np.array(p))[order].tolist()


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
def test_one_comparison_needs_no_correction_and_none_is_none(adjust: Callable[[Floats], Floats]) -> None:
    assert adjust(np.array([0.03])).tolist() == [0.03]
    assert adjust(np.array([])).tolist() == []
