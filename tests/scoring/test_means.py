"""Means are exactly rounded, whichever way they are summed."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from karat.results.summary import _exact_sum

SHARES = st.one_of(
    st.floats(0, 1),
    st.integers(1, 5000).map(lambda rank: 1 / rank),
    st.sampled_from([0.0, 0.2, 0.6, 1.0, 5e-324, 2.0**-10, 2.0**-11]),
)


@given(st.lists(SHARES, min_size=1) | st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=50))
def test_a_sum_is_that_of_fsum(values: list[float]) -> None:
    assert _exact_sum(np.array(values)) == math.fsum(values)
