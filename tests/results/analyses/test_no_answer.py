"""False evidence over score thresholds, and whether scores tell queries without an answer from the others."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from karat.data.gold import Gold
from karat.formats.corpus import read_corpus
from karat.results.analyses.no_answer import ThresholdPoint, Unanswerable, shortest_between
from karat.retrievers.bm25 import BM25
from karat.statistics.sampling import Sampling

Record = dict[str, Any]
QUICK = {"sampling": Sampling(resamples=500)}


def world(answerable: list[float | None], without: list[float | None]) -> tuple[list[Record], list[Record]]:
    """Queries whose first hit has these scores (None: no hit at all); with an answer it is the right one."""
    run, gold = [], []
    for kind, scores in (("a", answerable), ("n", without)):
        for i, score in enumerate(scores):
            hits = [] if score is None else [{"chunk_id": "x", "score": score}, {"chunk_id": "y", "score": score - 1}]
            run.append({"query_id": f"{kind}{i}", "topk": hits})
            gold.append({"query_id": f"{kind}{i}", **({"gold": ["x"]} if kind == "a" else {"no_answer": True})})
    return run, gold


def found(run: Any, gold: Any, **options: Any) -> Unanswerable:
    result = karat.evaluate(run, gold, ["recall@5"], **QUICK, **options, analyses=True)
    assert "no_answer" in result.analyses.found, result.analyses.lacking
    unanswerable = result.analyses.found["no_answer"]
    assert isinstance(unanswerable, Unanswerable)
    return unanswerable


def rates(point: ThresholdPoint | None) -> tuple[float | None, ...]:
    assert point is not None
    return point.false_evidence.value, point.miss.value, point.coverage, point.risk.value


def test_a_threshold_for_the_target() -> None:
    run, gold = world([5.0, 6.0, 7.0, 8.0, 2.5], [1.0, 2.0, 3.0, 6.5])
    seen = found(run, gold, target_false_evidence=0.25)
    assert (seen.no_answer, seen.answerable, seen.target) == (4, 5, 0.25)
    assert (seen.false_evidence.mean, seen.miss.mean) == (1.0, 0.0)
    assert seen.chosen is not None
    assert seen.chosen.threshold == 4.0  # above 3.0, and up to 5.0 it is all the same
    assert rates(seen.everything) == (1.0, 0.0, 1.0, pytest.approx(4 / 9))
    assert rates(seen.chosen) == (0.25, 0.2, pytest.approx(5 / 9), 0.2)


@pytest.mark.parametrize(("target", "threshold", "expected"), [(0.0, 7.0, 0.0), (0.5, 2.1, 0.5), (0.9, 2.0, 0.75)])
def test_the_lowest_threshold_that_keeps_to_the_target(target: float, threshold: float, expected: float) -> None:
    run, gold = world([5.0, 6.0, 7.0, 8.0, 2.5], [1.0, 2.0, 3.0, 6.5])
    chosen = found(run, gold, target_false_evidence=target).chosen
    assert chosen is not None
    assert (chosen.threshold, chosen.false_evidence.value) == (threshold, expected)


def test_the_chosen_threshold_is_what_it_says() -> None:
    """Scoring the run with it gives the very rates; anything lower breaks the target."""
    rng = np.random.default_rng(7)
    run, gold = world(rng.normal(1, 1, 60).tolist(), rng.normal(0, 1, 40).tolist())
    seen = found(run, gold)
    assert seen.chosen is not None
    t = seen.chosen.threshold
    names = [f"false_evidence(min_score={t})@5", f"miss(min_score={t})@5"]
    measured = karat.evaluate(run, gold, names, **QUICK)
    assert list(measured.means.values()) == [seen.chosen.false_evidence.value, seen.chosen.miss.value]
    assert list(karat.evaluate(run, gold, ["false_evidence@5", "miss@5"], min_score=t).means.values()) == list(
        measured.means.values()
    )
    tops = sorted(record["topk"][0]["score"] for record in run if record["query_id"].startswith("n"))
    lower = max(score for score in tops if score < t)
    assert karat.evaluate(run, gold, [f"false_evidence(min_score={lower})@5"]).means.popitem()[1] > 0.1


def test_where_no_threshold_is_needed() -> None:
    seen = found(*world([5.0, 6.0], [None, None, 3.0]), target_false_evidence=0.4)
    assert seen.chosen is None
    assert seen.false_evidence.mean == pytest.approx(1 / 3)


def test_where_only_silence_keeps_to_the_target() -> None:
    seen = found(*world([1.0, 2.0], [8.0, 9.5]), target_false_evidence=0.0)
    assert rates(seen.chosen) == (0.0, 1.0, 0.0, None)
    assert seen.chosen is not None
    assert seen.chosen.threshold == 10.0


def test_separation() -> None:
    seen = found(*world([5.0, 6.0, 7.0, None], [1.0, 2.0, 5.0, None]))
    assert seen.separation is not None
    expected = (3.5 + 4 + 4 + 0.5) / 16  # a tie counts half, and silence lies below every score
    assert (seen.separation.n, seen.separation.area) == (8, expected)
    assert 0 < seen.separation.low < expected < seen.separation.high <= 1


def test_the_curve_has_few_points_and_only_goes_one_way() -> None:
    rng = np.random.default_rng(3)
    run, gold = world(rng.normal(1, 1, 300).tolist(), rng.normal(0, 1, 100).tolist())
    curve = found(run, gold).curve
    assert len(curve) == 10
    assert [point.coverage for point in curve] == pytest.approx(np.arange(1, 0, -0.1), abs=0.01)
    for one, other in itertools.pairwise(curve):
        assert one.threshold is not None
        assert other.threshold is not None
        assert one.threshold < other.threshold
        assert (one.false_evidence.value or 0) >= (other.false_evidence.value or 0)
        assert (one.miss.value or 0) <= (other.miss.value or 0)
    assert all(point.risk.low is not None and point.risk.low <= (point.risk.value or 0) for point in curve)


def test_few_different_scores_make_few_points() -> None:
    assert len(found(*world([1.0] * 30, [0.5] * 30)).curve) == 2


def test_intervals_of_shares_are_jeffreys() -> None:
    seen = found(*world([5.0] * 20, [1.0] * 10))
    assert seen.everything is not None
    assert (seen.everything.false_evidence.low, seen.everything.false_evidence.high) == (
        seen.false_evidence.low,
        seen.false_evidence.high,
    )
    assert seen.false_evidence.low == pytest.approx(0.782, abs=1e-3)


def test_conversations_are_resampled_together() -> None:
    run, gold = world([5.0, 6.0] * 20, [1.0, 6.0] * 10)
    for i, entry in enumerate(gold):
        entry["conversation_id"] = f"c{i // 10}"
    apart, together = (found(run, gold, cluster=cluster).separation for cluster in ("none", None))
    assert apart is not None
    assert together is not None
    assert apart.area == together.area
    assert (apart.low, apart.high) != (together.low, together.high)


def test_queries_that_the_run_lacks() -> None:
    run, gold = world([5.0, 6.0], [1.0, 2.0])
    seen = found([record for record in run if record["query_id"] not in ("a0", "n0")], gold)
    assert (seen.missing, seen.false_evidence.mean, seen.miss.mean) == (1, 0.5, 0.5)
    assert seen.everything is not None
    assert seen.everything.coverage == 0.5
    skipped = found([record for record in run if record["query_id"] not in ("a0", "n0")], gold, missing="skip")
    assert (skipped.missing, skipped.no_answer, skipped.false_evidence.mean, skipped.miss.mean) == (0, 1, 1.0, 0.0)


def test_without_scores_only_what_can_be_said() -> None:
    _, gold = world([5.0, 6.0], [1.0, 2.0])
    seen = found({"a0": ["x"], "a1": ["y"], "n0": ["x"], "n1": []}, gold)
    assert (seen.false_evidence.mean, seen.miss.mean) == (0.5, 0.5)
    assert (seen.separation, seen.everything, seen.chosen, seen.curve) == (None, None, None, [])


def test_queries_without_scores_are_left_out_and_counted() -> None:
    run, gold = world([5.0, 6.0, 7.0], [1.0, 2.0])
    run[0]["topk"] = ["x"]
    seen = found(run, gold)
    assert seen.unscored == 1
    assert seen.separation is not None
    assert (seen.separation.n, seen.separation.area) == (4, 1.0)


def test_only_queries_without_an_answer() -> None:
    run, gold = world([], [1.0, 2.0])
    seen = found(run, gold)
    assert (seen.separation, seen.answerable, seen.miss.mean) == (None, 0, None)
    assert seen.chosen is not None
    assert seen.chosen.false_evidence.value == 0.0


def test_what_it_needs() -> None:
    run, gold = world([5.0], [])
    assert "`no_answer: true`" in karat.evaluate(run, gold, **QUICK).analyses.lacking["no_answer"]
    _, gold = world([5.0], [1.0, 2.0])
    lacking = karat.evaluate(run, gold, **QUICK).analyses.lacking["no_answer"]
    assert lacking.endswith(" 2")


@pytest.mark.parametrize("target", [-0.1, 1.0, float("nan")])
def test_a_target_that_is_no_share(target: float) -> None:
    with refused("bad-setting"):
        karat.evaluate(*world([5.0], [1.0]), target_false_evidence=target)


@pytest.mark.parametrize(
    ("low", "high"), [(0.123456, 0.123457), (-3.2, -3.1), (1e-9, 2e-9), (1e12, 1e12 + 1), (5.0, np.nextafter(5.0, 6.0))]
)
def test_the_shortest_number_lies_between(low: float, high: float) -> None:
    assert low < shortest_between(low, high) <= high


# Real data, with BM25 runs made on the spot


def searched(folder: Path) -> tuple[list[Record], Gold]:
    """BM25's first ten for every query, also for those that nobody judged."""
    corpus, gold, retriever = read_corpus(folder), karat.read_gold(folder), BM25()
    retriever.index(corpus)
    hits = [retriever.search(gold.text(i) or "", 10) for i in range(len(gold.queries))]
    return [
        {"query_id": query, "topk": [{"chunk_id": chunk, "score": score} for chunk, score in found]}
        for query, found in zip(gold.queries, hits, strict=True)
    ], gold


