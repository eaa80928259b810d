"""Several searches per query: metrics, analysis, section, and hops of the gold set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readers import choose_reader

import karat
from karat.errors import KaratError
from karat.report.sections.searches import SearchesSection
from karat.results.analyses.searches import FirstLoss, Searches
from karat.results.save import restore, saved_form

Record = dict[str, Any]
METRICS = ["union_recall", "union_recall@2", "steps", "wasted_steps", "relevant_per_step", "hops_covered", "all_hops"]


def found(run: Any, gold: Any, **options: Any) -> Searches:
    result = karat.evaluate(run, gold, ["recall@5"], **options, analyses=True)
    assert "searches" in result.analyses.found, result.analyses.lacking
    searches = restore(saved_form(result)).analyses.found["searches"]
    assert searches == result.analyses.found["searches"]
    assert isinstance(searches, Searches)
    return searches


# Naive definitions, list by list.


def lists_of(line: Record) -> list[list[str]]:
    steps = line.get("steps")
    return [line["topk"]] if steps is None else [step["topk"] for step in steps]


def naive(line: Record | None, entry: Record) -> Record:
    """Every metric of one query."""
    hops = entry.get("hops")
    relevant = set(entry["gold"]) if "gold" in entry else {item for hop in hops for item in hop}
    if line is None:
        nothing = {"union_recall": 0.0, "union_recall@2": 0.0} if relevant else {}
        return nothing | ({"hops_covered": 0.0, "all_hops": 0.0} if hops else {})
    lists = lists_of(line)
    final = line["topk"] if "topk" in line else [item for one in lists for item in one]
    seen: set[str] = set()
    wasted = 0
    for one in lists:
        wasted += not (relevant & set(one)) - seen
        seen |= relevant & set(one)
    values: Record = {"steps": float(len(lists))}
    if relevant:
        values["union_recall"] = len(seen) / len(relevant)
        values["union_recall@2"] = len({item for one in lists for item in one[:2]} & relevant) / len(relevant)
        values["wasted_steps"] = float(wasted)
        if lists:
            values["relevant_per_step"] = len(seen) / len(lists)
    if hops:
        covered = [any(item in final for item in hop) for hop in hops]
        values["hops_covered"] = sum(covered) / len(hops)
        values["all_hops"] = float(all(covered))
    return values


IDS = st.sampled_from([f"d{i}" for i in range(8)])
LIST = st.lists(IDS, max_size=5, unique=True)
LINE = st.one_of(
    st.none(),
    st.fixed_dictionaries({"topk": LIST}),
    st.fixed_dictionaries({"steps": st.lists(st.fixed_dictionaries({"topk": LIST}), min_size=1, max_size=4)}),
    st.fixed_dictionaries({"topk": LIST, "steps": st.lists(st.fixed_dictionaries({"topk": LIST}), max_size=4)}),
)
HOPS = st.lists(st.lists(IDS, min_size=1, max_size=3, unique=True), min_size=1, max_size=3)
ENTRY = st.one_of(
    st.fixed_dictionaries({"gold": st.lists(IDS, min_size=1, max_size=4, unique=True)}),
    st.fixed_dictionaries({"hops": HOPS}),
)


@given(st.lists(st.tuples(LINE, ENTRY), min_size=1, max_size=6))
def test_as_defined(pairs: list[tuple[Record | None, Record]]) -> None:
    pairs = [({"topk": ["d1"]}, {"gold": ["d1"]}), *pairs]  # the run has at least one query
    gold = [{"query_id": f"q{at}", **entry} for at, (_, entry) in enumerate(pairs)]
    run = [{"query_id": f"q{at}", **line} for at, (line, _) in enumerate(pairs) if line is not None]
    result = karat.evaluate(run, gold, METRICS, analyses=True)
    expected = [naive(line, entry) for line, entry in pairs]
    for metric in METRICS:
        told = [one.get(metric) for one in expected]
        assert list(result.score(metric).values()) == pytest.approx(told), metric
    searches = result.analyses.found.get("searches")
    if searches is None:
        assert not any("hops" in entry for line, entry in pairs if line is not None)
        assert max(len(lists_of(line)) for line, _ in pairs if line is not None) < 2
        return
    lines = [(lists_of(line), one) for (line, _), one in zip(pairs, expected, strict=True) if line is not None]
    assert searches.searches == sum(len(lists) for lists, _ in lines)
    assert searches.wasted == sum(one.get("wasted_steps", 0) for _, one in lines)
    repeats = [set(one) in map(set, lists[:at]) for lists, _ in lines for at, one in enumerate(lists) if one]
    assert searches.repeated == sum(repeats)
    assert searches.hops == [] or sum(hop.hops for hop in searches.hops) == sum(
        len(entry["hops"]) for line, entry in pairs if line is not None and "hops" in entry
    )
    if searches.steps:
        assert searches.steps[-1].recall.mean == pytest.approx(result["union_recall"].mean)
        assert sum(step.new for step in searches.steps) == searches.found
        assert sum(step.wasted for step in searches.steps) == searches.wasted
    if searches.per_relevant is not None:
        assert searches.per_relevant.mean == pytest.approx(searches.searches / searches.found)


AGENT: list[Record] = [
    {
        "query_id": "q1",
        "steps": [
            {"query": "one", "topk": ["a", "x"], "latency_ms": 10, "usage": [{"model": "m"}]},
            {"query": "two", "topk": ["b", "a"], "latency_ms": {"search": 20, "rank": 5}, "usage": [{"model": "m"}]},
            {"query": "three", "topk": ["a", "b"], "latency_ms": {"total": 65}, "usage": [{"model": "m", "calls": 2}]},
        ],
    },
    {"query_id": "q2", "topk": ["c"], "steps": [{"topk": ["c"]}, {"topk": ["d"]}]},
    {"query_id": "q3", "topk": ["y"]},
]
GOLD: list[Record] = [
    {"query_id": "q1", "hops": [["a"], ["b"], ["e"]]},
    {"query_id": "q2", "hops": [["c"], ["d"]]},
    {"query_id": "q3", "hops": [["f", "g"], ["h"]]},
]
PRICES = {"currency": "USD", "models": {"m": {"per_call": 0.01}}}


def test_by_search() -> None:
    searches = found(AGENT, GOLD, prices=PRICES)
    first, second, third = searches.steps
    assert (searches.queries, searches.searches, searches.wasted, searches.repeated, searches.found) == (3, 6, 2, 1, 4)
    assert [step.queries for step in searches.steps] == [3, 2, 1]
    assert [step.new for step in searches.steps] == [2, 2, 0]
    assert [step.wasted for step in searches.steps] == [1, 0, 1]
    assert [step.repeated for step in searches.steps] == [0, 0, 1]
    assert first.recall.mean == pytest.approx((1 / 3 + 1 / 2) / 3)
    assert second.recall.mean == third.recall.mean == pytest.approx((2 / 3 + 1) / 3)
    assert third.alone == pytest.approx(2 / 3)
    assert second.time is not None
    assert (second.time.searches, second.time.total, second.time.per_relevant) == (1, 25.0, 25.0)
    assert third.time is not None
    assert (third.time.share, third.time.per_relevant) == (0.65, None)
    assert third.cost is not None
    assert (third.cost.total, third.cost.share) == (0.02, 0.5)
    assert searches.cost is not None
    assert searches.cost.per_relevant == pytest.approx(0.02)
    assert searches.per_relevant is not None
    assert searches.per_relevant.mean == 1.5
    per_step = karat.evaluate(AGENT, GOLD, ["relevant_per_step"])["relevant_per_step"]
    assert per_step.low is not None
    assert per_step.high is not None
    assert (searches.per_relevant.low, searches.per_relevant.high) == (1 / per_step.high, 1 / per_step.low)


def test_where_hops_are_lost() -> None:
    searches = found(AGENT, GOLD)
    one, two, three = searches.hops
    assert (one.hops, one.covered, one.lost) == (3, 2, {"1": 1})
    assert (two.hops, two.covered, two.lost, two.stopped, two.dropped) == (3, 1, {"1": 1}, 0, 1)
    assert (three.hops, three.covered, three.lost) == (1, 0, {"3": 1})
    assert searches.worst_hop is two
    assert {one.query: one.lost for one in searches.examples} == {
        "q1": FirstLoss(3, 3, 0),
        "q2": FirstLoss(2, 0, 2),
        "q3": FirstLoss(1, 1, 0),
    }
    stopped = found([{"query_id": "q2", "steps": [{"topk": ["c"]}]}], GOLD[1:2])
    assert stopped.hops[1].stopped == 1


def test_unknown_times_are_counted() -> None:
    result = karat.evaluate(AGENT, GOLD, ["recall@5"], prices=PRICES, analyses=True)
    assert (result.audited["untimed_searches"], result.audited["unpriced_searches"]) == (2, 2)  # not of single searches
    assert karat.evaluate(AGENT, GOLD, ["recall@5"], analyses=True).audited["unpriced_searches"] == 0


def test_without_steps_and_hops_there_is_no_section() -> None:
    result = karat.evaluate({"q": ["a"]}, {"q": ["a"]}, ["recall@5"], analyses=True)
    assert "searches" not in {*result.analyses.found, *result.analyses.lacking}
    one = [{"query_id": "q", "steps": [{"topk": ["a"]}]}]
    assert "searches" not in karat.evaluate(one, {"q": ["a"]}, ["recall@5"], analyses=True).analyses.found


def test_hops_of_a_run_without_steps() -> None:
    searches = found({"q1": ["a", "b"], "q2": ["c"], "q3": ["g"]}, GOLD)
    assert searches.steps == []
    assert [hop.covered for hop in searches.hops] == [3, 1, 0]
    assert "2 of 3" in SearchesSection().in_short(searches)


def test_very_many_steps_share_a_row() -> None:
    steps = [{"topk": [f"n{at}"]} for at in range(40)]
    searches = found([{"query_id": "q", "steps": [*steps, {"topk": ["a"]}]}], {"q": ["a"]})
    assert (len(searches.steps), searches.steps[-1].onwards, searches.steps[-1].searches) == (10, True, 32)
    assert searches.steps[-1].new == 1


def test_a_document_is_found_once_by_its_first_chunk() -> None:
    run = [{"query_id": "q", "steps": [{"topk": ["x#1", "d#1"]}, {"topk": ["d#2"]}, {"topk": ["e#1"]}]}]
    result = karat.evaluate(run, [{"query_id": "q", "gold": ["d", "e"]}], METRICS[:4])
    assert result.means == {"union_recall": 1.0, "union_recall@2": 1.0, "steps": 3.0, "wasted_steps": 1.0}
    assert karat.evaluate(run, {"q": ["d", "e"]}, ["union_recall@1"]).means == {"union_recall@1": 1.0}


def test_ids_are_normalized_too() -> None:
    gold = [{"query_id": "q", "hops": [["A.md"], ["B.md"]]}]
    run = [{"query_id": "q", "steps": [{"topk": ["a"]}, {"topk": ["b"]}]}]
    result = karat.evaluate(run, gold, ["all_hops", "union_recall", "wasted_steps"], normalize_ids=True)
    assert result.means == {"all_hops": 1.0, "union_recall": 1.0, "wasted_steps": 0.0}


def test_distances_in_steps() -> None:
    hits = [{"id": "far", "score": 9.0}, {"id": "near", "score": 1.0}]
    run = [{"query_id": "q", "score_order": "lower-is-better", "steps": [{"topk": hits}]}]
    assert karat.evaluate(run, {"q": ["near"]}, ["recall@1", "union_recall@1"]).means == {
        "recall@1": 1.0,
        "union_recall@1": 1.0,
    }


def test_filters_are_for_final_lists() -> None:
    result = karat.evaluate(AGENT, GOLD, ["union_recall", "hops_covered"], top_k=1)
    assert result.means == karat.evaluate(AGENT, GOLD, ["union_recall"]).means | {"hops_covered": pytest.approx(5 / 18)}


def test_segments_gates_and_workers(tmp_path: Path) -> None:
    gold = [{**entry, "topic": topic} for entry, topic in zip(GOLD, "xxy", strict=True)]
    (tmp_path / "run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in AGENT))
    result = karat.evaluate(tmp_path / "run.jsonl", gold, METRICS, analyses=True)
    assert result.means == karat.evaluate(AGENT, gold, METRICS).means
    assert [row.summary[2].mean for row in result.segment_by("topic")] == [2.5, 1.0]
    verdict = karat.gate(result, criteria=["all_hops >= 0.9", "steps <= 5", "wasted_steps <= 1"])
    assert [one.outcome for one in verdict.verdicts] == ["fail", "pass", "pass"]
    assert result.analyses.found["searches"].searches == 6


@pytest.mark.parametrize("lists", [{"topk": ["a", "b"]}, {}])
def test_a_file_with_final_lists_and_steps(lists: Record, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    line = {"query_id": "q", **lists, "steps": [{"topk": ["a"]}, {"topk": ["c"]}]}
    path.write_text(json.dumps(line) + "\n")
    assert karat.evaluate(path, {"q": ["a", "c"]}, ["union_recall", "steps"]).means == {
        "union_recall": 1.0,
        "steps": 2.0,
    }


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"gold": ["a"], "hops": [["b"]]}, "contradiction"),
        ({"gold": {"a": 0, "b": 1}, "hops": [["b"], ["a"]]}, "contradiction"),
        ({"negatives": ["b"], "hops": [["b"]]}, "contradiction"),
        ({"forbidden": ["b"], "hops": [["b"]]}, "contradiction"),
        ({"no_answer": True, "hops": [["b"]]}, "contradiction"),
        ({"hops": [["b"], []]}, "bad-value"),
        ({"hops": ["b"]}, "wrong-type"),
        ({"hops": [[""]]}, "empty-id"),
        ({"hops": [[True]]}, "wrong-type"),
        ({"hops": {"a": 1}}, "wrong-type"),
    ],
)
def test_bad_hops(entry: Record, code: str) -> None:
    with pytest.raises(KaratError) as caught:
        karat.read_gold([{"query_id": "q", **entry}])
    assert caught.value.code == code


def test_hops_with_gold() -> None:
    gold = karat.read_gold(
        [{"query_id": "q", "gold": {"a": 2, "b": 1}, "hops": [["a"]]}, {"query_id": "r", "hops": []}]
    )
    assert (gold.ids, gold.grades.tolist(), gold.fields["hops"]) == (["a", "b"], [2.0, 1.0], [[["a"]], None])


@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize("late", [{"topk": ["a", "c"], "steps": [{"topk": ["a"]}, {"topk": ["c"]}]}, "lines"])
def test_steps_that_only_late_lines_have(
    late: Any, pure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if pure:
        choose_reader(monkeypatch, "1")
    many = [{"query_id": f"q{at}", "topk": [{"id": "a" * 50, "score": 1.0}] * 20} for at in range(400)]
    steps = [{"topk": ["a"], "step": 1}, {"topk": ["c"], "step": 2}] if late == "lines" else [late]
    path = tmp_path / "run.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in [*many, *({"query_id": "z", **one} for one in steps)]))
    gold = {"z": ["a", "c"], "q1": ["x"]}
    assert found(path, gold).searches == 3
