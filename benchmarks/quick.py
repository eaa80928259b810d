"""The ratios that matter, in less than three minutes: `make bench-quick`. Fails where one is more than 15 % worse than
the committed one.

    python benchmarks/quick.py [--repeat N] [--write]

In each turn Karat is measured right before and right after its peer, since the speed of a machine may change from one
minute to the next. The ratio of a turn is the peer's CPU divided by the mean of these two; the median of the turns
counts. `--write` commits the ratios of this machine to benchmarks/quick.json. Ratios of CPU hardly depend on the
machine, but a busy one should not decide: look at the load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, median

from commands import Command, Spent, commands_of, run_command, workload_files
from pages import table

HERE = Path(__file__).parent
KEPT = HERE / "quick.json"
WORSE = 0.15
PEERS = {"W1": "pytrec_eval", "W3": "pytrec_eval + orjson", "W2": "pytrec_eval"}
# Workload → name → what of Karat: a command, or the call of karat.evaluate alone, without the start of its process.
MEASURED = {
    "W1": {"karat.evaluate": "call", "karat eval": "W1-panel"},
    "W3": {"karat.evaluate": "call", "karat eval": "W3-panel", "karat compare": "W3-compare"},
    "W2": {"karat eval": "W2-panel"},
}
SHORT = {"W2": 5}  # measured so often in each turn


def main() -> None:
    parser = argparse.ArgumentParser(description="The ratios that matter, in less than three minutes.")
    parser.add_argument("--repeat", type=int, default=4, metavar="N", help="turns (default 4)")
    parser.add_argument("--write", action="store_true", help=f"write the ratios to benchmarks/{KEPT.name}")
    given = parser.parse_args()
    if subprocess.run([sys.executable, HERE / "workloads.py"]).returncode:
        sys.exit("the data could not be made")
    before = os.getloadavg()[0]
    ratios = _measured(given.repeat)
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    worse = [name for name, ratio in ratios.items() if ratio < kept.get(name, 0) * (1 - WORSE)]
    rows = [
        [name, f"{ratio:.2f}×", f"{kept[name]:.2f}×" if name in kept else "–", "**worse**" if name in worse else ""]
        for name, ratio in ratios.items()
    ]
    print(table(["CPU", ">now", ">committed", ""], rows))
    print(f"load average {before:.1f} before, {os.getloadavg()[0]:.1f} after")
    if given.write:
        KEPT.write_text(json.dumps({name: round(ratio, 2) for name, ratio in ratios.items()}, indent=1) + "\n")
    elif worse:
        sys.exit(f"more than {WORSE:.0%} worse than in benchmarks/{KEPT.name}: {'; '.join(worse)}")


def _measured(repeats: int) -> dict[str, float]:
    turns: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for file in {file for workload in MEASURED for file in workload_files(workload)}:
            os.symlink(file, os.path.join(folder, os.path.basename(file)))
        commands = commands_of({name: name for name in MEASURED})
        run_command(commands["W2-page"].process, folder)  # what a first start compiles, nobody should pay for
        for _ in range(repeats):
            for workload, parts in [pair for pair in MEASURED.items() for _ in range(SHORT.get(pair[0], 1))]:
                whole = commands[f"{workload}-peer"]
                before = {what: _karat(what, workload, commands, folder) for what in parts.values()}
                peer = run_command(whole.process, folder)
                after = {what: _karat(what, workload, commands, folder) for what in parts.values()}
                for name, what in parts.items():
                    cost = _call(peer) if what == "call" else peer.cpu
                    ratio = cost / mean([before[what], after[what]])
                    turns.setdefault(f"{workload}, {PEERS[workload]} / {name}", []).append(ratio)
    return {name: median(ratios) for name, ratios in turns.items()}


def _karat(what: str, workload: str, commands: dict[str, Command], folder: str) -> float:
    if what == "call":
        return _call(run_command([sys.executable, str(HERE / "contenders.py"), "karat", workload, "file"], folder))
    return run_command(commands[what].process, folder, commands[what].codes).cpu


def _call(process: Spent) -> float:
    """Reading and scoring, of a process that has done no more."""
    cpu = json.loads(process.printed)["cpu"]
    return float(cpu["load"] + cpu["evaluate"])


if __name__ == "__main__":
    main()
