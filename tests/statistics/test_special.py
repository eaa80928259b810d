"""The special functions against scipy."""

from __future__ import annotations

import math

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from karat.statistics.special import (
    beta_cdf,
    beta_quantile,
    binomial_cdf,
    normal_cdf,
    normal_quantile,
    student_quantile,
)

CLOSE = 1e-9

# Half observations up to a million of them, evenly over the orders of magnitude.
SHAPES = st.floats(math.log(0.5), math.log(1e6)).map(math.exp)
CHANCES = st.floats(1e-6, 1 - 1e-6)


@given(CHANCES, SHAPES, SHAPES)
def test_beta_cdf_is_that_of_scipy(p: float, a: float, b: float) -> None:
    """Anywhere on the curve, also where it is steep: x is chosen by its chance."""
    x = float(scipy.stats.beta.ppf(p, a, b))
    # The logarithms of the gamma function have eight digits before the point at a million, so seven remain behind it.
    assert beta_cdf(x, a, b) == pytest.approx(scipy.stats.beta.cdf(x, a, b), abs=CLOSE if a + b < 1e5 else 1e-8)


@given(st.floats(0, 1), SHAPES, SHAPES)
def test_beta_cdf_holds_far_out(x: float, a: float, b: float) -> None:
    assert beta_cdf(x, a, b) == pytest.approx(scipy.stats.beta.cdf(x, a, b), abs=CLOSE if a + b < 1e5 else 1e-8)


@given(SHAPES, SHAPES, st.integers(-2, 2))
def test_beta_cdf_where_the_fraction_changes_sides(a: float, b: float, steps: int) -> None:
    """There rounding may say of x and of 1 − x that each is on the far side."""
    x = (a + 1) / (a + b + 2)
    for _ in range(abs(steps)):
        x = math.nextafter(x, math.copysign(math.inf, steps))
    assert beta_cdf(x, a, b) == pytest.approx(scipy.stats.beta.cdf(x, a, b), abs=CLOSE if a + b < 1e5 else 1e-8)


def test_beta_cdf_does_not_go_round_in_circles() -> None:
    a, b = 0.9997896060122439, 136.45313245402482
    x = 0.014340248855820298
    assert beta_cdf(x, a, b) == pytest.approx(scipy.stats.beta.cdf(x, a, b), abs=CLOSE)


@pytest.mark.parametrize("x", [-0.5, 0.0])
def test_nothing_lies_below_the_range(x: float) -> None:
    assert beta_cdf(x, 2, 3) == 0.0


@pytest.mark.parametrize("x", [1.0, 1.5])
def test_everything_lies_below_its_end(x: float) -> None:
    assert beta_cdf(x, 2, 3) == 1.0


@given(CHANCES, SHAPES, SHAPES)
def test_beta_quantile_is_that_of_scipy(p: float, a: float, b: float) -> None:
    assert beta_quantile(p, a, b) == pytest.approx(scipy.stats.beta.ppf(p, a, b), abs=CLOSE)


@given(CHANCES, SHAPES, SHAPES)
def test_beta_quantile_inverts_the_cdf(p: float, a: float, b: float) -> None:
    """As well as a float can: one step to either side must straddle the chance."""
    x = beta_quantile(p, a, b)
    step = 4 * math.ulp(x) + 4 * math.ulp(1 - x)
    assert beta_cdf(x - step, a, b) - 1e-8 <= p <= beta_cdf(x + step, a, b) + 1e-8


@given(st.integers(1, 100_000), st.floats(0.001, 0.999), st.data())
def test_binomial_cdf_is_that_of_scipy(n: int, p: float, data: st.DataObject) -> None:
    near = round(n * p)
    k = data.draw(st.integers(-1, n) | st.integers(max(near - 30, -1), min(near + 30, n)))
    assert binomial_cdf(k, n, p) == pytest.approx(scipy.stats.binom.cdf(k, n, p), abs=CLOSE)


@given(st.floats(-37, 37))
def test_normal_cdf_is_that_of_scipy(x: float) -> None:
    assert normal_cdf(x) == pytest.approx(scipy.stats.norm.cdf(x), abs=1e-15, rel=1e-9)


@given(CHANCES)
def test_normal_quantile_is_that_of_scipy_and_inverts_the_cdf(p: float) -> None:
    assert normal_quantile(p) == pytest.approx(scipy.stats.norm.ppf(p), abs=CLOSE)
    assert normal_cdf(normal_quantile(p)) == pytest.approx(p, abs=CLOSE)


@pytest.mark.parametrize("p", [0.025, 0.05, 0.1, 0.25])
def test_normal_quantiles_mirror_each_other_to_the_last_digit(p: float) -> None:
    assert normal_quantile(p) == -normal_quantile(1 - p)


@pytest.mark.parametrize("p", [0.5, 0.9, 0.975, 0.9995])
@pytest.mark.parametrize("freedom", [1, 2, 9, 400])
def test_student_quantile_is_that_of_scipy(p: float, freedom: float) -> None:
    assert student_quantile(p, freedom) == pytest.approx(scipy.stats.t.ppf(p, freedom), rel=1e-6, abs=1e-6)
