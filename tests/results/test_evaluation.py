"""Filters that cannot filter are refused, and what they remove raises no other alarm."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.errors import KaratError
from karat.results.evaluate import evaluate_all

GOLD = {f"q{i}": [f"a{i}"] for i in range(6)}
SCORED = {q: {items[0]: 0.2, "x": 0.9} for q, items in GOLD.items()}
BARE = {q: [items[0], "x"] for q, items in GOLD.items()}


def write(path: Path, lines: Iterable[Any]) -> str:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def log(system: str, lists: dict[str, Any]) -> list[dict[str, Any]]:
    hits = {
        query: [{"chunk_id": i, "score": s} for i, s in listed.items()] if isinstance(listed, dict) else listed
        for query, listed in lists.items()
    }
    return [{"query_id": query, "system": system, "topk": listed} for query, listed in hits.items()]


@pytest.mark.parametrize("command", ["eval", "eval triage", "eval sweep", "eval power"])
def test_a_score_threshold_needs_scores(tmp_path: Path, command: str, karat_refuses: Callable[..., KaratError]) -> None:
    run, gold = write(tmp_path / "run.jsonl", log("s", BARE)), tmp_path / "gold.json"
    gold.write_text(json.dumps(GOLD))
    error = karat_refuses(*command.split(), run, "--gold", str(gold), "--min-score", "0.5")
    assert (error.code, error.file, error.field) == ("no-scores", run, "score")


@pytest.mark.parametrize(
    "run",
    [BARE, log("", BARE), {**BARE, "q9": {"a9": 0.9}}, [{"query_id": "q0", "topk": ["a0", "a0", "x"]}]],
    ids=["dict", "records", "a score in an unknown query", "a repeated hit"],
)
def test_a_score_threshold_needs_scores_in_every_form(run: Any) -> None:
    with refused("no-scores", field="score"):
        karat.evaluate(run, GOLD, ["mrr"], min_score=0.5)


@pytest.mark.parametrize(
    "more", [{"top_k": 1}, {"top_k": 3}, {"top_k": 2, "no_future": True}, {"hits": "raw"}], ids=str
)
def test_a_score_threshold_needs_scores_beside_other_filters(more: dict[str, Any]) -> None:
    hits = [{"chunk_id": c, "doc_version": "2025-01-01"} for c in ("x", "y", "x", "z", "a")]
    run = [{"query_id": f"q{i}", "topk": hits, "raw": hits} for i in range(6)]
    gold = [{"query_id": f"q{i}", "gold": ["a"], "as_of": "2025-06-01"} for i in range(6)]
    with refused("no-scores", field="score"):
        karat.evaluate(run, gold, ["mrr"], min_score=0.5, **more)


def test_hits_without_a_score_are_kept_and_counted() -> None:
    lists = {**SCORED, "q0": ["a0", "x"]}
    result = karat.evaluate(log("s", lists), GOLD, ["mrr"], min_score=0.5)
    assert result.score("mrr") == {"q0": 1.0} | {f"q{i}": 0.0 for i in range(1, 6)}
    assert (result.audit["unscored_hits"], result.audit["pruned_hits"]) == (2, 5)


def test_systems_are_looked_at_one_by_one() -> None:
    found = evaluate_all([*log("bare", BARE), *log("scored", SCORED)], GOLD, ["mrr"], min_score=0.5)
    assert {name: result.means["mrr"] for name, result in found.items()} == {"bare": 1.0, "scored": 0.0}
    assert {name: result.audit["unscored_hits"] for name, result in found.items()} == {"bare": 12, "scored": 0}


def test_a_run_without_hits_has_nothing_to_prune() -> None:
    assert karat.evaluate({q: [] for q in GOLD}, GOLD, ["mrr"], min_score=0.5).means == {"mrr": 0.0}


@pytest.mark.parametrize(
    "filters", [{"min_score": 0.5}, {"top_k": 1}, {"min_score": 2.0}, {"no_future": True}], ids=lambda f: str(f)
)
def test_what_a_filter_removes_was_there(filters: dict[str, Any]) -> None:
    """No relevant item is left; run and gold name items alike all the same."""
    hits = [
        {"query_id": q, "topk": [
            {"chunk_id": "x", "score": 0.9, "doc_version": "2024-01-01"},
            {"chunk_id": items[0], "score": 0.2, "doc_version": "2025-07-01"},
        ]}
        for q, items in GOLD.items()
    ]  # fmt: skip
    gold = [{"query_id": q, "gold": items, "as_of": "2025-01-01"} for q, items in GOLD.items()]
    filtered = karat.evaluate(hits, gold, ["mrr"], **filters)
    assert (filtered.means, filtered.audit["no_shared_items"]) == ({"mrr": 0.0}, 0)
    other = [{"query_id": q, "topk": [{"chunk_id": "x", "score": 0.9}, "y"]} for q in GOLD]
    if "no_future" not in filters:
        assert karat.evaluate(other, gold, ["mrr"], **filters).audit["no_shared_items"] == len(GOLD)
