"""Where queries were sent."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.results.analyses.router import Routed

Shown = Callable[[karat.Result, str], str]


def make(*queries: tuple[Any, Any, bool]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """(route, expected source, is it found) of each query."""
    run = [
        {"query_id": f"q{i}", "topk": ["r" if hit else "x"], "route": route}
        for i, (route, _, hit) in enumerate(queries)
    ]
    return run, [{"query_id": f"q{i}", "gold": ["r"], "source": source} for i, (_, source, _) in enumerate(queries)]


EXAMPLE = make(
    ("faq", "faq", True),
    ("faq", "faq", True),
    ("web", "faq", False),
    (["faq", "web"], "web", True),
    (["web"], ["web", "faq"], False),
    (None, "faq", True),
    ("faq", None, True),
    ([], "web", False),
)


def found(run: Any, gold: Any, **options: Any) -> Routed:
    routed: Routed = karat.evaluate(run, gold, **options).analyses.found["router"]
    return routed


def test_right_wrong_and_too_many() -> None:
    routed = found(*EXAMPLE)
    assert (routed.queries, routed.not_routed, routed.not_labelled, routed.partly) == (6, 1, 1, 1)
    assert (routed.right.n, routed.right.mean) == (6, 0.5)
    assert routed.over.mean == pytest.approx(1 / 6)
    assert (routed.right.low or 0) < 0.5 < (routed.right.high or 0)


def test_how_often_each_source_is_asked() -> None:
    assert [(c.source, c.asked, c.needed) for c in found(*EXAMPLE).chosen] == [("faq", 4, 5), ("web", 3, 3)]
    assert found(*EXAMPLE).chosen[0].share == 4 / 7


def test_the_confusion_table() -> None:
    cells = {(c.needed, c.asked): (c.queries, c.right, c.examples) for c in found(*EXAMPLE).confusion}
    assert cells == {
        ("faq", "faq"): (2, True, ["q0", "q1"]),
        ("faq", "web"): (1, False, ["q2"]),
        ("web", "faq + web"): (1, True, ["q3"]),
        ("faq + web", "web"): (1, False, ["q4"]),
        ("web", "(none)"): (1, False, ["q7"]),
    }


def test_recall_by_source() -> None:
    rows = {s.needed: (s.all.n, s.all.mean, s.right.mean, s.wrong.mean) for s in found(*EXAMPLE).by_source}
    assert rows == {
        "faq": (3, 2 / 3, 1.0, 0.0),
        "faq + web": (1, 0.0, None, 0.0),
        "web": (2, 0.5, 1.0, 0.0),
    }


def test_the_estimate_of_regret_compares_like_with_like() -> None:
    """q2 and q7 as well as those of their source; nothing tells how q4 would have done."""
    regret = found(*EXAMPLE).regret
    assert regret is not None
    assert (regret.against, regret.queries) == ([], 2)
    assert (regret.recall, regret.best) == (0.6, 1.0)
    assert regret.cost.mean == pytest.approx(0.4)
    assert regret.cost.low is None


def test_no_misroute_no_regret() -> None:
    assert found(*make(("faq", "faq", True), ("web", "web", False))).regret is None


def test_regret_against_runs_of_each_route() -> None:
    """The best of both, query by query, on the queries that both have."""
    run, gold = make(("faq", "faq", True), ("web", "faq", False), ("web", "web", True), ("web", "web", False))
    routes = {"faq": {"q0": ["r"], "q1": ["r"], "q2": ["x"]}, "web": {"q0": ["x"], "q1": ["x"], "q2": ["r"]}}
    regret = found(run, gold, routes=routes).regret
    assert regret is not None
    assert (regret.against, regret.queries) == (["faq", "web"], 3)
    assert (regret.recall, regret.best) == (2 / 3, 1.0)
    assert regret.cost.mean == pytest.approx(1 / 3)
    assert regret.cost.low is not None


@pytest.mark.parametrize(
    ("route", "source", "covers", "exact"),
    [
        ("a", "a", 1, 1),
        ("a", ["a"], 1, 1),
        (["a", "b"], "a", 1, 0),
        (["b", "a"], ["a", "b"], 1, 1),
        (["a", "a"], "a", 1, 1),
        ("a", ["a", "b"], 0, 0),
        ([], "a", 0, 0),
        ("A", "a", 0, 0),
        (None, "a", None, None),
        ("a", None, None, None),
        ("a", [], 1, 0),
    ],
)
def test_the_metric(route: Any, source: Any, covers: float | None, exact: float | None) -> None:
    run, gold = make((route, source, True), ("z", "z", True))
    result = karat.evaluate(run, gold, ["route_accuracy", "route_accuracy(match=exact)"])
    assert result.score("route_accuracy")["q0"] == covers
    assert result.score("route_accuracy(match=exact)")["q0"] == exact


def test_the_metric_of_a_query_that_the_run_lacks() -> None:
    run, gold = make(("a", "a", True), ("a", "a", True))
    assert karat.evaluate(run[:1], gold, ["route_accuracy"]).score("route_accuracy")["q1"] is None


def test_a_gate_on_routing() -> None:
    run, gold = make(*[("faq", "faq", True)] * 3, ("web", "faq", False))
    assert karat.gate(run, gold, ["route_accuracy >= 0.7"]).outcome == "pass"
    assert karat.gate(run, gold, ["route_accuracy >= 0.8"]).outcome != "pass"


def test_the_audit_says_what_the_metric_lacks() -> None:
    for run, gold, what in (
        (make((None, "a", True)), None, "route"),
        (make(("a", None, True)), None, "source"),
    ):
        audit = karat.evaluate(run[0], gold or run[1], ["route_accuracy"]).audit
        (entry,) = [e for e in audit if e.code == "no_data"]
        assert what in entry.examples[0].removeprefix("route_accuracy: ")


def test_what_is_lacking_is_named() -> None:
    run, gold = make((None, "a", True))
    assert "`route`" in karat.evaluate(run, gold).analyses.lacking["router"]
    run, gold = make(("a", None, True))
    assert "`source`" in karat.evaluate(run, gold).analyses.lacking["router"]


def test_the_source_of_a_table_is_a_column(tmp_path: Path) -> None:
    table = tmp_path / "gold.csv"
    table.write_text("query_id,doc_id,source\nq0,r,faq\nq1,r,web\n")
    run, _ = make(("faq", None, True), ("faq", None, True))
    assert found(run, table).right.mean == 0.5


def test_the_report(shown: Shown) -> None:
    text = shown(karat.evaluate(*EXAMPLE), "router")
    assert "50% [" in text
    assert "17% [" in text
    assert "| faq | faq + web | web\nfaq | 0 | 2 | 0 | 1" in text
    assert re.search(r"\b2 (misrouted )?queries\b", text)
    assert "1 query " in text


def test_many_routes_are_told_one_below_the_other(shown: Shown) -> None:
    queries = [(f"asked {i:02}", f"needed {i:02}", True) for i in range(12)]
    text = shown(karat.evaluate(*make(*queries)), "router")
    assert "needed 00 | asked 00 | 1 | q0" in text
    assert "2 more" in text


@pytest.mark.parametrize("route", [5, {"to": "faq"}, ["faq", 5]])
def test_a_route_of_the_wrong_type(route: Any) -> None:
    with refused("wrong-type") as caught:
        karat.evaluate([{"query_id": "q", "topk": ["r"], "route": route}], {"q": ["r"]})
    assert caught.value.field.startswith("route")


def test_a_source_of_the_wrong_type() -> None:
    with refused("wrong-type", field="source"):
        karat.evaluate({"q": ["r"]}, [{"query_id": "q", "gold": ["r"], "source": 5}])
