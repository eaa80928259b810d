"""Kitagawa's decomposition: the identity holds exactly, and the intervals cover."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.statistics.decomposition import (
    Observations,
    decompose,
    means_of_kinds,
    part_limits,
    shares_of_kinds,
)
from karat.statistics.sampling import Sampling

kinds = st.lists(
    st.tuples(*[st.tuples(st.integers(0, 50), st.fractions(-10, 10, max_denominator=1000)) for _ in "01"]),
    min_size=1,
    max_size=6,
).filter(lambda rows: all(any(row[i][0] for row in rows) for i in (0, 1)))


@settings(max_examples=40)
@given(kinds)
def test_the_identity_holds_exactly(rows: list[tuple[tuple[int, Fraction], tuple[int, Fraction]]]) -> None:
    """With fractions, also for kinds that only one period has: those have no quality effect."""
    weights = tuple(np.array([Fraction(row[i][0]) for row in rows], object) for i in (0, 1))
    totals = tuple(np.array([row[i][0] * row[i][1] for row in rows], object) for i in (0, 1))
    before, after = (total.sum() / weight.sum() for weight, total in zip(weights, totals, strict=True))
    found = decompose(shares_of_kinds(weights), means_of_kinds(weights, totals))  # type: ignore[arg-type]
    assert found.mix.sum() + found.quality.sum() == after - before
    alone = [i for i, row in enumerate(rows) if not (row[0][0] and row[1][0])]
    assert all(found.quality[i] == 0 for i in alone)


def test_a_published_form() -> None:
    """The components of Kitagawa (1955), without the middle: Σ Δp·m̄ and Σ Δm·p̄."""
    p, m = (np.array([0.2, 0.8]), np.array([0.5, 0.5])), (np.array([0.3, 0.9]), np.array([0.4, 0.7]))
    found = decompose(p, m)
    assert found.mix.sum() == pytest.approx(0.3 * 0.35 - 0.3 * 0.8)
    assert found.quality.sum() == pytest.approx(0.1 * 0.35 - 0.2 * 0.65)


def observed(rng: np.random.Generator, n: int, clusters: int) -> Observations:
    shares, means = ((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)), ((0.9, 0.7, 0.5), (0.9, 0.7, 0.4))
    parts = []
    for period in (0, 1):
        kind = rng.choice(3, n // clusters, p=shares[period]).repeat(clusters)
        alike = np.where(rng.random(n) < 0.5, rng.random(n // clusters).repeat(clusters), rng.random(n))
        value = (alike < np.array(means[period])[kind]).astype(float)
        parts.append((np.full(n, period), kind, value, np.ones(n), np.arange(n) // clusters + period * n))
    return Observations(*(np.concatenate(columns) for columns in zip(*parts, strict=True)), kinds=3)


TRUTH = decompose(
    (np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4])), (np.array([0.9, 0.7, 0.5]), np.array([0.9, 0.7, 0.4]))
)


@pytest.mark.parametrize("clusters", [1, 4])
def test_intervals_cover(clusters: int) -> None:
    """A short version of benchmarks/drift_coverage.py."""
    rng, rounds = np.random.default_rng(5), 100
    held = np.zeros(3)
    for seed in range(rounds):
        found = part_limits(observed(rng, 120, clusters), (0.0, 1.0), Sampling(resamples=200, seed=seed))
        truth = (TRUTH.mix.sum() + TRUTH.quality.sum(), TRUTH.mix.sum(), TRUTH.quality.sum())
        limits = (found.change, found.mix, found.quality)
        held += [low <= at <= high for at, (low, high) in zip(truth, limits, strict=True)]
    assert (held / rounds >= 0.91).all(), held  # the standard error is 2 points


def test_neither_order_nor_names_of_units_change_a_digit() -> None:
    seen = observed(np.random.default_rng(1), 60, 3)
    order = np.random.default_rng(2).permutation(120)
    other = Observations(*(np.asarray(column)[order] for column in seen[:4]), -seen.unit[order] * 7, 3)
    first, second = (part_limits(one, (0.0, 1.0), Sampling(resamples=200)) for one in (seen, other))
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)


def test_the_same_queries_in_both_periods_stay_paired() -> None:
    """A query that scores the same in both periods says that nothing changed."""
    value = np.random.default_rng(1).random(200)
    twice = np.tile(value, 2)
    period, unit = np.repeat([0, 1], 200), np.tile(np.arange(200), 2)
    kind, weight = np.tile(np.arange(200) % 2, 2), np.ones(400)
    paired = part_limits(Observations(period, kind, twice, weight, unit, 2), (0.0, 1.0), Sampling(resamples=500))
    apart = part_limits(
        Observations(period, kind, twice, weight, np.arange(400), 2), (0.0, 1.0), Sampling(resamples=500)
    )
    assert np.ptp(paired.change) < 0.3 * np.ptp(apart.change)


def test_values_without_ends() -> None:
    one = Observations(
        np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), np.array([1.0, 2, 3, 9]), np.ones(4), np.arange(4), 2
    )
    found = part_limits(one, (0.0, np.inf), Sampling(resamples=200))
    assert np.isfinite(found.change).all()
    assert np.isnan(found.kind_mean).all()  # one query says nothing about its kind
