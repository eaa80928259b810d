"""One report with every kind of block, as each renderer shows it."""

from __future__ import annotations

import json
import re

import html5lib
import pytest

import karat
from golden import check
from karat.data.saved import json_text
from karat.report.blocks import (
    Bar,
    Bars,
    Block,
    Chart,
    Column,
    Dot,
    Dots,
    Example,
    Interval,
    Line,
    Listing,
    Mark,
    Report,
    Scatter,
    Section,
    Series,
    Spot,
    Table,
    Text,
    Tile,
    Tiles,
    Verdict,
)
from karat.report.build import evaluation_report
from karat.report.renderers.html import render_html
from karat.report.renderers.markdown import render_markdown
from karat.report.renderers.terminal import render_terminal

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
        Example(
            "q2",
            "wire | fees",
            {"recall@10": 0.0},
            {"language": "en"},
            ["Lost before reranking."],
            [
                Listing("should be found", [Line("", "d1#1", None, {"grade": 2, "found at": None}, "A fee", [(2, 5)])]),
                Listing(
                    "was found", [Line("1", "<b>", "miss", {"score": "3.5"}), Line("2", "x", "unjudged")], "a note"
                ),
            ],
        ),
    ]
    return Report(
        "A title",
        [
            Section("all", "Everything", blocks),
            Section("figures", "Figures", figures()),
            Section("hostile", HOSTILE, [Text(HOSTILE), Table([Column(HOSTILE)], [[HOSTILE]])]),
        ],
    )


def figures() -> list[Block]:
    lower, upper = Interval("0.20 [0.10, 0.35]", 0.2, 0.1, 0.35), Interval("0.80 [0.70, 0.90]", 0.8, 0.7, 0.9)
    band = Series("recall", [1, 10, 100], [0.2, 0.4, 0.5], [0.1, 0.3, 0.4], [0.3, 0.5, 0.6])
    return [
        Tiles("At a glance", [Tile("recall@5", "0.20", "[0.10, 0.35]"), Tile("queries", "287")], told=True),
        Table([Column("language"), Column("recall@5", scale=(0.1, 0.9))], [["en", lower], ["pt", upper], ["es", None]]),
        Chart("Over k", "k", "score", [band], [Mark(10, "knee")], "log", (0.0, 1.0)),
        Dots(
            "Scores", "score", [Dot("mrr", lower, [0.1, None]), Dot("hit", upper, [0.9, 1])], (0, 1), ["before", "top"]
        ),
        Bars("Lost", "share", ["found", "lost"], [Bar("k", 0, 0.4, 0, "40%"), Bar("k", 0.4, 1, 1, "60%")], (0.0, 1.0)),
        Scatter("A and B", "A", "B", [Spot(0, 0.5, 3, "gained"), Spot(1, 1, 1, "same")], (0.0, 1.0)),
        Dots("Told beside it", "score", [Dot("told once", lower)], (0.0, 1.0), told=True),
        Table(
            [Column("likely"), Column("A finding")],
            [["because", "`x` fell"], ["try", "this"], ["", "that"]],
            layout="card",
        ),
        Table([Column("what"), Column("value")], [["seed", "0"]], layout="facts"),
        Verdict("pass", "May ship", "2 checks: 2 passed.", whole=True),
    ]


def terminal(report: Report, width: int = 100) -> str:
    return render_terminal(report, width)


def test_terminal() -> None:
    check("report.txt", terminal(everything()))


def test_markdown() -> None:
    check("report.md", render_markdown(everything()))


def test_json() -> None:
    check("report.json", json_text(everything()).decode())


def test_html() -> None:
    page = render_html(everything(), "karat eval run.jsonl").decode()
    html5lib.HTMLParser(strict=True).parse(page)
    # The golden file is about what is said; style and script have files of their own, and the browser tests.
    page = re.sub(r"<(style|script)>.*?</\1>", r"<\1>…</\1>", page, flags=re.S)
    check("report.html", re.sub(r"sha256-[\w+/=]+", "sha256-…", page))


def test_a_figure_whose_numbers_stand_beside_it_is_not_told_twice() -> None:
    assert "told once" not in terminal(everything()) + render_markdown(everything())
    assert "told once" in render_html(everything()).decode()


def test_text_from_data_cannot_speak_to_the_terminal() -> None:
    shown = terminal(everything())
    assert "\x1b" not in shown
    assert "\x07" not in shown


