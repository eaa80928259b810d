"""How often do the intervals of a calibration hold the truth? Simulated judges; prints one page of Markdown.

    python benchmarks/calibration_coverage.py [--quick] [--output FILE]

    alone      every pair has a query of its own
    alike      pairs of a query share their fate: what is relevant, and how the judge errs, depends on query and rank

People labelled every pair, or some at random. The last table takes real runs (TREC-COVID round 1, beside the checkout
in ../shared/data), NIST's labels as people's and a judge that errs by rank and query.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pages import joined, options, publish, table

import karat
from karat.scoring.extra_labels import Labelling, Named
from karat.statistics.calibration import JudgedPairs, post_stratified, rates
from karat.statistics.sampling import Sampling
from karat.statistics.sums import Floats

Bools = NDArray[np.bool_]
RESAMPLES = 1_000
K = 5
REAL = Path(__file__).parents[2] / "shared" / "data" / "trec_covid_r1"


class Cell(NamedTuple):
    queries: int
    each: int  # pairs of a query
    labels: int
    relevant: float
    sensitivity: float
    specificity: float


JUDGES = [(0.3, 0.9, 0.8), (0.3, 0.97, 0.97), (0.1, 0.8, 0.95)]
SHAPES = [
    *((n, 1, n) for n in (50, 200, 400)),
    *((10, 5, 50), (20, 10, 200), (40, 10, 400)),
    *((300, 10, n) for n in (50, 200, 400)),
]
RUNS = [(50, 100), (100, 100), (100, 200), (400, 200)]  # queries, labels


def main() -> None:
    given = options("Simulated coverage of calibrations.", "a fifth of the trials", "CALIBRATION.md")
    publish(_page(100 if given.quick else 500), given.output)


def _page(trials: int) -> str:
    noise = 100 * (0.95 * 0.05 / trials) ** 0.5
    parts = [
        "# Coverage of calibrated 95 % intervals",
        f"Written by `benchmarks/calibration_coverage.py`: {trials:,} trials per row (standard error {noise:.1f} "
        f"points at 95 %), {RESAMPLES:,} resamples per trial. Trials in which a rate cannot be told "
        "(people called nothing relevant) are left out.",
        "## `karat labels calibrate`",
        table(
            [
                *_columns("queries", "pairs each", "labels"),
                "relevant, sens., spec.",
                *_columns("sensitivity", "specificity", "kappa", "corrected share"),
            ],
            [_rates_row(Cell(*shape, *judge), trials) for judge in JUDGES for shape in SHAPES],
        ),
        f"## Corrected precision@{K}",
        "A fifth of the hits is in the gold. Labels are of the run's own hits.",
        table(
            [
                ">queries",
                ">labels",
                "relevant, sens., spec.",
                *_columns("of all such queries", "of these"),
                ">no number",
            ],
            [_precision_row(Cell(queries, K, n, *judge), trials) for judge in JUDGES for queries, n in RUNS],
        ),
    ]
    if REAL.exists():
        parts += ["## Real runs", _real(trials // 25)]
    return joined(parts)


def _columns(*names: str) -> list[str]:
    return [f">{name}" for name in names]


def _named(cell: Cell) -> str:
    return f"{cell.relevant:.2f}, {cell.sensitivity:.2f}, {cell.specificity:.2f}"


def _world(rng: np.random.Generator, cell: Cell, queries: int) -> tuple[Bools, Bools]:
    """(is it relevant, does the judge say so), query × pair."""
    alike = cell.each > 1
    rank = np.linspace(-0.5, 0.5, cell.each) if alike else np.zeros(1)
    relevant = rng.beta(2 * cell.relevant, 2 - 2 * cell.relevant, (queries, 1)) if alike else cell.relevant
    truth = rng.random((queries, cell.each)) < relevant * (1 - 0.6 * rank)
    return truth, _says(rng, truth, rank, cell.sensitivity, cell.specificity, float(alike))


def _says(
    rng: np.random.Generator, truth: Bools, rank: Floats, sensitivity: float, specificity: float, alike: float
) -> Bools:
    shift = alike * (rng.normal(0, 1, (len(truth), 1)) - 0.8 * rank)
    odds = [np.log(p / (1 - p)) for p in (sensitivity, specificity)]
    yes, no = (1 / (1 + np.exp(-o - sign * shift)) for o, sign in zip(odds, (1, -1), strict=True))
    return np.asarray(rng.random(truth.shape) < np.where(truth, yes, 1 - no))


def _picked(rng: np.random.Generator, from_: Bools, count: int) -> Bools:
    found = np.zeros(from_.size, np.bool_)
    found[rng.permutation(np.flatnonzero(from_))[:count]] = True
    return found.reshape(from_.shape)


def _pairs(truth: Bools, judge: Bools, labelled: Bools, open_: Bools) -> JudgedPairs:
    unit = np.nonzero(open_)[0]
    people = np.where(labelled, truth, np.nan)[open_]
    return JudgedPairs(unit, len(truth), judge[open_].astype(np.int64), np.array([False, True]), people)


def _rates_row(cell: Cell, trials: int) -> list[str]:
    print(*cell, file=sys.stderr, flush=True)
    rng = np.random.default_rng([cell.queries, cell.labels, round(100 * cell.sensitivity)])
    truth, judge = _world(rng, cell, 1_000_000 // cell.each)
    agreed, chance = (truth == judge).mean(), truth.mean() * judge.mean() + (1 - truth.mean()) * (1 - judge.mean())
    true = (judge[truth].mean(), 1 - judge[~truth].mean(), (agreed - chance) / (1 - chance), truth.mean())
    inside: list[list[float]] = []
    for seed in range(trials):
        truth, judge = _world(rng, cell, cell.queries)
        every = np.ones(truth.shape, np.bool_)
        strata = _pairs(truth, judge, _picked(rng, every, cell.labels), every).strata()
        sampling = Sampling(resamples=RESAMPLES, seed=seed % 3)
        found = rates(strata, sampling)
        share = post_stratified(np.zeros(cell.queries), strata.size.sum(axis=1), strata, sampling)
        values = zip((found.sensitivity, found.specificity, found.kappa, share), true, strict=True)
        inside.append([np.nan if np.isnan(v.value) else float(v.low <= t <= v.high) for v, t in values])
    held = [f"{100 * share:.1f} %" for share in np.nanmean(inside, axis=0)]
    return [str(cell.queries), str(cell.each), str(cell.labels), _named(cell), *held]


def _precision_row(cell: Cell, trials: int) -> list[str]:
    print(*cell, file=sys.stderr, flush=True)
    rng = np.random.default_rng([cell.queries, cell.labels, round(100 * cell.sensitivity)])
    true = float(_world(rng, cell, 200_000)[0].mean())
    inside, refused = [], 0
    for seed in range(trials):
        truth, judge = _world(rng, cell, cell.queries)
        open_ = rng.random(truth.shape) > 0.2
        strata = _pairs(truth, judge, _picked(rng, open_, cell.labels), open_).strata()
        if (strata.labels < 10).any():
            refused += 1
            continue
        known, below = (truth & ~open_).sum(axis=1).astype(float), np.full(cell.queries, float(K))
        found = post_stratified(known, below, strata, Sampling(resamples=RESAMPLES, seed=seed % 3))
        inside.append([found.low <= t <= found.high for t in (true, truth.mean())])
    held = [f"{100 * share:.1f} %" for share in np.mean(inside, axis=0)]
    return [str(cell.queries), str(cell.labels), _named(cell), *held, f"{100 * refused / trials:.1f} %"]


def _real(draws: int) -> str:
    """Precision@10 of real runs: of what NIST judged, two thirds are taken out of the gold and left to a judge."""
    lines = [line.split() for line in (REAL / "qrels-rnd1.txt").read_text().splitlines()]
    grades: dict[Named, int] = {(query, item): int(float(grade) > 0) for query, _, item, grade in lines}
    runs = {path.name: _top(path) for path in sorted((REAL / "runs").iterdir())}
    rng = np.random.default_rng(7)
    kinds = [("all judged pairs", 300), ("all judged pairs", 3_000), ("the run's own top 10", 100)]
    counts = {kind: [0, 0, 0] for kind in kinds}
    for _ in range(draws):
        hidden = [pair for pair in grades if rng.random() < 2 / 3]
        judge = _judge(rng, hidden, grades, runs)
        for run in runs.values():
            for (kind, labels), tally in counts.items():
                own = {(query, item) for query, items in run.items() for item in items}
                asked = [pair for pair in hidden if kind.startswith("all") or pair in own]
                people = {asked[i]: float(grades[asked[i]]) for i in rng.permutation(len(asked))[:labels].tolist()}
                low, high = _interval(run, grades, Labelling(judge=judge, human=people))
                true = np.mean([sum(grades.get((q, item), 0) for item in items) / 10 for q, items in run.items()])
                tally[0] += 1
                tally[1] += low is None
                tally[2] += low is not None and high is not None and low <= true <= high
    rows = [
        [kind, f"{labels:,}", str(n), str(none), f"{inside} of {n - none}"]
        for (kind, labels), (n, none, inside) in counts.items()
    ]
    head = ["labels drawn from", ">labels", ">runs", ">no number", ">interval holds the truth"]
    return f"Precision@10 of {len(runs)} runs, {draws} judges each.\n\n" + table(head, rows)


def _top(path: Path) -> dict[str, list[str]]:
    hits: dict[str, list[tuple[float, str]]] = {}
    for query, _, item, _, score, _ in (line.split() for line in path.read_text().splitlines()):
        hits.setdefault(query, []).append((-float(score), item))
    return {query: [item for _, item in sorted(found)[:10]] for query, found in hits.items()}


def _judge(rng: np.random.Generator, pairs: list[Named], grades: dict[Named, int], runs: dict[str, Any]) -> Any:
    """Kinder to what runs rank high, and to some queries."""
    best = {(q, item): i for run in runs.values() for q, items in run.items() for i, item in enumerate(items)}
    of = {query: rng.normal(0, 1) for query, _ in pairs}
    shift = np.array([of[pair[0]] + (1.0 if pair in best else -0.5) for pair in pairs])
    truth = np.array([grades[pair] for pair in pairs]) > 0
    yes, no = 1 / (1 + np.exp(-1.5 - shift)), 1 / (1 + np.exp(-1.5 + shift))
    said = rng.random(len(pairs)) < np.where(truth, yes, 1 - no)
    return dict(zip(pairs, said.astype(float).tolist(), strict=True))


def _interval(run: Any, grades: dict[Named, int], labelling: Labelling) -> tuple[float | None, float | None]:
    gold: dict[str, dict[str, int]] = {query: {"somewhere": 1} for query in run}
    for (query, item), grade in grades.items():
        if (query, item) not in labelling.judge and query in gold:
            gold[query][item] = grade
    sampling = Sampling(resamples=RESAMPLES)
    result = karat.evaluate(run, gold, [f"precision@{10}"], labelling=labelling, sampling=sampling, analyses=True)
    for row in result.analyses.found["bounds"].rows:
        if (row.metric, row.kind) == ("precision@10", "judge-calibrated estimate"):
            return row.low, row.high
    return None, None


if __name__ == "__main__":
    main()
