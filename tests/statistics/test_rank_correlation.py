"""Rank correlation by naive code, and how often its interval holds the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.statistics.rank_correlation import rank_correlation
from karat.statistics.sampling import Sampling

FAST = Sampling(resamples=200)


def naive(x: list[int], y: list[int]) -> float:
    """Pearson's correlation of middle ranks, place by place."""
    ranks = [[sum(b < a for b in v) + (sum(b == a for b in v) + 1) / 2 for a in v] for v in (x, y)]
    means = [sum(r) / len(r) for r in ranks]
    pairs = [(a - means[0], b - means[1]) for a, b in zip(*ranks, strict=True)]
    return sum(a * b for a, b in pairs) / (sum(a * a for a, _ in pairs) * sum(b * b for _, b in pairs)) ** 0.5


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=10, max_size=40))
def test_as_naive_code(pairs: list[tuple[int, int]]) -> None:
    x, y = ([float(p[side]) for p in pairs] for side in range(2))
    found = rank_correlation(np.array(x), np.array(y), FAST)
    if len(set(x)) < 2 or len(set(y)) < 2:
        assert np.isnan(found.rho)
    else:
        assert found.rho == pytest.approx(naive(x, y))
        assert -1 <= found.low <= found.rho <= found.high <= 1


def test_pairs_with_a_gap_are_left_out_and_few_say_nothing() -> None:
    x = np.append(np.arange(12.0), [np.nan, 3.0])
    y = np.append(np.arange(12.0), [1.0, np.nan])
    assert rank_correlation(x, y, FAST)[:4:3] == (pytest.approx(1.0), 12)
    assert np.isnan(rank_correlation(x[:9], y[:9], FAST).rho)


@pytest.mark.parametrize(("link", "size"), [(0.0, 1), (0.4, 1), (0.4, 4)])
def test_intervals_hold_the_truth(link: float, size: int) -> None:
    """Recall in thirds beside thumbs; queries of one conversation (`size`) share their luck."""

    def drawn(rng: np.random.Generator, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        luck = np.repeat(rng.normal(size=(groups, 2)), size, axis=0) * (0.7 if size > 1 else 0)
        noise = rng.normal(size=(groups * size, 2)) + luck
        recall = np.round(np.clip((noise[:, 0] + 1.5) / 3, 0, 1) * 3) / 3
        thumbs = (link * noise[:, 0] + noise[:, 1] > 0).astype(float)
        return recall, thumbs, np.repeat(np.arange(groups), size)

    rng = np.random.default_rng(11)
    recall, thumbs, _ = drawn(rng, 40_000)
    ranks = [
        (np.cumsum(np.bincount(o)) - np.bincount(o) / 2)[o]
        for o in (np.rint(recall * 3).astype(int), thumbs.astype(int))
    ]
    truth = np.corrcoef(*ranks)[0, 1]
    trials = 100
    held = 0
    for trial in range(trials):
        recall, thumbs, unit = drawn(rng, 80)
        found = rank_correlation(recall, thumbs, Sampling(resamples=200, seed=trial), unit)
        held += found.low <= truth <= found.high
    assert held >= 0.91 * trials
