"""Intervals of means against scipy, at the ends of the range, and on what is too little to say anything."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
from refusals import refused

from karat.errors import ConfigError
from karat.statistics import intervals
from karat.statistics.intervals import Sampling, mean_intervals
from karat.statistics.sums import Floats, Sums, sum_up

NAN = float("nan")
UNIT, ANY = (0.0, 1.0), (-math.inf, math.inf)
METHODS = list(intervals.METHODS)
ROUNDED = 0.5000001e-6  # limits have six digits
MANY = 40_000  # resamples, where another program is compared with


def limits(values: Floats, ends: tuple[float, float] = UNIT, method: str = "bayes", **more: Any) -> tuple[float, float]:
    """Of one column."""
    clusters, weights = more.pop("clusters", None), more.pop("weights", None)
    sums = sum_up(np.asarray(values, float)[:, None], weights, clusters)
    low, high = mean_intervals(sums, [ends], Sampling(method, **more))[0].tolist()  # type: ignore[arg-type]
    return low, high


def hits(ones: int, n: int) -> Floats:
    return np.array([1.0] * ones + [0.0] * (n - ones))


def undrawn(sums: Sums) -> Sums:
    """The same shares with two votes a query, which the closed form is not made for."""
    return Sums(sums.counts, 2 * sums.above, 2 * sums.below)


def recalls(n: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).choice([0.0, 1 / 3, 0.5, 2 / 3, 1.0], n, p=[0.1, 0.1, 0.2, 0.1, 0.5])


# --- closed forms ---


@pytest.mark.parametrize(("ones", "n"), [(1, 2), (3, 7), (19, 20), (49, 50), (98, 100), (180, 200), (99_000, 100_000)])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_hits_have_jeffreys_interval(ones: int, n: int, level: float) -> None:
    expected = scipy.stats.beta.ppf([(1 - level) / 2, (1 + level) / 2], ones + 0.5, n - ones + 0.5)
    assert limits(hits(ones, n), level=level) == pytest.approx(expected, abs=ROUNDED)


@pytest.mark.parametrize(("ones", "n"), [(0, 1), (1, 1), (0, 20), (20, 20), (3, 7), (49, 50), (180, 200)])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_strict_hits_have_clopper_and_pearsons_interval(ones: int, n: int, level: float) -> None:
    expected = scipy.stats.binomtest(ones, n).proportion_ci(level, "exact")
    assert limits(hits(ones, n), method="strict", level=level) == pytest.approx(expected, abs=ROUNDED)


@pytest.mark.parametrize("method", ["bayes", "strict"])
@pytest.mark.parametrize(("ones", "n"), [(1, 5), (18, 20), (49, 50), (100, 200), (20, 20), (0, 20)])
def test_what_is_drawn_agrees_with_the_closed_form(method: str, ones: int, n: int) -> None:
    closed = limits(hits(ones, n), method=method)
    sampling = Sampling(method, resamples=MANY)  # type: ignore[arg-type]
    drawn = mean_intervals(undrawn(sum_up(hits(ones, n)[:, None])), [UNIT], sampling)[0]
    assert drawn == pytest.approx(closed, abs=0.05 * (closed[1] - closed[0]))


def test_the_closed_form_knows_other_ranges() -> None:
    """Differences of hits that are all a win or a loss, and a percentage."""
    low, high = limits(hits(7, 10))
    assert limits(2 * hits(7, 10) - 1, (-1, 1)) == pytest.approx((2 * low - 1, 2 * high - 1), abs=2e-6)
    assert limits(100 * hits(7, 10), (0, 100)) == pytest.approx((100 * low, 100 * high), abs=1e-4)


def test_undefined_queries_are_not_trials() -> None:
    with_gaps = np.concatenate([hits(18, 20), np.full(30, NAN)])
    for method in ("bayes", "strict"):
        assert limits(with_gaps, method=method) == limits(hits(18, 20), method=method)


# --- the bootstraps ---

DATA = {
    "recalls": recalls(60),
    "hits": hits(45, 60),
    "skewed": np.random.default_rng(1).lognormal(0, 0.8, 80),
    "normal": np.random.default_rng(2).normal(5, 2, 30),
    "few": np.array([0.1, 0.4, 0.2, 0.9, 0.7]),
}


@pytest.mark.parametrize("method", ["percentile", "bca"])
@pytest.mark.parametrize("data", DATA)
def test_bootstraps_are_those_of_scipy(method: str, data: str) -> None:
    values = DATA[data]
    peer = scipy.stats.bootstrap(
        (values,), np.mean, n_resamples=MANY, method=method, rng=np.random.default_rng(9), batch=2000
    ).confidence_interval
    # Scores of few values have means of few values: a limit may stand on the next of them.
    step = {"recalls": 1 / 180, "hits": 1 / 60, "few": 0.1 / 5}.get(data, 0.0)
    found = limits(values, ANY, method, resamples=MANY)
    assert found == pytest.approx((peer.low, peer.high), abs=0.02 * (peer.high - peer.low) + step)


def test_the_bayesian_bootstrap_without_ends_is_as_wide_as_the_normal_interval() -> None:
    values = np.random.default_rng(3).normal(5, 2, 400)
    half = 1.96 * values.std() / 20
    assert limits(values, ANY, resamples=MANY) == pytest.approx(
        (values.mean() - half, values.mean() + half), abs=0.05 * half
    )


@pytest.mark.parametrize("method", ["bayes", "strict"])
def test_a_long_tail_has_a_long_side(method: str) -> None:
    """Of 400 samples of 30 from a distribution with a long tail, most intervals hold the mean; of the plain bootstrap,
    clearly fewer."""
    rng, held = np.random.default_rng(5), np.zeros((400, 2), np.bool_)
    for at in range(len(held)):
        values = rng.lognormal(0.0, 1.0, 30)
        for column, named in enumerate((method, "percentile")):
            low, high = limits(values, (0.0, math.inf), named, resamples=500)
            held[at, column] = low <= math.exp(0.5) <= high
    own, plain = held.mean(axis=0).tolist()
    assert own > 0.9
    assert own > plain + 0.03


@pytest.mark.parametrize("values", [recalls(30), recalls(200, 5), 0.8 + 0.2 * recalls(50)])
def test_strict_contains_bayes(values: Floats) -> None:
    low, high = limits(values)
    strict_low, strict_high = limits(values, method="strict")
    assert strict_low <= low < high <= strict_high


# --- the ends of the range ---


@pytest.mark.parametrize("method", ["bayes", "strict"])
@pytest.mark.parametrize("n", [1, 2, 20, 1000])
def test_all_at_an_end(method: str, n: int) -> None:
    low, high = limits(np.ones(n), method=method)
    assert 0 < low < 1
    assert high == 1.0
    low, high = limits(np.zeros(n), method=method)
    assert low == 0.0
    assert 0 < high < 1


@pytest.mark.parametrize("method", ["bayes", "strict"])
def test_all_at_an_end_in_clusters_and_with_weights(method: str) -> None:
    clusters, weights = np.arange(20) // 4, np.arange(1.0, 21.0)[:, None]
    for more in ({"clusters": clusters}, {"weights": weights}, {"clusters": clusters, "weights": weights}):
        low, high = limits(np.ones(20), method=method, **more)
        assert low < 1
        assert high == 1.0


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_plain_bootstrap_is_sure_of_what_it_saw(method: str) -> None:
    """Why it is not the default."""
    assert limits(np.ones(20), method=method) == (1.0, 1.0)


@pytest.mark.parametrize("value", [0.999, 0.9999, 1 - 1e-9, 0.001, 1e-9])
def test_the_mean_is_inside_also_when_all_scores_are_equal_and_near_an_end(value: float) -> None:
    low, high = limits(np.full(10, value))
    assert low - ROUNDED <= value <= high + ROUNDED
    assert low < high


# --- values without a bound ---


@pytest.mark.parametrize("method", METHODS)
def test_unbounded_values_scale(method: str) -> None:
    values = np.random.default_rng(4).lognormal(5, 1, 40)
    low, high = limits(values, (0.0, math.inf), method)
    assert low < values.mean() < high
    assert limits(1000 * values, (0.0, math.inf), method) == pytest.approx((1000 * low, 1000 * high), rel=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_small_values_keep_their_digits(method: str) -> None:
    """A query may cost some millionths of a dollar."""
    values = np.random.default_rng(4).uniform(1e-6, 3e-6, 40)
    low, high = limits(values, (0.0, math.inf), method)
    large = limits(1e6 * values, (0.0, math.inf), method)
    assert (1e6 * low, 1e6 * high) == pytest.approx(large, rel=1e-4)


# --- too little ---


@pytest.mark.parametrize("method", METHODS)
def test_one_query(method: str) -> None:
    low, high = limits(np.array([0.5]), method=method)
    assert 0 <= low <= 0.5 <= high <= 1
    assert np.isnan(limits(np.array([0.5]), ANY, method)).all()  # nothing tells how far values lie apart


def test_one_query_says_little() -> None:
    low, high = limits(np.array([0.5]))
    assert high - low > 0.6


@pytest.mark.parametrize("method", METHODS)
def test_nothing_defined(method: str) -> None:
    assert np.isnan(limits(np.full(5, NAN), method=method)).all()
    assert np.isnan(limits(np.array([]), method=method)).all()
    assert np.isnan(limits(np.full(4, NAN), method=method, clusters=np.array([0, 0, 1, 1]))).all()


@pytest.mark.parametrize("method", METHODS)
def test_an_undefined_column_leaves_the_others_alone(method: str) -> None:
    values = np.column_stack([recalls(30), np.full(30, NAN), recalls(30, 1)])
    found = mean_intervals(sum_up(values), [UNIT] * 3, Sampling(method))  # type: ignore[arg-type]
    assert np.isnan(found[1]).all()
    assert np.isfinite(found[[0, 2]]).all()


@pytest.mark.parametrize("method", METHODS)
def test_hardly_anything_defined(method: str) -> None:
    """Then many resamples hold no defined query at all."""
    values = np.full(200, NAN)
    values[:2] = [0.25, 0.75]
    low, high = limits(values, method=method)
    assert 0 <= low <= 0.25 + 1e-6
    assert 0.75 - 1e-6 <= high <= 1


# --- weights and clusters ---


@pytest.mark.parametrize("method", METHODS)
def test_a_micro_average_is_a_ratio_of_sums(method: str) -> None:
    """Against a plain loop over resamples of queries with their numbers of hits and of relevant items."""
    rng = np.random.default_rng(6)
    relevant = rng.integers(1, 9, 80).astype(float)
    found = rng.binomial(relevant.astype(int), 0.7)
    picks = rng.integers(0, 80, (20_000, 80))
    expected = np.quantile(found[picks].sum(axis=1) / relevant[picks].sum(axis=1), [0.025, 0.975])
    given = limits(found / relevant, method=method, weights=relevant[:, None])
    wider = 0.35 if method == "strict" else 0.12  # what the ends add at 80 queries
    assert given == pytest.approx(expected, abs=wider * (expected[1] - expected[0]))


@pytest.mark.parametrize("method", METHODS)
def test_a_scale_of_the_weights_does_not_matter(method: str) -> None:
    weights = np.random.default_rng(7).integers(1, 9, (40, 1)).astype(float)
    once = limits(recalls(40), method=method, weights=weights)
    assert limits(recalls(40), method=method, weights=4 * weights) == once


@pytest.mark.parametrize("method", METHODS)
def test_clusters_of_one_query_are_no_clusters(method: str) -> None:
    for values in (recalls(40), hits(33, 40)):
        order = np.random.default_rng(8).permutation(40)
        assert limits(values, method=method, clusters=order) == limits(values, method=method)


@pytest.mark.parametrize("method", METHODS)
def test_a_repeated_query_is_no_new_evidence(method: str) -> None:
    for values in (recalls(40), hits(33, 40)):
        copied, clusters = np.repeat(values, 5), np.repeat(np.arange(40), 5)
        low, high = limits(values, method=method)
        width = high - low
        assert limits(copied, method=method, clusters=clusters) == pytest.approx((low, high), abs=0.06 * width)
        assert np.diff(limits(copied, method=method))[0] < 0.6 * width


# --- the same digits ---


@pytest.mark.parametrize("method", METHODS)
def test_another_seed_gives_other_digits_and_the_same_answer(method: str) -> None:
    values = np.random.default_rng(1).random(60)
    first, again, other = (limits(values, method=method, seed=seed) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    assert first == pytest.approx(other, abs=0.05 * (first[1] - first[0]))


def test_limits_have_six_digits() -> None:
    found = limits(recalls(60))
    assert found == tuple(round(x, 6) for x in found)


# --- bad input ---


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"resamples": 0}, "bad-setting"),
        ({"resamples": -5}, "bad-setting"),
        ({"resamples": 99}, "bad-setting"),
        ({"level": 1.5}, "bad-setting"),
        ({"level": 0.0}, "bad-setting"),
        ({"level": 1.0}, "bad-setting"),
        ({"level": -0.95}, "bad-setting"),
        ({"level": NAN}, "bad-setting"),
        ({"method": "bootstrap"}, "unknown-interval"),
        ({"seed": -1}, "bad-setting"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], code: str) -> None:
    with refused(code, ConfigError):
        Sampling(**wrong)  # type: ignore[arg-type]


def test_an_unknown_method_is_told_which_there_are() -> None:
    with pytest.raises(ConfigError) as refused:
        Sampling("jeffreys")  # type: ignore[arg-type]
    assert all(method in (refused.value.expected or "") for method in METHODS)


@pytest.mark.parametrize("method", ["bayes", "percentile", "bca", "strict"])
def test_equal_values_without_a_bound_say_nothing_of_their_spread(method: str) -> None:
    def limits(*values: float, low: float = 0.0) -> list[float]:
        found: list[float] = mean_intervals(
            sum_up(np.array(values)[:, None]),
            [(low, float("inf"))],
            Sampling(method),  # type: ignore[arg-type]
        )[0].tolist()
        return found

    assert all(np.isnan(limits(*[0.002] * n)).all() for n in (1, 2, 19, 20, 1000))
    # Differences: nothing changed on any of many queries.
    assert np.isnan(limits(*[0.0] * 19, low=float("-inf"))).all()
    assert limits(*[0.0] * 20, low=float("-inf")) == [0.0, 0.0]
    if method in ("bayes", "strict"):  # each changed by as much: others may not
        low, high = limits(*[-10.0] * 30, low=float("-inf"))
        # The smallest share of 30 queries all alike: 1 − 0.025^(1 / 30) of 20 around it, with a whole observation.
        assert -20 < low < -10 < high < -5
        assert high <= -10 + (20 * (1 - 0.025 ** (1 / 30)) if method == "strict" else 2.0) + 1e-6
    assert limits(0.002, 0.003)[0] < limits(0.002, 0.003)[1]
