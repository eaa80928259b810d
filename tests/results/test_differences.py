"""One rule says whether a difference is beyond chance: interval and p-value together."""

from __future__ import annotations

import numpy as np
import pytest

from karat.data.ids import Floats
from karat.results.differences import Difference, Paired
from karat.results.summary import Scores
from karat.scoring.metrics.grammar import parse_metric
from karat.statistics.sampling import Sampling

HIT = parse_metric("hit@5")
SAMPLING = Sampling(resamples=1000)


def difference(deltas: Floats, permutations: int = 1000, sampling: Sampling = SAMPLING) -> Difference:
    """Of two runs whose scores differ by `deltas`."""
    low, high = np.maximum(-deltas, 0), np.maximum(deltas, 0)
    sides = [Scores([HIT], {str(HIT): values}) for values in (low, high)]
    return Paired(*sides).differences(sampling, permutations)[0]


def signs(n: int, losses: int, wins: int = 0) -> Floats:
    return np.array([-1.0] * losses + [1.0] * wins + [0.0] * (n - losses - wins))


@pytest.mark.parametrize("permutations", [0, 1000])
@pytest.mark.parametrize(("losses", "certain"), [(3, False), (5, False), (6, True), (9, True)])
def test_a_few_losses(losses: int, certain: bool, permutations: int) -> None:
    """Exact: n losses and no win come up by chance with 2 / 2^n; five are 0.0625, six 0.03125."""
    found = difference(signs(50, losses), permutations)
    assert found.high is not None
    assert found.high < 0 or losses == 3  # the interval alone would call five certain
    assert found.certain == certain
    assert found.p == (pytest.approx(2 / 2**losses) if permutations else None)


@pytest.mark.parametrize("share", [0.04, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("n", [50, 200])
def test_false_alarms(n: int, share: float) -> None:
    """No difference, and a share of the queries that go either way: at most 5 % are called certain."""
    rng, alarms = np.random.default_rng([n, round(100 * share)]), []
    for trial in range(300):
        moved = (rng.random(n) < share) * rng.choice([-1.0, 1.0], n) * rng.choice([1.0, 0.5], n)
        found = difference(moved, 400, Sampling(resamples=400, seed=trial))
        assert found.low is not None
        assert found.high is not None
        assert found.p is not None
        if found.certain:  # then both columns say so
            assert found.p <= 0.05
            assert found.low > 0 or found.high < 0
        alarms.append(found.certain)
    assert np.mean(alarms) <= 0.05 + 2 * (0.05 * 0.95 / 300) ** 0.5


def test_many_differences_without_a_draw() -> None:
    """What is not shown need not be drawn: the same answer from the limit of the same distribution."""
    deltas = np.random.default_rng(0).choice([-1.0, 1.0], 4000, p=[0.53, 0.47])
    drawn, quick = (difference(deltas, permutations) for permutations in (5000, 0))
    assert (drawn.certain, quick.certain, quick.p) == (True, True, None)
