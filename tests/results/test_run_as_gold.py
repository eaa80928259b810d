"""A run as gold: its first hits are relevant, and hits of equal score are equal neighbours."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import karat
from karat.scoring.engines.processes import Processes
from karat.statistics.sampling import Sampling

QUICK = Sampling(resamples=200)


def line(query: str, scores: dict[str, float], **more: Any) -> dict[str, Any]:
    return {"query_id": query, "topk": [{"chunk_id": i, "score": s} for i, s in scores.items()], **more}


def found(run: Any, exact: Any, metrics: Any, depth: int = 3, **options: Any) -> dict[str, float | None]:
    return karat.evaluate(run, karat.read_run(exact), metrics, depth=depth, sampling=QUICK, **options).means


def test_recall_is_the_share_of_the_exact_hits() -> None:
    exact = {"q": {"a": 9, "b": 8, "c": 7, "d": 6}}
    assert found({"q": ["a", "c", "x"]}, exact, ["recall@3", "recall", "precision@3"]) == {
        "recall@3": pytest.approx(2 / 3),
        "recall@k": pytest.approx(2 / 3),  # the depth is the cutoff of every query
        "precision@3": pytest.approx(2 / 3),
    }
    assert found({"q": ["d", "a"]}, exact, ["recall@3"]) == {"recall@3": pytest.approx(1 / 3)}


def test_hits_at_the_same_distance_are_equal_neighbours() -> None:
    exact = {"q": {"a": 9, "b": 7, "c": 7, "d": 7, "e": 7, "f": 1}}  # a, and any two of b to e
    for right in (["a", "b", "c"], ["a", "d", "e"], ["e", "a", "b"]):
        assert found({"q": right}, exact, ["recall@3", "ndcg@3"]) == {"recall@3": 1.0, "ndcg@3": 1.0}, right
    assert found({"q": ["a", "f", "e"]}, exact, ["recall@3"]) == {"recall@3": pytest.approx(2 / 3)}


def test_tied_hits_do_not_stand_for_nearer_ones() -> None:
    """As precision, it is the recall of ann-benchmarks: the share of hits that are no farther than the last one."""
    exact = {"q": {"a": 9, "b": 7, "c": 7, "d": 7, "e": 7}}
    means = found({"q": ["b", "c", "d"]}, exact, ["recall@3", "precision@3"])
    assert means == {"recall@3": pytest.approx(2 / 3), "precision@3": 1.0}


@settings(max_examples=30)
@given(
    scores=st.lists(st.integers(1, 4), min_size=1, max_size=7),
    depth=st.integers(1, 5),
    returned=st.permutations(range(9)),
    k=st.integers(1, 9),
)
def test_recall_is_the_best_over_all_orders_of_ties(scores: list[int], depth: int, returned: list[int], k: int) -> None:
    ordered = sorted(scores, reverse=True)
    exact = [line("q", {f"d{i}": s for i, s in enumerate(ordered)})]
    first, run = min(depth, len(ordered)), [f"d{i}" for i in returned]
    last = ordered[first - 1]
    nearer = [f"d{i}" for i, s in enumerate(ordered) if s > last]
    tied = [f"d{i}" for i, s in enumerate(ordered) if s == last]
    right = [{*nearer, *some} for some in itertools.combinations(tied, first - len(nearer))]
    best = max(len(one & {*run[:k]}) for one in right) / first
    assert found({"q": run}, exact, [f"recall@{k}"], depth) == {f"recall@{k}": pytest.approx(best)}
    result = karat.evaluate({"q": run}, karat.read_run(exact), ["recall@9"], depth=depth, sampling=QUICK)
    assert len({*result.data.tables[result.view].item.tolist()}) == round(first * (result.means["recall@9"] or 0))


def test_what_is_odd_in_the_exact_run_is_counted() -> None:
    exact = [
        line("failed", {"a": 3}, error="timeout"),
        line("empty", {}),
        line("short", {"a": 3, "b": 2}),
        line("tied", {"a": 3, "b": 2, "c": 2, "d": 2}),
        line("hidden", {"a": 3, "b": 2, "c": 2}),
    ]
    run = {query: ["a", "b", "d"] for query in ("failed", "empty", "short", "tied", "hidden")}
    result = karat.evaluate(run, karat.read_run(exact), ["recall@3"], depth=3, sampling=QUICK)
    assert result.score("recall@3") == {
        "failed": None,
        "empty": None,
        "short": 1.0,
        "tied": 1.0,
        "hidden": pytest.approx(2 / 3),
    }
    codes = ("gold_run_failed", "gold_run_empty", "gold_run_short", "gold_run_ties", "gold_run_hidden_ties")
    assert [result.audit[code] for code in codes] == [1, 1, 1, 1, 1]
    assert result.audit["no_relevant_gold"] == 0


def test_distances_and_ids_that_are_written_differently() -> None:
    exact = [line("q", {"A.md": 0.1, "B.md": 0.2, "C.md": 0.2, "D.md": 0.9})]
    run = [line("q", {"a": 0.1, "b": 0.2, "c": 0.3})]
    means = found(run, exact, ["recall@2", "rbo@2"], 2, scores="lower-is-better", normalize_ids=True)
    assert means["recall@2"] == 1.0
    assert means["rbo@2"] == pytest.approx(1 - 0.09 * 0.5 - 0.81 * 0.5)  # of B and C, the id puts C first


def test_saved_results_are_the_same_again(tmp_path: Path) -> None:
    exact = [line(f"q{i}", {"a": 9, "b": 7, "c": 7, "d": 7}) for i in range(25)]
    run = [line(f"q{i}", {"d": 3, "a": 2, "c": 1} if i % 2 else {"x": 3, "a": 1}) for i in range(25)]
    result = karat.evaluate(run, karat.read_run(exact), ["recall@3", "rbo@3"], depth=3, sampling=QUICK)
    assert (result.provenance["gold_run"], result.provenance["gold_depth"]) == ("run:run", 3)
    result.save(tmp_path / "r.json")
    again = karat.load(tmp_path / "r.json")
    assert again.means == result.means
    assert again.measure(["recall@2", "ndcg@3"]).means == result.measure(["recall@2", "ndcg@3"]).means
    other = karat.evaluate(run, karat.read_run(exact), ["recall@3"], depth=2, sampling=QUICK)
    assert other.gold.dataset.hash != result.gold.dataset.hash


def test_workers_give_the_same_numbers(tmp_path: Path) -> None:
    exact, run = tied_runs(tmp_path)
    engine = Processes(2, part=20_000, parts=2)
    assert len(karat.read_run(run).parts(engine.part) or []) > 1  # else this process would do it all
    metrics = ["recall@10", "precision@10", "rbo@10", "jaccard@5"]
    here, there = (karat.evaluate(run, f"run:{exact}", metrics, engine=e, sampling=QUICK) for e in (None, engine))
    assert here.audit["gold_run_ties"] > 0
    assert here.scores.equals(there.scores)
    assert 0 < (here.means["recall@10"] or 0) < 1


def tied_runs(folder: Path) -> tuple[Path, Path]:
    """An exact run with many ties, and another one."""
    rng = np.random.default_rng(3)
    for name in ("exact", "ann"):
        lines = (line(f"q{i}", {f"d{j}": float(s) for j, s in enumerate(rng.integers(0, 6, 20))}) for i in range(200))
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    return folder / "exact.jsonl", folder / "ann.jsonl"


def test_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    names = [f"d{i}" for i in range(12)]
    both = [
        line(f"q{i}", dict.fromkeys(reversed(names), 1.0) if i < 2 else {n: -float(j) for j, n in enumerate(names)})
        for i in range(30)
    ]
    ann = [{**one, "system": "hnsw", "topk": one["topk"][i % 3 :][:10]} for i, one in enumerate(both)]
    Path("exact.jsonl").write_text("".join(json.dumps({**one, "system": "exact"}) + "\n" for one in both))
    Path("ann.jsonl").write_text("".join(json.dumps(one) + "\n" for one in ann))
    Path("both.jsonl").write_text(Path("exact.jsonl").read_text() + Path("ann.jsonl").read_text())

    def call(*words: str) -> tuple[int, str]:
        code, out, _ = karat_command(*words)
        return code, out

    code, said = call("eval", "ann.jsonl", "--gold", "run:exact.jsonl", "--depth", "10", "-m", "recall@10", "--json")
    assert code == 0
    result = json.loads(said)
    assert result["gold"] == "run:exact.jsonl"
    assert result["provenance"]["gold_depth"] == 10
    assert result["summary"][0]["mean"] == pytest.approx(1 - (10 * 0.1 + 10 * 0.2 - 0.1) / 30)
    code, text = call("eval", "ann.jsonl", "--gold", "run:exact.jsonl")
    assert code == 0
    assert "first 10 hits" in text
    assert "judged@5" not in text
    assert "Label health" not in text
    assert call("eval", "ann.jsonl", "--gold", "run:both.jsonl#exact", "--json", "-m", "recall@10")[0] == 0
    gates = ("--gate", "recall@10 >= 0.85", "--gate", "rbo@10 >= 0.5")
    assert call("gate", "ann.jsonl", "--gold", "run:exact.jsonl", *gates)[0] == 0
    assert call("gate", "ann.jsonl", "--gold", "run:exact.jsonl", "--gate", "rbo@10 >= 0.99")[0] == 1
    code, text = call("compare", "exact.jsonl", "ann.jsonl", "--gold", "run:exact.jsonl")
    assert code == 0
    assert "recall@10" in text
    assert "unjudged" not in text
    Path("exact.json").write_text(Path("exact.jsonl").read_text())
    for gold in ("run:exact.json", "run:exact.json#exact"):
        before = Path("exact.json").read_bytes()
        assert karat_command("eval", "ann.jsonl", "--gold", gold, "-o", "exact.json")[0] == 2
        assert Path("exact.json").read_bytes() == before
