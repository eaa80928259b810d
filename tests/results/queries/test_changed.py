"""Two runs, query by query."""

from __future__ import annotations

from typing import Any

import karat
from karat.results.queries.changed import changed_queries

GOLD = [
    {"query_id": q, "query": f"text of {q}", "gold": {"a": 1}} for q in ("lost", "gained", "changed", "same", "none")
]
BEFORE = {"lost": ["a", "b"], "gained": ["b"], "changed": ["a", "b"], "same": ["a"], "none": []}
AFTER = {"lost": ["b", "c"], "gained": ["a"], "changed": ["a", "c"], "same": ["a"]}


def found(before: Any = BEFORE, after: Any = AFTER, most: int = 10, sample: int = 0) -> Any:
    sides = [karat.evaluate(run, GOLD, ["recall@5"]) for run in (before, after)]
    return changed_queries(*sides, sides[0].metrics[0], most, sample=sample)


def test_losses_come_first_and_equal_lists_are_left_out() -> None:
    changed = found()
    assert [(q.query_id, q.kind, q.before, q.after) for q in changed.shown] == [
        ("lost", "lost", 1.0, 0.0),
        ("gained", "gained", 0.0, 1.0),
        ("changed", "changed", 1.0, 1.0),
    ]
    assert changed.counts == {"lost": 1, "gained": 1, "changed": 1}


def test_both_lists_are_shown_with_their_marks() -> None:
    lost = found().shown[0]
    assert [(h.id, h.mark) for h in lost.baseline] == [("a", "hit"), ("b", "unjudged")]
    assert [(h.id, h.mark) for h in lost.candidate] == [("b", "unjudged"), ("c", "unjudged")]
    assert [(g.id, g.rank) for g in lost.gold] == [("a", None)]


def test_what_is_left_out_is_sampled() -> None:
    before = {f"q{i}": ["a"] for i in range(40)}
    gold = [{"query_id": q, "gold": ["a"]} for q in before]
    sides = [karat.evaluate(run, gold, ["recall@5"]) for run in (before, {q: ["b"] for q in before})]
    changed = changed_queries(*sides, sides[0].metrics[0], 4, sample=3)
    assert (len(changed.shown), changed.sampled, changed.counts["lost"]) == (7, 3, 40)
    assert len({q.query_id for q in changed.shown}) == 7


def test_saved_results_have_no_lists(tmp_path: Any) -> None:
    from karat.report.export import export
    from karat.results.comparison.sides import as_results

    export([karat.evaluate(BEFORE, GOLD, ["recall@5"])], str(tmp_path / "saved.json"))
    (saved,) = as_results(str(tmp_path / "saved.json"), None, None, {})
    other = karat.evaluate(AFTER, GOLD, ["recall@5"])
    assert changed_queries(saved, other, other.metrics[0], 10, sample=0).shown == []
