"""A finding must not be luck: populations that stand exactly on a line, drawn again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from karat.data.ids import Floats
from karat.results.diagnosis.evidence import Evidence
from karat.results.diagnosis.rules import TABLE
from karat.statistics.intervals import Sampling

DRAWS = 200
MOST = 0.05 + 2 * (0.05 * 0.95 / DRAWS) ** 0.5  # what a rate of 5 % would exceed in one case of forty
N = 100


def evidence(columns: dict[str, Floats], ceiling: float = 1.0, **more: Any) -> Evidence:
    n = len(next(iter(columns.values())))
    given: dict[str, Any] = {
        "values": columns,
        "ceilings": {name: np.full(n, ceiling) for name in columns},
        "floors": {},
        "depths": np.full(n, 50),
        "clusters": None,
        "sampling": Sampling(resamples=1000),
    }
    return Evidence(**{**given, **more})


def recalls(rng: np.random.Generator, **shares: float) -> dict[str, Floats]:
    """Columns of a set with one relevant item a query: `r5=0.6` is recall@5."""
    drawn = rng.random(N)
    return {f"recall@{name[1:]}": (drawn < share).astype(np.float64) for name, share in shares.items()}


def not_found(rng: np.random.Generator) -> Evidence:
    return evidence(recalls(rng, r5=0.70, r50=0.70))


def too_far_down(rng: np.random.Generator) -> Evidence:
    return evidence(recalls(rng, r5=0.60, r50=0.70))


def buried(rng: np.random.Generator) -> Evidence:
    """Every item is in the top 5, and MRR is 0.62 exactly."""
    rank = rng.choice([1, 3], N, p=[0.43, 0.57])
    return evidence({"recall@1": (rank == 1) * 1.0, "recall@5": np.ones(N), "mrr": 1 / rank, "ndcg@5": np.ones(N)})


def first_hit_only(rng: np.random.Generator) -> Evidence:
    first = (rng.random(N) < 0.70).astype(np.float64)
    return evidence({"recall@5": np.full(N, 0.75), "mrr": first}, depths=np.full(N, 5))


def worse_than_random(rng: np.random.Generator) -> Evidence:
    columns = recalls(rng, r5=0.25)
    return evidence(columns, floors={"recall@5": np.full(N, 0.25)}, depths=np.full(N, 4), corpus_size=20)


def short_lists(rng: np.random.Generator) -> Evidence:
    return evidence({"mrr": np.ones(N)}, depths=np.where(rng.random(N) < 0.05, 3, 50))


def unjudged(rng: np.random.Generator) -> Evidence:
    return evidence({"judged@5": rng.binomial(5, 0.8, N) / 5}, wrong_hits_judged=True)


def misrouted(rng: np.random.Generator) -> Evidence:
    return evidence({"route_accuracy": (rng.random(N) < 0.9).astype(np.float64)})


def slow(rng: np.random.Generator) -> Evidence:
    return evidence({"latency_p50": rng.lognormal(np.log(110), 0.5, N)})


def weak_segment(rng: np.random.Generator) -> Evidence:
    """Fifteen groups of 20 queries, all of one population; such groups differ by 10 points and more."""
    tags = {name: rng.permutation(N) % 5 for name in ("topic", "language", "tier")}

    def groups(name: str) -> list[tuple[str, Any]]:
        return [(str(value), np.flatnonzero(tags[name] == value)) for value in range(5)]

    few = Sampling(resamples=100)  # intervals of zeros and ones are exact, whatever is drawn
    return evidence(recalls(rng, r5=0.9), attributes=tuple(tags), groups=groups, sampling=few)


@pytest.mark.parametrize(
    "population",
    [
        not_found,
        too_far_down,
        buried,
        first_hit_only,
        worse_than_random,
        short_lists,
        unjudged,
        misrouted,
        slow,
        weak_segment,
    ],
)
def test_on_the_line_a_rule_seldom_speaks(population: Any) -> None:
    rng = np.random.default_rng(7)
    spoke = [population.__name__ in [f.code for f in TABLE.apply(population(rng))] for _ in range(DRAWS)]
    assert np.mean(spoke) <= MOST


def test_past_the_line_the_same_rule_speaks() -> None:
    """Else the test above would pass for a rule that never does."""
    rng = np.random.default_rng(7)
    past: Iterator[Evidence] = (evidence(recalls(rng, r5=0.5, r50=0.5)) for _ in range(20))
    assert all("not_found" in [f.code for f in TABLE.apply(e)] for e in past)
