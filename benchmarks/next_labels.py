"""How many labels it takes to settle a comparison, by the order in which pairs are labelled.

python benchmarks/next_labels.py ../shared/data/trec_covid_r1/qrels-rnd1.txt ../shared/data/trec_covid_r1/runs/*

Every two runs are compared as if only the top 10 of the first had been judged. The other judgements are revealed a few
at a time, in one of four orders, until the interval of `karat labels pool --settle` excludes 0. Runs are TREC files or
run logs; without a judgement, an item is irrelevant.
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
from karat.formats.read import read_gold
from karat.labels.influence import FoundPair, find_influence
from karat.labels.next_labels import Settling, find_next
from karat.labels.pool import _collect, _results
from karat.scoring.metrics.grammar import parse_metric

Grades = dict[str, dict[str, int]]
Lists = dict[str, list[str]]
ORDERS = ("settle", "random", "worst case", "expected change")
K = 10


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
    if order == "random":
        queue = [waiting[i] for i in rng.permutation(len(waiting)).tolist()]
    elif order != "settle":
        find_influence(results, waiting, ranks, measure, gold)
        worst = order == "worst case"

        def size(pair: FoundPair) -> float:
            return -((pair.possible if worst else pair.expected) or 0.0)

        queue = sorted(waiting, key=size)
    return [(pair.query, pair.item) for pair in queue], settling


def labels_needed(
    order: str, baseline: Lists, candidate: Lists, judged: Grades, known: Grades, metric: str, batch: int, seed: int
) -> tuple[int | None, int]:
    """Labels until the comparison is decided, None if it never is; and the sign of the difference then, or 0."""
    rng, given = np.random.default_rng(seed), 0
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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("qrels", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--batch", type=int, default=10, help="labels at a time")
    parser.add_argument("--seeds", type=int, default=5, help="random orders")
    options = parser.parse_args()
    judged = read_qrels(options.qrels)
    runs = [read_lists(path) for path in options.runs]
    cases = [
        Case(one, other, {q: {i: grades.get(i, 0) for i in one.get(q, ())} for q, grades in judged.items()})
        for one, other in permutations(runs, 2)
    ]
    print(f"{len(judged)} queries, {len(cases)} comparisons of {len(runs)} runs, {options.batch} labels at a time.\n")
    print("| metric | order | labels, median | mean | undecided | not as with all labels | contradicts them |")
    print("|---|---|---|---|---|---|---|")
    outlooks: list[str] = []
    for metric in ("ndcg@10", "precision@10"):
        full = [truth(case.baseline, case.candidate, judged, metric) for case in cases]
        for order in ORDERS:
            seeds = range(options.seeds if order == "random" else 1)
            found = [
                [labels_needed(order, *case[:2], judged, case.known, metric, options.batch, seed) for case in cases]
                for seed in seeds
            ]
            told = [(labels, sign, true) for row in found for (labels, sign), true in zip(row, full, strict=True)]
            clear = [labels for labels, _, true in told if true]
            given = [labels for labels in clear if labels is not None]
            missing, each = len(clear) - len(given), len(seeds)
            other = sum(sign != true for _, sign, true in told)
            against = sum(sign * true < 0 for _, sign, true in told)
            cells = (missing / each, other / each, against / each)
            print(
                f"| {metric} | {order} | {statistics.median(given):g} | {statistics.fmean(given):.0f} | "
                + " | ".join(f"{cell:g}" for cell in cells)
                + " |",
                flush=True,
            )
            if order == "settle":
                outlooks.append(calibration(metric, cases, [labels for labels, _ in found[0]], options.batch))
    decidable = "labels: over the comparisons that all labels decide. Random: the mean of several orders."
    print(f"\n{decidable}\n\n" + "\n".join(outlooks))


def calibration(metric: str, cases: list[Case], needed: list[int | None], batch: int) -> str:
    """What the simulation expected before the first label, and what came."""
    expected = [ordered("settle", *case, metric, np.random.default_rng(0))[1] for case in cases]
    inside = [
        s.few <= labels and labels - batch < s.many
        for s, labels in zip(expected, needed, strict=True)
        if labels is not None and s.few is not None and s.many is not None
    ]
    chance, decided = statistics.fmean(s.chance for s in expected), statistics.fmean(n is not None for n in needed)
    return (
        f"- {metric}: expected to be decided by labels: {chance:.0%}; decided: {decided:.0%}. Number of labels within "
        f"the range from 10 % to 90 %: {sum(inside)} of {len(inside)}."
    )


if __name__ == "__main__":
    main()
