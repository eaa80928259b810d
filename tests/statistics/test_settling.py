"""Which label next: the order, the interval, and the expected number of labels."""

from __future__ import annotations

import numpy as np
import pytest

from karat.statistics.settling import OpenLabels, outlook, shares_of
from karat.statistics.special import student_quantile


def labels_of(effects: list[float], kinds: list[int], shares: list[float], weight: float = 10) -> OpenLabels:
    query = np.arange(len(effects))
    share = np.array(shares)
    return OpenLabels(
        query, np.array(effects), np.array(kinds), share, np.full(len(share), weight), np.arange(len(share))
    )


def test_shares_are_drawn_towards_what_is_known_from_elsewhere() -> None:
    share, weight = shares_of(2, np.array([0, 0, 0, 0]), np.array([1.0, 1, 0, 1]), np.array([0.5, 0.2]))
    assert share == pytest.approx([(3 + 5) / 14, 0.2])
    assert weight.tolist() == [14, 10]


def test_large_and_uncertain_effects_come_first_and_those_without_effect_not_at_all() -> None:
    found = labels_of([0.1, 0.0, -0.5, 0.2, 0.5], [0, 0, 0, 0, 1], [0.5, 0.99])
    assert found.order().tolist()[0] == 2
    assert sorted(found.order().tolist()) == [0, 2, 3, 4]
    certain = labels_of([0.3, 0.3], [0, 1], [0.5, 0.999], weight=1e6)
    assert certain.order().tolist() == [0, 1]


def test_equal_effects_are_spread_over_queries() -> None:
    query = np.repeat(np.arange(5), 4)
    found = OpenLabels(
        query, np.full(20, 0.1), np.zeros(20, np.int64), np.array([0.5]), np.array([10.0]), np.array([0])
    )
    assert sorted(query[found.order()[:5]].tolist()) == [0, 1, 2, 3, 4]


def test_with_nothing_open_the_interval_is_students() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(0.02, 0.3, 40)
    none = OpenLabels(
        np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), np.array([0.5]), np.array([10.0]), np.array([0])
    )
    found = outlook(values, none, none.order())
    reach = student_quantile(0.975, 39) * values.std(ddof=1) / np.sqrt(40)
    assert (found.mean, found.low, found.high) == pytest.approx(
        (values.mean(), values.mean() - reach, values.mean() + reach)
    )
    assert (found.chance, found.labels) == (0, None)
    pairs = outlook(np.tile(values, 2), none, none.order(), clusters=np.tile(np.arange(40), 2))
    assert (pairs.low, pairs.high) == pytest.approx((found.low, found.high))  # a second turn of each adds nothing


def test_the_interval_covers_what_is_unknown_by_hand() -> None:
    values = np.array([0.1, -0.2, 0.3, 0.0])
    found = OpenLabels(
        np.array([0, 0, 2]),
        np.array([0.5, 0.25, -0.5]),
        np.array([0, 0, 1]),
        np.array([0.4, 0.2]),
        np.array([10.0, 20]),
        np.arange(2),
    )
    seen = outlook(values, found, found.order())
    expected = values + np.array([0.4 * 0.75, 0, 0.2 * -0.5, 0])
    each = 0.24 * (0.25 + 0.0625) + 0.16 * 0.25
    shared = 0.24 / 11 * 0.75**2 + 0.16 / 21 * 0.25
    spread = ((expected - expected.mean()) ** 2).sum() * 4 / 3
    reach = student_quantile(0.975, 3) * np.sqrt(spread + 2 * each + shared) / 4
    assert seen.mean == pytest.approx(expected.mean())
    assert seen.high - seen.mean == pytest.approx(reach)


def test_the_expected_number_of_labels_repeats_and_shrinks_with_the_gap() -> None:
    rng = np.random.default_rng(1)
    n = 60
    query, effect = np.repeat(np.arange(n), 3), np.full(3 * n, 0.15)
    found = OpenLabels(query, effect, np.zeros(3 * n, np.int64), np.array([0.5]), np.array([10.0]), np.array([0]))
    noise = rng.normal(0, 0.1, n)
    outlooks = [outlook(noise - gap, found, found.order(), seed=5) for gap in (0.225, 0.2, 0.15)]
    assert outlooks[0] == outlook(noise - 0.225, found, found.order(), seed=5)
    assert not outlooks[0].decided
    chances = [one.chance for one in outlooks]
    assert chances[-1] == max(chances)
    assert all(one.few <= one.labels <= one.many <= 3 * n for one in outlooks if one.labels is not None)
    far = outlook(noise + 2, found, found.order())
    assert (far.decided, far.chance, far.labels) == (True, 1, 0)


def test_the_order_settles_sooner_than_a_random_or_a_worst_case_order() -> None:
    """Simulated labels; benchmarks/next_labels.py has real ones. Half of the open items have a large effect and are
    nearly certain, which misleads an order by size."""
    rng = np.random.default_rng(2)
    n = 80
    query = np.tile(np.arange(n), 4)
    kind = np.repeat([0, 0, 1, 2], n)
    effect = np.repeat([0.25, 0.1, 0.3, 0.02], n) * rng.uniform(0.8, 1.2, 4 * n)
    shares, weights = np.array([0.5, 0.02, 0.5]), np.array([10.0, 500, 500])
    found = OpenLabels(query, effect, kind, shares, weights, np.arange(3))
    values = rng.normal(-0.25, 0.1, n)
    needed = {}
    orders = {"settle": found.order(), "random": rng.permutation(4 * n), "worst": np.argsort(-effect)}
    for name, order in orders.items():
        one = outlook(values, found, order, seed=3)
        assert one.labels is not None
        needed[name] = one.labels
    assert needed["settle"] < needed["random"]
    assert needed["settle"] < needed["worst"]
