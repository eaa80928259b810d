"""Karat against pytrec_eval, ranx and ir_measures: CPU, wall and peak memory, every contender in a process of its own.

    python benchmarks/run.py [--quick] [--repeat N] [--output FILE]

Contenders take turns, so that a busy moment of the machine hits all of them; of the repeats the least CPU, the least
wall time and the greatest memory count. This process stays small and imports no contender: a child's peak memory
starts at its parent's.
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
from typing import Any, NamedTuple

from pages import publish
from shapes import LINEAR, WITHOUT_RANK

import results
from results import Best, Cell, Measured, Start

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "RESULTS.md")
CONTENDERS = ["karat", "pytrec_eval", "ranx", "ir_measures"]
TIMED = [(workload, mode) for mode in ("file", "dicts") for workload in ("W1", "W2", "W3")] + [("W2", "cold")]
# Installed packages come compiled; a checkout is compiled at its first start, unless this forbids to keep that.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
STARTS = {
    "import karat": ["-c", "import karat"],
    "from karat import evaluate": ["-c", "from karat import evaluate"],
    "karat --help": ["-m", "karat.cli.main", "--help"],
    "bare Python": ["-c", ""],
}


def main() -> None:
    options = _options()
    repeats = options.repeat or (1 if options.quick else 5)
    _make_data()
    before = os.getloadavg()[0]
    measured = _measure(repeats)
    command = "python benchmarks/run.py" + (f" --repeat {repeats}" if repeats != 5 else "")
    page = results.page(measured, command, before)
    publish(page, options.output or (None if options.quick else RESULTS))
    if not all(row.agrees for row in results.agreement(measured)):
        sys.exit("the contenders disagree on the values: see the table above")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Karat against its peers: CPU, wall, memory, and the same values.")
    parser.add_argument("--quick", action="store_true", help="one repeat, printed only: does everything run?")
    parser.add_argument("--repeat", type=_positive, metavar="N", help="repeats of every measurement (default 5)")
    parser.add_argument("--output", metavar="FILE", help="where to write the page (default benchmarks/RESULTS.md)")
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {text}")
    return int(text)


def _make_data() -> None:
    if subprocess.run([sys.executable, os.path.join(HERE, "workloads.py")]).returncode:
        sys.exit("the data could not be made")


def _measure(repeats: int) -> Measured:
    best: dict[Cell, Best] = {}
    starts: dict[str, Start] = {}
    for repeat in range(repeats):
        for cell in _cells(repeat):
            best[cell] = _contender(cell, f"{repeat + 1}/{repeats}").better(best.get(cell))
        for name, arguments in STARTS.items():
            done = _spawn(arguments)
            starts[name] = Start(done.cpu, done.wall).better(starts.get(name))
    checks = {cell: _contender(cell, "values").means for cell in _value_checks()}
    return Measured(best, starts, checks, _imported(STARTS["karat --help"]), repeats)


def _cells(repeat: int) -> Iterator[Cell]:
    """Everything once; who goes first changes with the repeat."""
    turn = repeat % len(CONTENDERS)
    for workload, mode in TIMED:
        for name in CONTENDERS[turn:] + CONTENDERS[:turn]:
            yield Cell(name, workload, mode)
    for workload in LINEAR:
        yield Cell("karat", workload, "file")
    for workload in results.ON_ONE_CORE:
        yield Cell("karat", workload, "one")


def _value_checks() -> Iterator[Cell]:
    yield Cell("karat", WITHOUT_RANK, "file")
    for workload in ("W1", "W2", "W3"):
        yield Cell("karat", workload, "untied")
        yield Cell("ranx", workload, "untied")


def _contender(cell: Cell, turn: str) -> Best:
    done = _spawn([os.path.join(HERE, "contenders.py"), *cell])
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    cpu, wall = found["cpu"], found["wall"]
    best = Best(
        cpu=cpu.get("load", 0.0) + cpu["evaluate"],
        wall=wall.get("load", 0.0) + wall["evaluate"],
        load=cpu.get("load", 0.0),
        process=Start(done.cpu, done.wall),
        memory=found["memory"],
        means=found["means"],
    )
    print(f"[{turn}] {' '.join(cell)}: {best.cpu:.3f} s CPU, {best.memory:.0f} MB", file=sys.stderr, flush=True)
    return best


class Done(NamedTuple):
    stdout: str
    stderr: str
    cpu: float
    wall: float


def _spawn(arguments: list[str]) -> Done:
    """A fresh Python from its start to its end."""
    with tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        command = [sys.executable, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=ENVIRONMENT)
        assert process.stdout is not None
        stdout = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)  # what the system counted for this very process
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        errors.seek(0)
        stderr = errors.read()
    if process.returncode:
        hint = "\nhint: pip install 'karat[bench]'" if "ModuleNotFoundError" in stderr else ""
        sys.exit(f"{' '.join(arguments)} failed with {process.returncode}:\n{stderr[-2000:]}{hint}")
    return Done(stdout, stderr, usage.ru_utime + usage.ru_stime, wall)


def _imported(arguments: list[str]) -> set[str]:
    """The packages that a command loads, as Python itself lists them."""
    lines = _spawn(["-X", "importtime", *arguments]).stderr.splitlines()
    return {line.rsplit("|", 1)[1].strip().split(".")[0] for line in lines if line.startswith("import time:")}


if __name__ == "__main__":
    main()
