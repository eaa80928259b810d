"""One report with every kind of block, as each renderer shows it. `KARAT_UPDATE_GOLDEN=1` writes the files anew."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pytest
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


@pytest.mark.parametrize("width", [30, 40, 60, 79, 100])
def test_a_narrow_terminal_shows_every_cell_of_a_real_report(width: int) -> None:
    """Numbers are never cut or folded: a table that does not fit is parted, and begins each part with its names."""
    run = {"q" * 200: ["a", "b"], "r": ["b"], "s": []}
    asked = ["recall", "ndcg(gain=linear)@10", "mrr", "distinct_docs@5"]
    result = karat.evaluate(run, {"q" * 200: ["b"], "r": ["a"], "s": ["c"]}, asked, corpus_size=12345)
    shown = terminal(evaluation_report(result), width)
    assert max(map(len, shown.splitlines())) <= width
    assert "…" not in shown.replace("1, 2, 3, …", "")
    words = shown.split()
    for row in result.summary_rows:
        assert row.low is None or f"[{row.low:.3f}, {row.high:.3f}]" in shown
        for value in (row.mean, row.ceiling, row.floor):
            assert value is None or f"{value:.4f}" in words
    for title in ("value", "ceiling", "queries", "undefined"):
        assert title in words


def test_a_metric_that_names_no_cutoff_shows_which_was_used() -> None:
    gold = [{"query_id": "q", "gold": ["a"]}, {"query_id": "r", "gold": ["a"]}]
    run = {"q": ["a"], "r": ["a"]}
    shown = terminal(evaluation_report(karat.evaluate(run, gold, ["recall", "ndcg@3", "mrr"], k=7)))
    assert re.findall(r"^(recall|ndcg|mrr)(\S*)( \(\S+\))?", shown, re.M)[:3] == [
        ("recall", "@k", " (k=7)"),
        ("ndcg", "@3", ""),
        ("mrr", "", ""),
    ]
    own = [{**gold[0], "k": 2}, gold[1]]
    assert "recall@k (k=2…7)" in terminal(evaluation_report(karat.evaluate(run, own, ["recall"], k=7)))


def test_an_evaluation_has_its_sections() -> None:
    result = karat.evaluate({"q": ["7", "3"], "r": []}, {"q": ["3"], "r": ["1"], "s": ["2"]}, corpus_size=10)
    report = evaluation_report(result)
    assert [s.name for s in report.sections] == [
        "panel",
        "bands",
        "spread",
        "waterfall",
        "worst",
        "audit",
        "not_measured",
        "findings",
        "artifacts",
    ]
    blocks = json.loads(render_json(report))
    assert "missing" not in blocks["title"]
    assert "queries of the gold set that the run does not have" in json.dumps(blocks)
