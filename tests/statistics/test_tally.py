"""A column counted once gives the same digits as the column itself."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from karat.statistics.distribution import quantiles
from karat.statistics.intervals import mean_intervals
from karat.statistics.sampling import Sampling
from karat.statistics.sums import Floats, sum_up
from karat.statistics.tally import tally

_FEW = st.sampled_from([0.0, -0.0, 1 / 3, 2 / 3, 0.1, 1.0, 5.0, 1e-310, 1e300, math.nan])
_ANY = st.floats(allow_infinity=False, width=64, min_value=-1e300, max_value=1e300) | st.just(math.nan)


@given(arrays(np.float64, st.integers(0, 80), elements=_FEW) | arrays(np.float64, st.integers(0, 40), elements=_ANY))
def test_the_mean_is_exactly_rounded(values: Floats) -> None:
    defined = values[~np.isnan(values)]
    found = tally(values)
    assert (found.n, found.size) == (len(defined), len(values))
    assert found.mean == (math.fsum(defined.tolist()) / len(defined) if len(defined) else None)
    assert np.array_equal(np.repeat(found.values, found.counts), np.sort(defined))


@given(st.lists(st.sampled_from([1 / 3, 2 / 3, 0.1, 0.7]), min_size=1, max_size=30), st.integers(1, 50_000))
def test_a_large_column_has_an_exact_mean_too(values: list[float], often: int) -> None:
    total = sum((int(v * 2**60) * often for v in values), 0)  # each is a multiple of 2^-60
    assert tally(np.repeat(values, often)).total == total / 2**60


@given(arrays(np.float64, st.integers(1, 60), elements=st.sampled_from([0.0, 0.25, 1 / 3, 0.9, 1.0, math.nan])))
def test_quantiles_and_intervals_are_those_of_the_column(values: Floats) -> None:
    found, defined = tally(values), values[~np.isnan(values)]
    if len(defined):
        at = (0.0, 0.25, 0.5, 0.9, 1.0)
        assert found.quantiles(at) == quantiles(defined, at).tolist()
        assert (found.count(0.0), found.count(0.9)) == (int((defined == 0).sum()), int((defined == 0.9).sum()))
    both = [mean_intervals(sums, [(0.0, 1.0)], Sampling()) for sums in (found.sums, sum_up(values[:, None]))]
    assert np.array_equal(*both, equal_nan=True)
