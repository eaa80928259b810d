"""How often do intervals hold the true mean? Simulated, at every method; prints one page of Markdown.

    python benchmarks/interval_coverage.py [--quick] [--output FILE]

    hit            0/1 scores, one with the chance of the true mean
    recall         one to four relevant items per query, each found with that chance
    one of ten     precision@10 with one relevant item, found with that chance: no query can score more than 0.1
    four of ten    precision@10 with one to four relevant items, each found with that chance
    conversations  five queries that all succeed or all fail: how many units are there?

The seed is fixed: the same program prints the same page. Many trials are columns of one call and share its draw of
weights; each call has another seed.
"""

from __future__ import annotations

import sys
from itertools import product
from typing import NamedTuple, get_args

import numpy as np
from pages import joined, options, publish, table

from karat.statistics.intervals import mean_intervals
from karat.statistics.sampling import Method, Sampling
from karat.statistics.sums import Floats, sum_up

SIZES = [20, 50, 200]
TRUTHS = [0.90, 0.98]
METHODS: tuple[Method, ...] = get_args(Method)
OF_TEN = ["one of ten", "four of ten"]  # precision@10: intervals end at the highest ceiling of a query
CONVERSATIONS = ["by conversation", "by query"]
TURNS = 5  # queries in a conversation
RESAMPLES = 2_000
AT_ONCE = 500  # trials in one call


class Cell(NamedTuple):
    kind: str
    true: float
    units: int
    method: Method


class Covered(NamedTuple):
    """Shares of the trials, and the mean width of their intervals."""

    inside: float
    width: float
    above: float  # the truth lies above the interval
    below: float


def main() -> None:
    quick = "a tenth of the trials: does everything run?"
    given = options("Simulated coverage of every method of intervals.", quick, "COVERAGE.md")
    publish(_page(500 if given.quick else 5_000), given.output)


def _page(trials: int) -> str:
    noise = 100 * (0.95 * 0.05 / trials) ** 0.5
    parts = [
        "# Coverage of 95 % intervals",
        f"Written by `benchmarks/interval_coverage.py`: {trials:,} trials a row (standard error {noise:.1f} points at "
        f"95 %), {RESAMPLES:,} resamples a trial.",
        "## Queries one by one",
        _coverage_table([Cell(*c) for c in product(["hit", "recall"], TRUTHS, SIZES, METHODS)], trials),
        "## Queries with ceilings of their own",
        "Precision@10 with one relevant item (`one of ten`), and with one to four (`four of ten`): the column gives "
        "the share that is found, and no query can score more than a tenth of its items.",
        _coverage_table([Cell(*c) for c in product(OF_TEN, TRUTHS, SIZES, METHODS)], trials),
        "## Conversations",
        f"{TURNS} queries each, which all succeed or all fail. Resampled by conversation, and then, wrongly, by query, "
        "as if each were a case of its own.",
        _coverage_table([Cell(kind, t, n, "bayes") for t in TRUTHS for n in SIZES for kind in CONVERSATIONS], trials),
    ]
    return joined(parts)


def _coverage_table(cells: list[Cell], trials: int) -> str:
    head = ["scores", ">true mean", ">units", "method", ">coverage", ">mean width", ">truth above", ">truth below"]
    return table(head, [_row(cell, _simulate(cell, trials)) for cell in cells])


def _row(cell: Cell, found: Covered) -> list[str]:
    shares = [f"{100 * share:.1f} %" for share in (found.inside, found.above, found.below)]
    return [cell.kind, f"{cell.true:.2f}", str(cell.units), cell.method, shares[0], f"{found.width:.3f}", *shares[1:]]


def _simulate(cell: Cell, trials: int) -> Covered:
    print(*cell, file=sys.stderr, flush=True)
    limits = np.concatenate([_limits(cell, turn) for turn in range(trials // AT_ONCE)])
    low, high = limits.T
    true = cell.true * {"one of ten": 0.1, "four of ten": 0.25}.get(cell.kind, 1.0)
    above, below = float(np.mean(high < true)), float(np.mean(true < low))
    return Covered(1 - above - below, float(np.mean(high - low)), above, below)


def _limits(cell: Cell, turn: int) -> Floats:
    # Every method sees the same data.
    rng = np.random.default_rng([turn, cell.units, round(100 * cell.true), cell.kind == "recall"])
    several = cell.kind in ("recall", "four of ten")
    relevant = rng.integers(1, 5, (cell.units, AT_ONCE)) if several else np.ones((1, AT_ONCE), int)
    values = rng.binomial(relevant, cell.true, (cell.units, AT_ONCE)) / (10 if cell.kind in OF_TEN else relevant)
    ceilings = relevant.max(axis=0) / 10 if cell.kind in OF_TEN else np.ones(AT_ONCE)
    clusters = None
    if cell.kind in CONVERSATIONS:
        values = np.repeat(values, TURNS, axis=0)
        clusters = np.repeat(np.arange(cell.units), TURNS) if cell.kind == CONVERSATIONS[0] else None
    sampling = Sampling(cell.method, resamples=RESAMPLES, seed=turn)
    return mean_intervals(sum_up(values, clusters=clusters), [(0.0, most) for most in ceilings.tolist()], sampling)


if __name__ == "__main__":
    main()
