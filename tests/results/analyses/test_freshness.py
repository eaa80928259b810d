"""The lists as they are against the same lists without newer documents."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import karat
from karat.report.export import to_json
from karat.results.analyses.freshness import Fresh
from karat.results.save import restore, saved_form
from karat.results.saved import read_results
from karat.statistics.sampling import Sampling

Record = dict[str, Any]
QUICK = {"sampling": Sampling(resamples=500)}


def world(n: int, *, newer_first: bool, newer_gold: int = 0) -> tuple[list[Record], list[Record]]:
    """Queries of June: one hit of May, one of July (first in every third query, if so), and the gold in May's or, in
    some queries, in July's."""
    run, gold = [], []
    for i in range(n):
        versions = {f"may{i}": "2025-05", f"july{i}": "2025-07-01"}
        hits = [{"chunk_id": chunk, "doc_version": version} for chunk, version in versions.items()]
        if newer_first and i % 3 == 0:
            hits.reverse()
        run.append({"query_id": f"q{i}", "topk": hits})
        right = f"july{i}" if i < newer_gold else f"may{i}"
        gold.append({"query_id": f"q{i}", "gold": [right], "as_of": "2025-06-15"})
    return run, gold


def found(run: Any, gold: Any, **options: Any) -> Fresh:
    result = karat.evaluate(run, gold, ["recall@5"], **QUICK, **options, analyses=True)
    assert "freshness" in result.analyses.found, result.analyses.lacking
    fresh = result.analyses.found["freshness"]
    assert isinstance(fresh, Fresh)
    return fresh


def change(fresh: Fresh, metric: str) -> tuple[float | None, float | None]:
    difference = next(d for d in fresh.differences if d.metric == metric)
    return difference.baseline, difference.candidate


def test_newer_hits_in_the_way() -> None:
    fresh = found(*world(30, newer_first=True))
    assert (fresh.queries, fresh.hits, fresh.newer_hits, fresh.undated_hits, fresh.affected) == (30, 60, 30, 0, 30)
    assert fresh.freshness.mean == 0.5
    assert change(fresh, "mrr") == (pytest.approx(5 / 6), 1.0)
    assert change(fresh, "recall@5") == (1.0, 1.0)
    assert (fresh.newer_gold, fresh.all_gold) == (0, False)


REQUESTED = ["hit@1", "map", "recall(level=doc)@2", "ndcg(gain=linear)@3", "distinct_docs@2", "judged@2", "returned@3"]


def test_the_requested_metrics_are_compared() -> None:
    """Against the same run from which newer hits were taken by hand."""
    rng = random.Random(5)
    run, gold, kept = [], [], []
    for q in range(40):
        hits = [{"chunk_id": f"d{i}#{q % 3}", "doc_version": rng.choice(["2025-05", "2025-07"])} for i in range(8)]
        rng.shuffle(hits)
        run.append({"query_id": f"q{q}", "topk": hits, "latency_ms": {"retrieve": 5.0}})
        kept.append({"query_id": f"q{q}", "topk": [hit for hit in hits if hit["doc_version"] == "2025-05"]})
        grades = {hit["chunk_id"]: rng.choice([0, 1, 2]) for hit in rng.sample(hits, 3)}
        gold.append({"query_id": f"q{q}", "gold": grades | {hits[0]["chunk_id"]: 1}, "as_of": "2025-06-15"})
    asked = [*REQUESTED, "latency_p50", "freshness@5"]
    result = karat.evaluate(run, gold, asked, **QUICK, analyses=True)
    fresh = result.analyses.found["freshness"]
    names = ["recall@5", "ndcg@5", "precision@5", "mrr", *REQUESTED]
    assert [d.metric for d in fresh.differences] == names
    before, after = (karat.evaluate(lists, gold, names) for lists in (run, kept))
    for name in names:
        pairs = [(was, after.score(name)[q]) for q, was in before.score(name).items()]
        both = [(was, now) for was, now in pairs if was is not None and now is not None]
        means = [sum(values) / len(both) for values in zip(*both, strict=True)]
        assert change(fresh, name) == pytest.approx(tuple(means)), name
    assert result.metrics == [karat.Metric.parse(name) for name in asked]
    assert restore(saved_form(result)).analyses.found["freshness"] == fresh