@pytest.mark.parametrize(
    ("name", "rule", "queries", "area"),
    [
        ("mtrag_un", "answerability=UNANSWERABLE", (27, 105), 0.721),
        ("mtrag_un", "answerability=UNANSWERABLE,UNDERSPECIFIED", (52, 105), None),
        ("lihua_world", "type=Null", (65, 571), 0.462),
    ],
)
def test_real_questions_without_an_answer(
    shared_data: Path, name: str, rule: str, queries: tuple[int, int], area: float | None
) -> None:
    """Words alone do not tell: every such question gets hits, and the top score says little or nothing."""
    run, gold = searched(shared_data / name)
    seen = found(run, gold, no_answer=rule)
    assert (seen.no_answer, seen.answerable) == queries
    assert seen.false_evidence.mean == 1.0
    assert seen.miss.mean is not None
    assert 0.1 < seen.miss.mean < 0.2
    assert seen.separation is not None
    assert seen.separation.high < 0.85
    assert area is None or seen.separation.area == pytest.approx(area, abs=1e-3)
    assert seen.chosen is not None
    assert (seen.chosen.false_evidence.value or 0) <= 0.1
    assert (seen.chosen.miss.value or 0) > 0.7, "what the threshold costs stands beside it"


def test_a_run_that_leaves_the_unanswerable_questions_out(shared_data: Path) -> None:
    folder = shared_data / "mtrag_un"
    result = karat.evaluate(folder / "bm25.run", folder, no_answer="answerability=UNANSWERABLE", **QUICK)
    assert result.analyses.lacking["no_answer"].endswith(" 27")


DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"


def test_the_demo_set() -> None:
    seen = found(DEMO / "bm25.jsonl", DEMO / "gold.jsonl", corpus=DEMO / "corpus.jsonl")
    assert (seen.no_answer, seen.answerable, seen.false_evidence.mean) == (28, 259, 1.0)
    assert seen.separation is not None
    assert seen.separation.area == pytest.approx(0.7511, abs=1e-4)
    assert seen.chosen is not None
    assert seen.chosen.threshold == 6.605
    assert rates(seen.chosen)[:2] == (pytest.approx(2 / 28), pytest.approx(0.587, abs=1e-3))
