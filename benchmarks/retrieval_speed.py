"""BM25 against rank_bm25, and what the runner costs beside the retriever; prints one page of Markdown.

    python benchmarks/retrieval_speed.py [--quick] [--output FILE]

Both find the best 50 for the same queries in the same words: cutting texts into words is Karat's and counts for both.
rank_bm25 looks at every document for every query, so that each costs the same: a fifth of the queries is measured,
times five. What the runner costs is measured eight times, and the least wall time counts: other work on the machine
only adds to it.
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pages import Target, conditions, joined, options, publish, table, target_table
from rank_bm25 import BM25Okapi

from karat.data.corpus import Corpus
from karat.retrievers.bm25 import BM25
from karat.retrievers.words import _stems, words
from karat.systems.run import run_retriever

DOCUMENTS, QUERIES, K = 100_000, 1_000, 50
REPEATS = 8
PART = 5  # of rank_bm25's queries one in so many is measured
ASKED = 4_000
WORKERS, SLEEP = 32, 0.02
HITS = [(f"doc_{i}#p1", 1.0 / (i + 1)) for i in range(K)]


class Seconds(NamedTuple):
    cpu: float
    wall: float

    def __add__(self, other: Seconds) -> Seconds:  # type: ignore[override]
        return Seconds(self.cpu + other.cpu, self.wall + other.wall)

    def times(self, factor: float) -> Seconds:
        return Seconds(self.cpu * factor, self.wall * factor)


def main() -> None:
    given = options(
        "BM25 against rank_bm25, and the cost of the runner.", "a twentieth of everything: does it run?", "RETRIEVAL.md"
    )
    scale = 0.05 if given.quick else 1.0
    before = os.getloadavg()[0]
    asked = int(ASKED * scale) // WORKERS * WORKERS
    overhead = min((_overhead(asked) for _ in range(REPEATS)), key=lambda spent: spent.wall)
    together = min((_together(asked) for _ in range(REPEATS)), key=lambda spent: spent.wall)
    own, peer = _search(int(DOCUMENTS * scale), int(QUERIES * scale))
    publish(_page(own, peer, overhead, together, before), given.output)


def _texts(rng: random.Random, count: int, least: int, most: int) -> list[str]:
    """Texts whose words are as unevenly common as those of a language."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    spelling = random.Random(0)
    vocabulary = ["".join(spelling.choices(letters, k=spelling.randint(3, 9))) for _ in range(30_000)]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(len(vocabulary))))
    return [" ".join(rng.choices(vocabulary, cum_weights=weights, k=rng.randint(least, most))) for _ in range(count)]


def _search(documents: int, queries: int) -> tuple[dict[str, Seconds], dict[str, Seconds]]:
    texts, asked = _texts(random.Random(1), documents, 8, 25), _texts(random.Random(2), queries, 5, 5)
    corpus = Corpus("bench", [f"d{i}" for i in range(documents)], [""] * documents, texts)
    own, made = BM25(), []
    found = {"index": _time(lambda: own.index(corpus))}
    found["queries"] = _time(lambda: [own.search(query, K) for query in asked])
    _stems.cache_clear()  # each stems every word once
    peer = {"index": _time(lambda: made.append(BM25Okapi([words(text) for text in texts])))}
    part = asked[::PART]
    spent = _time(lambda: [made[0].get_top_n(words(query), corpus.ids, K) for query in part])
    peer["queries"] = spent.times(len(asked) / len(part))
    return found, peer


def _overhead(count: int) -> Seconds:
    """Of one query, beside a retriever that answers at once."""
    spent = _time(lambda: _run(lambda query: HITS, count, 1))
    return spent.times(1 / count)


def _together(count: int) -> Seconds:
    """Of one query, where many are asked at once."""

    def search(query: str) -> list[tuple[str, float]]:
        time.sleep(SLEEP)
        return HITS

    return _time(lambda: _run(search, count, WORKERS)).times(1 / count)


def _run(search: Callable[[str], object], count: int, workers: int) -> None:
    queries = [{"query_id": f"q{i}", "query": f"question {i}", "gold": ["a"]} for i in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        done = run_retriever(search, queries, k=K, workers=workers, warm_up=0, output=Path(folder) / "run.jsonl")
    assert done.failed == 0


def _time(work: Callable[[], object]) -> Seconds:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    spent = Seconds(time.process_time() - cpu, time.perf_counter() - wall)
    print(f"{spent.cpu:.2f} s CPU", file=sys.stderr, flush=True)
    return spent


def _page(own: dict[str, Seconds], peer: dict[str, Seconds], overhead: Seconds, together: Seconds, load: float) -> str:
    efficiency = SLEEP / WORKERS / together.wall
    share = f"{efficiency:.0%} ({together.cpu * 1000:.2f} ms CPU per query)"
    ratio = (peer["index"] + peer["queries"]).cpu / (own["index"] + own["queries"]).cpu
    ms, cpu = overhead.wall * 1000, overhead.cpu * 1000
    targets = [
        Target(f"BM25, {DOCUMENTS:,} texts indexed, {QUERIES:,} queries, CPU", "≥ 20×", f"{ratio:.1f}×", ratio >= 20),
        Target("runner beside the retriever, per query", "≤ 1 ms", f"{ms:.2f} ms ({cpu:.2f} ms CPU)", ms <= 1),
        Target(f"{WORKERS} workers, {SLEEP * 1000:g} ms per query", "≥ 80 %", share, efficiency >= 0.8),
    ]
    rows = [
        [part, name, f"{spent[part].cpu:.2f}", f"{spent[part].wall:.2f}", f"{peer[part].cpu / own[part].cpu:.1f}×"]
        for part in own
        for name, spent in (("Karat", own), ("rank_bm25", peer))
    ]
    how = (
        f"BM25: one measurement; of rank_bm25's queries one in {PART}, times {PART}. "
        f"Runner: best of {REPEATS} by wall time"
    )
    parts = [
        "# Benchmarks: retrieval",
        "Written by `benchmarks/retrieval_speed.py`. Ratios are rank_bm25 / Karat: above 1, Karat is faster.",
        conditions(how, ["karat", "numpy", "rank-bm25"], load),
        "## Targets",
        target_table(targets),
        "## Seconds",
        table(["part", "contender", ">CPU", ">wall", ">CPU ratio"], rows),
    ]
    return joined(parts)


if __name__ == "__main__":
    main()
