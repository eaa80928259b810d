"""How often the intervals of values without an upper end hold the truth, at 95 %.

python benchmarks/searches_coverage.py [rounds]

Agents search until they have what they need: most questions take one or two searches, some take many. Each search
finds one further relevant item, or none (wasted). Then means of other values: cost, searches by conversation, and
differences. † marks intervals of which the output says that they may be too narrow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from karat.data.ids import Floats, Ints
from karat.results.summary import Scores, SummaryRow, summarise
from karat.scoring.metrics.grammar import parse_metric
from karat.statistics.intervals import OPEN, mean_intervals
from karat.statistics.sampling import Sampling
from karat.statistics.sums import sum_up

METRICS = ("steps", "wasted_steps", "relevant_per_step", "union_recall")
SIZES = (20, 50, 100, 200)
LENGTHS = np.arange(1, 9)
# how often a question takes 1, 2, 3 … searches
AGENTS = {
    "mostly one search": np.array([0.7, 0.15, 0.06, 0.04, 0.02, 0.01, 0.01, 0.01]),
    "two or three": np.array([0.1, 0.45, 0.3, 0.1, 0.05, 0.0, 0.0, 0.0]),
    "a few take eight": np.array([0.6, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1]),
}
FINDS = 0.6  # probability that a search finds a further relevant item
RELEVANT = 8
Drawn = tuple[Floats, Ints | None]  # values, and the conversation of each


def drawn(rng: np.random.Generator, queries: int, shares: Floats) -> Scores:
    """What the metrics say about the searches of these queries."""
    length = rng.choice(LENGTHS, queries, p=shares)
    useful = rng.binomial(length, FINDS)
    values = {
        "steps": length,
        "wasted_steps": length - useful,
        "relevant_per_step": useful / length,
        "union_recall": useful / RELEVANT,
    }
    floats = {name: column.astype(np.float64) for name, column in values.items()}
    return Scores([parse_metric(name) for name in METRICS], floats, {"relevant_per_step": floats["steps"]})


def truth(shares: Floats) -> tuple[float, ...]:
    steps = float(LENGTHS @ shares)
    return steps, (1 - FINDS) * steps, FINDS, FINDS * steps / RELEVANT


def coverage(queries: int, shares: Floats, rounds: int) -> list[str]:
    rng, held, marked = np.random.default_rng(queries), np.zeros(len(METRICS)), np.zeros(len(METRICS), np.bool_)
    for at in range(rounds):
        rows = summarise(drawn(rng, queries, shares), Sampling(resamples=1000, seed=at), {}, {})
        held += [holds(row, true) for row, true in zip(rows, truth(shares), strict=True)]
        marked |= [row.narrow for row in rows]
    return [shown(share, mark) for share, mark in zip(held / rounds, marked, strict=True)]


def holds(row: SummaryRow, true: float) -> bool:
    return row.low is not None and row.high is not None and row.low - 1e-9 <= true <= row.high + 1e-9


def shown(share: float, marked: bool) -> str:
    return f"{share:.1%}{' †' if marked else ''}"


def lognormal(spread: float) -> Callable[[np.random.Generator, int], Drawn]:
    return lambda rng, n: (np.exp(spread * rng.standard_normal(n) - spread**2 / 2), None)


def rarely_dear(rng: np.random.Generator, n: int) -> Drawn:
    return np.where(rng.random(n) < 0.05, 20.0, 1.0) * lognormal(0.3)(rng, n)[0], None


def by_conversation(rng: np.random.Generator, n: int) -> Drawn:
    """Conversations of one to five questions that take the same number of searches."""
    owner = np.repeat(np.arange(n), rng.integers(1, 6, n))
    return rng.choice(LENGTHS, n, p=AGENTS["mostly one search"])[owner].astype(np.float64), owner


def unchanged(rng: np.random.Generator, n: int) -> Drawn:
    one, other = rng.choice(LENGTHS, (2, n), p=AGENTS["mostly one search"])
    return (other - one).astype(np.float64), None


def shortened(rng: np.random.Generator, n: int) -> Drawn:
    """Each search after the first is left out with probability ½."""
    before = rng.choice(LENGTHS, n, p=AGENTS["mostly one search"])
    return -rng.binomial(before - 1, 0.5).astype(np.float64), None


MORE = float(LENGTHS @ AGENTS["mostly one search"])
OTHERS: dict[str, tuple[Callable[[np.random.Generator, int], Drawn], float, float]] = {
    "cost, log-normal, σ = 0.5": (lognormal(0.5), 0.0, 1.0),
    "cost, log-normal, σ = 1": (lognormal(1.0), 0.0, 1.0),
    "cost, one query in 20 costs 20 times as much": (rarely_dear, 0.0, 1.95),
    "steps by conversation": (by_conversation, 0.0, MORE),
    "difference of steps, none": (unchanged, -np.inf, 0.0),
    "difference of steps, half of the further ones": (shortened, -np.inf, -(MORE - 1) / 2),
}


def other_coverage(name: str, units: int, rounds: int) -> str:
    draw, lowest, true = OTHERS[name]
    rng, held = np.random.default_rng(units), 0
    for at in range(rounds):
        values, owner = draw(rng, units)
        sums = sum_up(values[:, None], None, owner)
        ((low, high),) = mean_intervals(sums, [(lowest, np.inf)], Sampling(resamples=1000, seed=at)).tolist()
        held += low - 1e-9 <= true <= high + 1e-9
    return shown(held / rounds, units < OPEN)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"{rounds:,} simulated gold sets in each row.\n")
    print("| agent | queries | " + " | ".join(METRICS) + " |\n|---|---|" + "---|" * len(METRICS))
    for name, shares in AGENTS.items():
        for queries in SIZES:
            print(f"| {name} | {queries} | {' | '.join(coverage(queries, shares, rounds))} |", flush=True)
    print("\n| mean of | " + " | ".join(f"{units} units" for units in SIZES) + " |\n|---|" + "---|" * len(SIZES))
    for name in OTHERS:
        cells = " | ".join(other_coverage(name, units, 2 * rounds) for units in SIZES)
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