def test_credit_for_newer_documents() -> None:
    """Labels that name documents which did not exist: what was earned with them is gone, and they are named."""
    fresh = found(*world(30, newer_first=False, newer_gold=6))
    assert change(fresh, "recall@5") == (1.0, 0.8)
    recall = fresh.differences[0]
    assert recall.high is not None
    assert recall.high < 0
    assert (fresh.newer_gold, fresh.newer_gold_examples) == (6, ["q0: july0", "q1: july1", "q2: july2"])


def test_a_corpus_tells_the_versions_of_gold_that_nobody_found(tmp_path: Path) -> None:
    run, gold = world(20, newer_first=False)
    gold[0]["gold"] = ["lost"]
    gold[1]["gold"] = ["doc"]
    corpus = tmp_path / "corpus.jsonl"
    chunks = [{"id": "lost", "version": "2025-08"}, {"id": "doc#1", "doc_id": "doc", "version": "2026"}]
    corpus.write_text("".join(json.dumps(chunk) + "\n" for chunk in chunks))
    fresh = found(run, gold, corpus=corpus)
    assert (fresh.newer_gold, fresh.newer_gold_examples, fresh.all_gold) == (2, ["q0: lost", "q1: doc"], True)


OLD, NEW = "Refunds take five days.", "Refunds take nine days, as of this July."


AGES = [
    ({"doc_id": "doc", "quote": "take five days"}, 0),  # stands in the old version only
    ({"doc_id": "doc", "quote": "take nine days"}, 1),  # in the new one only
    ({"doc_id": "doc", "quote": "refunds take"}, 0),  # in both
    ({"doc_id": "doc"}, 0),  # any chunk of it will do
]
PLACES = [({"doc_id": "doc", "start": 0, "end": 20}, 0), ({"doc_id": "doc", "start": 25, "end": 40}, 1)]


@pytest.mark.parametrize(
    ("item", "newer", "with_corpus"),
    [(*case, True) for case in (*AGES, *PLACES)] + [(*case, False) for case in AGES],  # hits have no offsets
)
def test_a_passage_is_as_old_as_the_chunks_that_hold_it(
    tmp_path: Path, item: Record, newer: int, with_corpus: bool
) -> None:
    chunks = [
        {
            "chunk_id": f"doc#{version}",
            "doc_id": "doc",
            "text": text,
            "doc_version": version,
            "start": 0,
            "end": len(text),
        }
        for version, text in (("2025-05", OLD), ("2025-07", NEW))
    ]
    options = {}
    if with_corpus:
        (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(chunk) + "\n" for chunk in chunks))
        options = {"corpus": tmp_path / "corpus.jsonl"}
    run = [{"query_id": "q", "topk": chunks}]
    fresh = found(run, [{"query_id": "q", "gold": [item], "as_of": "2025-06-15"}], **options)
    assert (fresh.newer_gold, fresh.newer_hits, fresh.all_gold) == (newer, 1, with_corpus)


def test_the_versions_of_passages_are_a_tag(tmp_path: Path) -> None:
    chunks = [{"chunk_id": f"doc#{v}", "doc_id": "doc", "text": t, "version": v} for v, t in ((1, OLD), (2, NEW))]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(chunk) + "\n" for chunk in chunks))
    quotes = {"old": "five days", "new": "nine days", "both": "refunds take"}
    gold = [{"query_id": q, "gold": [{"doc_id": "doc", "quote": quote}]} for q, quote in quotes.items()]
    result = karat.evaluate(
        {q: ["doc#1"] for q in quotes}, gold, ["recall@5"], corpus=tmp_path / "corpus.jsonl", **QUICK
    )
    assert result.gold.tags["doc_version"] == ["1", "2", "several"]


