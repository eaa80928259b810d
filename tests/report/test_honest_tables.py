"""Tables say what their numbers rest on: queries that lost, queries with gold, knees that are none."""

from __future__ import annotations

from typing import Any

import pytest

import karat
from karat.gates.gate import gate
from karat.report.blocks import Report, Section, Table
from karat.report.build import evaluation_report
from karat.report.cells import write_cell
from karat.report.comparison import comparison_report
from karat.report.gate import comment
from karat.report.sweep import sweep_report
from karat.statistics.sampling import Sampling

FAST = Sampling(resamples=200)


def section(report: Report, name: str) -> Section:
    (found,) = [s for s in report.sections if s.name.startswith(name)]
    return found


def tables(found: Section) -> list[Table]:
    return [block for block in found.blocks if isinstance(block, Table)]


def column(table: Table, name: str) -> list[str]:
    at = [c.title for c in table.columns].index(name)
    return [write_cell(row[at], table.columns[at].style) for row in table.rows]


def worst(metrics: list[str], run: dict[str, list[str]], gold: Any) -> list[Table]:
    return tables(section(evaluation_report(karat.evaluate(run, gold, metrics, sampling=FAST)), "worst"))


def test_a_query_that_loses_in_any_metric_is_among_the_worst() -> None:
    """The first hit is right on both queries, and the rest is in a poor order on one."""
    gold = {"good": {"a": 2, "b": 1}, "poor": {"a": 1, "b": 3, "c": 3}}
    run = {"good": ["a", "b"], "poor": ["a", "x", "y", "z", "b", "c"]}
    for metrics in (["mrr", "ndcg@10"], ["mrr", "hit@1", "precision@1", "ndcg@10"]):
        (table,) = worst(metrics, run, gold)
        assert column(table, "query") == ["poor"]
        assert float(column(table, "ndcg@10")[0]) < 0.6
    assert worst(["mrr"], run, gold) == []


def test_a_query_that_reaches_its_ceiling_lost_nothing() -> None:
    """Ten items do not fit into five places."""
    items = [f"i{n}" for n in range(10)]
    gold, run = {"full": items, "lost": ["a", "b"]}, {"full": items, "lost": ["a", "x"]}
    (table,) = worst(["recall@5"], run, gold)
    assert column(table, "query") == ["lost"]
    assert worst(["recall@5"], {"full": items}, {"full": items}) == []


GOLD = [
    {"query_id": f"q{i}", "topic": "sparse" if i < 30 else "full"}
    | ({"gold": ["a"]} if i >= 26 else {"no_answer": True})
    for i in range(60)
]
RUN = {f"q{i}": ["a", "b"] for i in range(60)}
COUNTS = {"full": "30", "sparse *": "4 of 30"}  # a star: too few


def counts(table: Table, segment: str = "topic") -> dict[str, str]:
    return dict(zip(column(table, segment), column(table, "queries"), strict=True))


def test_segments_count_the_queries_that_their_numbers_rest_on() -> None:
    result = karat.evaluate(RUN, GOLD, ["recall@5", "returned@5"], segments=["topic"], sampling=FAST)
    assert counts(tables(section(evaluation_report(result), "segments"))[0]) == COUNTS
    swept = sweep_report(result.sweep([1, 2]))
    assert counts(tables(section(swept, "segments"))[0]) == COUNTS
    assert "34 of 60" in section(swept, "sweep").title


def test_compared_segments_count_the_queries_that_both_have_scores_for() -> None:
    found = karat.compare(RUN, RUN | {"q59": ["b"]}, GOLD, ["recall@5"], segments=["topic"], sampling=FAST)
    assert counts(tables(section(comparison_report(found), "segments"))[0]) == COUNTS


@pytest.mark.parametrize("baseline", [None, RUN])
def test_the_breakdown_of_a_verdict_counts_the_same(baseline: Any) -> None:
    text = comment(gate(RUN, GOLD, "recall@5 >= 0.5", baseline=baseline, sampling=FAST))
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith(("| full", "| sparse"))]
    assert {name.strip().replace("\\", ""): count.strip() for name, count in rows} == COUNTS


@pytest.mark.parametrize("baseline", [None, RUN])
def test_stars_are_about_the_metrics_that_a_table_shows(baseline: Any) -> None:
    """False evidence rests on the few queries without an answer, and has no column."""
    gold = [
        {"query_id": f"q{i}", "topic": "odd" if i % 2 else "even"}
        | ({"gold": ["a"]} if i < 54 else {"no_answer": True})
        for i in range(60)
    ]
    expected = {"even": "27 of 30", "odd": "27 of 30"}
    gates = ["recall@5 >= 0.1", "mrr >= 0.1", "false_evidence@5 <= 1.0"]
    text = comment(gate(RUN, gold, gates, baseline=baseline, sampling=FAST))
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith(("| even", "| odd"))]
    assert {name.strip().replace("\\", ""): count.strip() for name, count in rows} == expected
    asked = ["recall@5", "mrr", "hit@5", "false_evidence@5"]
    found = karat.compare(RUN, RUN, gold, asked, segments=["topic"], sampling=FAST)
    assert counts(tables(section(comparison_report(found), "segments"))[0]) == expected


def test_a_curve_that_still_rises_has_no_knee_in_any_table() -> None:
    """Half of the queries of one language find their answer at the last place; the other is done at the first."""
    gold = [{"query_id": f"q{i}", "gold": ["a"], "language": "en" if i % 2 else "pt"} for i in range(80)]
    late = ["x", "y", "a"]
    run = {f"q{i}": ["a", "x", "y"] if i % 2 else late for i in range(80)}
    result = karat.evaluate(run, gold, ["mrr"], segments=["language"], sampling=FAST)
    sweep = result.sweep([1, 2, 3])
    assert {c.value: [k.rising for k in c.knees] for c in sweep.curves[1:]} == {"en": [False] * 2, "pt": [True] * 2}
    (table,) = tables(section(sweep_report(sweep), "segments"))
    knees = dict(zip(column(table, "language"), column(table, "knee recall"), strict=True))
    assert knees["en"].startswith("1 (")
    assert not knees["pt"][0].isdigit()


def segmented(metrics: list[str] | None) -> list[Table]:
    result = karat.evaluate(RUN, GOLD, metrics, segments=["topic"], sampling=FAST)
    return tables(section(evaluation_report(result), "segments"))


def test_segments_show_every_requested_metric_with_its_band() -> None:
    asked = ["recall@1", "recall@5", "mrr", "map", "precision@5", "hit@1", "ndcg@10", "returned@5", "rprecision"]
    found = segmented(asked)
    titles = [[c.title for c in table.columns] for table in found]
    assert [t for names in titles for t in names if t not in ("topic", "queries", "band")] == asked
    assert max(map(len, titles)) <= 6  # fits a line
    assert titles[0] == ["topic", "queries", "recall@1", "band", "recall@5", "band"]
    assert column(found[0], "band") == ["excellent", "excellent"]
    (panel,) = segmented(None)
    assert [c.title for c in panel.columns] == ["topic", "queries", "recall@5", "band", "ndcg@5"]
