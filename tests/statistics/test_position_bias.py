"""The position-bias model: against a naive fit, against simulated truth, and what it refuses to compare."""

from __future__ import annotations

import numpy as np
import pytest
from click_logs import Simulated, counted, simulate, textbook_em
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from karat.statistics.position_bias import (
    Attraction,
    Clicks,
    Examination,
    Showings,
    comparable_positions,
    fit_attraction,
    fit_examination,
)
from karat.statistics.special import beta_cdf, beta_quantile

Cells = dict[tuple[int, int], tuple[int, int]]  # item, position → shown, clicked


def log_of(cells: Cells) -> tuple[Showings, Clicks]:
    items, positions = (max(key[i] for key in cells) + 1 for i in (0, 1))
    keys = sorted(cells)
    shown, clicked = (np.array([cells[key][i] for key in keys], np.float64) for i in (0, 1))
    item, position = (np.array([key[i] for key in keys], np.int64) for i in (0, 1))
    times = clicked.astype(np.int64)
    single = Clicks(np.repeat(item, times), np.repeat(position, times), np.arange(times.sum()))
    return Showings(item, position, shown, clicked, items, positions), single


def naive_fit(cells: Cells, known: list[int]) -> dict[int, float]:
    """EM over click counts, one cell at a time."""
    value = dict.fromkeys(known, 1.0)
    items = {item for item, _ in cells}
    used = {
        item: [p for p in known if (item, p) in cells]
        for item in items
        if sum((item, p) in cells for p in known) > 1 and sum(cells.get((item, p), (0, 0))[1] for p in known)
    }
    for _ in range(5000):
        liked = {
            item: sum(cells[item, p][1] for p in at) / sum(cells[item, p][0] * value[p] for p in at)
            for item, at in used.items()
        }
        new = {}
        for p in known:
            there = [item for item, at in used.items() if p in at]
            seen = sum(cells[item, p][0] * liked[item] for item in there)
            new[p] = sum(cells[item, p][1] for item in there) / seen if seen else 1.0
        value, before = {p: new[p] / new[known[0]] for p in known}, value
        if all(abs(value[p] / before[p] - 1) < 1e-9 for p in known):
            break
    return value


cells = st.dictionaries(
    st.tuples(st.integers(0, 5), st.integers(0, 3)),
    st.integers(1, 9).flatmap(lambda shown: st.tuples(st.just(shown), st.integers(0, shown))),
    min_size=2,
    max_size=16,
)


@given(cells)
@settings(max_examples=20, deadline=None)
def test_the_fit_equals_a_naive_one(log: Cells) -> None:
    showings, clicks = log_of(log)
    assume(len(clicks.item))
    found = fit_examination(showings, clicks, 0.95)
    known = np.flatnonzero(comparable_positions(showings)).tolist()
    assume(found.reference == known[0])  # otherwise it was rescaled
    expected = naive_fit(log, known)
    assert [found.value[p] for p in known] == pytest.approx([expected[p] for p in known], rel=1e-4)
    assert np.isnan(np.delete(found.value, known)).all()


def truth_held(log: Simulated) -> tuple[float, float]:
    showings, clicks = counted(log)
    found = fit_examination(showings, clicks, 0.95)
    low, high = fit_attraction(showings, found).limits(0.95)
    shown = showings.per_item(showings.shown) >= 5
    examined = ((found.low <= log.examination) & (log.examination <= found.high))[1:]
    attracted = (low <= log.attraction) & (log.attraction <= high)
    return float(examined.mean()), float(attracted[shown].mean())


def test_intervals_hold_the_truth() -> None:
    """benchmarks/click_coverage.py has more logs."""
    held = [truth_held(simulate(np.random.default_rng(seed), queries=30)) for seed in range(15)]
    examined, attracted = np.mean(held, axis=0)
    assert examined >= 0.93
    assert attracted >= 0.93


def test_the_truth_is_recovered_although_good_items_come_first() -> None:
    log = simulate(np.random.default_rng(3), queries=400, lists=50)
    showings, clicks = counted(log)
    found = fit_examination(showings, clicks, 0.95)
    assert found.value == pytest.approx(log.examination, abs=0.03)
    rate = showings.per_position(showings.clicked) / showings.per_position(showings.shown)
    assert rate[5] / rate[0] < 0.5 * log.examination[5]  # what the click rate alone would say


def test_few_showings_of_each_pair_do_not_bias_the_fit() -> None:
    """The usual EM has one attraction per pair to fit, and says that all positions are alike."""
    log = simulate(np.random.default_rng(0), queries=1000, lists=3)
    showings, clicks = counted(log)
    found = fit_examination(showings, clicks, 0.95)
    shown, clicked = next(iter(showings.blocks(showings.shown, showings.clicked)))
    assert found.value[1] == pytest.approx(log.examination[1], abs=0.05)
    assert textbook_em(shown, clicked, 60)[1] > 0.8


def test_with_many_showings_the_usual_em_agrees() -> None:
    log = simulate(np.random.default_rng(1), queries=20, lists=1000, length=4, items=6)
    showings, clicks = counted(log)
    shown, clicked = next(iter(showings.blocks(showings.shown, showings.clicked)))
    assert fit_examination(showings, clicks, 0.95).value == pytest.approx(textbook_em(shown, clicked), abs=0.02)


def test_positions_without_common_clicks_are_not_compared() -> None:
    together: Cells = {(0, 0): (9, 5), (0, 1): (9, 3), (1, 0): (9, 4), (1, 1): (9, 2)}
    showings, clicks = log_of({**together, (2, 2): (9, 5), (3, 2): (9, 1)})
    found = fit_examination(showings, clicks, 0.95)
    assert np.isnan(found.value).tolist() == [False, False, True]
    attraction = fit_attraction(showings, found)
    assert np.isnan(attraction.mean).tolist() == [False, False, True, True]


def test_a_position_that_is_seen_more_than_the_first_becomes_the_reference() -> None:
    showings, clicks = log_of({(i, p): (400, 100 if p == 0 else 200) for i in range(20) for p in (0, 1)})
    found = fit_examination(showings, clicks, 0.95)
    assert found.reference == 1
    assert found.value == pytest.approx([0.5, 1])


def test_attractions_are_exact_where_everything_is_seen() -> None:
    showings, _ = log_of({(0, 0): (10, 3), (1, 0): (50, 0), (2, 0): (8, 8)})
    found = fit_attraction(showings, Examination(np.ones(1), np.ones(1), np.ones(1), np.zeros((1, 1)), 0, 9, 1))
    a, b = found.prior
    assert found.a == pytest.approx([a + 3, a, a + 8], rel=1e-6)
    assert found.b == pytest.approx([b + 7, b + 50, b], rel=1e-6)


@pytest.mark.parametrize(("a", "b"), [(0.3, 2.0), (5.0, 5.0), (400.0, 2000.0), (0.05, 0.05), (900.0, 0.7)])
def test_quantiles_of_many_beta_distributions_at_once(a: float, b: float) -> None:
    found = Attraction(np.array([a]), np.array([b]), (1, 1))
    low, high = found.limits(0.9)
    assert [low[0], high[0]] == pytest.approx([beta_quantile(0.05, a, b), beta_quantile(0.95, a, b)], abs=2e-3)
    assert found.above(0.3)[0] == pytest.approx(1 - beta_cdf(0.3, a, b), abs=2e-3)
