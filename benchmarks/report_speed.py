"""What a page costs beside the evaluation that it shows; prints one page of Markdown.

    python benchmarks/report_speed.py [--quick] [--repeat N] [--output FILE]

10,000 queries × 10 hits with three tags and two stages of latency. Held against each other are two commands, each a
process of its own: `karat eval RUN --gold GOLD`, and the same with `-o report.html`. Beside them, inside one process in
which everything is loaded already: `karat.evaluate`, which reads and scores and nothing else, and the page made from
its result, with all the intervals, analyses, findings, segments, curves and failed queries that are on it. Of the
repeats the least CPU and the least wall time count.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is first imported

import json
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
from pages import Target, conditions, joined, options, publish, table, target_table

import karat
from karat.report.export import to_html

QUERIES, HITS, ITEMS = 10_000, 10, 100_000
WANTED = 3.0  # times the evaluation
LARGEST = 1.5e6  # bytes
COMMAND, WITH_PAGE = "`karat eval RUN --gold GOLD`", "`karat eval RUN --gold GOLD -o report.html`"
SCORING, PAGE = "`karat.evaluate(RUN, GOLD)`", "page of that result"
TAGS = {"topic": 12, "language": 3, "difficulty": 3}


def main() -> None:
    description = "What a page costs beside the evaluation that it shows."
    given = options(description, "one repeat: does everything run?", "REPORT.md", repeats=5)
    repeats = 1 if given.quick else given.repeat
    with tempfile.TemporaryDirectory() as folder:
        run, gold = _data(folder)
        turns = [_turn(run, gold) for _ in range(repeats + 1)][1:]
    publish(_page(turns, repeats), given.output)


def _data(folder: str) -> tuple[str, str]:
    random = np.random.default_rng(6)
    run, gold = os.path.join(folder, "run.jsonl"), os.path.join(folder, "gold.jsonl")
    with open(run, "w", encoding="utf-8") as runs, open(gold, "w", encoding="utf-8") as golds:
        for number in range(QUERIES):
            hits = [f"doc_{i}#p{i % 7}" for i in random.choice(ITEMS, HITS, replace=False).tolist()]
            found = [hits[i] for i in range(HITS) if random.random() < 0.25 / (1 + i / 3)]
            tags = {name: f"{name} {int(random.integers(size))}" for name, size in TAGS.items()}
            entry = {"query_id": f"q{number}", "query": f"What about matter {number}?", "gold": [*found, "doc_x#p1"]}
            golds.write(json.dumps(entry | {"tags": tags}) + "\n")
            topk = [{"rank": i, "chunk_id": h, "score": round(1 / i, 4)} for i, h in enumerate(hits, 1)]
            latency = {"retrieve": round(random.gamma(9, 3), 2), "rerank": round(random.gamma(4, 3), 2)}
            runs.write(
                json.dumps({"query_id": f"q{number}", "system": "s", "topk": topk, "latency_ms": latency}) + "\n"
            )
    return run, gold


def _turn(run: str, gold: str) -> dict[str, tuple[float, float, int]]:
    """Step → CPU, wall, bytes."""
    page = os.path.join(os.path.dirname(run), "report.html")
    steps = {COMMAND: _process(run, gold), WITH_PAGE: _process(run, gold, "-o", page)}
    before = time.process_time(), time.perf_counter()
    bare = karat.evaluate(run, gold)
    between = time.process_time(), time.perf_counter()
    size = len(to_html([bare]))
    after = time.process_time(), time.perf_counter()
    steps[SCORING] = (between[0] - before[0], between[1] - before[1], 0)
    steps[PAGE] = (after[0] - between[0], after[1] - between[1], size)
    return steps


def _process(run: str, gold: str, *more: str) -> tuple[float, float, int]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "karat.cli.main", "eval", run, "--gold", gold, *more]
    subprocess.run(command, check=True, capture_output=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - started
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, 0


def _page(turns: list[dict[str, tuple[float, float, int]]], repeats: int) -> str:
    best = {step: tuple(min(turn[step][i] for turn in turns) for i in range(3)) for step in turns[0]}
    ratio, bare = best[WITH_PAGE][0] / best[COMMAND][0], best[PAGE][0] / best[SCORING][0]
    size = int(best[PAGE][2])
    targets = [
        Target("command with the page / without it, CPU", f"≤ {WANTED:g}×", f"{ratio:.2f}×", ratio <= WANTED),
        Target("page alone / `karat.evaluate`, CPU", f"≤ {WANTED:g}×", f"{bare:.2f}×", bare <= WANTED),
        Target("size of the page", f"≤ {LARGEST / 1e6:g} MB", f"{size / 1e6:.2f} MB", size <= LARGEST),
    ]
    parts = [
        "# Benchmarks: the page",
        f"Written by `benchmarks/report_speed.py`: {QUERIES:,} queries × {HITS} hits.",
        conditions(
            f"{repeats} repeats after one that does not count; lowest CPU and wall time of them; OpenBLAS on "
            f"{os.environ['OPENBLAS_NUM_THREADS']} thread",
            ["Karat"],
        ),
        target_table(targets),
        table(
            ["step", ">CPU", ">wall"],
            [[step, f"{cpu:.2f} s", f"{wall:.2f} s"] for step, (cpu, wall, _) in best.items()],
        ),
        "`karat.evaluate` reads and scores and nothing else; intervals, analyses, findings, segments, curves and failed"
        " queries are made for the page.",
    ]
    return joined(parts)


if __name__ == "__main__":
    main()
