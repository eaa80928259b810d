"""How deep should we look: curves, knees and headroom over k."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.errors import ConfigError
from karat.results.analyses.base import Lacking
from karat.results.evaluate import evaluate_all
from karat.results.save import restore
from karat.results.saved import read_results
from karat.results.sweep import Curve, Sweep
from karat.statistics.sampling import Sampling

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"
RUN, GOLD = str(DEMO / "bm25.jsonl"), str(DEMO / "gold.jsonl")
QUICK = Sampling(resamples=300)


def swept(run: Any, gold: Any, ks: Any = (1, 2, 3, 5), **options: Any) -> Sweep:
    return karat.evaluate(run, gold, "mrr", sampling=QUICK, **options).sweep(ks)


@pytest.fixture(scope="module")
def demo() -> Sweep:
    return karat.evaluate(RUN, GOLD, "mrr", segments="language", sampling=QUICK).sweep([1, 3, 5, 10])


# Queries as (places of the relevant hits in a list of some depth, relevant items that were not found).
_queries = st.lists(
    st.tuples(st.lists(st.booleans(), max_size=8), st.integers(0, 3)).filter(lambda q: any(q[0]) or q[1]),
    min_size=1,
    max_size=6,
)


def data(queries: list[tuple[list[bool], int]]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    run = {f"q{i}": [f"{'g' if hit else 'x'}{j}" for j, hit in enumerate(hits)] for i, (hits, _) in enumerate(queries)}
    gold = {
        f"q{i}": [f"g{j}" for j, hit in enumerate(hits) if hit] + [f"lost{j}" for j in range(lost)]
        for i, (hits, lost) in enumerate(queries)
    }
    return run, gold


def test_the_curve_is_what_evaluate_measures(demo: Sweep) -> None:
    names = [f"{metric}@{k}" for k in (1, 3, 5, 10) for metric in ("recall", "ndcg")]
    result = karat.evaluate(RUN, GOLD, [*names, "auc_recall@10"], segments="language", sampling=QUICK)
    rows = [[row for point in curve.points for row in (point.recall, point.ndcg)] for curve in demo.curves]
    for found, expected in zip(rows, (result.summary_rows, *(s.summary for s in result.segment_rows)), strict=True):
        assert [r.metric for r in found] == names
        assert [(r.mean, r.n, r.undefined, r.ceiling) for r in found] == [
            (r.mean, r.n, r.undefined, r.ceiling) for r in expected[:-1]
        ]
        assert all(r.low < r.mean < r.high for r in found if r.low is not None and r.high is not None)
    assert demo.curves[0].auc_recall.mean == result.means["auc_recall@10"]


def test_segments_come_after_all_queries(demo: Sweep) -> None:
    assert [(c.segment, c.value, c.queries) for c in demo.curves] == [
        ("all queries", "all queries", 287),
        ("language", "en", 125),
        ("language", "es-AR", 80),
        ("language", "pt-BR", 82),
    ]


@given(_queries, st.integers(1, 12))
def test_the_area_is_the_mean_of_recall_at_every_depth(queries: list[tuple[list[bool], int]], k: int) -> None:
    run, gold = data(queries)
    every = [f"recall@{j}" for j in range(1, k + 1)]
    result = karat.evaluate(run, gold, [*every, f"auc_recall@{k}"])
    for i, area in enumerate(result.values[f"auc_recall@{k}"]):
        assert area == pytest.approx(np.mean([result.values[name][i] for name in every]), abs=1e-12)


@settings(max_examples=30)
@given(_queries, st.sets(st.integers(1, 10), min_size=1, max_size=5))
def test_knees_and_headroom_by_brute_force(queries: list[tuple[list[bool], int]], ks: set[int]) -> None:
    run, gold = data(queries)
    sweep = swept(run, gold, ks)
    curve = sweep.curves[0]
    depth = max(len(hits) for hits, _ in queries)
    assert sweep.depth == depth
    assert sweep.ks == ([k for k in sorted(ks) if k <= depth] or [min(ks)])
    relevant = [sum(hits) + lost for hits, lost in queries]

    def recall(k: int) -> float:
        return float(np.mean([sum(hits[:k]) / n for (hits, _), n in zip(queries, relevant, strict=True)]))

    knee = next(k for k in sweep.ks if recall(k) >= recall(sweep.ks[-1]) - 0.01 - 1e-9)
    assert curve.knees[0].metric == "recall"
    assert curve.knees[0].k == knee
    ndcg = [point.ndcg.mean for point in curve.points]
    assert curve.knees[1].k == next(k for k, v in zip(sweep.ks, ndcg, strict=True) if v >= ndcg[-1] - 0.01 - 1e-9)
    for found in curve.knees:
        assert sum(found.chosen.values()) == pytest.approx(1, abs=1e-3)  # each is rounded to four decimals
        assert list(found.chosen) == sweep.ks
    for room in curve.headroom:
        assert room.recall == pytest.approx(recall(room.k), abs=1e-12)
        assert room.recall + room.recoverable + room.lost == pytest.approx(1, abs=1e-12)
        assert room.lost == pytest.approx(1 - recall(depth), abs=1e-12)
        assert room.cap == pytest.approx(np.mean([min(room.k, n) / n for n in relevant]), abs=1e-12)
        assert room.depth == depth


def test_headroom_of_the_demo_set_adds_up(demo: Sweep) -> None:
    for curve in demo.curves:
        assert [h.k for h in curve.headroom] == [1, 3, 5, 10]
        for room in curve.headroom:
            assert room.recall + room.recoverable + room.lost == pytest.approx(1, abs=1e-12)
            assert room.recall <= room.cap
            assert room.recoverable >= -1e-12
        assert curve.headroom[-1].recoverable == pytest.approx(0, abs=1e-12)


def test_a_clear_knee_is_chosen_always_and_a_doubtful_one_is_not() -> None:
    sure = swept({f"q{i}": ["a", "x", "y"] for i in range(30)}, {f"q{i}": ["a"] for i in range(30)}, [1, 2, 3])
    assert sure.curves[0].knees[0].chosen == {1: 1.0, 2: 0.0, 3: 0.0}
    lists = {f"q{i}": ["x", "a"] if i == 0 else ["a", "x"] for i in range(60)}  # 1 in 60: more than 1 pp, by a hair
    doubt = swept(lists, {q: ["a"] for q in lists}, [1, 2]).curves[0].knees[0]
    assert doubt.k == 2
    assert 0.2 < doubt.chosen[1] < 0.8


def test_depths_past_the_lists_are_left_out_and_said_to_be() -> None:
    sweep = swept({"q": ["a", "b"], "r": ["c"]}, {"q": ["a"], "r": ["x"]}, [1, 2, 5, 20])
    assert (sweep.ks, sweep.depth) == ([1, 2], 2)
    assert [re.findall(r"\d+", note) for note in sweep.notes] == [["2", "5", "20"]]  # how deep, and left out
    assert swept({"q": ["a", "b"]}, {"q": ["a"]}, [1, 2]).notes == []
    assert sweep.curves[0].auc_recall.metric == "auc_recall@2"


def test_only_depths_past_the_lists_leave_the_shallowest() -> None:
    assert swept({"q": ["a", "b"]}, {"q": ["a"]}, [50, 10]).ks == [10]
    empty = swept({"q": [], "r": []}, {"q": ["a"], "r": ["b"]})
    assert (empty.ks, empty.depth) == ([1], 0)
    assert empty.curves[0].headroom[0].lost == 1


def test_depths_may_come_in_any_order_and_twice() -> None:
    run, gold = {"q": ["a", "b", "c"]}, {"q": ["c"]}
    assert swept(run, gold, [3, 1, 1, 2]) == swept(run, gold, (1, 2, 3))


@pytest.mark.parametrize("ks", [[], [0], [1, -1]])
def test_depths_that_are_none_are_refused(ks: list[int]) -> None:
    with refused("bad-setting", ConfigError):
        swept({"q": ["a"]}, {"q": ["a"]}, ks)


def test_the_default_depths_are_those_that_the_brief_names() -> None:
    run = {"q": [f"d{i}" for i in range(30)]}
    assert karat.evaluate(run, {"q": ["d9"]}, "mrr", sampling=QUICK).sweep().ks == [1, 3, 5, 10, 20]


def test_options_of_the_evaluation_hold_for_the_sweep() -> None:
    gold = [{"query_id": f"q{i}", "gold": ["a"], "conversation_id": "c"} for i in range(4)]
    run = {f"q{i}": [["a", 2.0], ["b", 1.0]] for i in range(3)}
    run["q0"] = [["b", 2.0], ["a", 0.5]]

    def recall(**options: Any) -> Any:
        sweep = swept(run, gold, [2], **options)
        return sweep.statistics["cluster"], sweep.curves[0].queries, sweep.curves[0].points[0].recall.mean

    assert recall() == ("conversation_id", 4, 0.75)
    assert recall(missing="skip") == ("conversation_id", 3, 1.0)
    assert recall(missing="skip", min_score=1.0) == ("conversation_id", 3, pytest.approx(2 / 3))
    assert recall(cluster="none")[0] is None


def test_every_system_of_a_run_is_swept_on_its_own() -> None:
    log = [{"query_id": "q", "system": s, "topk": hits} for s, hits in (("good", ["a", "x"]), ("bad", ["x", "a"]))]
    results = evaluate_all(log, {"q": ["a"]}, "mrr", sampling=QUICK)
    found = {s: [p.recall.mean for p in r.sweep([1, 2]).curves[0].points] for s, r in results.items()}
    assert found == {"good": [1.0, 1.0], "bad": [0.0, 1.0]}


def test_queries_without_relevant_gold_are_in_no_curve() -> None:
    curve = swept({"q": ["a"]}, {"q": {"a": 0}}, [1]).curves[0]
    assert curve.points[0].recall.mean is None
    assert (curve.knees, curve.headroom) == ([], [])
    gold = [
        {"query_id": "p", "gold": ["a"], "tags": {"t": "x"}},
        {"query_id": "q", "gold": {"a": 0}, "tags": {"t": "y"}},
    ]
    by_tag: list[Curve] = swept({"p": ["a"], "q": ["a"]}, gold, [1], segments="t").curves
    assert [len(c.knees) for c in by_tag] == [2, 2, 0]
    assert all(c.few for c in by_tag)


@pytest.mark.parametrize("ks", [[1, 2], [1, 5]])
def test_a_result_of_karat_0_1_has_no_hits_to_sweep(ks: list[int]) -> None:
    """Although the file has the scores at 1 and at 2: how deep the lists are is not told."""
    saved = read_results(Path(__file__).parent / "karat_0_1" / "result.json")[0]
    with pytest.raises(Lacking):
        restore(saved).sweep(ks)


@given(_queries)
@settings(max_examples=15)
def test_more_depth_never_finds_less(queries: list[tuple[list[bool], int]]) -> None:
    curve = swept(*data(queries), range(1, 9)).curves[0]
    recall = [point.recall.mean for point in curve.points]
    assert recall == sorted(recall)
    assert [h.cap for h in curve.headroom] == sorted(h.cap for h in curve.headroom)


def test_another_seed_keeps_the_curve_and_moves_the_limits() -> None:
    sweeps = [karat.evaluate(RUN, GOLD, "mrr", sampling=Sampling(resamples=300, seed=s)).sweep([5]) for s in (0, 1)]
    a, b = (s.curves[0].points[0].recall for s in sweeps)
    assert a.mean == b.mean
    assert (a.low, a.high) != (b.low, b.high)
