"""What runs of a million, ten million and a hundred million hits cost, here and on Spark.

    python benchmarks/scale.py [--quick] [--largest] [--data FOLDER] [--output SCALE.md]

Every line of the tables is a fresh process, from reading to the mean of seven metrics with its interval, imports
included. Time is CPU time, of all processes together, and along the longest way: of this process and of the busiest one
that it started (threads of a process are not told apart). Memory is the peak: what the kernel
says of one process; of several the sum, looked at again and again, with shared pages counted once. `--largest` adds a
hundred million hits, which take minutes and 1.5 GB of disk; `--quick` asks whether everything runs. Results must agree
between engines to the last bit, or it ends with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pages import conditions, publish, table
from scale_data import make

METRICS = ["hit@5", "recall@5", "recall@10", "precision@5", "mrr", "map", "ndcg(gain=linear)@10"]
MILLION = 1_000_000

ONE = """
import hashlib, json, os, sys
import karat
engine, run, gold, metrics = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
if __name__ == "__main__":
    if engine == "spark":
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        engine = karat.systems.Spark(master="local[2]")
    if engine == "processes":
        from karat.scoring.engines.processes import Processes
        engine = Processes(os.cpu_count())  # also where it would not be chosen
    result = karat.evaluate(run, gold, metrics, engine=engine)
    means = [(row.metric, row.mean, row.low, row.high) for row in result.summary_rows]
    digest = hashlib.sha256(b"".join(v.tobytes() for v in result.values.values()) + repr(means).encode()).hexdigest()
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(json.dumps({"digest": digest, "resident": int(status["VmHWM"].split()[0])}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--largest", action="store_true")
    parser.add_argument("--data", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "scale"))
    parser.add_argument("--output")
    given = parser.parse_args()
    page = "\n".join(_page(given.data, given.quick, given.largest)) + "\n"
    publish(page, given.output)


def _page(data: str, quick: bool, largest: bool) -> Iterator[str]:
    million = MILLION // 100 if quick else MILLION
    measured = _Measured(data)
    yield "# Scale\n"
    made = f"Made by `python benchmarks/scale.py{' --quick' * quick}{' --largest' * largest}`"
    yield conditions(made, ["polars", "pyspark"]) + "\n"
    yield "Seven metrics with intervals, rank given; about five judged hits per query.\n"
    yield "## Engines\n"
    digests: dict[tuple[int, int, str], set[str]] = {}
    lines = []
    for case in _cases(million, largest):
        hits, depth, kind, engine = case
        found = measured[case]
        digests.setdefault((hits, depth, kind), set()).add(found.digest)
        longest = "–" if engine == "spark" else f"{found.longest:.1f}"
        spent = [f"{found.cpu:.1f}", longest, f"{found.cpu / hits * 1e9:.0f}", f"{found.peak:.0f}"]
        lines.append([f"{hits:,}", f"{hits // depth:,}", kind, engine, *spent])
    yield table(
        [">hits", ">queries", "file", "engine", ">CPU s", ">longest path, CPU s", ">ns per hit", ">peak MB"], lines
    )
    if any(len(same) > 1 for same in digests.values()):
        print("engines do not agree", file=sys.stderr)
        sys.exit(1)
    yield "\nAll engines agree to the last bit.\n"
    yield "## Does memory grow with the file?\n"
    yield "Ten times the hits: of the same queries (lists ten times as long), and of ten times the queries and gold.\n"
    lines = []
    for kind in ("trec", "jsonl", "parquet", "nested"):
        shapes = ((million, 100), (10 * million, 1000), (10 * million, 100))
        one, deep, wide = (measured[hits, depth, kind, "local"].peak for hits, depth in shapes)
        lines.append([kind, f"{one:.0f}", f"{deep:.0f}", f"{deep / one:.2f}", f"{wide:.0f}", f"{wide / one:.2f}"])
    yield table(["file", ">1× MB", ">10× deeper MB", ">ratio", ">10× queries MB", ">ratio"], lines)


def _cases(million: int, largest: bool) -> Iterator[tuple[int, int, str, str]]:
    for size in (million, 10 * million):
        yield from ((size, 100, kind, "local") for kind in ("parquet", "trec", "jsonl"))
    yield from ((10 * million, 100, kind, "processes") for kind in ("parquet", "trec", "jsonl"))
    yield 10 * million, 100, "parquet", "spark"
    if largest:
        yield 100 * million, 1000, "parquet", "local"


@dataclass(frozen=True)
class Cost:
    cpu: float  # seconds, of all processes
    longest: float  # of the first process and the busiest of the others
    peak: float  # MB
    digest: str  # of values and intervals


class _Measured(dict[tuple[int, int, str, str], Cost]):
    """Every case once."""

    def __init__(self, data: str) -> None:
        super().__init__()
        self._data = data

    def __missing__(self, case: tuple[int, int, str, str]) -> Cost:
        hits, depth, kind, engine = case
        self[case] = measure(engine, *make(self._data, hits, depth, kind))
        print(*case, self[case], file=sys.stderr, flush=True)
        return self[case]


def measure(engine: str, run: str, gold: str) -> Cost:
    """One evaluation in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder) / "one.py", Path(folder) / "out"
        script.write_text(ONE)
        command = [sys.executable, str(script), engine, run, gold, json.dumps(METRICS)]
        with out.open("wb") as stream, (Path(folder) / "err").open("wb") as errors:
            process = subprocess.Popen(command, stdout=stream, stderr=errors)
            peak, used = 0, dict[int, float]()
            while process.poll() is None:
                tree = list(_tree(process.pid))
                used |= {pid: seconds for pid in tree if (seconds := _cpu_seconds(pid))}
                peak = peak if engine == "local" else max(peak, sum(map(_pss_kb, tree)))
                time.sleep(0.05)
        if process.returncode:
            raise SystemExit((Path(folder) / "err").read_text()[-2000:])
        found = json.loads(out.read_text().splitlines()[-1])
    first = used.pop(process.pid)
    cpu, longest = first + sum(used.values()), first + max(used.values(), default=0.0)
    return Cost(cpu, longest, (peak or found["resident"]) / 1024, found["digest"])


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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


if __name__ == "__main__":
    main()
