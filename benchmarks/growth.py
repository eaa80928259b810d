"""How cost grows with hits, queries, gold, metrics and segments; draws benchmarks/growth.svg.

    python benchmarks/growth.py [--quick] [--repeat N] [--output growth.svg]

Starting from 5,000 queries × 10 hits with 2 gold items, 4 metrics and 1 segmentation, one of the five grows to twice,
four, eight and sixteen times as much; more queries bring their own hits and gold. Measured is the CPU time of
`karat.evaluate` with its intervals and segments, in a fresh process after a small evaluation that loads everything. Of
the repeats the least counts. Fails if the cost grows much faster than the size.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from karat.report.svg import SHAPES, Scale, element, plain

HERE = os.path.dirname(os.path.abspath(__file__))
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
BASE = {"hits": 10, "queries": 5_000, "gold": 2, "metrics": 4, "segments": 1}
UNITS = {"hits": "hits per query", "gold": "gold items per query", "segments": "segmentations"}
TIMES = (1, 2, 4, 8, 16)
STEEPEST = 1.4  # times in proportion; more is an error
CHUNKS = 400_000
COLOURS = {"hits": "#4e79a7", "queries": "#e15759", "gold": "#59a14f", "metrics": "#b07aa1", "segments": "#f28e2b"}
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 780, 440, 70, 50, 210, 60
STYLE = "text{font:13px sans-serif;fill:#222}.small{font-size:11px}.grid{stroke:#ddd}"
STYLE += ".same{stroke:#999;stroke-dasharray:4 4}"
ONE = """
import json, sys, time
import karat
run, gold, small_run, small_gold, metrics, segments = map(json.loads, sys.argv[1:])
for files in ((small_run, small_gold), (run, gold)):
    start = time.process_time()
    result = karat.evaluate(*files, metrics, segments=segments)
    rows = result.summary_rows, result.segment_rows
    spent = time.process_time() - start
print(spent)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="200 queries, once: does everything run?")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", default=os.path.join(HERE, "growth.svg"))
    given = parser.parse_args()
    base = BASE | ({"queries": 200} if given.quick else {})
    found: dict[str, list[float]] = {what: [] for what in base}
    with tempfile.TemporaryDirectory() as folder:
        small = _data(folder, base | {"queries": 50}, "small")
        for times in TIMES:
            for what in base:
                size = base | {what: base[what] * times}
                if times == 1 and what != "hits":
                    found[what].append(found["hits"][0])
                    continue
                files = _data(folder, size, "run")
                found[what].append(min(_measure(files, small, size) for _ in range(1 if given.quick else given.repeat)))
                print(f"{what} ×{times}: {found[what][-1]:.2f} s", file=sys.stderr, flush=True)
    Path(given.output).write_text(_drawn(found, base), encoding="utf-8")
    print(f"wrote {given.output}")
    # The fixed cost hides how the first steps grow, so only the last two count: four times as much.
    steep = [
        f"{what}: {line[-1] / line[-3]:.1f}×" for what, line in found.items() if line[-1] > 4 * STEEPEST * line[-3]
    ]
    if steep:
        raise SystemExit(f"four times as much takes more than {4 * STEEPEST:g} times as long: {', '.join(steep)}")


def _data(folder: str, size: dict[str, int], name: str) -> tuple[str, str]:
    random = np.random.default_rng(20_261_117)
    run, gold = os.path.join(folder, f"{name}.jsonl"), os.path.join(folder, f"{name}.gold.jsonl")
    with open(run, "w", encoding="utf-8") as runs, open(gold, "w", encoding="utf-8") as golds:
        for query in range(size["queries"]):
            listed = random.choice(CHUNKS, size["hits"] + size["gold"], replace=False).tolist()
            hits = listed[: size["hits"]]
            found = [hit for place, hit in enumerate(hits) if random.random() < 0.5 / (1 + place / 2)]
            named = [f"doc_{i // 8}#p{i % 8}" for i in [*found, *listed[size["hits"] :]][: size["gold"]]]
            tags = {f"tag_{n}": f"value {int(random.integers(10))}" for n in range(size["segments"])}
            topk = [{"rank": n, "chunk_id": f"doc_{i // 8}#p{i % 8}"} for n, i in enumerate(hits, 1)]
            runs.write(json.dumps({"query_id": f"q{query}", "system": "sys", "topk": topk}) + "\n")
            items = [{"chunk_id": item, "grade": 1 + place % 2} for place, item in enumerate(named)]
            golds.write(json.dumps({"query_id": f"q{query}", "gold": items, "tags": tags}) + "\n")
    return run, gold


