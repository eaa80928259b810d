"""How many labels it takes to settle a comparison, by the order in which pairs are labelled.

python benchmarks/next_labels.py qrels-rnd1.txt runs/*

Every two runs are compared as if only the top 10 of the first had been judged. The other judgements are revealed a few
at a time, in one of four orders, until the interval of `karat labels pool --settle` excludes 0. Runs are TREC files or
run logs; without a judgement, an item is irrelevant. `--parts 4` splits the queries at random into four sets. The page
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("qrels", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--batch", type=int, default=5, help="labels at a time")
    parser.add_argument("--seeds", type=int, default=3, help="orders with a random part")
    parser.add_argument("--parts", type=int, default=1, help="sets of queries")
    options = parser.parse_args()
    judged = read_qrels(options.qrels)
    runs = [read_lists(path) for path in options.runs]
    cases = cases_of(judged, runs, options.parts)
    each = len(judged) // options.parts
    print(f"{len(cases)} comparisons of {len(runs)} runs, {each} queries each, {options.batch} labels at a time.\n")
    print("| metric | comparisons | order | labels, median | mean | 90 % | contradicts all labels |")
    print("|---|---|---|---|---|---|---|")
    outlooks: list[str] = []
    for metric in ("ndcg@10", "precision@10"):
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
            if order == "settle":
                outlooks.append(calibration(metric, [case for case, _ in clear], [one for one, _, _ in told]))
    print("\n" + "\n".join(outlooks))


def calibration(metric: str, cases: list[Case], needed: list[int | None]) -> str:
    """What the simulation expected before the first label, and what came."""
    settling_model.WORLDS = MANY
    expected = [ordered("settle", *case[:3], metric, np.random.default_rng(0))[1] for case in cases]
    both = [
        (s.labels, s.many, labels)
        for s, labels in zip(expected, needed, strict=True)
        if labels and s.labels is not None and s.many is not None
    ]
    chance = statistics.fmean(s.chance for s in expected)
    told, real = (statistics.median(one) for one in ([x[0] for x in both], [x[2] for x in both]))
    below, inside = sum(n <= m for m, _, n in both), sum(n <= m for _, m, n in both)
    return (
        f"- {metric}, before the first label: probability that labels decide it {chance:.0%}; all are decided. Median "
        f"of the expected number {told:g}, of the real one {real:g}. The real number was at most the expected median "
        f"in {below} of {len(both)}, and at most the upper end of the range (90 %) in {inside}."
    )


if __name__ == "__main__":
    main()
