"""Whole commands as typed in a shell, beside the process of a peer: CPU seconds from start to end.

    python benchmarks/commands.py [--quick] [--only NAME]… [--repeat N] [--output COMMANDS.md]

Every measurement is a fresh process, start-up, intervals, tables and files included; CPU is user + system, of all
threads and of processes that it started. Commands take turns with the peer, and the order changes with the repeat. Of
the repeats the least CPU counts; medians stand beside it. Bytes parsed and saved results are taken from runs of their
own. `--only` names targets by the start of their names (W1, W3-gate, parsed, saved; repeat for more); `--quick` takes
W1 and W3 at a tenth of their size, where start-up weighs more than it should.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from pages import Target, conditions, joined, publish, table, target_table
from shapes import METRICS, QUICK, SHAPES, changed, gold_file, run_file

HERE = os.path.dirname(os.path.abspath(__file__))
# Installed packages come compiled; a checkout is compiled at its first start, unless this forbids to keep that.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
PACKAGES = ["karat", "numpy", "polars", "msgspec", "pytrec-eval-terrier", "orjson"]
PARSED = 1.1  # times the size of the runs
SAVED, SAVED_MB, LOADED = "result.parquet", 40.0, 1.0  # file, megabytes compressed, seconds
COMPRESSED = (".gz", ".zst", ".parquet")
SEVEN = [argument for metric in METRICS for argument in ("-m", metric)]
GATES = "gates.yaml"
CRITERIA = """\
gates:
  - {metric: recall@5, threshold: 0.5, on: bound}
  - {metric: recall@5, threshold: 0.4, on: bound, segment: {segment: seg_03}}
  - {metric: ndcg@5, threshold: 0.4, on: bound}
  - {metric: precision@5, threshold: 0.2, on: bound}
  - {metric: distinct_docs@5, threshold: 3.0, on: bound}
  - {name: no step back, metric: recall@5, regression_max: 0.02}
  - {metric: latency_p50, max: 110}
"""
JUDGED = (0, 1)  # exit codes of a gate: may ship, may not

# Runs a command and says how many bytes of runs were parsed, -1 where that is not counted.
COUNTED = """
import sys
from karat.cli.main import main
try:
    main()
finally:
    from karat.formats import base
    print(base.PARSED.bytes, file=sys.stderr)
