"""The sign-flip test against every combination of signs, against scipy, and on data without a difference."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from karat.statistics import significance
from karat.statistics.significance import sign_flip_p
from karat.statistics.sums import Floats

DRAWS = 20_000
SCORES = [0.0, 1 / 3, 0.5, 2 / 3, 1.0]


def every_combination(differences: list[float]) -> float:
    signs = np.array(list(product([1, -1], repeat=len(differences))))
    sums = np.abs(signs @ np.array(differences))
    return float(np.mean(sums >= abs(sum(differences)) - 1e-9))


def noise(p: float, draws: int = DRAWS) -> float:
    """Five standard errors of a drawn p-value."""
    return 5 * float(np.sqrt(max(p * (1 - p), 1 / draws) / draws))


def recall_differences(n: int, seed: int, shift: float = 0.0) -> Floats:
    rng = np.random.default_rng(seed)
    better = np.where(rng.random(n) < shift, 1.0, rng.choice(SCORES, n))
    return np.asarray(better - rng.choice(SCORES, n))


@given(st.lists(st.sampled_from([*SCORES, -1 / 3, -1.0]) | st.integers(-999, 999).map(lambda x: x / 1000), max_size=10))
def test_few_differences_are_counted_out(differences: list[float]) -> None:
    assert sign_flip_p(np.array(differences), 1000, 0) == every_combination(differences)


def test_ties_do_not_count_against_the_exact_way() -> None:
    few = [0.2, 0.4, -0.1, 0.7, 0.3]
    assert sign_flip_p(np.array(few + [0.0] * 1000), 100, 0) == every_combination(few)


@pytest.mark.parametrize("seed", range(4))
def test_a_drawn_p_is_that_of_scipy(seed: int) -> None:
    differences = np.random.default_rng(seed).normal(0.1, 0.5, 60)
    peer = scipy.stats.permutation_test(
        (differences,),
        np.mean,
        permutation_type="samples",
        n_resamples=DRAWS,
        vectorized=True,
        rng=np.random.default_rng(seed + 100),
    )
    found = sign_flip_p(differences, DRAWS, seed)
    assert found == pytest.approx(peer.pvalue, abs=2**0.5 * noise(found))


@pytest.mark.parametrize(("n", "shift"), [(40, 0.0), (40, 0.3), (600, 0.02), (600, 0.08), (5000, 0.01)])
def test_repeated_differences_are_drawn_alike(n: int, shift: float) -> None:
    """Recall takes few values: those that come often have their pluses drawn as a binomial."""
    differences = recall_differences(n, n, shift)
    rng = np.random.default_rng(7)
    signs = rng.choice(np.array([-1, 1], np.int8), (2000, n))
    looped = (1 + np.sum(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9)) / 2001
    assert sign_flip_p(differences, DRAWS, 3) == pytest.approx(looped, abs=noise(looped, 2000) + noise(looped))


def test_one_value_only_is_the_sign_test() -> None:
    """1,000 differences of the same size: the sum of signs is a binomial, and so is scipy's sign test."""
    differences = np.array([0.5] * 540 + [-0.5] * 460)
    exact = scipy.stats.binomtest(540, 1000).pvalue
    assert sign_flip_p(differences, 100_000, 1) == pytest.approx(exact, abs=noise(exact, 100_000))


@given(st.lists(st.sampled_from(SCORES), min_size=2, max_size=60), st.randoms(use_true_random=False))
def test_the_order_of_queries_does_not_change_a_digit(values: list[float], random: Random) -> None:
    differences = np.array(values) - np.array(values[::-1]) * 0.7
    clusters = np.arange(len(values)) // 3
    order = np.array(random.sample(range(len(values)), len(values)))
    assert sign_flip_p(differences, 300, 5) == sign_flip_p(differences[order], 300, 5)
    assert sign_flip_p(differences, 300, 5, clusters) == sign_flip_p(differences[order], 300, 5, clusters[order])


def test_queries_of_one_cluster_flip_together() -> None:
    differences = np.array([0.5, 0.25, -0.1, 0.3, 0.3, 0.2, 0.4])
    clusters = np.array([2, 2, 2, 0, 0, 5, 9])
    assert sign_flip_p(differences, 100, 0, clusters) == every_combination([0.65, 0.6, 0.2, 0.4])


def test_any_numbers_may_name_clusters() -> None:
    differences = np.array([0.5, 0.25, 0.1, 0.3])
    assert sign_flip_p(differences, 100, 0, np.array([-1, -1, 0, 3])) == every_combination([0.75, 0.1, 0.3])


def test_clusters_of_one_query_are_no_clusters() -> None:
    differences = np.random.default_rng(4).normal(0.2, 1, 50)
    assert sign_flip_p(differences, 2000, 6, np.arange(50)[::-1]) == sign_flip_p(differences, 2000, 6)


def test_a_repeated_query_is_no_new_evidence() -> None:
    differences = np.linspace(-1, 1.6, 30)
    copied, clusters = np.repeat(differences, 4), np.repeat(np.arange(30), 4)
    once = sign_flip_p(differences, DRAWS, 6)
    assert sign_flip_p(copied, DRAWS, 6, clusters) == pytest.approx(once, abs=2**0.5 * noise(once))
    assert sign_flip_p(copied, DRAWS, 6) < once / 2


@pytest.mark.parametrize("n", [12, 50, 200])
def test_p_is_uniform_where_there_is_no_difference(n: int) -> None:
    rng = np.random.default_rng(n)
    tried = 1000
    found = np.array([sign_flip_p(row, 499, i) for i, row in enumerate(rng.normal(0, 1, (tried, n)))])
    for at in (0.05, 0.2, 0.5):
        assert np.mean(found <= at) == pytest.approx(at, abs=4 * np.sqrt(at * (1 - at) / tried) + 1 / 500)


@pytest.mark.parametrize("n", [60, 1000])
def test_the_observed_signs_are_one_of_the_permutations(n: int) -> None:
    """So p is never 0: the least there is, where no drawn permutation comes near."""
    assert sign_flip_p(np.ones(n), 99, 0) == 1 / 100
    assert sign_flip_p(np.linspace(1, 2, n), 99, 0) == 1 / 100


@pytest.mark.parametrize("n", [0, 1, 20, 1000])
def test_identical_runs_differ_by_chance(n: int) -> None:
    assert sign_flip_p(np.zeros(n), 100, 0) == 1.0
    assert sign_flip_p(np.zeros(n), 100, 0, np.arange(n) // 2) == 1.0


def test_both_directions_count_alike() -> None:
    differences = np.random.default_rng(8).normal(0.1, 0.5, 100)
    assert sign_flip_p(differences, 1000, 2) == sign_flip_p(-differences, 1000, 2)


def test_rounding_does_not_hide_equal_sums() -> None:
    """0.1 + 0.2 and 0.3 are one sum though not one float: whatever the signs, no sum is nearer to 0."""
    assert sign_flip_p(np.array([0.1, 0.2, -0.3]), 100, 0) == 1.0


def test_draws_that_cannot_reach_the_observed_sum_are_not_made() -> None:
    """p is what the draws would give: none of them is as far from 0."""
    rng = np.random.default_rng(1)
    differences = np.concatenate([rng.choice([0.25, 0.5], 800), -rng.choice([0.25, 0.5], 100)])
    drawn = significance._drawn_sums(*np.unique(np.abs(differences), return_counts=True), 5_000, rng)
    assert np.abs(drawn).max() < differences.sum()
    assert sign_flip_p(differences, 5_000, 0) == 1 / 5_001