def test_a_query_without_end_does_not_flood_the_terminal() -> None:
    endless = "w" * 100_000
    case = Example(endless, endless, {"recall@5": 0.0}, {"topic": endless})
    shown = terminal(Report("Title", [Section("triage", "Where it fails", [case])]))
    assert len(shown) < 2_000
    assert shown.count("(99,700 more characters)") == 3


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
        "doubts",
        "panel",
        "spread",
        "waterfall",
        "worst",
        "label_health",
        "audit",
        "not_measured",
        "findings",
        "artifacts",
    ]
    blocks = json.loads(json_text(report))
    assert "missing" not in blocks["title"]
    assert any(section["name"] == "audit" for section in blocks["sections"])


def test_the_panel_explains_only_what_it_shows() -> None:
    gold = [{"query_id": "q", "evidence": ["five days"]}, {"query_id": "r", "evidence": ["two weeks"]}]
    run = [{"query_id": q, "topk": [{"chunk_id": "a", "text": "within five days"}]} for q in "qr"]
    words = terminal(evaluation_report(karat.evaluate(run, gold, ["coverage@5"])))
    assert "ceiling" not in words
    assert "ceiling: " in terminal(evaluation_report(karat.evaluate({"q": ["a"]}, {"q": ["a"]}, ["recall@5"])))


@pytest.mark.parametrize("metrics", [None, ["coverage@5"]])
def test_worst_queries_go_by_evidence_where_there_is_nothing_else(metrics: list[str] | None) -> None:
    texts = {"good": "five days", "bad": "nobody wrote this", "half": ["five days", "nobody wrote this"]}
    gold = [{"query_id": q, "evidence": text} for q, text in texts.items()]
    run = [{"query_id": q, "topk": [{"chunk_id": "a", "text": "within five days"}]} for q in texts]
    (worst,) = [s for s in evaluation_report(karat.evaluate(run, gold, metrics)).sections if s.name == "worst"]
    table = worst.blocks[0]
    assert isinstance(table, Table)
    assert [row[:2] for row in table.rows] == [["bad", 0.0], ["half", 0.5], ["good", 1.0]][:2]
    assert "coverage@5" in str(table.note)


def test_the_share_at_1_is_that_of_an_end() -> None:
    result = karat.evaluate({"q": ["a", "b"], "r": ["a"]}, {"q": ["a"], "r": ["a"]}, ["hit@5", "distinct_docs@5"])
    (spread,) = [s for s in evaluation_report(result).sections if s.name == "spread"]
    table = spread.blocks[0]
    assert isinstance(table, Table)
    assert [row[-1] for row in table.rows] == ["100.0%", None]


def test_limits_that_cannot_be_estimated_are_explained() -> None:
    run = [{"query_id": q, "topk": ["a"], "latency_ms": {"total": 5}, "usage": []} for q in "qr"]
    words = terminal(evaluation_report(karat.evaluate(run, {"q": ["a"], "r": ["a"]}, prices=PRICES)))
    assert "5.00 *" in words
    told = " ".join(words.split())
    assert re.search(r"\* .*\bp50\b.*\b6\b.*\bp90\b.*\b36\b.*\bp99\b.*\b368\b", told)  # how many queries each takes


PRICES = {"currency": "USD", "models": {"m": {"per_call": 1}}}


def test_cost_of_a_few_equal_queries_has_no_limits() -> None:
    used = [{"model": "m", "calls": 2}]
    run = [{"query_id": q, "topk": ["a"], "usage": used} for q in "qr"]
    result = karat.evaluate(run, {"q": ["a"], "r": ["a"]}, ["cost"], prices=PRICES, analyses=True)
    assert (result.summary_rows[0].mean, result.summary_rows[0].low, result.summary_rows[0].high) == (2.0, None, None)
    assert "2.00 USD (" in terminal(evaluation_report(result))


def test_examples_with_commas_are_told_apart() -> None:
    run = {"a, b": ["x"], "c": ["x"], "q": ["x"]}
    words = terminal(evaluation_report(karat.evaluate(run, {"q": ["x"]}, ["recall@5"])))
    assert "a, b; c" in words


def test_a_list_of_ids_that_look_like_numbers_is_broken_into_lines() -> None:
    ids = ["1b8731b16f93813ba2d9cd06b42886df<::>7", "5c6fe37fcb387a5d23c98581b3bb44db<::>9", "13d4dd71724336ffff<::>4"]
    for examples in (ids, ["1000000000000000000000000000000000001"] * 3):
        table = Table([Column("count", "count"), Column("for example")], [[27, ", ".join(examples)]])
        shown = terminal(Report("t", [Section("s", "S", [table])]))
        assert "".join(shown.split()).endswith("".join(", ".join(examples).split())), shown