"""
LOAD = """
import json, sys, time
import karat
from karat.results.saved import read_result
load = getattr(karat, "load", None) or read_result
cpu, wall = time.process_time(), time.perf_counter()
result = load(sys.argv[1])
print(json.dumps([time.process_time() - cpu, time.perf_counter() - wall]), file=sys.stderr)
"""


class Command(NamedTuple):
    arguments: list[str]  # of karat; for a peer, of contenders.py
    runs: list[str]  # the run files that it reads
    peer: bool = False
    codes: Sequence[int] = (0,)

    @property
    def process(self) -> list[str]:
        if self.peer:
            return [sys.executable, os.path.join(HERE, "contenders.py"), *self.arguments]
        script = os.path.join(os.path.dirname(sys.executable), "karat")
        return [script, *self.arguments] if os.path.exists(script) else [sys.executable, "-m", "karat", *self.arguments]

    @property
    def typed(self) -> str:
        return shlex.join(["python", "contenders.py", *self.arguments] if self.peer else ["karat", *self.arguments])


class Ratio(NamedTuple):
    """A target: how often the time of one command holds that of another."""

    what: str
    over: str
    under: str
    wanted: float
    at_least: bool = False
    time: str = "cpu"  # or wall

    @property
    def commands(self) -> tuple[str, ...]:
        return self.over, self.under

    def target(self, spent: dict[str, list[Spent]]) -> Target:
        over, under = ([getattr(turn, self.time) for turn in spent[name]] for name in self.commands)
        best, middle = min(over) / min(under), median(over) / median(under)
        reached = best >= self.wanted if self.at_least else best <= self.wanted
        sign = "≥" if self.at_least else "≤"
        return Target(self.what, f"{sign} {self.wanted:g}×", f"{best:.2f}× (median {middle:.2f}×)", reached)


class Seconds(NamedTuple):
    """A target: CPU seconds of a command, or those that it takes more than another."""

    what: str
    command: str
    wanted: float
    less: str | None = None

    @property
    def commands(self) -> tuple[str, ...]:
        return (self.command,) if self.less is None else (self.command, self.less)

    def target(self, spent: dict[str, list[Spent]]) -> Target:
        first, *rest = (min(turn.cpu for turn in spent[name]) for name in self.commands)
        found = first - sum(rest)
        return Target(self.what, f"≤ {self.wanted:g} s", f"{found:.2f} s", found <= self.wanted)


class Spent(NamedTuple):
    cpu: float
    wall: float
    memory: float  # MB
    last: str  # line of stderr
    printed: str = ""


def main() -> None:
    given = _options()
    workloads = QUICK if given.quick else {name: name for name in QUICK}
    if subprocess.run([sys.executable, os.path.join(HERE, "workloads.py")]).returncode:
        sys.exit("the data could not be made")
    commands = commands_of(workloads)
    chosen = _chosen(given.only)
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        for file in {file for name in workloads.values() for file in workload_files(name)}:
            os.symlink(file, os.path.join(folder, os.path.basename(file)))
        Path(folder, GATES).write_text(CRITERIA, encoding="utf-8")
        timed = {name: target for name, target in TARGETS.items() if name in chosen}
        spent = _spend(commands, timed, given.repeat, folder)
        parsed = list(_parsed(commands, folder)) if "parsed" in chosen else []
        saved = _saved(commands["W3-saved"], folder) if "saved" in chosen else []
    targets = [target.target(spent) for target in timed.values()] + parsed + saved
    publish(_page(targets, spent, commands, workloads, given, before), given.output)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Whole commands as typed in a shell, beside the process of a peer.")
    parser.add_argument("--quick", action="store_true", help="W1 and W3 at a tenth of their size, for development")
    parser.add_argument("--only", action="append", metavar="NAME", help=f"of {', '.join(NAMES)}; repeat for more")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="repeats of every measurement (default 5)")
    parser.add_argument("--output", metavar="FILE", help="where to write the page too, such as benchmarks/COMMANDS.md")
    return parser.parse_args()


def workload_files(workload: str) -> list[str]:
    files = [run_file(workload), gold_file(workload)]
    return [*files, run_file(changed(workload))] if workload in (QUICK["W3"], "W3") else files


def commands_of(workloads: dict[str, str]) -> dict[str, Command]:
    """By name. `W1` and so on in the names is what the targets say, also where a tenth of it is taken."""
    found: dict[str, Command] = {}
    for name, workload in workloads.items():
        run, gold = (os.path.basename(file) for file in (run_file(workload), gold_file(workload)))
        scored = [run, "--gold", gold]
        found[f"{name}-peer"] = Command(["pytrec_eval", workload, "cold"], [run], peer=True)
        found[f"{name}-seven"] = Command(["eval", *scored, *SEVEN], [run])
        found[f"{name}-panel"] = Command(["eval", *scored], [run])
        found[f"{name}-page"] = Command(["eval", *scored, "-o", "report.html"], [run])
        if name == "W3":
            other = os.path.basename(run_file(changed(workload)))
            judged = ["gate", other, "--gold", gold, "--baseline", run, "--criteria", GATES]
            both = [run, other]
            found["W3-saved"] = Command(["eval", *scored, "-o", f"result={SAVED}"], [run])
            found["W3-gate"] = Command(judged, both, codes=JUDGED)
            found["W3-gate-page"] = Command([*judged, "-o", "verdict.html", "--save"], both, codes=JUDGED)
            found["W3-compare"] = Command(["compare", *both, "--gold", gold], both)
    return found


TARGETS: dict[str, Ratio | Seconds] = {
    "W1-seven": Ratio("W1, pytrec_eval / `eval` with seven metrics", "W1-peer", "W1-seven", 10, True),
    "W1-panel": Ratio("W1, pytrec_eval / `eval` with the panel", "W1-peer", "W1-panel", 10, True),
    "W3-seven": Ratio("W3, pytrec_eval + orjson / `eval` with seven metrics", "W3-peer", "W3-seven", 3, True),
    "W3-panel": Ratio("W3, pytrec_eval + orjson / `eval` with the panel", "W3-peer", "W3-panel", 3, True),
    "W1-page": Seconds("W1, what `-o report.html` adds", "W1-page", 2, less="W1-panel"),
    "W2-page": Seconds("W2, what `-o report.html` adds", "W2-page", 2, less="W2-panel"),
    "W3-page": Seconds("W3, what `-o report.html` adds", "W3-page", 2, less="W3-panel"),
    "W3-gate": Ratio("W3, `gate` with a run as baseline / `eval`", "W3-gate", "W3-panel", 2.2),
    "W3-compare": Seconds("W3, `compare` of two logs", "W3-compare", 3),
    "W2-seven": Ratio("W2, `eval` with seven metrics / pytrec_eval", "W2-seven", "W2-peer", 1.25),
    "W2-panel": Ratio("W2, `eval` with the panel / pytrec_eval", "W2-panel", "W2-peer", 1.25),
    "W2-wall": Ratio("W2, `eval` with the panel / pytrec_eval, wall", "W2-panel", "W2-peer", 1.25, time="wall"),
}
SHORT = 5  # times as many repeats of W2, whose commands take a fraction of a second
NAMES = [*TARGETS, "parsed", "saved"]  # what --only knows
COUNTS = ["W1-panel", "W1-page", "W3-panel", "W3-page", "W3-saved", "W3-gate", "W3-gate-page", "W3-compare"]


def _chosen(only: list[str] | None) -> list[str]:
    for start in only or []:
        if not any(name.startswith(start) for name in NAMES):
            sys.exit(f"no target {start!r}; there are: {', '.join(NAMES)}")
    return [name for name in NAMES if only is None or name.startswith(tuple(only))]


def _spend(
    commands: dict[str, Command], targets: dict[str, Ratio | Seconds], repeats: int, folder: str
) -> dict[str, list[Spent]]:
    """Every command that a target needs, one after the other and again; then backwards, and so on."""
    needed = {name for target in targets.values() for name in target.commands}
    names = [name for name in commands if name in needed]
    short = [name for name in names if name.startswith("W2")]
    spent: dict[str, list[Spent]] = {name: [] for name in names}
    for name in ("W2-peer", "W2-page") if names else ():  # what a first start compiles, nobody should pay for
        run_command(commands[name].process, folder)
    for repeat in range(repeats):
        turn_names = names + short * (SHORT - 1)
        for name in reversed(turn_names) if repeat % 2 else turn_names:
            done = run_command(commands[name].process, folder, commands[name].codes)
            spent[name].append(done)
            turn = f"[{repeat + 1}/{repeats}] {name}"
            print(f"{turn}: {done.cpu:.2f} s CPU, {done.memory:.0f} MB", file=sys.stderr, flush=True)
    return spent


def run_command(command: list[str], folder: str, codes: Sequence[int] = (0,)) -> Spent:
    with tempfile.TemporaryFile("w+") as errors, tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=output, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)  # what the system counted for this very process
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        stderr = errors.read()
        output.seek(0)
        printed = output.read()
    if process.returncode not in codes:
        hint = "\nhint: pip install 'karat[bench]'" if "ModuleNotFoundError" in stderr else ""
        sys.exit(f"{shlex.join(command)} failed with {process.returncode}:\n{stderr[-2000:]}{hint}")
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    last = (stderr.splitlines() or [""])[-1]
    return Spent(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss * unit / 1e6, last, printed)


def _parsed(commands: dict[str, Command], folder: str) -> Iterator[Target]:
    """How often each command parses the runs, in a run of its own. Where nothing is counted, one run shows it."""
    counts = True
    for name in COUNTS:
        command = commands[name]
        what, wanted = f"{name}: bytes of runs parsed / their size", f"≤ {PARSED:g}×"
        if counts:
            last = run_command([sys.executable, "-c", COUNTED, *command.arguments], folder, command.codes).last
            counts = last != "-1"
        if not counts:
            yield Target(what, wanted, "not counted", False)
            continue
        times = int(last) / sum(os.path.getsize(os.path.join(folder, run)) for run in command.runs)
        yield Target(what, wanted, f"{times:.2f}×", 0 < times <= PARSED)


def _saved(command: Command, folder: str) -> list[Target]:
    """Size and loading of a saved result; the least of three loads."""
    run_command(command.process, folder)
    path = Path(folder, SAVED)
    size = path.stat().st_size
    packed = size if path.suffix in COMPRESSED else _packed(path)
    loads = [json.loads(run_command([sys.executable, "-c", LOAD, str(path)], folder).last) for _ in range(3)]
    cpu, wall = (min(load[i] for load in loads) for i in range(2))
    shown = f"{packed / 1e6:.1f} MB ({size / 1e6:.0f} MB as written)"
    return [
        Target("saved result of W3, compressed", f"≤ {SAVED_MB:g} MB", shown, packed <= SAVED_MB * 1e6),
        Target("loading it, CPU", f"≤ {LOADED:g} s", f"{cpu:.2f} s (wall {wall:.2f} s)", cpu <= LOADED),
    ]


def _packed(path: Path) -> int:
    """Size after gzip, a piece at a time."""
    packer, size = zlib.compressobj(6, wbits=31), 0
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            size += len(packer.compress(piece))
    return size + len(packer.flush())


def _page(
    targets: list[Target],
    spent: dict[str, list[Spent]],
    commands: dict[str, Command],
    workloads: dict[str, str],
    given: argparse.Namespace,
    before: float,
) -> str:
    call = "python benchmarks/commands.py" + " --quick" * given.quick
    call += "".join(f" --only {name}" for name in given.only or []) + f" --repeat {given.repeat}"
    shapes = (f"{name} {SHAPES[w][0]:,} queries × {SHAPES[w][1]:,} hits" for name, w in workloads.items())
    rows = []
    for name, turns in spent.items():
        least, middle = min(turn.cpu for turn in turns), median(turn.cpu for turn in turns)
        wall, memory = min(turn.wall for turn in turns), max(turn.memory for turn in turns)
        figures = [f"{least:.2f} s", f"{middle:.2f} s", f"{wall:.2f} s", f"{memory:.0f} MB"]
        rows.append([name, *figures, f"`{commands[name].typed}`"])
    parts = [
        "# Benchmarks: whole commands",
        f"Written by `{call}`: {', '.join(shapes)}.",
        conditions(
            f"{given.repeat} repeats in turns; lowest CPU time (user + system, all threads) of whole processes; "
            f"W2 {SHORT} times in each turn",
            PACKAGES,
            before,
        ),
        target_table(targets),
    ]
    if rows:
        head = ["command", ">CPU", ">median", ">wall", ">peak", "as typed"]
        parts += [
            table(head, rows),
            "The peer (`contenders.py` in benchmarks/) has the seven metrics in every line; `gates.yaml`, seven gates, "
            "is in the script.",
        ]
    return joined(parts)


if __name__ == "__main__":
    main()
