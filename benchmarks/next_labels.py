"""How many labels it takes to settle a comparison, by the order in which pairs are labelled.

python benchmarks/next_labels.py qrels-rnd1.txt runs/*
python benchmarks/next_labels.py qrels-rnd1.txt runs/* --calibration
python benchmarks/next_labels.py --simulated 100

Every two runs are compared as if only the top 10 of the first had been judged. The other judgements are revealed a few
at a time, in one of four orders, until the interval of `karat labels pool --settle` excludes 0. Runs are TREC files or
run logs; without a judgement, an item is irrelevant. `--parts 4` splits the queries at random into four sets.
`--calibration` compares the number of labels that was expected before the first one with the real number. The page
NEXT_LABELS.md has what it prints.
"""

from __future__ import annotations

import argparse
import json
import statistics
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np

import karat
import karat.statistics.settling as settling_model
from karat.formats.read import read_gold
from karat.labels.influence import find_influence
from karat.labels.next_labels import Settling, find_next
from karat.labels.pool import _collect, _results
from karat.scoring.metrics.grammar import parse_metric

Grades = dict[str, dict[str, int]]
Lists = dict[str, list[str]]
METRICS = ("ndcg@10", "precision@10")
ORDERS = ("settle", "random", "by rank", "largest possible change")
K = 10
FEW, MANY = 20, settling_model.WORLDS  # simulated worlds


def read_qrels(path: Path) -> Grades:
    """TREC qrels, or a table with query, item and grade under a header."""
    found: Grades = {}
    for line in path.read_text().splitlines():
        query, *_, item, grade = line.split()
        if grade.lstrip("-").isdecimal():
            found.setdefault(query, {})[item] = max(int(grade), 0)
    return found


def read_lists(path: Path) -> Lists:
    """The first ten of each query, by score."""
    if path.suffix == ".jsonl":
        logged = [json.loads(line) for line in path.read_text().splitlines()]
        return {line["query_id"]: [hit["chunk_id"] for hit in line["topk"][:K]] for line in logged if "topk" in line}
    rows: dict[str, list[tuple[float, str]]] = {}
    for line in path.read_text().splitlines():
        query, _, item, _, score, _ = line.split()
        rows.setdefault(query, []).append((-float(score), item))
    return {query: [item for _, item in sorted(hits)[:K]] for query, hits in rows.items()}


def as_run(lists: Lists) -> list[dict[str, object]]:
    return [{"query_id": query, "topk": [{"chunk_id": item} for item in items]} for query, items in lists.items()]


def ordered(
    order: str, baseline: Lists, candidate: Lists, known: Grades, metric: str, rng: np.random.Generator
) -> tuple[list[tuple[str, str]], Settling]:
    """The open pairs in this order, and whether the comparison is decided."""
    gold, measure = read_gold(known), parse_metric(metric)
    results = _results([as_run(baseline), as_run(candidate)], gold, K, K, None, "#")
    pairs, ranks = _collect(gold, results, K)
    queue, settling = find_next(results, pairs, measure, gold)
    waiting = [pair for pair in pairs if pair.grade is None]
    shuffled = [waiting[i] for i in rng.permutation(len(waiting)).tolist()]
    if order == "random":
        queue = shuffled
    elif order == "by rank":
        queue = sorted(shuffled, key=lambda pair: min(pair.ranks.values()))
    elif order != "settle":
        find_influence(results, waiting, ranks, measure, gold)
        queue = sorted(shuffled, key=lambda pair: -(pair.possible or 0.0))
    return [(pair.query, pair.item) for pair in queue], settling


def labels_needed(
    order: str, baseline: Lists, candidate: Lists, judged: Grades, known: Grades, metric: str, batch: int, seed: int
) -> tuple[int | None, int]:
    """Labels until the comparison is decided, None if it never is; and the sign of the difference then, or 0."""
    rng, given = np.random.default_rng(seed), 0
    settling_model.WORLDS = FEW  # whether it is decided does not depend on them
    known = {query: dict(grades) for query, grades in known.items()}
    while True:
        queue, settling = ordered(order, baseline, candidate, known, metric, rng)
        if settling.decided:
            return given, 1 if settling.expected > 0 else -1
        if not queue:
            return None, 0
        for query, item in queue[:batch]:
            known[query][item] = judged[query].get(item, 0)
            given += 1


def truth(baseline: Lists, candidate: Lists, judged: Grades, metric: str) -> int:
    """What all judgements say: the sign of the difference, or 0 if it is not certain."""
    full = {
        query: {**{item: 0 for lists in (baseline, candidate) for item in lists.get(query, ())}, **judged[query]}
        for query in judged
    }
    found = karat.compare(as_run(baseline), as_run(candidate), full, [metric])[metric]
    return 0 if not found.certain or found.delta is None else 1 if found.delta > 0 else -1


class Case(NamedTuple):
    """A comparison in which only the top of the baseline is judged."""

    baseline: Lists
    candidate: Lists
    known: Grades
    judged: Grades


def cases_of(judged: Grades, runs: list[Lists], parts: int) -> list[Case]:
    queries = np.random.default_rng(0).permutation(sorted(judged)).tolist()
    found = []
    for part in range(parts):
        some = {query: judged[query] for query in queries[part::parts]}
        here = [{query: items for query, items in run.items() if query in some} for run in runs]
        for one, other in permutations(here, 2):
            known = {query: {i: grades.get(i, 0) for i in one.get(query, ())} for query, grades in some.items()}
            found.append(Case(one, other, known, some))
    return found


