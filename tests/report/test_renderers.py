"""One report with every kind of block, as each renderer shows it. `KARAT_UPDATE_GOLDEN=1` writes the files anew."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

from rich.console import Console

import karat
from karat.report.blocks import Chart, Column, Example, Report, Section, Series, Table, Text, Verdict
from karat.report.build import evaluation_report
from karat.report.renderers.json import render_json
from karat.report.renderers.markdown import render_markdown
from karat.report.renderers.terminal import print_report

GOLDEN = Path(__file__).parents[1] / "golden"
HOSTILE = "<script>alert(1)</script> | @everyone [x](javascript:1) `code` \x1b[31mred\x07 **bold**\n# heading"


def everything() -> Report:
    table = Table(
        [Column("metric"), Column("mean", "score"), Column("n", "count"), Column("ms", "quantity")],
        [["recall@5", 0.87654321, 12345, 3.14159], ["mrr", None, 0, None]],
        note="a note",
    )
    chart = Chart(
        "Recall over k", "k", "recall", [Series("overall", [1, 5], [0.25, None]), Series("pt-BR", [1, 5], [0.5, 1.0])]
    )
    blocks = [
        Text("Plain words."),
        Text("Mind this.", "warning"),
        table,
        chart,
        Verdict("fail", "recall@5", "dropped from 87% to 81%"),
        Example("q1", "refund window?", {"recall@5": 0.0, "rank": None}),
    ]
    return Report(
        "A title",
        [
            Section("all", "Everything", blocks),
            Section("hostile", HOSTILE, [Text(HOSTILE), Table([Column(HOSTILE)], [[HOSTILE]])]),
        ],
    )


def terminal(report: Report, width: int = 100) -> str:
    stream = io.StringIO()
    print_report(report, Console(file=stream, width=width, highlight=False, force_terminal=False))
    return stream.getvalue()


def check(name: str, text: str) -> None:
    file = GOLDEN / name
    if os.environ.get("KARAT_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


def test_terminal() -> None:
    check("report.txt", terminal(everything()))


def test_markdown() -> None:
    check("report.md", render_markdown(everything()))


def test_json() -> None:
    check("report.json", render_json(everything()).decode())


def test_text_from_data_cannot_speak_to_the_terminal() -> None:
    shown = terminal(everything())
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_text_from_data_is_inert_in_markdown() -> None:
    shown = render_markdown(everything()).partition("hostile")[0]
    assert "<script>" not in shown
    assert "@everyone" not in shown
    assert "](javascript" not in shown
    assert "\n# heading" not in shown


def test_a_narrow_terminal_still_shows_every_number() -> None:
    shown = terminal(everything(), width=40)
    assert max(map(len, shown.splitlines())) <= 40
    assert "0.8765" in shown


def test_an_evaluation_has_its_sections() -> None:
    result = karat.evaluate({"q": ["7", "3"], "r": []}, {"q": ["3"], "r": ["1"], "s": ["2"]}, corpus_size=10)
    report = evaluation_report(result)
    assert [s.name for s in report.sections] == ["panel", "bands", "spread", "worst", "audit", "findings", "artifacts"]
    blocks = json.loads(render_json(report))
    assert "missing" not in blocks["title"]
    assert "queries of the gold set that the run does not have" in json.dumps(blocks)
