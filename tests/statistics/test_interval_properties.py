"""What must hold for the intervals of any scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from karat.statistics import intervals, resampling
from karat.statistics.intervals import Range, Sampling, mean_intervals
from karat.statistics.sums import Floats, sum_up

UNIT, ANY = (0.0, 1.0), (-math.inf, math.inf)
METHODS = list(intervals.METHODS)
BOUND = ["bayes", "strict"]  # the two that know of the range
ROUNDED = 0.5000001e-6
RECALLS = [0.0, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 1.0]
FEW = settings(max_examples=20)


def tables(least: int = 1) -> st.SearchStrategy[Floats]:
    """Scores, queries × columns: such as recall has, any number of the range, and undefined."""
    scores = st.sampled_from(RECALLS) | st.floats(0, 1, allow_subnormal=False)
    shapes = st.tuples(st.integers(least, 25), st.integers(1, 3))
    return shapes.flatmap(lambda shape: arrays(float, shape, elements=scores | st.just(float("nan"))))


def columns(least: int = 2) -> st.SearchStrategy[Floats]:
    """One column, all defined, that differs enough for a width to compare noise with."""
    scores = arrays(float, st.integers(least, 25), elements=st.sampled_from(RECALLS) | st.floats(0, 1, width=16))
    return scores.filter(lambda values: values.std() > 0.05).map(lambda values: values[:, None])


def of(values: Floats, method: str, ends: Range = UNIT, resamples: int = 300, **more: Any) -> Floats:
    sampling = Sampling(method, resamples=resamples)  # type: ignore[arg-type]
    return mean_intervals(sum_up(values, **more), [ends] * values.shape[1], sampling)


def close(a: Floats, b: Floats, share: float) -> bool:
    """Up to a share of the wider interval: Monte-Carlo noise."""
    width = np.maximum(np.diff(a), np.diff(b))
    return bool((np.abs(a - b) <= share * width + 2 * ROUNDED).all())


@pytest.mark.parametrize("method", METHODS)
@FEW
@given(values=tables(), data=st.data())
def test_the_order_of_queries_does_not_change_a_digit(method: str, values: Floats, data: st.DataObject) -> None:
    n = len(values)
    order = np.array(data.draw(st.permutations(range(n))))
    assert np.array_equal(of(values, method), of(values[order], method), equal_nan=True)


@pytest.mark.parametrize("method", METHODS)
@FEW
@given(values=tables(), data=st.data())
def test_neither_does_it_with_weights_and_clusters_of_other_names(
    method: str, values: Floats, data: st.DataObject
) -> None:
    n = len(values)
    order = np.array(data.draw(st.permutations(range(n))))
    _, clusters = np.unique(data.draw(arrays(np.int64, n, elements=st.integers(0, n // 2))), return_inverse=True)
    names = np.array(data.draw(st.permutations(range(clusters.max() + 1))))
    weights = data.draw(arrays(float, values.shape, elements=st.integers(1, 5).map(float)))
    one = of(values, method, weights=weights, clusters=clusters)
    other = of(values[order], method, weights=weights[order], clusters=names[clusters[order]])
    assert np.array_equal(one, other, equal_nan=True)


@pytest.mark.parametrize("method", METHODS)
@FEW
@given(values=tables())
def test_limits_are_in_order_and_in_the_range(method: str, values: Floats) -> None:
    found = of(values, method)
    known = found[~np.isnan(values).all(axis=0)]
    assert (known[:, 0] <= known[:, 1]).all()
    assert known.size == 0 or (known.min() >= 0 and known.max() <= 1)


@pytest.mark.parametrize("method", BOUND)
@given(values=tables())
def test_the_mean_is_inside(method: str, values: Floats) -> None:
    found = of(values, method)
    for column, (low, high) in zip(values.T, found, strict=True):
        defined = column[~np.isnan(column)]
        if len(defined):
            assert low - ROUNDED <= defined.mean() <= high + ROUNDED


@pytest.mark.parametrize("method", METHODS)
@FEW
@given(values=columns(), shift=st.integers(-8, 8), scale=st.sampled_from([0.5, 2.0, 100.0]))
def test_other_units_give_the_same_limits_in_these_units(method: str, values: Floats, shift: int, scale: float) -> None:
    ends = (float(shift), shift + scale)
    moved = of(values * scale + shift, method, ends)
    plain = of(values, method)
    assert moved == pytest.approx(plain * scale + shift, abs=2e-6 * max(scale, 1))


@pytest.mark.parametrize("method", BOUND)
@FEW
@given(values=columns())
def test_what_is_lost_mirrors_what_is_found(method: str, values: Floats) -> None:
    mirrored = 1 - of(1 - values, method, resamples=8000)[:, ::-1]
    assert close(of(values, method, resamples=8000), mirrored, 0.12)


@FEW
@given(values=columns(), other=st.sampled_from(RECALLS[1:]))
def test_another_column_changes_the_first_by_noise_only(values: Floats, other: float) -> None:
    alone = of(values, "bayes", resamples=8000)
    more = np.column_stack([values, np.arange(len(values)) % 7 * other / 6])
    assert close(alone, of(more, "bayes", resamples=8000)[:1], 0.12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("block", [1, 100, 12_345])
def test_the_size_of_memory_blocks_does_not_change_a_digit(
    method: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = np.random.default_rng(0).choice([*RECALLS, float("nan")], (60, 2))
    values[:20] = np.random.default_rng(1).random((20, 2))  # some rows stand alone and some repeat
    at_once = of(values, method, resamples=700)
    monkeypatch.setattr(resampling, "_BLOCK", block)
    assert np.array_equal(of(values, method, resamples=700), at_once)


# --- many units ---


@pytest.fixture
def limit_theorem(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred distinct units are very many."""
    monkeypatch.setattr(intervals, "_LARGE", 100)


