"""The ratios that matter, in less than three minutes: `make bench-quick`. Fails where one is more than 15 % worse than
the committed one.

    python benchmarks/quick.py [--repeat N] [--write]

Karat and its peer take turns; of the repeats the least CPU counts. `--write` commits the ratios of this machine to
benchmarks/quick.json. Ratios of CPU hardly depend on the machine, but a busy one should not decide: look at the load.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from commands import Command, commands_of, run_command, workload_files
from pages import table

HERE = Path(__file__).parent
KEPT = HERE / "quick.json"
WORSE = 0.15
LONG = 10.0  # seconds; what takes longer varies little, and is measured twice at most
WORKLOADS = ("W1", "W2", "W3")
# Name → what costs more, and what it is divided by. `call:` is the call alone, without the start of its process.
RATIOS = {
    "W1, pytrec_eval / karat.evaluate": ("call:pytrec_eval W1 file", "call:karat W1 file"),
    "W3, pytrec_eval + orjson / karat.evaluate": ("call:pytrec_eval W3 file", "call:karat W3 file"),
    "W1, pytrec_eval / karat eval": ("W1-peer", "W1-panel"),
    "W3, pytrec_eval + orjson / karat eval": ("W3-peer", "W3-panel"),
    "W2, pytrec_eval / karat eval": ("W2-peer", "W2-panel"),
    "W3, pytrec_eval + orjson / karat compare": ("W3-peer", "W3-compare"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description="The ratios that matter, in less than three minutes.")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="repeats of every measurement (default 3)")
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
    names = dict.fromkeys(name for pair in RATIOS.values() for name in pair)
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        for file in {file for workload in WORKLOADS for file in workload_files(workload)}:
            os.symlink(file, os.path.join(folder, os.path.basename(file)))
        commands = commands_of({name: name for name in WORKLOADS})
        run_command(commands["W2-page"].process, folder)  # what a first start compiles, nobody should pay for
        for repeat in range(repeats):
            for name in names:
                if repeat > 1 and best[name] > LONG:
                    continue
                spent = _call(name, folder) if name.startswith("call:") else _whole(commands[name], folder)
                best[name] = min(spent, best.get(name, spent))
    return {name: best[over] / best[under] for name, (over, under) in RATIOS.items()}


def _whole(command: Command, folder: str) -> float:
    return run_command(command.process, folder, command.codes).cpu


def _call(name: str, folder: str) -> float:
    arguments = name.removeprefix("call:").split()
    done = run_command([sys.executable, str(HERE / "contenders.py"), *arguments], folder)
    cpu = json.loads(done.printed)["cpu"]
    return float(cpu["load"] + cpu["evaluate"])


if __name__ == "__main__":
    main()
