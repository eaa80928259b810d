"""Scores as sums: what is kept, what is put together."""

from __future__ import annotations

import numpy as np
import pytest

from karat.statistics.sums import Floats, Sums, sum_up

NAN = float("nan")
SCORES = np.array([[1.0, NAN], [0.5, 0.0], [0.5, 0.0], [0.0, 1.0], [1.0, 0.25]])


def direct(values: Floats, weights: Floats) -> list[float]:
    pairs = zip(values.T, weights.T, strict=True)
    return [float(np.nansum(v * w) / w[~np.isnan(v)].sum()) for v, w in pairs]


def same(a: Sums, b: Sums) -> bool:
    fields = ((a.counts, b.counts), (a.above, b.above), (a.below, b.below))
    return all(np.array_equal(x, y) for x, y in fields)


def test_equal_queries_are_one_row() -> None:
    sums = sum_up(SCORES)
    assert sorted(sums.counts.tolist()) == [1, 1, 1, 2]
    assert sums.units == 5
    assert sums.defined.tolist() == [5, 4]
    assert sums.single.all()


def test_the_estimate_is_the_mean_of_what_is_defined() -> None:
    assert sum_up(SCORES).estimate.tolist() == pytest.approx([0.6, 0.3125])


def test_weights_make_a_ratio_of_sums() -> None:
    """Micro recall: all hits over all relevant items."""
    weights = np.arange(1.0, 11.0).reshape(5, 2)
    sums = sum_up(SCORES, weights)
    assert sums.estimate.tolist() == pytest.approx(direct(SCORES, weights))
    assert sums.usual.tolist() == pytest.approx([5.0, 7.0])
    assert not sums.single[0]


def test_a_weight_of_zero_is_no_vote() -> None:
    sums = sum_up(np.array([[1.0], [0.0], [1.0]]), np.array([[2.0], [0.0], [1.0]]))
    assert sums.defined.tolist() == [2]
    assert sums.estimate.tolist() == [1.0]


@pytest.mark.parametrize(
    "clusters", [[0, 0, 1, 1, 2], [2, 2, 0, 0, 1], [0, 0, 3, 3, 9], [7, 7, 2, 2, 4], [-1, -1, 0, 0, 5]]
)
def test_any_numbers_may_name_clusters(clusters: list[int]) -> None:
    """Some may be missing: a part of the queries has not all of the conversations."""
    sums = sum_up(SCORES, clusters=np.array(clusters))
    assert sums.units == 3
    assert sums.estimate.tolist() == pytest.approx([0.6, 0.3125])
    assert sorted(sums.below[:, 0].tolist()) == [1.0, 2.0, 2.0]
    assert not sums.single[0]


def test_clusters_of_one_query_are_no_clusters() -> None:
    assert same(sum_up(SCORES, clusters=np.array([3, 1, 0, 2, 4])), sum_up(SCORES))


def test_both_zeros_are_one_value() -> None:
    assert sum_up(np.array([[0.0], [-0.0], [1.0]])).counts.tolist() == [2, 1]


def test_one_column_alone_is_that_column_summed_up() -> None:
    assert same(sum_up(SCORES).column(1), sum_up(SCORES[~np.isnan(SCORES[:, 1])][:, [1]]))


def test_no_queries() -> None:
    sums = sum_up(np.empty((0, 2)), clusters=np.empty(0, np.int64))
    assert sums.units == 0
    assert sums.defined.tolist() == [0, 0]
    assert np.isnan(sums.estimate).all()