def _measure(files: tuple[str, str], small: tuple[str, str], size: dict[str, int]) -> float:
    kinds = ("recall", "ndcg", "precision", "hit")
    metrics = [f"{kinds[n % 4]}@{n // 4 + 1}" for n in range(size["metrics"])]
    segments = [f"tag_{n}" for n in range(min(size["segments"], BASE["segments"] * TIMES[-1]))]
    told = [*files, small[0], small[1], metrics, segments]
    # The small set has one tag only: it is evaluated to load modules, by that tag.
    script = ONE.replace("segments=segments", "segments=segments if files[0] == run else segments[:1]")
    done = subprocess.run(
        [sys.executable, "-c", script, *map(json.dumps, told)], env=ENVIRONMENT, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return float(done.stdout)


def _drawn(found: dict[str, list[float]], base: dict[str, int]) -> str:
    """Both axes are logarithmic: cost in proportion is a line with the slope of the dashed one."""
    seconds = [spent for line in found.values() for spent in line]
    x, y = Scale(TIMES[0], TIMES[-1], "log"), Scale(min(seconds) / 1.2, max(seconds) * 1.2, "log")

    def at(times: float, spent: float) -> tuple[float, float]:
        across, up = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return LEFT + across * x.share(times), TOP + up * (1 - y.share(spent))

    parts = [element("style", STYLE), element("text", "CPU seconds as one size grows", x=LEFT, y=24)]
    for times in TIMES:
        (left, top), (_, bottom) = at(times, y.high), at(times, y.low)
        parts.append(element("line", x1=left, y1=top, x2=left, y2=bottom, class_="grid"))
        parts.append(element("text", f"{times}×", x=left - 8, y=bottom + 18))
    for spent in (s for s in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20) if y.low <= s <= y.high):
        left, top = at(TIMES[0], spent)
        parts.append(element("line", x1=left, y1=top, x2=WIDTH - RIGHT, y2=top, class_="grid"))
        parts.append(element("text", f"{plain(spent)} s", x=left - 44, y=top + 4))
    first = min(line[0] for line in found.values())
    last = min(TIMES[-1], y.high / first)
    (left, top), (right, end) = at(1, first), at(last, first * last)
    parts.append(element("line", x1=left, y1=top, x2=right, y2=end, class_="same"))
    for (what, line), shape in zip(found.items(), SHAPES, strict=False):
        places = [at(times, spent) for times, spent in zip(TIMES, line, strict=True)]
        path = "M" + "L".join(f"{plain(left)} {plain(top)}" for left, top in places)
        parts.append(element("path", d=path, fill="none", stroke=COLOURS[what], stroke_width="2"))
        for left, top in places:
            moved = f"translate({plain(left)} {plain(top)})"
            parts.append(element("path", d=SHAPES[shape], fill=COLOURS[what], transform=moved))
    # Names beside the ends of the lines, at least a line of text apart.
    height = 0.0
    for what, line in sorted(found.items(), key=lambda each: -each[1][-1]):
        left, top = at(TIMES[-1], line[-1])
        height = max(top + 4, height + 30)
        parts.append(element("text", f"{UNITS.get(what, what)}", x=left + 12, y=height, style=f"fill:{COLOURS[what]}"))
        grown = f"{base[what]:,} to {base[what] * TIMES[-1]:,}: {line[-1] / line[0]:.1f}× the time"
        parts.append(element("text", grown, x=left + 12, y=height + 13, class_="small"))
    note = f"from {base['queries']:,} queries × {base['hits']} hits, {base['gold']} gold items per query, "
    note += f"{base['metrics']} metrics and {base['segments']} segmentation; dashed: in proportion"
    parts.append(element("text", note, x=LEFT, y=HEIGHT - 14, class_="small"))
    box = f"0 0 {WIDTH} {HEIGHT}"
    return str(element("svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img")) + "\n"


if __name__ == "__main__":
    main()
