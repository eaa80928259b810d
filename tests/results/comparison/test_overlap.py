"""How alike the lists of two runs are, with and without labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from refusals import refused

import karat
from karat.errors import ConfigError
from karat.results.comparison.overlap import ListOverlap
from karat.results.kept_run import columns_of, from_frame, outline
from karat.results.summary import Scores, summarise
from karat.results.tables_form import saved_tables
from karat.statistics.sampling import Sampling

QUICK = Sampling(resamples=300)
GOLD = {f"q{i}": ["a"] for i in range(8)}
OLD = {f"q{i}": ["a", "b", "c"] for i in range(7)} | {"q7": []}
NEW = {
    "q0": ["a", "b", "c"],  # the same
    "q1": ["a", "c", "b"],  # reordered; its scores stay the same
    "q2": ["a", "b", "x"],
    "q3": ["b", "a", "c"],  # reordered, and worse
    "q4": ["x", "y", "z"],
    "q5": [],
    "q6": ["a", "b", "c"],
    "q7": [],
}


def lists(
    old: Any = OLD, new: Any = NEW, gold: Any = GOLD, metrics: Any = ("mrr", "recall@1"), **more: Any
) -> ListOverlap:
    found = karat.compare(old, new, gold, metrics, sampling=QUICK, **more).pairs[0].overlap
    assert found is not None
    return found


def test_kinds_of_changes() -> None:
    found = lists()
    assert (found.depth, [row.metric for row in found.overlap]) == (10, ["rbo@10", "jaccard@10"])
    kinds = (found.same, found.reordered, found.partly, found.disjoint, found.one_empty, found.both_empty)
    assert kinds == (2, 2, 1, 1, 1, 1)
    assert (found.unseen, found.unseen_queries) == (2, ["q1", "q2"])
    assert found.unlisted == 0
    assert [(one.query_id, one.value) for one in found.least][:2] == [("q4", 0.0), ("q5", 0.0)]
    rbo, jaccard = found.overlap
    assert (rbo.n, rbo.undefined) == (7, 1)
    assert jaccard.mean == pytest.approx((1 + 1 + 0.5 + 1 + 0 + 0 + 1) / 7)
    assert (rbo.low or 1) < (rbo.mean or 0) < (rbo.high or 0)


def test_the_same_numbers_as_the_metric_against_a_reference() -> None:
    found = lists(metrics=["rbo(p=0.8)@2", "jaccard@2", "mrr"])
    against = karat.evaluate(NEW, GOLD, ["rbo(p=0.8)@2", "jaccard@2"], reference=OLD, sampling=QUICK)
    for row in found.overlap:
        assert row == against[row.metric]
    # With a reference, each run is compared with it.
    pair = karat.compare(OLD, NEW, GOLD, ["rbo@2"], reference=OLD, sampling=QUICK)["rbo@2"]
    assert (pair.baseline, pair.reading) == (1.0, "too few")


def test_results_with_other_references_are_not_compared() -> None:
    one, two = (karat.evaluate(NEW, GOLD, ["rbo@2"], reference=run, sampling=QUICK) for run in (OLD, NEW))
    same = karat.evaluate(OLD, GOLD, ["rbo@2"], reference=OLD, sampling=QUICK)
    with refused("not-comparable", ConfigError):
        karat.compare(one, two)
    assert karat.compare(one, same).pairs[0].queries > 0


def test_lists_that_stay_while_scores_change() -> None:
    old, new = ([{"query_id": "q", "topk": [{"chunk_id": "a", "text": text}]}] for text in ("five days", "two weeks"))
    gold = [{"query_id": "q", "gold": ["a"], "evidence": ["five days"]}]
    found = lists(old, new, gold, ["evidence_recall@1", "recall@1"])
    assert (found.same, found.unlisted, found.unlisted_queries) == (1, 1, ["q"])


def test_ties_and_segments() -> None:
    gold = [{"query_id": f"q{i}", "gold": ["a"], "tags": {"language": "de" if i % 2 else "en"}} for i in range(8)]
    one = {f"q{i}": {"a": 2.0, "b": 1.0, "c": 1.0} for i in range(8)}
    two = {f"q{i}": {"a": 2.0, "c": 1.0, "b": 1.0} if i % 2 else {"a": 2.0, "c": 1.5, "b": 1.0} for i in range(8)}
    found = lists(one, two, gold, segments=["language"])
    groups = {group.value: group.overlap[0].mean for group in found.segments}
    assert groups["de"] == 1.0  # tied in both
    assert groups["en"] == pytest.approx(1 - 0.09 * (1 - 1.5 / np.sqrt(1.5 * 2)))


def test_without_a_gold_set() -> None:
    timed = [{"query_id": q, "topk": hits, "latency_ms": {"total": 5.0}} for q, hits in OLD.items()]
    slow = [{"query_id": q, "topk": hits, "latency_ms": {"total": 9.0}} for q, hits in NEW.items()]
    pair = karat.compare(timed, slow, sampling=QUICK).pairs[0]
    assert pair.queries == 8
    assert pair["latency_p50"].delta == 4.0
    assert not any(d.metric.startswith(("recall", "judged", "mrr")) for d in pair.differences)
    assert pair.overlap is not None
    assert (pair.overlap.same, pair.overlap.unseen) == (2, None)
    assert "no gold set" in pair.notes[0]
    with refused("no-gold", ConfigError):
        karat.compare(timed, slow, metrics=["recall@5"])


def test_saved_results_keep_the_first_ten_hits(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    old = {f"q{i}": {f"d{j}": float(s) for j, s in enumerate(rng.integers(0, 9, 15))} for i in range(30)}
    new = {f"q{i}": {f"d{j}": float(s) for j, s in enumerate(rng.integers(0, 9, 15))} for i in range(30)}
    gold = {f"q{i}": ["d1"] for i in range(30)}
    files = [tmp_path / f"{name}.json" for name in ("old", "new")]
    results = [karat.evaluate(run, gold, ["mrr"], sampling=QUICK) for run in (old, new)]
    for result, file in zip(results, files, strict=True):
        result.save(file)
        tables = saved_tables(result.data, result.gold, result.rows)
        kept = from_frame(outline(tables), pl.DataFrame(columns_of(tables, len(result.rows))), arrays=False)
        assert kept.hashes == tables.hashes  # also in the Parquet files of a history
    assert karat.compare(*files, sampling=QUICK).pairs[0].overlap == lists(old, new, gold, ["mrr"])
    deep = karat.compare(*files, None, ["rbo@12", "mrr"], sampling=QUICK)
    assert deep.pairs[0].overlap is None
    assert "rbo@12 left out" in deep.pairs[0].notes[-1]


def test_the_command_without_gold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, run in (("old", OLD), ("new", NEW)):
        lines = (json.dumps({"query_id": q, "system": name, "topk": hits}) + "\n" for q, hits in run.items())
        Path(f"{name}.jsonl").write_text("".join(lines))
    code, said, _ = karat_command("compare", "old.jsonl", "new.jsonl", "-o", "page.html", "-o", "out.md")
    assert code == 0
    assert "no gold set" in said
    kinds = "2 queries with the same hits in the same order; 2 with the same hits in another order; 1 with some hits"
    assert kinds in " ".join(said.split())
    assert "q4 (0.00)" in said
    assert "jaccard@10" in Path("page.html").read_text()
    assert "jaccard@10" in Path("out.md").read_text()
    _, said, _ = karat_command("compare", "old.jsonl", "new.jsonl", "-m", "jaccard@2", "--json")
    [pair] = json.loads(said)["pairs"]
    assert [row["metric"] for row in pair["overlap"]["overlap"]] == ["jaccard@2"]
    assert karat_command("compare", "old.jsonl", "new.jsonl", "-m", "recall@5")[0] == 2


def test_intervals_hold_the_truth() -> None:
    """Of 300 draws of 60 queries, the usual interval holds the mean overlap of all queries in at least 93 %.

    With 1,500 draws it was 95.4 % for 20 queries, 95.3 % for 60 and 94.7 % for 200. A few hundred resamples are too
    few: with 400, all from one seed, it was 91.4 %.
    """
    rng = np.random.default_rng(7)
    ids, size = [f"d{i}" for i in range(14)], 4000
    old = {f"q{i}": ids[:10] for i in range(size)}
    new = {
        query: rng.permutation(ids[: 10 + more])[:10].tolist() if more else ids[:10]
        for query, more in zip(old, rng.choice([0, 0, 1, 4], size), strict=True)
    }
    whole = karat.evaluate(new, {query: ["d0"] for query in old}, ["rbo@10"], reference=old)
    values = whole.values["rbo@10"]
    held = 0
    for _ in range(300):
        [row] = summarise(Scores(whole.metrics, {"rbo@10": rng.choice(values, 60)}), Sampling(), {}, {})
        held += (row.low or 0.0) <= values.mean() <= (row.high or 1.0)
    assert held >= 0.93 * 300


def test_without_a_gold_set_none_is_named(tmp_path: Path, karat_command: Any) -> None:
    for name, queries in (("old", ["q1"]), ("new", ["q1", "q2"])):
        (tmp_path / f"{name}.jsonl").write_text("".join(f'{{"query_id": "{q}", "topk": ["a"]}}\n' for q in queries))
    _, out, _ = karat_command("compare", str(tmp_path / "old.jsonl"), str(tmp_path / "new.jsonl"))
    assert "gold set does not" not in out
    assert "gold set" not in repr(karat.compare({"q1": ["a"]}, {"q1": ["a"]}))