@pytest.mark.parametrize("method", ["bayes", "percentile", "bca"])  # strict is wider, as it should be
@pytest.mark.parametrize("kind", ["plain", "weights", "clusters", "undefined"])
def test_the_limit_theorem_finds_what_the_bootstrap_finds(
    method: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    values = rng.beta(3, 1, (2000, 1))
    more: dict[str, Any] = {}
    if kind == "weights":
        more = {"weights": rng.integers(1, 9, (2000, 1)).astype(float)}
    elif kind == "clusters":
        more = {"clusters": np.arange(2000) // 4}
        values = (values + np.repeat(rng.beta(3, 1, (500, 1)), 4, axis=0)) / 2  # alike inside a cluster
    elif kind == "undefined":
        values[rng.random(2000) < 0.3] = float("nan")
    drawn = of(values, method, resamples=2000, **more)
    monkeypatch.setattr(intervals, "_LARGE", 100)
    assert close(drawn, of(values, method, resamples=2000, **more), 0.08)


@pytest.mark.usefixtures("limit_theorem")
def test_many_units_do_not_leave_the_range() -> None:
    values = np.concatenate([np.linspace(0.999, 1, 150), np.zeros(1)])[:, None]
    assert of(values, "bayes")[0, 1] == 1.0
    assert of(1 - values, "bayes")[0, 0] == 0.0


@pytest.mark.usefixtures("limit_theorem")
def test_a_column_of_few_values_is_drawn_however_many_rows_there_are() -> None:
    rng = np.random.default_rng(4)
    hits = (rng.random(2000) < 0.9).astype(float)
    both = of(np.column_stack([hits, rng.random(2000)]), "bayes")
    assert np.array_equal(both[:1], of(hits[:, None], "bayes"))


def test_sixty_thousand_different_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(5).beta(5, 1, (60_000, 1))
    found = of(values, "bayes", resamples=400)
    monkeypatch.setattr(intervals, "_LARGE", 100_000)
    assert close(found, of(values, "bayes", resamples=400), 0.15)


def test_what_stands_beside_a_column_changes_none_of_its_digits() -> None:
    rng = np.random.default_rng(6)
    values = np.column_stack([rng.random(40), (rng.random(40) < 0.7), rng.integers(0, 4, 40) / 3])
    values[:5, 1] = np.nan
    clusters = np.arange(40) // 2
    for more in ({}, {"clusters": clusters}):
        together = of(values, "bayes", **more)
        assert np.array_equal(together, np.concatenate([of(values[:, [j]], "bayes", **more) for j in range(3)]))
        assert np.array_equal(together[::-1], of(values[:, ::-1], "bayes", **more))
    # Queries on which it says nothing change nothing either.
    assert np.array_equal(of(values[:, [1]], "bayes"), of(values[5:, [1]], "bayes"))


@pytest.mark.parametrize("units", [500, 520])  # weights that are kept for all columns, and that are drawn for one
def test_weights_that_are_kept_are_as_good_as_those_that_are_drawn(units: int) -> None:
    values = np.random.default_rng(7).integers(0, 6, (units, 1)) / 5
    error = values.std() / np.sqrt(units)
    low, high = of(values, "bayes", resamples=10_000)[0]
    assert (low, high) == pytest.approx((values.mean() - 1.96 * error, values.mean() + 1.96 * error), abs=0.1 * error)
