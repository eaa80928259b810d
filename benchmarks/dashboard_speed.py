"""How the dashboard holds when many read it at once; prints one page of Markdown.

    python benchmarks/dashboard_speed.py [--quick] [--output FILE]

Fills a history with 1,000 runs of 200 queries, starts `karat serve` over it in a process of its own, and lets 100
readers ask for pages, each as soon as it has the last one. Runs are chosen at random, so most pages of the first round
are asked for the first time. In the third, somebody tags a run every five seconds: whatever is not about another run
is made again. A round ends after a number of requests, or after some time. What the server's processor worked tells
more than the clock where others use the machine too.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from history_speed import BEGIN, BRANCHES, METRICS, SMALL, SYSTEMS, made
from pages import Target, conditions, joined, options, publish, table, target_table

from karat.history.folder import FolderStore
from karat.history.keep import keep_result
from karat.history.rows import written
from karat.history.store import Store
from karat.results.save import restore

RUNS, READERS = 1_000, 100
REQUESTS, SECONDS = 20_000, 60.0  # of a round; whichever comes first
WANTED_P99, WANTED_RATE = 0.5, 400.0


class Round(NamedTuple):
    """What the readers of one round saw."""

    times: list[float]  # seconds of each request
    took: float
    statuses: Counter[int]  # 0: the connection was closed without an answer
    kinds: dict[str, list[float]]
    memory: tuple[float, float]  # MB of the server, before and after
    worked: float  # seconds of the server's processor

    @property
    def rate(self) -> float:
        return len(self.times) / self.took

    def quantile(self, share: float) -> float:
        ordered = sorted(self.times)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def main() -> None:
    given = options("How the dashboard holds when many read it.", "60 runs, 1,000 requests", "DASHBOARD.md")
    runs, requests = (60, 1_000) if given.quick else (RUNS, REQUESTS)
    before = os.getloadavg()[0]
    rounds: dict[str, Round] = {}
    with (
        tempfile.TemporaryDirectory(prefix="karat-", dir="/tmp") as folder,
        FolderStore(Path(folder) / ".karat") as store,
    ):
        fill(store, runs)
        ids = store.ids()
        with served(Path(folder) / ".karat") as (port, process):
            rounds["from the start"] = measured(port, process, ids, requests, seed=1)
            rounds["again"] = measured(port, process, ids, requests, seed=2)
            with tagging(store, ids[0]):
                rounds["while runs are tagged"] = measured(port, process, ids, requests, seed=3)
            rounds["after that"] = measured(port, process, ids, requests, seed=4)
    publish(report(rounds, runs, before), given.output)


def fill(store: Store, runs: int) -> None:
    # The sections of one report stand for all of them: to make a thousand would take longer than everything else.
    sections = keep_result(restore(made(0, SMALL).saved())).document.sections
    for number in range(runs):
        store.save(
            made(number, SMALL, sections),
            branch=BRANCHES[number % len(BRANCHES)],
            tags=["nightly"] if number % 10 == 0 else [],
            saved_at=written(BEGIN + timedelta(hours=number)),
        )
    store.pin(store.ids()[-1], "main", "baseline")


@contextmanager
def served(place: Path | str) -> Iterator[tuple[int, int]]:
    """The port, and the number of the process."""
    command = [sys.executable, "-m", "karat.cli.main", "serve", "--store", str(place), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"127\.0\.0\.1:(\d+)", process.stdout.readline())
        assert found is not None
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def tagging(store: Store, run_id: str) -> Iterator[None]:
    """Somebody writes now and then."""
    done = threading.Event()

    def write() -> None:
        number = 0
        while not done.wait(5.0):
            number += 1
            store.tag(run_id, [f"t{number}"])

    thread = threading.Thread(target=write)
    thread.start()
    yield
    done.set()
    thread.join()


def measured(
    port: int, process: int, ids: list[str], requests: int, seed: int, seconds: float = SECONDS, look: float = 0.0
) -> Round:
    """`look`: seconds that a reader looks at a page, on average."""
    before, worked = resident(process), busy(process)
    times, statuses, kinds = list[float](), Counter[int](), dict[str, list[float]]()
    chance, end = random.Random(seed), time.perf_counter() + seconds
    left = requests

    async def reader() -> None:
        nonlocal left
        stream = await asyncio.open_connection("127.0.0.1", port)
        try:
            while left > 0 and time.perf_counter() < end:
                left -= 1
                if look:
                    await asyncio.sleep(chance.expovariate(1 / look))
                    if stream[0].at_eof():  # the server closes idle connections, and browsers open new ones
                        stream[1].close()
                        stream = await asyncio.open_connection("127.0.0.1", port)
                kind, path = chosen(chance, ids)
                begun = time.perf_counter()
                try:
                    status = await asked(*stream, path)
                except (OSError, asyncio.IncompleteReadError):
                    stream, status = await asyncio.open_connection("127.0.0.1", port), 0
                took = time.perf_counter() - begun
                times.append(took)
                statuses[status] += 1
                kinds.setdefault(kind, []).append(took)
        finally:
            stream[1].close()

    async def all_readers() -> None:
        await asyncio.gather(*(reader() for _ in range(READERS)))

    begun = time.perf_counter()
    asyncio.run(all_readers())
    return Round(
        times, time.perf_counter() - begun, statuses, kinds, (before, resident(process)), busy(process) - worked
    )


def chosen(chance: random.Random, ids: list[str]) -> tuple[str, str]:
    """A page as people ask for them: lists most, then single runs, any of them."""
    run, system, metric = chance.choice(ids), chance.choice(SYSTEMS), chance.choice(METRICS)
    pages = [
        (25, "list of runs", chance.choice(["/runs", f"/runs?system={system}", f"/runs?branch={BRANCHES[0]}"])),
        (30, "one run", f"/runs/{run}"),
        (15, "trend", chance.choice(["/trend", f"/trend?metric={metric}&system={system}"])),
        (10, "queries of a run", f"/runs/{run}/queries"),
        (5, "compare", f"/compare?run={ids[0]}&run={ids[chance.randrange(1, min(len(ids), 20)) // 3 * 3]}"),
        (10, "API: runs", "/api/v1/runs"),
        (5, "API: one run", f"/api/v1/runs/{run}"),
    ]
    _, kind, path = chance.choices(pages, [weight for weight, *_ in pages])[0]
    return kind, path


async def asked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str) -> int:
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.I)
    assert length is not None
    await reader.readexactly(int(length[1]))
    return int(head.split(b" ", 2)[1])


def family(process: int) -> list[int]:
    """A process and those that it started."""
    children = [path.read_text().split() for path in Path(f"/proc/{process}/task").glob("*/children")]
    return [process, *(int(number) for numbers in children for number in numbers)]


def resident(process: int) -> float:
    """MB of memory of a process and its children."""
    told = [Path(f"/proc/{number}/status").read_text() for number in family(process)]
    return sum(int(number) for text in told for number in re.findall(r"VmRSS:\s+(\d+)", text)) / 1024


def busy(process: int) -> float:
    """Seconds of the processor that a process and its children have had."""
    told = [Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split() for number in family(process)]
    return sum(int(fields[11]) + int(fields[12]) for fields in told) / os.sysconf("SC_CLK_TCK")


def report(rounds: dict[str, Round], runs: int, before: float) -> str:
    targets = []
    for name, one in rounds.items():
        p99 = one.quantile(0.99)
        targets.append(Target(f"p99, {name}", f"≤ {WANTED_P99:g} s", f"{p99:.2f} s", p99 <= WANTED_P99))
        rate = f"{one.rate:.0f} per second"
        targets.append(Target(f"requests, {name}", f"≥ {WANTED_RATE:g} per second", rate, one.rate >= WANTED_RATE))
    kinds = list(next(iter(rounds.values())).kinds)
    requests = sum(len(one.times) for one in rounds.values())
    how = f"{READERS} readers in one process, the server in others, {requests:,} requests; processor: for one request"
    parts = [
        "# Benchmarks: many readers of the dashboard",
        f"Written by `benchmarks/dashboard_speed.py`: {runs:,} runs of {SMALL} queries, {len(METRICS)} metrics each.",
        conditions(how, ["Karat", "uvicorn", "starlette"], before),
        target_table(targets),
        table(
            ["round", ">requests", ">p50", ">p99", ">slowest", ">per second", ">not 200", ">server, MB", ">processor"],
            [
                [
                    name,
                    f"{len(one.times):,}",
                    f"{one.quantile(0.5) * 1e3:.0f} ms",
                    f"{one.quantile(0.99) * 1e3:.0f} ms",
                    f"{max(one.times) * 1e3:.0f} ms",
                    f"{one.rate:.0f}",
                    str(sum(count for status, count in one.statuses.items() if status != 200)),
                    f"{one.memory[0]:.0f} → {one.memory[1]:.0f}",
                    f"{one.worked / len(one.times) * 1e3:.2f} ms",
                ]
                for name, one in rounds.items()
            ],
        ),
        table(
            ["page, median", *(f">{name}" for name in rounds)],
            [
                [kind, *(f"{statistics.median(one.kinds.get(kind, [0.0])) * 1e3:.0f} ms" for one in rounds.values())]
                for kind in kinds
            ],
        ),
    ]
    return joined(parts)


if __name__ == "__main__":
    main()
