"""The lowest rows are those of a full sort."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from karat.statistics.lowest import lowest_rows
from karat.statistics.sums import Floats

_VALUES = st.sampled_from([0.0, 0.5, 0.5 + 1e-14, 1.0, math.nan])


@given(arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(0, 30)), elements=_VALUES), st.integers(1, 12))
def test_they_are_those_of_a_full_sort(table: Floats, most: int) -> None:
    rows = np.arange(0, table.shape[1], 2)
    for digits, columns in ((None, table), (12, np.round(table, 12))):
        expected = rows[np.lexsort([column[rows] for column in columns[::-1]])][:most]
        assert lowest_rows(list(table), rows, most, digits).tolist() == expected.tolist()
