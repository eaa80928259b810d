"""`karat.evaluate` of compressed files, and with the plain reader; prints one page of Markdown.

    python benchmarks/reading.py [--quick] [--repeat N] [--output READING.md]

A compressed file should cost what decompressing it costs, plus what the same file costs without compression. The
module gzip and the package zstandard decompress, here and in Karat. The plain reader, which needs no
compiler, is compared with pytrec_eval. Every measurement is a process of its own, in turns.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from pages import Target, conditions, joined, options, publish, table, target_table
from shapes import METRICS, QUICK, gold_file, run_file

HERE = os.path.dirname(os.path.abspath(__file__))
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
PACKAGES = ["karat", "numpy", "msgspec", "polars", "pytrec-eval-terrier", "orjson", "zstandard"]
WITHIN = 1.1  # decompressing and evaluating may differ by so much from the two measured apart
# pytrec_eval's CPU / Karat's before there was a native reader: commit 15d28e56, in turns with this version, on the
# machine of the page. The plain reader may take 1.5 times as long as that.
BEFORE = {"W1": 3.64, "W3": 1.82}
SLOWER = 1.5

MEASURED = """
import json, os, resource, sys, time
sys.path.insert(0, sys.argv[1])
from contenders import Karat, peak_megabytes
what, run, gold, *metrics = sys.argv[2:]
if what == "decompress":
    import gzip, zstandard
    def work():
        with open(run, "rb") as packed:
            gz, zst = (lambda: gzip.GzipFile(fileobj=packed)), zstandard.ZstdDecompressor().stream_reader
            with gz() if run.endswith(".gz") else zst(packed) as stream:
                while stream.read(1 << 20):
                    pass
else:
    karat = Karat()
    karat.imports("file")
    import polars  # loaded by the plain reader
    def work():
        karat.call(run, gold, metrics)
cpu, wall = time.process_time(), time.perf_counter()
work()
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall, peak_megabytes()]))
"""


class Spent:
    def __init__(self) -> None:
        self.turns: list[tuple[float, float, float]] = []

    @property
    def cpu(self) -> float:
        return min(turn[0] for turn in self.turns)

    @property
    def shown(self) -> list[str]:
        cpu, wall, memory = zip(*self.turns, strict=True)
        return [f"{min(cpu):.2f} s", f"{median(cpu):.2f} s", f"{min(wall):.2f} s", f"{max(memory):.0f} MB"]


def main() -> None:
    given = options("Compressed files and the plain reader.", "W1 and W3 at a tenth of their size", "READING.md", 3)
    if subprocess.run([sys.executable, os.path.join(HERE, "workloads.py")]).returncode:
        sys.exit("the data could not be made")
    before = os.getloadavg()[0]
    spent: dict[tuple[str, str], Spent] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = {name: _files(QUICK[name] if given.quick else name, Path(folder)) for name in BEFORE}
        for turn in range(given.repeat):
            for name, kinds in files.items():
                for what, measure in _contenders(QUICK[name] if given.quick else name, kinds).items():
                    spent.setdefault((name, what), Spent()).turns.append(measured := measure())
                    print(f"[{turn + 1}/{given.repeat}] {name} {what}: {measured[0]:.2f} s CPU", file=sys.stderr)
    publish(_page(spent, given, before), given.output)


def _files(workload: str, folder: Path) -> dict[str, str]:
    """The run in each form."""
    import zstandard

    plain = Path(run_file(workload))
    gz, zst = folder / f"{plain.name}.gz", folder / f"{plain.name}.zst"
    with plain.open("rb") as source, gzip.open(gz, "wb", 6) as target:
        shutil.copyfileobj(source, target, 1 << 20)
    with plain.open("rb") as source, zst.open("wb") as target:
        zstandard.ZstdCompressor().copy_stream(source, target)
    return {"": str(plain), "gz": str(gz), "zst": str(zst)}


def _contenders(workload: str, files: dict[str, str]):
    gold = gold_file(workload)

    def karat(run: str, what: str = "evaluate", **environment: str):
        command = [sys.executable, "-c", MEASURED, HERE, what, run, gold, *METRICS]
        return lambda: tuple(json.loads(_printed(command, environment)))

    def peer() -> tuple[float, float, float]:
        found = json.loads(
            _printed([sys.executable, os.path.join(HERE, "contenders.py"), "pytrec_eval", workload, "file"], {})
        )
        cpu, wall = (sum(found[kind][stage] for stage in ("load", "evaluate")) for kind in ("cpu", "wall"))
        return cpu, wall, found["memory"]

    return {
        "evaluate": karat(files[""]),
        **{f"evaluate .{kind}": karat(files[kind]) for kind in ("gz", "zst")},
        **{f"decompress .{kind}": karat(files[kind], "decompress") for kind in ("gz", "zst")},
        "evaluate, plain reader": karat(files[""], KARAT_PURE="1"),
        "pytrec_eval": peer,
    }


def _printed(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=ENVIRONMENT | environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout.splitlines()[-1]


def _page(spent: dict[tuple[str, str], Spent], given: argparse.Namespace, before: float) -> str:
    found: list[Target] = []
    for name, was in BEFORE.items():
        cpu = {what: one.cpu for (workload, what), one in spent.items() if workload == name}
        for kind in ("gz", "zst"):
            ratio = cpu[f"evaluate .{kind}"] / (cpu[f"decompress .{kind}"] + cpu["evaluate"])
            what = f"{name}, .{kind} / (decompressing + the same without)"
            found.append(Target(what, f"≤ {WITHIN:g}×", f"{ratio:.2f}×", ratio <= WITHIN))
        ratio, wanted = cpu["pytrec_eval"] / cpu["evaluate, plain reader"], was / SLOWER
        peer = "pytrec_eval + orjson" if name == "W3" else "pytrec_eval"
        found.append(Target(f"{name}, {peer} / plain reader", f"≥ {wanted:.2f}×", f"{ratio:.2f}×", ratio >= wanted))
    call = "python benchmarks/reading.py" + " --quick" * given.quick + f" --repeat {given.repeat}"
    rows = [[name, what, *one.shown] for (name, what), one in spent.items()]
    how = f"{given.repeat} repeats in turns; ratios take the lowest CPU time (user + system, all threads)"
    return joined(
        [
            "# Benchmarks: compressed files and the plain reader",
            f"Written by `{call}`. Reading and scoring with seven metrics, imports excluded.",
            conditions(how, PACKAGES, before),
            target_table(found),
            table(["", "", ">CPU", ">median", ">wall", ">peak"], rows),
        ]
    )


if __name__ == "__main__":
    main()
