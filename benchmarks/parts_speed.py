"""What a command does after the run was read, part by part, for 200,000 queries; prints one page of Markdown.

    python benchmarks/parts_speed.py [--quick] [--repeat N] [--output PARTS.md]

W3 is evaluated once, with everything that tables and page show. Then each part is made from its result, which keeps
nothing from one repeat to the next: intervals of the panel, segments by every tag, findings, label health, tables for a
terminal and the page. A part includes whatever it needs from the others. Of the repeats the least CPU counts.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is first imported

import time
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace
from pages import Target, conditions, joined, options, publish, table, target_table
from shapes import QUICK, SHAPES, gold_file, run_file

from karat.cli.scoring import score_files
from karat.data.ids import DocRule
from karat.report.build import evaluation_report, short_report
from karat.report.export import to_html
from karat.report.renderers.terminal import render_terminal
from karat.results.analyses.label_health import label_health
from karat.results.queries.triage import triage_need
from karat.results.result import Result

WANTED, PAGE = 0.3, 2.0  # seconds


def main() -> None:
    given = options("What follows reading, part by part.", "a tenth of the size, once", "PARTS.md", repeats=5)
    name, repeats = (QUICK["W3"], 1) if given.quick else ("W3", given.repeat)
    [result] = score_files(run_file(name), gold_file(name), (), {}, analyses=True, consumers=[triage_need])
    spent = {part: min(_spent(make, result) for _ in range(repeats)) for part, make in PARTS.items()}
    publish(_page(spent, SHAPES[name][0], repeats), given.output)


def _rendered(result: Result) -> Callable[[], Any]:
    """All tables are made before, so that only their layout is measured."""
    report = evaluation_report(result)
    return lambda: render_terminal(report)


def _labels(result: Result) -> Callable[[], Any]:
    rule = DocRule(result.rules.doc_of)
    return lambda: label_health(result.gold, rule, result.corpus, result.data.returned)


# Part → what prepares it, and returns what is measured.
PARTS: dict[str, Callable[[Result], Callable[[], Any]]] = {
    "intervals": lambda result: lambda: result.summary_rows,
    "segments": lambda result: lambda: result.segment_rows,
    "findings": lambda result: lambda: result.findings,
    "label health": _labels,
    "rendering": _rendered,
    "everything that a terminal shows": lambda result: lambda: render_terminal(short_report(result)),
    "page": lambda result: lambda: to_html([result]),
}
TARGETS = {"intervals": WANTED, "segments": WANTED, "findings": WANTED, "label health": WANTED, "rendering": WANTED}
TARGETS |= {"page": PAGE}


def _spent(make: Callable[[Result], Callable[[], Any]], result: Result) -> float:
    tables = {view: replace(judged) for view, judged in result.data.tables.items()}  # without what they have computed
    work = make(replace(result, data=replace(result.data, tables=tables), memo={}))
    start = time.process_time()
    work()
    return time.process_time() - start


def _page(spent: dict[str, float], queries: int, repeats: int) -> str:
    targets = [
        Target(part, f"≤ {wanted:g} s", f"{spent[part]:.2f} s", spent[part] <= wanted)
        for part, wanted in TARGETS.items()
    ]
    return joined(
        [
            "# Benchmarks: after reading",
            f"Written by `benchmarks/parts_speed.py`: {queries:,} queries × 10 hits, CPU seconds of each part.",
            conditions(f"{repeats} repeats; lowest CPU time of them; OpenBLAS on 1 thread", ["karat", "numpy"]),
            target_table(targets),
            table(["part", ">CPU s"], [[part, f"{seconds:.3f}"] for part, seconds in spent.items()]),
        ]
    )


if __name__ == "__main__":
    main()
