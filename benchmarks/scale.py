"""What runs of a million, ten million and a hundred million hits cost, here and on Spark.

    python benchmarks/scale.py [--quick] [--largest] [--data FOLDER] [--output SCALE.md]

Every line of the tables is a fresh process: wall time and CPU from reading to the mean of seven metrics with its
interval, imports included, and the peak of the memory of the process with all that it started (PSS: shared pages
count once). `--largest` adds a hundred million hits, which take minutes and 1.5 GB of disk; `--quick` asks whether
everything runs. Results must agree between engines to the last bit, or it ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from scale_data import make

METRICS = ["hit@5", "recall@5", "recall@10", "precision@5", "mrr", "map", "ndcg(gain=linear)@10"]
MILLION = 1_000_000

ONE = """
import hashlib, json, os, resource, sys, time
started = time.perf_counter()
import karat
engine, run, gold, metrics = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
if __name__ == "__main__":
    if engine == "spark":
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        engine = karat.Spark(master="local[2]", partitions=8)
        engine.session
        up = time.perf_counter()
    else:
        up = started
    result = karat.evaluate(run, gold, metrics, engine=engine)
    means = [(row.metric, row.mean, row.low, row.high) for row in result.summary_rows]
    digest = hashlib.sha256(b"".join(v.tobytes() for v in result.values.values()) + repr(means).encode()).hexdigest()
    done = time.perf_counter()
    print(json.dumps({"wall": done - up, "start": up - started, "digest": digest}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--largest", action="store_true")
    parser.add_argument("--data", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "scale"))
    parser.add_argument("--output")
    given = parser.parse_args()
    page = "\n".join(_page(given.data, given.quick, given.largest)) + "\n"
    print(page)
    if given.output:
        Path(given.output).write_text(page)


def _page(data: str, quick: bool, largest: bool) -> Iterator[str]:
    million = MILLION // 100 if quick else MILLION
    yield "# Scale\n"
    yield f"Made by `python benchmarks/scale.py{' --quick' * quick}{' --largest' * largest}`; "
    yield f"{os.cpu_count()} cores, {_memory_gb()} GB, Python {platform.python_version()}, {platform.system()}. "
    yield "Seven metrics with intervals, rank given; five judged a query.\n"
    yield "## Engines\n"
    yield "| hits | queries | file | engine | wall s | CPU s | peak MB | M hits/s |\n|---|---|---|---|---|---|---|---|"
    digests: dict[tuple[int, int, str], set[str]] = {}
    for hits, depth, kind, engine in _cases(million, largest):
        run, gold = make(data, hits, depth, kind)
        found = measure(engine, run, gold)
        digests.setdefault((hits, depth, kind), set()).add(str(found["digest"]))
        wall = float(found["wall"])
        cpu = "–" if engine == "spark" else f"{found['cpu']:.1f}"  # its JVM is nobody's child when it ends
        yield (
            f"| {hits:,} | {hits // depth:,} | {kind} | {engine} | {wall:.1f} | {cpu} "
            f"| {found['peak']:.0f} | {hits / wall / 1e6:.2f} |"
        )
        print(hits, kind, engine, found, file=sys.stderr, flush=True)
    if any(len(same) > 1 for same in digests.values()):
        print("engines do not agree", file=sys.stderr)
        sys.exit(1)
    yield "\nAll engines agree to the last bit.\n"
    yield "## Does memory grow with the file?\n"
    yield "Ten times the hits: of the same queries (lists ten times as long), and of ten times the queries and gold.\n"
    yield "| file | 1× MB | 10× deeper MB | ratio | 10× queries MB | ratio |\n|---|---|---|---|---|---|"
    for kind in ("trec", "jsonl", "parquet", "nested"):
        shapes = ((million, 100), (10 * million, 1000), (10 * million, 100))
        peaks = [float(measure("local", *make(data, *shape, kind))["peak"]) for shape in shapes]
        one, deep, wide = peaks
        yield f"| {kind} | {one:.0f} | {deep:.0f} | {deep / one:.2f} | {wide:.0f} | {wide / one:.2f} |"
        print(kind, peaks, file=sys.stderr, flush=True)


def _cases(million: int, largest: bool) -> Iterator[tuple[int, int, str, str]]:
    for size in (million, 10 * million):
        yield from ((size, 100, kind, "local") for kind in ("parquet", "trec", "jsonl"))
    yield from ((10 * million, 100, kind, "processes") for kind in ("parquet", "trec", "jsonl"))
    yield 10 * million, 100, "parquet", "spark"
    if largest:
        yield 100 * million, 1000, "parquet", "local"


def measure(engine: str, run: str, gold: str) -> dict[str, float | str]:
    """One evaluation in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder) / "one.py", Path(folder) / "out"
        script.write_text(ONE)
        command = [sys.executable, str(script), engine, run, gold, json.dumps(METRICS)]
        before = os.times()
        with out.open("wb") as stream, (Path(folder) / "err").open("wb") as errors:
            process = subprocess.Popen(command, stdout=stream, stderr=errors)
            peak = 0
            while process.poll() is None:
                peak = max(peak, sum(map(_pss_kb, _tree(process.pid))))
                time.sleep(0.05)
        after = os.times()
        if process.returncode:
            raise SystemExit((Path(folder) / "err").read_text()[-2000:])
        found = json.loads(out.read_text().splitlines()[-1])
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return {**found, "cpu": cpu, "peak": peak / 1024}


def _tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _tree(int(child))
    except OSError:
        return


def _pss_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _memory_gb() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 30


if __name__ == "__main__":
    main()
