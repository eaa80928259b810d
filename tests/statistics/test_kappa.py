"""Kappa against its formulas, term by term."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.statistics.kappa import cohen_kappa, fleiss_kappa

FEW = {"resamples": 200}


def cohen_by_hand(one: list[int], other: list[int]) -> float | None:
    n = len(one)
    observed = sum(a == b for a, b in zip(one, other, strict=True)) / n
    chance = sum(one.count(g) / n * (other.count(g) / n) for g in set(one) | set(other))
    return None if chance == 1 else (observed - chance) / (1 - chance)


def fleiss_by_hand(pairs: list[list[int]]) -> float | None:
    every = [g for grades in pairs for g in grades]
    agreed = []
    for grades in pairs:
        n = len(grades)
        same = sum(grades[i] == grades[j] for i in range(n) for j in range(n) if i != j)
        agreed.append(same / (n * (n - 1)))
    chance = sum((every.count(g) / len(every)) ** 2 for g in set(every))
    return None if chance == 1 else (sum(agreed) / len(agreed) - chance) / (1 - chance)


def counts_of(pairs: list[list[int]]) -> np.ndarray:
    return np.array([[grades.count(g) for g in range(4)] for grades in pairs])


def assert_same(found: float, expected: float | None) -> None:
    assert np.isnan(found) if expected is None else found == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=30))
def test_cohen_equals_its_formula(pairs: list[tuple[int, int]]) -> None:
    one, other = (list(side) for side in zip(*pairs, strict=True))
    found = cohen_kappa(np.array(one), np.array(other), np.arange(len(pairs)), **FEW)
    assert_same(found.kappa, cohen_by_hand(one, other))
    swapped = cohen_kappa(np.array(other), np.array(one), np.arange(len(pairs)), **FEW)
    assert_same(swapped.kappa, cohen_by_hand(one, other))
    assert found.observed == pytest.approx(sum(a == b for a, b in pairs) / len(pairs))


@given(st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=5), min_size=1, max_size=20))
def test_fleiss_equals_its_formula_also_with_different_numbers_of_annotators(pairs: list[list[int]]) -> None:
    found = fleiss_kappa(counts_of(pairs), np.arange(len(pairs)), **FEW)
    assert_same(found.kappa, fleiss_by_hand(pairs))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 4)), min_size=2, max_size=30),
    st.integers(0, 5),
)
def test_intervals_hold_the_value_and_depend_on_nothing_but_the_data(
    rows: list[tuple[int, int, int]], seed: int
) -> None:
    one, other, groups = (np.array(side) for side in zip(*rows, strict=True))
    found = cohen_kappa(one, other, groups, seed=seed, **FEW)
    if not np.isnan(found.kappa):
        assert -1 - 1e-9 <= found.low <= found.kappa <= found.high <= 1 + 1e-9
        assert found == cohen_kappa(one, other, groups, seed=seed, **FEW)


def test_full_agreement_on_few_pairs_is_not_certain() -> None:
    grades = np.array([0, 1, 2, 0, 1] * 2)
    found = cohen_kappa(grades, grades, np.arange(10))
    assert (found.kappa, found.high) == (1, 1)
    assert 0.4 < found.low < 0.95
    assert cohen_kappa(np.tile(grades, 100), np.tile(grades, 100), np.arange(1000)).low > 0.99


def test_pairs_of_one_query_are_not_taken_for_independent() -> None:
    rng = np.random.default_rng(0)
    one = rng.integers(0, 2, 200)
    other = np.where(np.repeat(rng.random(20) < 0.7, 10), one, 1 - one)  # of some queries all, of others none
    alone = cohen_kappa(one, other, np.arange(200))
    together = cohen_kappa(one, other, np.repeat(np.arange(20), 10))
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_intervals_cover_the_truth() -> None:
    """Annotators who know the grade with some probability and guess otherwise have the square of it as kappa."""
    rng = np.random.default_rng(3)
    share, knows, covered = [0.5, 0.3, 0.2], 0.8, 0
    for trial in range(200):
        truth = rng.choice(3, 60, p=share)
        sides = [np.where(rng.random(60) < knows, truth, rng.choice(3, 60, p=share)) for _ in range(2)]
        found = cohen_kappa(*sides, np.repeat(np.arange(20), 3), resamples=500, seed=trial)
        covered += found.low <= knows**2 <= found.high
    assert covered >= 182  # of 200: what 95 % come to, give or take three standard deviations
