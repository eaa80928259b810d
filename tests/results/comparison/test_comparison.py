"""Two runs and more on the same queries: differences, chance, what changed, and what may not be compared."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.errors import ConfigError
from karat.report.export import export
from karat.results.comparison.compare import CandidateComparison, compare_results
from karat.results.comparison.sides import compared_audits
from karat.results.differences import Difference
from karat.results.evaluate import evaluate_all
from karat.statistics.sampling import Sampling
from karat.statistics.significance import benjamini_hochberg, holm

DEMO = Path(__file__).parents[3] / "examples" / "helpdesk"
BEFORE, AFTER, GOLD = (str(DEMO / name) for name in ("bm25.jsonl", "bm25_rerank.jsonl", "gold.jsonl"))
QUICK = Sampling(resamples=300)


def pair(a: Any, b: Any, gold: Any = None, metrics: Any = "recall@2", **options: Any) -> CandidateComparison:
    return karat.compare(a, b, gold, metrics, sampling=options.pop("sampling", QUICK), **options).pairs[0]


def of(found: CandidateComparison, metric: str) -> Difference:
    return next(d for d in found.differences if d.metric == metric)


def judged(size: int, **fields: Any) -> list[dict[str, Any]]:
    """Queries q0, q1 … whose one relevant item is "a"; fields are functions of the number."""
    return [{"query_id": f"q{i}", "gold": ["a"], **{n: f(i) for n, f in fields.items()}} for i in range(size)]


def finds(size: int, right: Any) -> dict[str, list[str]]:
    return {f"q{i}": ["a" if i in right else "x"] for i in range(size)}


# --- differences


def test_differences_by_hand() -> None:
    gold = {"p": ["a", "b"], "q": ["a"], "r": ["a", "b"], "s": {"a": 0}}
    before = {"p": ["a", "x"], "q": ["a"], "r": ["x"], "s": ["a"]}
    after = {"p": ["a", "b"], "q": ["x"], "r": ["x"], "s": ["a"]}
    d = pair(before, after, gold).differences[0]
    assert (d.metric, d.n, d.few) == ("recall@2", 3, True)
    assert d.baseline == pytest.approx((0.5 + 1 + 0) / 3)
    assert d.candidate == pytest.approx((1 + 0 + 0) / 3)
    assert d.delta == pytest.approx(-0.5 / 3)
    assert (d.wins, d.ties, d.losses) == (1, 1, 1)
    assert d.low is not None
    assert d.high is not None
    assert -1 < d.low < d.delta < d.high < 1


_values = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=9)


@settings(max_examples=25)
@given(_values)
def test_differences_and_chance_by_brute_force(rows: list[tuple[int, int]]) -> None:
    gold = {f"q{i}": ["a", "b", "c"] for i in range(len(rows))}
    sides = [{f"q{i}": [*"abc"[: row[side]], "x"] for i, row in enumerate(rows)} for side in (0, 1)]
    d = pair(*sides, gold, "recall@3", sampling=Sampling(resamples=100)).differences[0]
    deltas = [(b - a) / 3 for a, b in rows]
    assert d.delta == pytest.approx(np.mean(deltas), abs=1e-12)
    assert (d.wins, d.ties, d.losses) == tuple(sum(f(x) for x in deltas) for f in (_up, _same, _down))
    flipped = [abs(sum(s * x for s, x in zip(signs, deltas, strict=True))) for signs in _signs(len(deltas))]
    assert d.p == pytest.approx(np.mean([f >= abs(sum(deltas)) - 1e-9 for f in flipped]), abs=1e-12)


def _up(x: float) -> bool:
    return x > 0


def _same(x: float) -> bool:
    return x == 0


def _down(x: float) -> bool:
    return x < 0


def _signs(n: int) -> itertools.product[tuple[int, ...]]:
    return itertools.product((1, -1), repeat=n)


def test_the_other_way_round_is_the_same_with_the_other_sign() -> None:
    there, back = pair(BEFORE, AFTER, GOLD, ["recall@5", "mrr"]), pair(AFTER, BEFORE, GOLD, ["recall@5", "mrr"])
    for a, b in zip(there.differences, back.differences, strict=True):
        assert a.delta == -b.delta
        assert (a.wins, a.losses, a.p) == (b.losses, b.wins, b.p)
        assert a.low == pytest.approx(-b.high, abs=0.005)


def test_differences_of_the_demo_set_are_those_of_the_scores() -> None:
    sides = [karat.evaluate(run, GOLD, sampling=QUICK) for run in (BEFORE, AFTER)]
    found = karat.compare(*sides).pairs[0]
    assert found.queries == 287
    for d in found.differences:
        a, b = (side.values[d.metric] for side in sides)
        both = ~np.isnan(a) & ~np.isnan(b)
        assert d.n == both.sum()
        lower = d.metric.startswith("latency")
        better = (a - b if lower else b - a)[both]
        assert (d.wins, d.losses) == ((better > 1e-9).sum(), (better < -1e-9).sum())
        assert d.wins + d.ties + d.losses == d.n
        assert d.delta == pytest.approx(sides[1].means[d.metric] - sides[0].means[d.metric], abs=1e-12)


def test_less_time_is_a_win() -> None:
    def log(ms: float) -> list[dict[str, Any]]:
        return [{"query_id": f"q{i}", "topk": ["a"], "latency_ms": {"total": ms + i}} for i in range(30)]

    found = karat.compare(log(100), log(60), judged(30), ["latency", "latency_p50"], sampling=QUICK)
    assert found.lower_is_better == ["latency", "latency_p50"]
    assert found.units == {"latency": "ms", "latency_p50": "ms"}
    for d in found.pairs[0].differences:
        assert d.delta == pytest.approx(-40)
        assert (d.wins, d.ties, d.losses) == (30, 0, 0)
        assert d.high is not None
        assert d.high < 0
    mean, median = found.pairs[0].differences
    assert mean.p is not None
    assert mean.p < 0.01
    assert median.p is None  # a quantile has an interval only


def test_micro_recall_differs_by_items_not_by_queries() -> None:
    gold = {"p": ["a", "b", "c", "d"], "q": ["a"]}
    found = pair({"p": ["a"], "q": ["x"]}, {"p": ["a", "b"], "q": ["a"]}, gold, ["recall(average=micro)@4", "recall@4"])
    micro, macro = found.differences
    assert (micro.baseline, micro.candidate) == (1 / 5, 3 / 5)
    assert micro.delta == pytest.approx(2 / 5)
    assert macro.delta == pytest.approx((1 / 4 + 1) / 2)


def test_micro_recall_weighs_items_in_chance_and_interval_too() -> None:
    """Five queries of one item gain it, one query of eight items loses them all: by items a loss, by queries a gain."""
    gold = {"big": [f"d{i}" for i in range(8)], **{f"q{i}": ["a"] for i in range(5)}}
    before = {"big": gold["big"], **{f"q{i}": ["x"] for i in range(5)}}
    after = {"big": ["x"], **{f"q{i}": ["a"] for i in range(5)}}
    micro, macro = pair(before, after, gold, ["recall(average=micro)@8", "recall@8"]).differences
    assert (micro.delta, macro.delta) == (pytest.approx(-3 / 13), pytest.approx(4 / 6))
    deltas = [-8, 1, 1, 1, 1, 1]
    sums = [abs(sum(s * x for s, x in zip(signs, deltas, strict=True))) for signs in _signs(6)]
    assert micro.p == pytest.approx(np.mean([total >= 3 for total in sums]))
    assert micro.p != macro.p
    assert micro.low is not None
    assert macro.low is not None
    assert micro.low < -0.6
    assert macro.low > -0.3


def test_conversations_flip_and_are_drawn_together() -> None:
    gold = judged(40, conversation_id=lambda i: f"c{i // 8}")
    before, after = finds(40, set()), finds(40, range(16))  # two of five conversations gain all
    together, alone = pair(before, after, gold), pair(before, after, gold, cluster="none")
    a, b = together.differences[0], alone.differences[0]
    assert a.delta == b.delta == 0.4
    assert a.p == 0.5  # two conversations: both or neither, 2 of 4
    assert b.p is not None
    assert b.p < 0.01
    assert a.high - a.low > 1.5 * (b.high - b.low)


# --- special runs


def test_identical_runs_are_the_same() -> None:
    found = pair(BEFORE, BEFORE, GOLD, None)
    assert found.identical
    assert found.changes == []
    for d in found.differences:
        assert d.delta == 0
        assert (d.wins, d.losses) == (0, 0)
        assert d.p in (1.0, None)
        assert not d.certain


def test_one_query() -> None:
    found = pair({"q": ["x"]}, {"q": ["a"]}, {"q": ["a"]})
    d = found.differences[0]
    assert (d.n, d.delta, d.p, d.wins, d.few) == (1, 1.0, 1.0, 1, True)
    assert not found.identical


def test_all_undefined_says_nothing_and_is_not_called_identical() -> None:
    found = pair({"q": ["a"]}, {"q": ["x"]}, {"q": {"a": 0}})
    d = found.differences[0]
    assert (d.n, d.baseline, d.candidate, d.delta, d.low, d.high, d.p, d.p_holm) == (0, *[None] * 7)
    assert not found.identical
    assert found.changes == []


def test_runs_without_a_query_in_common_are_refused() -> None:
    gold = {"p": ["a"], "q": ["a"]}
    with refused("no-common-query", ConfigError) as error:
        pair({"p": ["a"]}, {"q": ["a"]}, gold, missing="skip")
    assert "'p'" in str(error.value)
    assert "'q'" in str(error.value)


def test_audits_of_a_comparison_say_which_missing_queries_it_leaves_out() -> None:
    """q0 and q1 are missing from the baseline, q1 and q2 from the candidate."""
    gold = judged(5)
    runs = [{q: h for q, h in finds(5, {3, 4}).items() if q not in gone} for gone in (("q0", "q1"), ("q1", "q2"))]
    sides = [karat.evaluate(run, gold, ["recall@1"], sampling=Sampling(resamples=200)) for run in runs]
    audits = [{entry.code: entry.examples for entry in audit} for audit in compared_audits(sides)]
    assert audits == [{"unshared_queries": ("q0", "q1")}, {"missing_queries": ("q2",), "unshared_queries": ("q1",)}]
    (found,) = compare_results(sides, force=True).pairs
    assert [re.findall(r"baseline|candidate|\d+", note) for note in found.notes[-2:]] == [
        ["baseline", "2"],
        ["candidate", "1"],
    ]


def test_different_queries_are_compared_where_both_have_them_and_it_is_said() -> None:
    gold = judged(5)
    found = pair(finds(4, {0}), {q: h for q, h in finds(5, {1}).items() if q != "q0"}, gold, missing="skip")
    assert found.queries == 3
    assert [re.findall(r"\d+", note) for note in found.notes] == [["3", "1", "1"]]  # compared, only in one
    assert found.differences[0].delta == pytest.approx(1 / 3)
    as_failed = pair(finds(4, {0}), {q: h for q, h in finds(5, {1}).items() if q != "q0"}, gold, force=True)
    assert (as_failed.queries, as_failed.differences[0].delta) == (4, 0.0)  # one found, one lost by not answering
    assert [re.findall(r"baseline|candidate|\d+", note) for note in as_failed.notes[1:]] == [
        ["baseline", "1"],
        ["candidate", "1"],
    ]


def test_runs_without_a_common_query_cannot_be_compared() -> None:
    with refused("no-common-query", ConfigError) as caught:
        pair({"q0": ["a"]}, {"q1": ["a"]}, {"q0": ["a"], "q1": ["a"]})
    assert all(query in caught.value.hint for query in ("'q0'", "'q1'"))


def test_metrics_of_one_side_are_left_out_and_it_is_said() -> None:
    a, b = (karat.evaluate(finds(2, {0}), judged(2), m, sampling=QUICK) for m in (["mrr", "recall@1"], ["recall@1"]))
    found = pair(a, b, metrics=None)
    assert [d.metric for d in found.differences] == ["recall@1"]
    assert [note.endswith(": mrr.") for note in found.notes] == [True]
    with refused("no-common-metric", ConfigError):
        pair(b, karat.evaluate(finds(2, {0}), judged(2), "mrr", sampling=QUICK))


def test_a_run_needs_gold_and_a_comparison_two_runs() -> None:
    with refused("no-gold", ConfigError):
        karat.compare({"q": ["a"]}, {"q": ["a"]}, metrics=["recall@1"])
    with refused("one-run", ConfigError):
        compare_results([karat.evaluate({"q": ["a"]}, {"q": ["a"]}, "mrr", sampling=QUICK)])


def test_metrics_may_come_from_a_generator() -> None:
    metrics = (name for name in ("mrr", "recall@1"))
    found = karat.compare(finds(3, {0}), finds(3, {1}), judged(3), metrics, sampling=QUICK)
    assert [d.metric for d in found.pairs[0].differences] == ["mrr", "recall@1"]


# --- data and definitions that differ


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """old.json and new.json, of the demo set."""
    for run, name in ((BEFORE, "old.json"), (AFTER, "new.json")):
        export(
            [karat.evaluate(run, GOLD, ["recall@5", "recall(average=micro)@5"], sampling=QUICK)], str(tmp_path / name)
        )
    return tmp_path


def edit(file: Path, **changes: Any) -> str:
    value = json.loads(file.read_text())
    for name, new in changes.items():
        value[name] = {**value[name], **new} if isinstance(new, dict) else new
    file.write_text(json.dumps(value))
    return str(file)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"dataset": {"version": "2"}}, "1 and 2"),
        ({"dataset": {"name": "other"}}, "helpdesk and other"),
        ({"definitions": {"recall@5": 99}}, "recall@5"),
        ({"settings": {"missing": "skip"}}, "'worst' and 'skip'"),
        ({"settings": {"doc_of": "/"}}, "'#' and '/'"),
        ({"settings": {"k": 7}}, "5 and 7"),
        ({"settings": {"score_width": 64}}, "32 and 64"),
        ({"settings": {"min_score": 0.5}}, "None and 0.5"),
        ({"settings": {"top_k": 3}}, "None and 3"),
        ({"settings": {"no_future": True}}, "False and True"),
        ({"settings": {"normalize_ids": True}}, "False and True"),
    ],
)
def test_what_does_not_measure_the_same_is_refused_unless_forced(saved: Path, change: Any, words: str) -> None:
    old, new = str(saved / "old.json"), edit(saved / "new.json", **change)
    with refused("not-comparable", ConfigError) as error:
        pair(old, new, metrics=None)
    assert words in error.value.what
    assert "--force" in error.value.hint
    assert [words in note for note in pair(old, new, metrics=None, force=True).notes] == [True]


def test_old_results_that_do_not_say_how_scores_were_compared(tmp_path: Path) -> None:
    """Where that decides an order they may not be compared; elsewhere it makes no difference."""
    close, apart = {"q": {"a": 0.3 + 1e-9, "b": 0.3}}, {"q": {"a": 0.4, "b": 0.3}}
    for run, matters in ((close, True), (apart, False)):
        now = karat.evaluate(run, {"q": ["a"]}, ["mrr"])
        path = export([now], str(tmp_path / "old.json"))
        assert pair(path, now, metrics=None).differences[0].delta == 0
        saved = json.loads(Path(path).read_text())
        del saved["settings"]["score_width"]
        Path(path).write_text(json.dumps(saved))
        if matters:
            with refused("not-comparable", ConfigError):
                pair(path, now, metrics=None)
        else:
            assert pair(path, now, metrics=None).notes == []


FILTERED = [
    ({"min_score": 0.5}, {}),
    ({"min_score": 0.5}, {"min_score": 0.4}),
    ({"top_k": 3}, {"top_k": 4}),
    ({"no_future": True}, {}),
    ({"normalize_ids": True}, {}),
]


@pytest.mark.parametrize("command", ["compare", "gate"])
@pytest.mark.parametrize(("before", "after"), FILTERED, ids=str)
def test_filters_on_one_side_are_refused_from_files(
    tmp_path: Path, before: Any, after: Any, command: str, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    hits = [{"chunk_id": c, "score": s, "doc_version": "2025-01-01"} for c, s in (("a", 0.9), ("b", 0.45), ("c", 0.1))]
    run, gold = tmp_path / "run.jsonl", tmp_path / "gold.jsonl"
    run.write_text("".join(json.dumps({"query_id": f"q{i}", "topk": hits}) + "\n" for i in range(30)))
    entry = {"gold": ["b"], "as_of": "2025-06-01"}
    gold.write_text("".join(json.dumps({"query_id": f"q{i}", **entry}) + "\n" for i in range(30)))
    names = {}
    for name, options in (("old", before), ("new", after)):
        names[name] = str(tmp_path / f"{name}.json")
        export([karat.evaluate(run, gold, ["recall@5"], sampling=QUICK, **options)], names[name])
    (tmp_path / "criteria.yaml").write_text("gates:\n  - metric: recall@5\n    regression_max: 0.02\n")
    criteria = ["--criteria", str(tmp_path / "criteria.yaml"), "--baseline", names["old"]]
    arguments = [names["old"], names["new"]] if command == "compare" else [names["new"], *criteria]
    assert karat_command(command, *arguments)[0] == 2
    if command == "compare":
        assert karat_command(command, *arguments, "--force")[0] == 0


def test_other_lists_are_refused_and_other_meanings_of_scores_are_told(tmp_path: Path) -> None:
    hits = [{"chunk_id": c, "score": s} for c, s in (("a", 0.9), ("b", 0.4))]
    run, gold = tmp_path / "run.jsonl", {f"q{i}": ["b"] for i in range(30)}
    run.write_text("".join(json.dumps({"query_id": q, "topk": hits, "raw": hits}) + "\n" for q in gold))
    files = {}
    for name, options in {"final": {}, "raw": {"hits": "raw"}, "low": {"scores": "lower-is-better"}}.items():
        files[name] = str(tmp_path / f"{name}.json")
        export([karat.evaluate(run, gold, ["mrr"], sampling=QUICK, **options)], files[name])
    with refused("not-comparable", ConfigError):
        pair(files["final"], files["raw"], metrics=None)
    assert ["--hits" in note for note in pair(files["final"], files["raw"], metrics=None, force=True).notes] == [True]
    assert pair(files["raw"], files["raw"], metrics=None).notes == []
    assert ["lower-is-better" in note for note in pair(files["final"], files["low"], metrics=None).notes] == [True]


def test_other_labels_of_shared_queries_are_refused() -> None:
    """Version and hash say nothing of a gold set that is a dict."""
    run, gold = {"p": ["a", "b"], "q": ["a", "b"]}, {"p": {"a": 1}, "q": {"b": 2}}
    one = karat.evaluate(run, gold, ["ndcg@2"], sampling=QUICK)
    for other in ({**gold, "q": {"b": 1}}, {**gold, "q": {"b": 2, "a": 0}}, {**gold, "q": {"a": 2}}):
        result = karat.evaluate(run, other, ["ndcg@2"], sampling=QUICK)
        with refused("not-comparable", ConfigError):
            karat.compare(one, result)
        assert len(karat.compare(one, result, force=True).pairs[0].notes) == 1
    for same in ({"q": {"b": 2.0, "a": -1}, "p": ["a"]}, {**gold, "r": ["c"]}, {"q": {"b": 2}}):
        assert karat.compare(one, karat.evaluate(run, same, ["ndcg@2"], sampling=QUICK)).pairs[0].differences


def test_grades_that_labels_put_on_another_scale(
    tmp_path: Path, karat_command: Callable[..., tuple[int, str, str]]
) -> None:
    """Labels beside the gold set make grade 2 of 1: that moves metrics that name a grade, and no others."""
    lines = {
        "run": [{"query_id": f"q{i}", "topk": ["x", "a"]} for i in range(9)],
        "gold": [{"query_id": f"q{i}", "gold": ["a"]} for i in range(9)],
        "judge": [{"query_id": "q0", "chunk_id": "x", "grade": 0, "annotator": "judge:m", "judge": True}],
    }
    run, gold, judge = (str(tmp_path / f"{name}.jsonl") for name in lines)
    for name, records in lines.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    for metrics, code, values in (
        (("rbp(p=0.5,top=2)",), 2, (0.125, 0.25)),
        (("recall(rel=2)@2",), 2, (None, 1.0)),
        (("recall@2", "ndcg@2"), 0, (1.0, 1.0)),
    ):
        asked = [run, "--gold", gold, *(f"--metric={metric}" for metric in metrics)]
        names, means = [str(tmp_path / "bare.json"), str(tmp_path / "beside.json")], []
        for name, options in zip(names, ([], ["--labels", judge]), strict=True):
            assert karat_command("eval", *asked, *options, "-o", name)[0] == 0
            means.append(json.loads(Path(name).read_text())["summary"][0]["mean"])
        assert tuple(means) == values
        assert karat_command("compare", *names)[0] == code
        assert karat_command("compare", *names, "--force")[0] == 0


def test_a_result_compares_with_itself_from_disk(tmp_path: Path) -> None:
    result = karat.evaluate({"p": ["a", "b"]}, {"p": {"a": 1, "x": 0, "y": -1}}, ["ndcg@2"], sampling=QUICK)
    export([result], str(tmp_path / "saved.json"))
    assert pair(result, str(tmp_path / "saved.json"), metrics=None).notes == []


def test_a_filter_that_works_on_one_side_only_is_refused() -> None:
    scored = [{"query_id": f"q{i}", "system": "scored", "topk": [{"chunk_id": "a", "score": 0.9}]} for i in range(9)]
    bare = [{"query_id": f"q{i}", "system": "bare", "topk": ["a"]} for i in range(9)]
    gold = {f"q{i}": ["a"] for i in range(9)}
    sides = evaluate_all([*scored, *bare], gold, ["mrr"], min_score=0.5, sampling=QUICK)
    with refused("not-comparable", ConfigError):
        karat.compare(sides["scored"], sides["bare"])
    assert len(karat.compare(sides["scored"], sides["bare"], force=True).pairs[0].notes) == 1


def test_other_content_without_another_version_is_said_aloud(saved: Path) -> None:
    old, new = str(saved / "old.json"), edit(saved / "new.json", dataset={"hash": "other"})
    assert len(pair(old, new, metrics=None).notes) == 1
    assert pair(old, old, metrics=None).notes == []


# --- what changed


def moved(found: Any) -> list[tuple[str, int, float | None]]:
    return [(m.id, m.rank, m.grade) for m in found]


def test_what_fell_out_and_what_came_in() -> None:
    gold = [{"query_id": "q", "query": "what?", "gold": {"a": 1, "b": 2, "z": 0, "y": -1}}]  # under 0 is not judged
    before, after = {"q": ["a", "x", "b", "c"]}, {"q": ["y", "z", "x", "c"]}
    change = pair(before, after, gold, "recall@3").changes[0]
    assert (change.query_id, change.query, change.metric, change.k) == ("q", "what?", "recall@3", 3)
    assert (change.baseline, change.candidate, change.delta) == (1.0, 0.0, -1.0)
    assert moved(change.fell_out) == [("b", 3, 2.0), ("a", 1, 1.0)]
    assert moved(change.came_in) == [("y", 1, None), ("z", 2, 0.0)]


def test_losses_come_first_worst_first_then_gains() -> None:
    gold = {q: ["a", "b", "c", "d"] for q in "pqrstuv"}
    before = {q: ["a", "b"] for q in "pqrstuv"}
    after = {"p": ["a"], "q": [], "r": ["a", "b"], "s": ["a", "b", "c"], "t": ["a", "b", "c", "d"], "u": ["a"]}
    after["v"] = after["s"]
    found = [(c.query_id, c.delta) for c in pair(before, after, gold, "recall@4").changes]
    assert found == [("q", -0.5), ("p", -0.25), ("u", -0.25), ("t", 0.5), ("s", 0.25), ("v", 0.25)]
    assert [c.query_id for c in pair(before, after, gold, "recall@4", changes=1).changes] == ["q", "t"]
    assert pair(before, after, gold, "recall@4", changes=0).changes == []


def test_the_headline_decides_which_changed_most() -> None:
    assert (
        pair({"q": ["x", "a"]}, {"q": ["a", "x"]}, {"q": ["a"]}, ["hit@1", "mrr", "ndcg@5"]).changes[0].metric
        == "ndcg@5"
    )
    assert pair({"q": ["x", "a"]}, {"q": ["a", "x"]}, {"q": ["a"]}, ["hit@1", "recall@1"]).changes[0].metric == "hit@1"
    times = [{"query_id": "q", "topk": ["a"], "latency_ms": {"total": 3}}]
    assert pair(times, times, {"q": ["a"]}, "latency").changes == []


def test_ties_in_trec_files_fall_as_trec_eval_has_them(tmp_path: Path) -> None:
    (tmp_path / "a.trec").write_text("q Q0 a 1 1.0 s\nq Q0 b 2 1.0 s\n")  # equal scores: b, then a
    (tmp_path / "b.trec").write_text("q Q0 a 1 2.0 s\nq Q0 b 2 1.0 s\n")
    (tmp_path / "qrels").write_text("q 0 a 1\n")
    change = pair(str(tmp_path / "a.trec"), str(tmp_path / "b.trec"), str(tmp_path / "qrels"), "recall@1").changes[0]
    assert moved(change.fell_out) == [("b", 1, None)]
    assert moved(change.came_in) == [("a", 1, 1.0)]


def test_repeated_hits_take_one_place(tmp_path: Path) -> None:
    change = pair({"q": ["x", "x", "a"]}, {"q": ["x", "y", "a"]}, {"q": ["a"]}, "recall@2").changes[0]
    assert moved(change.fell_out) == [("a", 2, 1.0)]
    assert moved(change.came_in) == [("y", 2, None)]


def test_chunks_have_the_grade_of_their_gold_document() -> None:
    change = pair({"q": ["d1#1", "d2#1"]}, {"q": ["d3#1", "d2#1"]}, {"q": {"d1": 2}}).changes[0]
    assert moved(change.fell_out) == [("d1#1", 1, 2.0)]


def test_a_query_may_have_a_cutoff_of_its_own() -> None:
    gold = [{"query_id": "q", "gold": ["a"], "k": 1}]
    change = pair({"q": ["x", "a"]}, {"q": ["a", "x"]}, gold, "recall").changes[0]
    assert (change.metric, change.k) == ("recall@k", 1)
    assert moved(change.fell_out) == [("x", 1, None)]


def test_lines_of_a_query_that_are_apart_are_read_together(tmp_path: Path) -> None:
    (tmp_path / "a.trec").write_text("q Q0 a 1 3 s\nr Q0 a 1 3 s\nq Q0 b 2 2 s\n")
    (tmp_path / "b.trec").write_text("q Q0 x 1 3 s\nr Q0 a 1 3 s\nq Q0 y 2 2 s\n")
    (tmp_path / "qrels").write_text("q 0 b 1\nr 0 a 1\n")
    change = pair(str(tmp_path / "a.trec"), str(tmp_path / "b.trec"), str(tmp_path / "qrels")).changes[0]
    assert moved(change.fell_out) == [("b", 2, 1.0), ("a", 1, None)]


def test_a_query_that_the_candidate_lacks_lost_all_its_hits() -> None:
    change = pair({"q": ["a"], "r": ["a"]}, {"r": ["a"]}, {"q": ["a"], "r": ["a"]}, force=True).changes[0]
    assert (change.query_id, moved(change.fell_out), change.came_in) == ("q", [("a", 1, 1.0)], [])


# --- saved results


def test_saved_results_give_the_same_differences_as_the_runs(saved: Path) -> None:
    names = ["recall@5", "recall(average=micro)@5"]
    runs = pair(BEFORE, AFTER, GOLD, names, segments=["language", "query_length×gold_items"])
    old, new = str(saved / "old.json"), str(saved / "new.json")
    for sides in ((old, new), (BEFORE, new), (old, AFTER)):
        found = pair(*sides, GOLD, names, segments=["language", "query_length×gold_items"])
        assert found.differences == runs.differences
        assert found.segments == runs.segments
        assert found.notes == runs.notes
        assert [(c.query_id, c.delta) for c in found.changes] == [(c.query_id, c.delta) for c in runs.changes]
        # Hits of one side alone would all look as if they had moved.
        assert all(c.fell_out == c.came_in == [] for c in found.changes)


def test_saved_results_can_be_clustered_in_another_way(saved: Path) -> None:
    old, new = str(saved / "old.json"), str(saved / "new.json")
    together, alone = pair(old, new, metrics=None), pair(old, new, metrics=None, cluster="none")
    assert (
        alone.differences
        == pair(BEFORE, AFTER, GOLD, ["recall@5", "recall(average=micro)@5"], cluster="none").differences
    )
    assert alone.differences != together.differences
    with refused("unknown-attribute", ConfigError):
        pair(old, new, metrics=None, cluster="topics")


def test_a_metric_that_was_not_saved_is_measured_from_the_tables(saved: Path) -> None:
    old, new, asked = str(saved / "old.json"), str(saved / "new.json"), ["mrr", "ndcg@10"]
    found = pair(old, new, metrics=asked)
    assert found.differences == pair(BEFORE, AFTER, GOLD, asked).differences


def test_a_metric_that_a_file_cannot_tell_is_refused_with_what_it_can(saved: Path) -> None:
    """Karat 0.1 saved no tables."""
    old, new = (edit(saved / name, schema="karat/result/1", tables=None) for name in ("old.json", "new.json"))
    with refused("missing-metric", ConfigError) as error:
        pair(old, new, metrics=["mrr"])
    assert "mrr" in error.value.what
    assert "recall@5" in error.value.hint
    assert len(pair(old, new, metrics=["recall@5"]).differences) == 1


# --- several candidates


def test_every_comparison_of_the_table_is_corrected_together() -> None:
    gold = judged(30)
    others = [finds(30, range(n)) for n in (12, 14, 25)]
    found = karat.compare(finds(30, range(10)), others[0], gold, ["recall@1"], others=others[1:], sampling=QUICK)
    assert len(found.pairs) == 3
    differences = [d for p in found.pairs for d in p.differences]
    p = np.array([d.p for d in differences])
    assert [d.p_holm for d in differences] == holm(p).tolist()
    assert [d.p_bh for d in differences] == benjamini_hochberg(p).tolist()
    assert all(d.p <= d.p_bh <= d.p_holm for d in differences)
    assert [d.wins for d in differences] == [2, 4, 15]


def test_several_systems_of_one_file_are_told_apart_by_name() -> None:
    log = [{"query_id": "q", "system": s, "topk": hits} for s, hits in (("one", ["a"]), ("two", ["x"]), ("3", ["a"]))]
    sides = list(evaluate_all(log, {"q": ["a"]}, "recall@1", sampling=QUICK).values())
    found = compare_results(sides)
    assert found.baseline == "one"
    assert [(p.candidate, p.differences[0].delta) for p in found.pairs] == [("two", -1.0), ("3", 0.0)]


def test_runs_of_the_same_name_are_told_apart_by_file_or_number(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"query_id": "q", "system": "s", "topk": ["a"]}\n')
    a, b = str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")
    found = karat.compare(a, b, {"q": ["a"]}, "mrr", others=[a], sampling=QUICK)
    names = [found.baseline, *(p.candidate for p in found.pairs)]
    assert len(set(names)) == 3
    assert names[1] == f"s ({b})"
    assert names[0].endswith("#1")
    assert names[2].endswith("#3")


# --- segments


def test_segments_are_compared_on_their_own_queries() -> None:
    gold = judged(50, tags=lambda i: {"half": "first" if i < 25 else "second"} if i < 45 else {})
    found = pair(finds(50, range(5)), finds(50, range(10)), gold, "recall@1", segments="half")
    assert [(s.value, s.queries, s.few, s.differences[0].delta) for s in found.segments] == [
        ("first", 25, False, 0.2),
        ("second", 20, False, 0.0),
        ("(not given)", 5, True, 0.0),
    ]
    p = np.array([s.differences[0].p for s in found.segments])
    assert [s.differences[0].p_bh for s in found.segments] == benjamini_hochberg(p).tolist()
    assert all(s.differences[0].p_holm is None for s in found.segments)  # segments are for exploration


def test_segments_of_shared_queries_only() -> None:
    gold = judged(6, tags=lambda i: {"half": "first" if i < 3 else "second"})
    after = {q: hits for q, hits in finds(6, {1, 2}).items() if q not in ("q0", "q3")}
    found = pair(finds(6, {4}), after, gold, "recall@1", segments="half", missing="skip")
    assert [(s.value, s.queries, s.differences[0].delta) for s in found.segments] == [
        ("first", 2, 1.0),
        ("second", 2, -0.5),
    ]


def test_segments_against_the_mean_within_noise_are_no_warning() -> None:
    """Two of three segments lose a little, which may be chance in each; the third gains much."""
    gold = judged(75, tags=lambda i: {"group": "ABC"[i // 25]})
    found = pair(finds(75, [25, 50]), finds(75, range(20)), gold, "recall@1", segments="group")
    assert found.differences[0].certain
    assert [s.differences[0].certain for s in found.segments] == [True, False, False]
    assert found.notes == []


def test_a_mean_within_noise_misleads_nobody() -> None:
    """A segment clearly loses, another clearly gains, and the whole is told as unclear."""
    gold = judged(50, tags=lambda i: {"group": "AB"[i // 25]})
    found = pair(finds(50, range(25, 37)), finds(50, range(15)), gold, "recall@1", segments="group")
    assert [s.differences[0].certain for s in found.segments] == [True, True]
    assert not found.differences[0].certain
    assert found.notes == []


def test_segments_that_fall_while_the_mean_rises_are_warned_of() -> None:
    """One large group gains much, two groups lose."""
    size = 140
    gold = judged(size, tags=lambda i: {"group": "ABC"[0 if i < 60 else 1 if i < 100 else 2]})
    before = finds(size, range(60, 140))
    clean = finds(size, range(140))
    mixed = finds(size, [*range(60), *range(75, 100), *range(115, 140)])
    notes = pair(before, mixed, gold, "recall@1", segments="group").notes
    assert len(notes) == 1
    assert re.match(r"recall@1 .*\b2 of 3\b.*\bgroup\b.*: B, C\.", notes[0])
    assert "Simpson" in notes[0]
    back = pair(mixed, before, gold, "recall@1", segments="group").notes
    assert re.match(r"recall@1 .*\b2 of 3\b.*\bgroup\b.*: B, C\.", back[0])
    assert back[0] != notes[0]
    assert pair(before, clean, gold, "recall@1", segments="group").notes == []
    assert pair(before, before, gold, "recall@1", segments="group").notes == []
    assert pair(before, mixed, gold, "recall@1").notes == []


def test_small_segments_do_not_cry_wolf() -> None:
    gold = judged(60, tags=lambda i: {"group": "big" if i < 50 else f"small{i % 2}"})
    found = pair(finds(60, range(50, 60)), finds(60, range(50)), gold, "recall@1", segments="group")
    assert [s.differences[0].delta for s in found.segments] == [1.0, -1.0, -1.0]
    assert found.notes == []


def test_rounding_is_no_rise() -> None:
    """1 − 2/3 and 1/3 − 2/3 do not add up to 0 in binary; to a reader they do."""
    size = 80
    gold = [{"query_id": f"q{i}", "gold": ["a", "b", "c"], "tags": {"half": str(i % 2)}} for i in range(size)]
    before = {f"q{i}": ["a", "b"] for i in range(size)}
    after = {f"q{i}": ["a", "b", "c"] if i % 2 else ["a"] for i in range(size)}
    found = pair(before, after, gold, "recall@3", segments="half")
    assert found.differences[0].delta == pytest.approx(0, abs=1e-12)
    assert found.notes == []


def test_an_unknown_segment_is_refused() -> None:
    with refused("unknown-attribute", ConfigError, name="nope"):
        pair(finds(2, {0}), finds(2, {1}), judged(2), segments=["nope"])


def test_another_seed_moves_limits_and_chance_only() -> None:
    a, b = (
        of(pair(BEFORE, AFTER, GOLD, ["recall@5"], sampling=Sampling(resamples=1000, seed=s)), "recall@5")
        for s in (0, 1)
    )
    assert (a.delta, a.wins, a.losses) == (b.delta, b.wins, b.losses)
    assert (a.low, a.high) != (b.low, b.high)
    assert a.low == pytest.approx(b.low, abs=0.01)


@pytest.mark.parametrize(("other", "count"), [("a", 0), ("c", 3)])
def test_equal_scores_tell_whether_the_lists_are_the_same(other: str, count: int) -> None:
    gold = {f"q{i}": ["a"] for i in range(5)}
    before = {query: ["a", "b", "d"] for query in gold}
    after = before | {f"q{i}": ["a", "b", "d" if other == "a" else other] for i in range(3)}
    (pair,) = karat.compare(before, after, gold, ["recall@5"]).pairs
    assert (pair.identical, pair.other_lists) == (True, count)