def simulated(comparisons: int, queries: int, rng: np.random.Generator) -> list[Case]:
    """Two runs that see the usefulness of items through noise; one of them sees better, by an amount that varies."""
    return [_simulated(queries, rng) for _ in range(comparisons)]


def _simulated(queries: int, rng: np.random.Generator) -> Case:
    items, blur = 60, rng.uniform(0.5, 1.5, 2)
    judged: Grades = {}
    lists: tuple[Lists, Lists] = ({}, {})
    for number in range(queries):
        query, useful, least = f"q{number}", rng.normal(size=items), rng.uniform(0.8, 2.0)
        judged[query] = {f"d{i}": int(useful[i] > least) for i in range(items)}
        judged[query][f"d{int(useful.argmax())}"] = 1
        for run, noise in zip(lists, blur, strict=True):
            seen = useful + noise * rng.normal(size=items)
            run[query] = [f"d{i}" for i in np.argsort(-seen)[:K].tolist()]
    known = {query: {item: judged[query][item] for item in lists[0][query]} for query in judged}
    return Case(*lists, known, judged)


class Forecast(NamedTuple):
    """What was expected of a comparison before the first label, and what came."""

    expected: Settling
    needed: int | None  # labels until it was decided; None: all labels do not decide it


def forecasts(cases: list[Case], metric: str, batch: int) -> list[Forecast]:
    """Of the comparisons that are not decided at the start."""
    found = []
    for case in cases:
        settling_model.WORLDS = MANY
        expected = ordered("settle", *case[:3], metric, np.random.default_rng(0))[1]
        if not expected.decided:
            needed, _ = labels_needed("settle", *case[:2], case.judged, case.known, metric, batch, 0)
            found.append(Forecast(expected, needed))
    return found


def calibration(name: str, metric: str, found: list[Forecast]) -> str:
    """A row: how often labels decided, and where the real numbers lie in what was expected."""
    expected = statistics.fmean(one.expected.chance for one in found)
    told = [
        (one.expected.few, one.expected.labels, one.expected.many, one.needed)
        for one in found
        if one.needed is not None and one.expected.labels is not None
    ]
    real = sum(one.needed is not None for one in found) / len(found)
    medians = (f"{statistics.median(column):.0f}" for column in (zip(*told, strict=True)) if told)
    few, middle, many, labels = medians if told else ("–",) * 4
    shares = (f"{np.mean([row[3] <= (row[at] or 0) for row in told]):.0%}" if told else "–" for at in range(3))
    cells = (name, metric, len(found), f"{expected:.0%}", f"{real:.0%}", f"{middle} ({few} to {many})", labels, *shares)
    return f"| {' | '.join(map(str, cells))} |"


CALIBRATION = (
    "| data | metric | comparisons | expected to be decided | decided | expected labels | real | at most the 10 % | "
    "at most the median | at most the 90 % |\n|---|---|---|---|---|---|---|---|---|---|"
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("qrels", type=Path, nargs="?")
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--batch", type=int, default=5, help="labels at a time")
    parser.add_argument("--seeds", type=int, default=3, help="orders with a random part")
    parser.add_argument("--parts", type=int, default=1, help="sets of queries")
    parser.add_argument("--calibration", action="store_true", help="only whether the expected number is right")
    parser.add_argument("--simulated", type=int, default=0, help="simulated comparisons of 50 queries, as calibration")
    options = parser.parse_args()
    if options.simulated:
        print(CALIBRATION, flush=True)
        cases = simulated(options.simulated, 50, np.random.default_rng(0))
        for metric in METRICS:
            print(calibration("simulated", metric, forecasts(cases, metric, options.batch)), flush=True)
        return
    judged = read_qrels(options.qrels)
    cases = cases_of(judged, [read_lists(path) for path in options.runs], options.parts)
    if options.calibration:
        print(CALIBRATION, flush=True)
        for metric in METRICS:
            print(calibration(options.qrels.stem, metric, forecasts(cases, metric, options.batch)), flush=True)
        return
    each = len(judged) // options.parts
    print(
        f"{len(cases)} comparisons of {len(options.runs)} runs, {each} queries each, {options.batch} labels at a time."
    )
    print("\n| metric | comparisons | order | labels, median | mean | 90 % | contradicts all labels |")
    print("|---|---|---|---|---|---|---|")
    for metric in METRICS:
        truths = [truth(case.baseline, case.candidate, case.judged, metric) for case in cases]
        clear = [(case, true) for case, true in zip(cases, truths, strict=True) if true]
        for order in ORDERS:
            seeds = range(1 if order == "settle" else options.seeds)
            told = [
                (*labels_needed(order, *case[:2], case.judged, case.known, metric, options.batch, seed), true)
                for seed in seeds
                for case, true in clear
            ]
            given = [labels for labels, _, _ in told if labels is not None]
            against = sum(sign * true < 0 for _, sign, true in told) / len(seeds)
            cells = (np.median(given), np.mean(given), np.quantile(given, 0.9), against)
            row = " | ".join(f"{cell:.0f}" for cell in cells)
            print(f"| {metric} | {len(clear)} | {order} | {row} |", flush=True)


if __name__ == "__main__":
    main()
