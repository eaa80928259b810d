"""Do intervals hold the truth as often as they say? A small version of benchmarks/interval_coverage.py."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from karat.statistics.intervals import Sampling, mean_intervals
from karat.statistics.sums import Floats, sum_up

UNIT = (0.0, 1.0)


def covered(limits: Floats, true: float) -> NDArray[np.bool_]:
    return (limits[:, 0] <= true) & (true <= limits[:, 1])


def hit_coverage(n: int, true: float, method: str, copies: int = 1, clustered: bool = False) -> float:
    """Exact: over every number of ones that can be seen, by its chance. Each of `n` outcomes may be copied."""
    clusters = np.repeat(np.arange(n), copies) if clustered else None
    sampling = Sampling(method, resamples=2000)  # type: ignore[arg-type]
    found = 0.0
    for ones in range(n + 1):
        chance = float(scipy.stats.binom.pmf(ones, n, true))
        if chance > 1e-6:
            values = np.repeat([1.0] * ones + [0.0] * (n - ones), copies)[:, None]
            found += chance * covered(mean_intervals(sum_up(values, None, clusters), [UNIT], sampling), true)[0]
    return found


def recall_coverage(n: int, true: float, method: str, tried: int = 1500) -> float:
    """One to four relevant items a query, each found with the same chance. One draw of weights serves all trials."""
    rng = np.random.default_rng([n, round(100 * true)])
    relevant = rng.integers(1, 5, (n, tried))
    values = rng.binomial(relevant, true) / relevant
    sampling = Sampling(method, resamples=1000)  # type: ignore[arg-type]
    return float(covered(mean_intervals(sum_up(values), [UNIT] * tried, sampling), true).mean())


def test_where_the_percentile_bootstrap_fails() -> None:
    assert hit_coverage(50, 0.98, "bayes") >= 0.93
    assert hit_coverage(50, 0.98, "percentile") == pytest.approx(0.64, abs=0.02)


@pytest.mark.parametrize("n", [20, 50, 200])
def test_hits(n: int) -> None:
    assert hit_coverage(n, 0.9, "bayes") >= 0.93
    assert hit_coverage(n, 0.9, "strict") >= 0.95


@pytest.mark.parametrize("true", [0.9, 0.98])
@pytest.mark.parametrize("n", [20, 50, 200])
def test_recalls(n: int, true: float) -> None:
    assert recall_coverage(n, true, "bayes") >= 0.93
    assert recall_coverage(n, true, "strict") >= 0.95


def test_strict_holds_its_level_whatever_the_truth() -> None:
    assert min(hit_coverage(15, true, "strict") for true in np.linspace(0.02, 0.98, 33)) >= 0.95


def test_conversations_that_repeat_one_outcome() -> None:
    """Forty conversations of five queries that all succeed or all fail: forty outcomes, not two hundred."""
    assert hit_coverage(40, 0.8, "bayes", copies=5, clustered=True) >= 0.93
    assert hit_coverage(40, 0.8, "bayes", copies=5) == pytest.approx(0.63, abs=0.05)


def test_conversations_of_any_size_whose_queries_are_alike() -> None:
    rng = np.random.default_rng(11)
    inside = 0
    for _ in range(400):
        sizes = rng.integers(1, 9, 60)
        clusters = np.repeat(np.arange(60), sizes)
        values = (rng.random(len(clusters)) < rng.beta(1.6, 0.4, 60)[clusters]).astype(float)[:, None]  # mean 0.8
        limits = mean_intervals(sum_up(values, None, clusters), [UNIT], Sampling(resamples=600))
        inside += int(covered(limits, 0.8)[0])
    assert 0.92 <= inside / 400 <= 0.985


def test_searches_by_conversation() -> None:
    """A ratio of sums without an upper end: the bootstrap-t covers it too. All trials have the same conversations."""
    rng = np.random.default_rng(4)
    owner = np.repeat(np.arange(100), rng.integers(1, 6, 100))
    searches = rng.choice([1.0, 2.0, 3.0, 6.0], (100, 400), p=[0.7, 0.15, 0.1, 0.05])[owner]
    sampling = Sampling("bayes", resamples=500)
    limits = mean_intervals(sum_up(searches, None, owner), [(0.0, np.inf)] * 400, sampling)
    assert covered(limits, 1.6).mean() >= 0.93
