"""What the scripts share: their options, and the page of Markdown that each of them writes."""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple


class Target(NamedTuple):
    what: str
    wanted: str
    measured: str
    reached: bool


def options(description: str, quick: str, output: str, repeats: int | None = None) -> argparse.Namespace:
    """`quick`: what that means here; `output`: where the committed page lies; `repeats`: how many if nobody says."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help=quick)
    if repeats is not None:
        told = f"repeats of every measurement (default {repeats})"
        parser.add_argument("--repeat", type=int, default=repeats, metavar="N", help=told)
    parser.add_argument("--output", metavar="FILE", help=f"where to write the page too, such as benchmarks/{output}")
    return parser.parse_args()


def publish(page: str, output: str | None) -> None:
    print(page)
    if output:
        Path(output).write_text(page, encoding="utf-8")


def joined(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"


def conditions(how: str, packages: Sequence[str], before: float | None = None) -> str:
    """How it was measured, when, and on what. `before`: the load average when it began."""
    now = os.getloadavg()[0]
    load = f"{now:.1f}" if before is None else f"{before:.1f} before, {now:.1f} after"
    return "\n".join(
        [
            f"- {how}",
            f"- Day: {today()}; load average {load}",
            f"- Machine: {processor()}, {os.cpu_count()} cores, {memory()}, {platform.system()} {platform.machine()}",
            f"- Python {platform.python_version()}; {versions(packages)}",
        ]
    )


def today() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d}"


def processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as stream:
            names = [line.split(":", 1)[1].strip() for line in stream if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or "unknown processor"


def memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB"


def versions(packages: Sequence[str]) -> str:
    return ", ".join(f"{package} {version(package)}" for package in packages)


def target_table(targets: Sequence[Target]) -> str:
    return table(
        ["target", ">wanted", ">measured", ""],
        [[t.what, t.wanted, t.measured, "reached" if t.reached else "**not reached**"] for t in targets],
    )


def table(head: list[str], lines: list[list[str]]) -> str:
    """Markdown, padded so that it can be read in a terminal too. A head that starts with > is aligned right."""
    right = [h.startswith(">") for h in head]
    cells = [[h.removeprefix(">") for h in head], *lines]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(head))]
    rule = ["-" * (w - 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True)]
    shown = [[c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right, strict=True)] for row in cells]
    return "\n".join("| " + " | ".join(row) + " |" for row in [shown[0], rule, *shown[1:]])
