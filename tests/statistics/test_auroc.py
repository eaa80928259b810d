"""The area under the ROC curve and its interval."""

from __future__ import annotations

import numpy as np
import pytest

from karat.statistics.auroc import auroc, auroc_interval
from karat.statistics.intervals import Sampling
from karat.statistics.special import normal_quantile

QUICK = Sampling(resamples=1000)


def groups(answerable: list[float], without: list[float]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([*answerable, *without], np.float64), np.arange(len(answerable) + len(without)) < len(answerable)


def drawn(seed: int, area: float, sizes: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Two normal groups whose true area is known."""
    rng = np.random.default_rng(seed)
    apart = normal_quantile(area) * 2**0.5
    return groups(rng.normal(apart, 1, sizes[0]).tolist(), rng.normal(0, 1, sizes[1]).tolist())


def test_pairs_are_counted() -> None:
    """Against every pair, with ties and with queries that have no hit at all."""
    rng = np.random.default_rng(3)
    values, positive = rng.integers(0, 5, 60).astype(np.float64), rng.random(60) < 0.6
    values[:4] = -np.inf
    ours, others = values[positive], values[~positive]
    wins = [(a > b) + (a == b) / 2 for a in ours for b in others]
    assert auroc(values, positive) == pytest.approx(np.mean(wins), abs=1e-12)


@pytest.mark.parametrize(("area", "sizes"), [(0.5, (40, 20)), (0.9, (120, 30)), (0.995, (120, 30))])
def test_coverage(area: float, sizes: tuple[int, int]) -> None:
    """Of 200 samples at most 8 % may miss the truth on one side; 2.5 % are meant."""
    limits = [auroc_interval(*drawn(seed, area, sizes), QUICK) for seed in range(200)]
    assert np.mean([low > area for low, _ in limits]) <= 0.08
    assert np.mean([high < area for _, high in limits]) <= 0.08


def test_groups_that_do_not_overlap_are_not_certain() -> None:
    low, high = auroc_interval(*groups(list(range(10, 30)), list(range(10))), QUICK)
    assert 0.7 < low < 0.98
    assert high == 1.0
    low, high = auroc_interval(*groups(list(range(10)), list(range(10, 30))), QUICK)
    assert low == 0.0
    assert 0.02 < high < 0.3


def test_many_values_by_the_limit_theorem_as_by_the_bootstrap(monkeypatch: pytest.MonkeyPatch) -> None:
    values, positive = drawn(1, 0.8, (900, 300))
    clusters = np.arange(len(values)) // 3
    for given in (None, clusters):
        by_draws = auroc_interval(values, positive, QUICK, given)
        monkeypatch.setattr("karat.statistics.auroc._LARGE", 100)
        at_once = auroc_interval(values, positive, QUICK, given)
        monkeypatch.undo()
        assert at_once == pytest.approx(by_draws, abs=0.006)


def test_values_that_belong_together_say_less() -> None:
    values, positive = drawn(2, 0.75, (60, 60))
    copies, marks, clusters = np.tile(values, 4), np.tile(positive, 4), np.tile(np.arange(120), 4)
    once = auroc_interval(values, positive, QUICK)
    together, apart = (auroc_interval(copies, marks, QUICK, c) for c in (clusters, None))
    assert together[1] - together[0] == pytest.approx(once[1] - once[0], rel=0.1)
    assert apart[1] - apart[0] < 0.6 * (once[1] - once[0])


@pytest.mark.parametrize("clustered", [False, True])
def test_the_order_of_the_queries_changes_no_digit(clustered: bool) -> None:
    values, positive = drawn(5, 0.7, (50, 30))
    values = np.round(values, 1)
    clusters = np.arange(80) // 4 if clustered else None
    order = np.random.default_rng(9).permutation(80)
    shuffled = None if clusters is None else clusters[order]
    again = auroc_interval(values[order], positive[order], QUICK, shuffled)
    assert auroc_interval(values, positive, QUICK, clusters) == again
