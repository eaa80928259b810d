"""Steps of a query in a run log: several lists in one line, or one line per step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refused

import karat
from karat.data.audit import Audit
from karat.formats.read import read_run
from karat.results.evaluate import evaluate_all
from karat.scoring.views import STEPS, Need, View, step_lists

GOLD = {"q1": ["a", "d"], "q2": ["x"], "q3": ["m"]}
ONE_LINE: list[dict[str, Any]] = [
    {"query_id": "q1", "steps": [{"query": "one", "topk": ["a", "b"]}, {"query": "two", "topk": ["b", "c", "d"]}]},
    {"query_id": "q2", "topk": ["x"]},
    {"query_id": "q3", "topk": ["n", "m"], "steps": [{"topk": ["m"], "latency_ms": 3, "usage": [{"model": "e"}]}]},
]
LINES: list[dict[str, Any]] = [
    {"query_id": "q1", "step": 2, "query": "two", "topk": ["b", "c", "d"]},
    {"query_id": "q1", "step": 1, "query": "one", "topk": ["a", "b"]},
    {"query_id": "q2", "topk": ["x"]},
    {"query_id": "q3", "step": 7, "topk": ["m"], "latency_ms": 3, "usage": [{"model": "e"}]},
    {"query_id": "q3", "topk": ["n", "m"]},
]


def written(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def lists(run: Any, *names: str) -> dict[str, dict[str, list[str]]]:
    """The lists of a run by name and query."""
    found: dict[str, dict[str, list[str]]] = {}
    for hits in read_run(run).slices(frozenset(), Audit(), frozenset(names)):
        for name, each in {"topk": hits, **hits.others}.items():
            for at, query in enumerate(each.queries):
                ids = list(each.ids)[each.offsets[at] : each.offsets[at + 1]]
                found.setdefault(name, {})[query] = [
                    i.decode().rstrip("\0") if isinstance(i, bytes) else str(i) for i in ids
                ]
    return found


WAYS: dict[str, Callable[[Path], Any]] = {
    "one line": lambda folder: written(folder / "run.jsonl", ONE_LINE),
    "a line per step": lambda folder: written(folder / "run.jsonl", LINES),
    "in memory": lambda folder: ONE_LINE,
    "steps in memory": lambda folder: LINES,
    "with texts": lambda folder: written(folder / "run.jsonl", [{**one, "note": "x"} for one in ONE_LINE]),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_final_list_is_the_union_and_each_step_is_a_list(way: str, tmp_path: Path) -> None:
    run = WAYS[way](tmp_path)
    found = lists(run, step_lists(1), step_lists(2), step_lists(3), STEPS, "raw")
    assert found == {
        "topk": {"q1": ["a", "b", "c", "d"], "q2": ["x"], "q3": ["n", "m"]},
        "step 1": {"q1": ["a", "b"], "q3": ["m"]},
        "step 2": {"q1": ["b", "c", "d"]},
        "steps": {"q1": ["a", "b", "c", "d"], "q3": ["m"]},
    }
    assert karat.evaluate(run, GOLD, ["recall@5", "mrr"])["mrr"].mean == pytest.approx(2.5 / 3)


def test_a_view_of_a_step_is_measured_in_the_same_pass(tmp_path: Path) -> None:
    first, second, union = View(step_lists(1)), View(step_lists(2)), View(STEPS)
    need = Need(views={first: ["recall@5"], second: ["recall@5"], union: ["recall@5"]}, facts=frozenset({STEPS}))
    for run in (written(tmp_path / "run.jsonl", ONE_LINE), written(tmp_path / "lines.jsonl", LINES)):
        [result] = evaluate_all(run, GOLD, ["recall@5"], consumers=[lambda setup: need]).values()
        by_view = {
            view.lists: result.measure(["recall@5"], view).scores["recall@5"].to_list()
            for view in (first, second, union)
        }
        assert by_view["step 1"][0] == 0.5
        assert by_view["step 2"][0] == 0.5
        assert by_view["steps"][0] == 1.0
        steps = result.data.facts[STEPS]
        assert [step["query"] for step in steps[0]] == ["one", "two"]
        assert [step["hits"] for step in steps[0]] == [2, 3]
        assert steps[1] is None
        assert steps[2][0]["latency_ms"] == 3


def test_hits_of_steps_are_taken_in_their_own_order(tmp_path: Path) -> None:
    steps = [
        {"topk": [{"chunk_id": "b", "score": 0.1}, {"chunk_id": "a", "score": 0.9}]},
        {"topk": [{"chunk_id": "d", "rank": 2, "score": 9}, {"chunk_id": "c", "rank": 1, "score": 1}]},
    ]
    assert lists([{"query_id": "q", "steps": steps}])["topk"] == {"q": ["a", "b", "c", "d"]}


def test_steps_add_up_to_the_time_and_usage_of_the_query(tmp_path: Path) -> None:
    used = [{"model": "m", "prompt_tokens": 5}]
    records = [
        {"query_id": "q", "step": at, "topk": ["a"], "latency_ms": {"search": 2.0}, "usage": used} for at in (1, 2)
    ]
    [hits] = read_run(written(tmp_path / "run.jsonl", records)).slices(frozenset({"latency"}), Audit())
    assert hits.latency["search"].tolist() == [4.0]
    assert len(hits.fields["usage"][0]) == 2


@pytest.mark.parametrize("apart", [1, 300])
def test_steps_of_a_query_may_be_anywhere(apart: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karat.formats.run_log._SLICE_HITS", 50)
    first = [{"query_id": f"q{at}", "step": 1, "topk": ["a"]} for at in range(300)]
    second = [{"query_id": f"q{at}", "step": 2, "topk": [f"b{at}"]} for at in range(300)]
    records = [*first, *second] if apart > 1 else [one for pair in zip(first, second, strict=True) for one in pair]
    gold = {f"q{at}": [f"b{at}"] for at in range(300)}
    assert karat.evaluate(written(tmp_path / "run.jsonl", records), gold, ["recall@5"])["recall@5"].mean == 1.0


def test_only_a_repeated_step_is_refused(tmp_path: Path) -> None:
    step = {"query_id": "q1", "step": 1, "topk": ["a"]}
    with refused("duplicate-query", line=2, query="q1"):
        karat.evaluate(written(tmp_path / "run.jsonl", [step, step]), GOLD)
    with refused("duplicate-query", line=3, query="q1"):
        karat.evaluate(written(tmp_path / "run.jsonl", [step, {"query_id": "q2", "topk": ["x"]}, step]), GOLD)
    other = {**step, "system": "other"}
    assert len(karat.evaluate(written(tmp_path / "run.jsonl", [step, other]), GOLD)) == 2


@pytest.mark.parametrize(
    "steps", [7, [], [7], [{"topk": "a"}], [{}], [{"topk": [{"score": 1}]}], {"topk": []}], ids=str
)
def test_bad_steps_are_refused_with_their_line(steps: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "run.jsonl", [{"query_id": "q0", "topk": ["a"]}, {"query_id": "q1", "steps": steps}])
    if steps == []:  # an agent that did not search
        assert karat.evaluate(path, GOLD, ["recall@5"]).audit["empty_results"] == 1
        return
    with pytest.raises(karat.KaratError) as error:
        karat.evaluate(path, GOLD)
    assert error.value.exit_code == 2
    assert error.value.line == 2


def test_a_log_without_ids_is_matched_by_normalised_text(tmp_path: Path) -> None:
    gold = written(tmp_path / "gold.jsonl", [{"query_id": "g1", "query": "How  long?", "gold": ["a"]}])
    run = written(tmp_path / "run.jsonl", [{"query": "how long?", "topk": ["a"]}])
    assert karat.evaluate(run, gold, ["recall@5"])["recall@5"].mean == 1.0
    again = written(
        tmp_path / "run.jsonl", [{"query": "how long?", "topk": ["a"]}, {"query": "How long? ", "topk": ["b"]}]
    )
    with refused("duplicate-query", query="g1"):
        karat.evaluate(again, gold)


@pytest.mark.parametrize(
    "failed",
    [
        [{"query_id": "q1", "error": "timeout"}],
        [{"query_id": "q1", "topk": None, "error": {"code": 504}}],
        [{"query_id": "q1", "steps": [], "error": "timeout"}],
        [{"query_id": "q1", "steps": [{"query": "a", "error": "timeout"}], "error": "timeout"}],
        [{"query_id": "q1", "step": 1, "error": "timeout"}, {"query_id": "q1", "step": 2, "error": "timeout"}],
    ],
    ids=str,
)
@pytest.mark.parametrize("first", [True, False])
def test_a_line_with_an_error_needs_no_list(failed: list[Any], first: bool, tmp_path: Path) -> None:
    """As loggers write it, also in the first line."""
    good = [{"query_id": "q2", "topk": ["x"]}]
    path = written(tmp_path / "run.jsonl", [*failed, *good] if first else [*good, *failed])
    result = karat.evaluate(path, GOLD, ["recall@5"])
    assert (result.audit["failed_queries"], result.audit["missing_queries"]) == (1, 1)


def test_a_search_that_failed_found_nothing(tmp_path: Path) -> None:
    steps = [{"query": "one", "topk": ["a"]}, {"query": "two", "error": "timeout"}]
    path = written(tmp_path / "run.jsonl", [{"query_id": "q1", "steps": steps}])
    assert karat.evaluate(path, GOLD, ["steps", "wasted_steps"]).score("wasted_steps")["q1"] == 1.0


def test_times_and_usage_of_searches_are_those_of_the_query(tmp_path: Path) -> None:
    """If only its searches log them. What the line itself says counts first."""
    used = {"model": "m", "prompt_tokens": 100}
    steps = [{"topk": ["a"], "latency_ms": 20, "usage": [used]}, {"topk": ["d"], "latency_ms": 30.5, "usage": [used]}]
    untimed = [{"topk": ["m"], "usage": [used]}, {"topk": ["n"], "latency_ms": 5}]
    lines = [
        {"query_id": "q1", "steps": steps},
        {"query_id": "q2", "topk": ["x"], "steps": steps, "latency_ms": {"total": 40}, "usage": [used]},
        {"query_id": "q3", "topk": ["m"], "steps": untimed},
    ]
    for metrics in (["latency", "prompt_tokens"], ["latency", "prompt_tokens", "steps"]):
        result = karat.evaluate(written(tmp_path / "run.jsonl", lines), GOLD, metrics)
        assert result.score("latency")["q1"] == 50.5
        assert result.score("latency")["q2"] == 40
        assert result["latency"].n == 2
        assert result.score("prompt_tokens") == {"q1": 200.0, "q2": 100.0, "q3": 100.0}
        assert (result.audit["summed_latency_ms"], result.audit["summed_usage"]) == (1, 2)
    assert karat.evaluate(lines, GOLD, ["latency"]).score("latency")["q1"] == 50.5