def test_queries_without_as_of_and_hits_without_version_are_left_alone() -> None:
    run, gold = world(20, newer_first=False)
    del gold[0]["as_of"]
    run[1]["topk"][1]["doc_version"] = None
    fresh = found(run, gold)
    assert (fresh.queries, fresh.hits, fresh.newer_hits, fresh.undated_hits) == (19, 38, 18, 1)
    assert (fresh.affected, fresh.freshness.n) == (18, 19)


def test_the_same_is_found_where_newer_hits_were_removed_already() -> None:
    run, gold = world(30, newer_first=True)
    assert found(run, gold, no_future=True) == found(run, gold)


@pytest.mark.parametrize(
    ("gold", "versions", "needs"),
    [
        ({}, ["2025-05"], ["`as_of`"]),
        ({"as_of": "2025-06"}, [None], ["`doc_version`", "`topk`", "--corpus"]),
        ({"as_of": "2025-06"}, ["newest"], ["`as_of`", "run:1", "newest"]),
        ({"as_of": "2025-06"}, ["v3", None], ["`as_of`", "run:1", "v3"]),
    ],
)
def test_what_it_needs(gold: Record, versions: list[Any], needs: list[str]) -> None:
    hits = [{"chunk_id": f"c{i}", "doc_version": version} for i, version in enumerate(versions)]
    result = karat.evaluate([{"query_id": "q", "topk": hits}], [{"query_id": "q", "gold": ["c0"], **gold}], **QUICK)
    assert all(name in result.analyses.lacking["freshness"] for name in needs)
    assert "freshness" not in result.analyses.found


def test_one_version_that_cannot_be_compared_does_not_silence_the_others() -> None:
    run, gold = world(30, newer_first=True)
    whole = found(run, gold)
    for value in ("newest", "v3"):
        run[1]["topk"][0]["doc_version"] = value  # the hit of May
        result = karat.evaluate(run, gold, ["recall@5"], **QUICK, analyses=True)
        fresh = result.analyses.found["freshness"]
        assert (fresh.odd_versions, fresh.hits, fresh.newer_hits, fresh.undated_hits) == (1, 60, 30, 0)
        assert fresh.differences == whole.differences
        shown = next(entry for entry in result.audited if entry.code == "odd_versions")
        (example,) = shown.examples
        assert shown.count == 1
        assert all(part in example for part in ("line 2, q1: may1 ", str(value), "2025-06-15"))
        assert [e.code for e in saved_form(result).audit].count("odd_versions") == 1
        assert list(restore(saved_form(result)).audited) == list(result.audited)


def test_a_saved_result_has_it(tmp_path: Path) -> None:
    run, gold = world(20, newer_first=True)
    result = karat.evaluate(run, gold, **QUICK)
    path = tmp_path / "result.json"
    path.write_bytes(to_json([result]))
    (saved,) = read_results(path)
    assert restore(saved).analyses.found["freshness"] == result.analyses.found["freshness"]


DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"


def test_the_demo_set() -> None:
    """Nothing there is labelled as relevant before it existed, so that removing newer documents can only help."""
    fresh = found(DEMO / "bm25.jsonl", DEMO / "gold.jsonl", corpus=DEMO / "corpus.jsonl")
    assert (fresh.queries, fresh.hits, fresh.newer_hits, fresh.undated_hits) == (287, 2870, 318, 0)
    assert fresh.freshness.mean == pytest.approx(0.8808, abs=1e-4)
    assert (fresh.newer_gold, fresh.all_gold) == (0, True)
    assert all(d.losses == 0 and d.low is not None and d.low > 0 for d in fresh.differences)
    (row,) = karat.evaluate(
        DEMO / "bm25.jsonl", DEMO / "gold.jsonl", ["recall@5"], no_future=True, **QUICK
    ).summary_rows
    assert row.mean == fresh.differences[0].candidate
