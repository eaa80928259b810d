"""Comparisons, sweeps and plans as terminal and Markdown show them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import karat
from golden import check
from karat.report.blocks import Report, Table
from karat.report.build import evaluation_report
from karat.report.comparison import comparison_report
from karat.report.comparison_pictures import LinkedQueries, scatter
from karat.report.renderers.markdown import render_markdown
from karat.report.renderers.terminal import render_terminal
from karat.report.sweep import power_report, sweep_report
from karat.results.comparison.compare import compare_results
from karat.results.power import plan
from karat.results.save import saved_form
from karat.scoring.metrics.grammar import parse_metric
from karat.statistics.sampling import Sampling

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
BEFORE, AFTER, GOLD = (str(DEMO / name) for name in ("bm25.jsonl", "bm25_rerank.jsonl", "gold.jsonl"))
QUICK = Sampling(resamples=1000)
SHOWN = ["recall@5", "ndcg@5", "distinct_docs@5", "latency_p50"]


def gold_set() -> Any:
    return replace(karat.read_gold(GOLD), label="gold.jsonl")  # the folder of a checkout is no part of a report


def measured(run: str, metrics: Any = None, **options: Any) -> karat.Result:
    return karat.evaluate(run, gold_set(), metrics or SHOWN, sampling=QUICK, **options)


def one_comparison() -> Report:
    return comparison_report(compare_results([measured(BEFORE), measured(AFTER)], segments=["language"], changes=2))


def several_comparisons() -> Report:
    """Three candidates that say all that can be said aloud: notes, too few, the same, better and worse, no text."""
    size = 60
    gold = [{"query_id": f"q{i:02}", "gold": ["a"], "tags": {"part": "ABC"[i // 20]}} for i in range(size)]
    gold += [{"query_id": f"r{i}", "gold": ["a"]} for i in range(3)]

    def log(system: str, right: Any, ms: float) -> list[dict[str, Any]]:
        return [
            {
                "query_id": entry["query_id"],
                "system": system,
                "topk": ["a", "b"] if i in right else ["x", "y"],
                "latency_ms": {"total": ms + i},
            }
            for i, entry in enumerate(gold)
        ]

    runs = [
        log("old", range(20, 60), 1200),
        log("same", range(20, 60), 1200),
        log("mixed", [*range(20), *range(26, 40), *range(46, 60)], 1000),
        log("bad", range(10), 2.5e9)[:40],
    ]
    metrics = ["recall@5", "mrr", "latency", "latency_p90"]
    sides = [karat.evaluate(run, gold, metrics, sampling=QUICK, missing="skip") for run in runs]
    return comparison_report(compare_results(sides, segments=["part"], changes=1))


def one_sweep() -> Report:
    return sweep_report(measured(BEFORE, segments=["language", "gold_items"]).sweep())


def two_plans() -> list[Report]:
    a, b = measured(BEFORE, ["recall@5", "mrr", "hit@10"]), measured(AFTER, ["recall@5", "mrr", "hit@10"])
    return [power_report(plan(a)), power_report(plan(a, b, detect=0.005, power=0.9))]


REPORTS = {
    "comparison": lambda: [one_comparison()],
    "comparisons": lambda: [several_comparisons()],
    "sweep": lambda: [one_sweep()],
    "power": two_plans,
}


def terminal(reports: list[Report], width: int = 100) -> str:
    return "".join(render_terminal(report, width) for report in reports)


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("ending", ["txt", "md"])
def test_it_looks_as_it_did(name: str, ending: str) -> None:
    reports = REPORTS[name]()
    text = terminal(reports) if ending == "txt" else "\n".join(map(render_markdown, reports))
    check(f"{name}.{ending}", text)


@pytest.mark.parametrize("name", REPORTS)
def test_no_line_is_over_100_columns(name: str) -> None:
    assert max(map(len, terminal(REPORTS[name]()).splitlines())) <= 100


# --- long names, huge numbers


LONG = "a_name_with_very_many_letters_" * 8


def wide_run(system: str, found: int) -> list[dict[str, Any]]:
    return [
        {
            "query_id": f"{LONG}{i}",
            "system": f"{LONG}{system}",
            "topk": [f"{LONG}{j}" for j in range(3)] + (["a"] if i < found else []),
            "latency_ms": {"total": 1e15 * (i + 1)},
        }
        for i in range(25)
    ]


def wide_reports() -> list[Report]:
    gold = [
        {"query_id": f"{LONG}{i}", "query": LONG, "gold": ["a"], "tags": {LONG: f"{LONG}{i % 2}"}} for i in range(25)
    ]
    a, b = (karat.evaluate(wide_run(s, n), gold, segments=[LONG], sampling=QUICK) for s, n in (("one", 5), ("two", 20)))
    compared = [comparison_report(compare_results(sides, segments=[LONG])) for sides in ([a, b], [a, b, a])]
    return [evaluation_report(a), *compared, sweep_report(a.sweep()), power_report(plan(a, b))]


def test_long_names_and_huge_numbers_fit_and_hide_no_number() -> None:
    for report in wide_reports():
        shown = terminal([report])
        assert max(map(len, shown.splitlines())) <= 100
        for section in report.sections:
            for block in section.blocks:
                if isinstance(block, Table) and len(block.columns) > 3:
                    assert_numbers_are_shown(block, shown)


def assert_numbers_are_shown(table: Table, shown: str) -> None:
    """The first word of every cell but the names stands in the text (long cells go on in the next line)."""
    for row in table.rows:
        for column, cell in zip(table.columns[1:], row[1:], strict=True):
            if isinstance(cell, str) and column.title not in ("text", "fell out", "came in"):
                assert cell.split()[0] in shown, (column, cell)


def test_names_that_differ_at_the_end_are_told_apart() -> None:
    shown = terminal(wide_reports()[:1])
    assert "letters_0 " in shown
    assert "letters_1 " in shown


# --- the words


def rows_of(report: Report, section: str) -> dict[str, list[Any]]:
    table = next(b for s in report.sections if s.name == section for b in s.blocks if isinstance(b, Table))
    return {str(row[0]): list(row) for row in table.rows}


def test_the_reading_follows_interval_and_direction() -> None:
    report = several_comparisons()
    mixed, bad = rows_of(report, "pair-2"), rows_of(report, "pair-3")
    assert mixed["latency"][-1] == "better"
    assert bad["latency"][-1] == "worse"
    assert bad["recall@5"][-1] in ("worse", "unclear")
    assert rows_of(report, "pair-1")["recall@5"][-1] == "same"


def test_differences_of_shares_are_in_percentage_points_and_others_in_their_unit() -> None:
    rows = rows_of(one_comparison(), "pair-1")
    assert rows["recall@5"][3].endswith(" pp")
    assert rows["latency_p50"][3].endswith(" ms")
    assert rows["distinct_docs@5"][3].endswith("]")


def test_saved_results_show_no_empty_columns() -> None:
    saved = [saved_form(measured(run, ["recall@5"])) for run in (BEFORE, AFTER)]
    report = comparison_report(karat.compare(*saved, changes=1))
    table = next(b for s in report.sections if s.name == "changes-1" for b in s.blocks if isinstance(b, Table))
    assert [c.title for c in table.columns] == ["query", "recall@5", "change", "text"]


def test_holm_and_bh_are_named_for_what_they_are_for() -> None:
    text = terminal([several_comparisons()]).replace("\n", " ")
    assert "Holm: " in text
    assert "BH (Benjamini–Hochberg): " in text
    assert "Holm" not in terminal([one_comparison()])


def test_many_pairs_are_drawn_on_a_grid_and_linked_queries_at_their_place() -> None:
    before = np.arange(3000) / 3000
    after = np.roll(before, 7)  # seven queries gain nearly everything
    found = scatter(
        parse_metric("recall@5"),
        "a",
        "b",
        before,
        after,
        LinkedQueries({2999: ("q", "/query"), 5: ("p", "/p")}, "/all"),
    )
    assert sum(spot.count for spot in found.spots) == 3000
    assert len(found.spots) < 500
    assert [(spot.x, spot.y, spot.count, spot.kind, spot.name) for spot in found.spots if spot.link] == [
        (0.9997, 0.9973, 1, "lost", "q"),
        (0.0017, 0.9993, 1, "gained", "p"),
    ]
    assert {kind: sum(s.count for s in found.spots if s.kind == kind) for kind in ("gained", "lost")} == {
        "gained": 7,
        "lost": 2993,
    }
    none = np.array([])
    assert scatter(parse_metric("recall@5"), "a", "b", none, none).spots == []
