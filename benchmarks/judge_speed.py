"""How near 1,000 judgements come to the ideal rate of a chat endpoint, 32 at once; prints one page of Markdown.

    python benchmarks/judge_speed.py [--quick] [--output FILE]

The endpoint is a process of its own on loopback that takes a set time for every answer; with 32 at once the ideal is 32
answers in that time. Counted is all that `judge_pool` does: reading the pool, the requests, the cache on disk, the
labels file. The best of three by wall time counts, for other work on the machine only adds to it.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import re
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from pages import Target, conditions, joined, options, publish, table, target_table

import karat

PAIRS, WORKERS, REPEATS = 1_000, 32, 3
LATENCIES = (0.1, 0.25, 0.5)  # seconds; a small model on a fast machine, and what is usual
WANTED, AT = 0.8, 0.25
TEXT = "Refunds take five days, and nothing that anybody does makes them any faster. " * 12
VERDICT = {"intent": "to know", "match": "says so", "quote": "Refunds take five days"}
GRADE = re.compile(rb"grade_[0-9a-f]{16}")  # the name under which the grade counts


class Measured(NamedTuple):
    latency: float
    wall: float
    cpu: float
    pairs: int

    @property
    def share(self) -> float:
        return self.pairs / WORKERS * self.latency / self.wall


def main() -> None:
    given = options("Judgements a second against the ideal.", "a tenth of the pairs: does it run?", "JUDGE.md")
    pairs = PAIRS // 10 if given.quick else PAIRS
    before = os.getloadavg()[0]
    found = [max((_measure(latency, pairs) for _ in range(REPEATS)), key=lambda m: m.share) for latency in LATENCIES]
    publish(_page(found, before), given.output)


def _measure(latency: float, pairs: int) -> Measured:
    ours, theirs = multiprocessing.Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(latency, theirs), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{ours.recv()}/v1"
    try:
        with tempfile.TemporaryDirectory() as folder:
            pool = Path(folder) / "pool.jsonl"
            line = {"query": "how long do refunds take?", "text": TEXT}
            lines = [{"query_id": f"q{i}", "chunk_id": f"c{i}", **line, "title": str(i)} for i in range(pairs)]
            pool.write_text("\n".join(map(json.dumps, lines)))
            wall, cpu = time.perf_counter(), time.process_time()
            options = {"canaries": 0, "workers": WORKERS, "cache": Path(folder) / "cache.sqlite"}
            done = karat.labels.judge_pool(
                pool, model="m", base_url=url, output=Path(folder) / "labels.jsonl", **options
            )
            spent = Measured(latency, time.perf_counter() - wall, time.process_time() - cpu, pairs)
        assert done.grades["2"] == done.spending.now.calls == pairs
    finally:
        server.terminate()
    print(f"{latency:g} s: {spent.share:.0%}", file=sys.stderr, flush=True)
    return spent


def _serve(latency: float, parent: Connection) -> None:
    """As little as a server can be, so that the two cores are left to what is measured."""
    usage = {"prompt_tokens": 700, "completion_tokens": 60}
    verdict = json.dumps({**VERDICT, "@": 2})
    choice = {"index": 0, "message": {"role": "assistant", "content": verdict}, "finish_reason": "stop"}
    content = json.dumps({"choices": [choice], "usage": usage}).encode().replace(b"@", b"grade_0123456789abcdef")
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content) + content

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(h.split(b":")[1]) for h in head.lower().split(b"\r\n") if h.startswith(b"content-length")
                )
                asked = await reader.readexactly(length)
                await asyncio.sleep(latency)
                writer.write(answer.replace(b"grade_0123456789abcdef", GRADE.findall(asked)[0]))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def serve() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=256)
        parent.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


def _page(found: list[Measured], load: float) -> str:
    chosen = next(m for m in found if m.latency == AT)
    what = f"{chosen.pairs:,} judgements, {WORKERS} at once, {AT * 1000:g} ms an answer"
    target = Target(what, f"≥ {WANTED:.0%} of the ideal", f"{chosen.share:.0%}", chosen.share >= WANTED)
    rows = [
        [
            f"{m.latency * 1000:g} ms",
            f"{m.pairs / WORKERS * m.latency:.2f}",
            f"{m.wall:.2f}",
            f"{m.cpu:.2f}",
            f"{m.share:.0%}",
        ]
        for m in found
    ]
    how = f"Best of {REPEATS} by wall time; the endpoint is a process of its own on the same machine"
    parts = [
        "# Benchmarks: judgements",
        "Written by `benchmarks/judge_speed.py`.",
        conditions(how, ["karat", "httpx2"], load),
        "## Target",
        target_table([target]),
        "## Seconds",
        table(["an answer takes", ">ideal", ">wall", ">CPU", ">of the ideal rate"], rows),
    ]
    return joined(parts)


if __name__ == "__main__":
    main()
