"""Dicts as ranx and pytrec_eval have them, and lists of ids, in memory and as JSON files."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from refusals import refused

import karat
from karat.data.audit import Audit
from karat.errors import InputError
from karat.formats import dicts
from karat.results.save import saved_form

GOLD = {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}}
SCORES = {"q1": 0.5, "q2": 1.0}


def short(value: object) -> str:
    return repr(value)[:12]


def shown(value: object) -> str:
    """What a message must quote of a value; nothing more can be said of None than that it is missing."""
    return "" if value is None else repr(value)[:12].strip("'")


def mrr(run: Any, gold: Any = GOLD) -> dict[str, float | None]:
    return karat.evaluate(run, gold, ["mrr"]).score("mrr")


@pytest.mark.parametrize(
    "run",
    [
        {"q1": {"x": 3, "a": 2}, "q2": {"c": 1}},
        {"q1": {"a": 2, "x": 3}, "q2": {"c": 1}},
        {"q1": ["x", "a"], "q2": ["c"]},
        {"q1": ("x", "a"), "q2": ("c",)},
        {"q1": [("a", 2), ("x", 3)], "q2": [("c", 1.5)]},
        {"q1": [["a", 2], ["x", 3]], "q2": [["c", 1.5]]},
        {"q1": [{"chunk_id": "a", "rank": 2}, {"chunk_id": "x", "rank": 1}], "q2": ["c"]},
        {"q1": {"x": 3, "a": 2}, "q2": ["c"]},
        {"q1": {"x": np.float32(3), "a": np.int64(2)}, "q2": {"c": np.float64(1)}},
        OrderedDict(q1=MappingProxyType({"a": 2, "x": 3}), q2=MappingProxyType({"c": 1})),
    ],
    ids=["scores", "any order", "ids", "tuples", "pairs", "lists", "hits", "mixed", "numpy", "mappings"],
)
def test_every_form_of_a_run(run: Any) -> None:
    assert mrr(run) == SCORES


@pytest.mark.parametrize(
    "run",
    [
        {"q1": [("a", np.float32(2)), ("x", np.float32(3))], "q2": [("c", np.float64(1))]},
        [
            {"query_id": "q1", "topk": [{"chunk_id": "x", "score": np.float64(3)}, "a"]},
            {"query_id": "q2", "topk": ["c"]},
        ],
    ],
    ids=["pairs", "records"],
)
def test_scores_straight_from_numpy(run: Any) -> None:
    """A retriever's scores are numpy numbers more often than not."""
    assert mrr(run) == SCORES


@pytest.mark.parametrize(
    "gold",
    [
        {"q1": {"a": 2, "b": 1}, "q2": {"c": 1}},
        {"q1": ["a", "b"], "q2": ["c"]},
        {"q1": ("a", "b"), "q2": ("c",)},
        {"q1": {"a", "b"}, "q2": frozenset({"c"})},
        {"q1": {"a": np.int64(2), "b": np.float32(1)}, "q2": ["c"]},
    ],
    ids=["grades", "ids", "tuples", "sets", "numpy"],
)
def test_every_form_of_gold(gold: Any) -> None:
    assert mrr({"q1": ["x", "a"], "q2": ["c"]}, gold) == SCORES


def test_numbers_are_ids_too() -> None:
    assert mrr({1: {7: 2, 3: 1}}, {1: {3: 1}}) == {"1": 0.5}
    assert mrr({1: [7, 3]}, {1: [3]}) == {"1": 0.5}
    assert mrr({1: ["7", "3"]}, {"1": {3}}) == {"1": 0.5}


def test_a_number_and_its_text_are_one_id() -> None:
    result = karat.evaluate({"q": {"x": 9, 3: 2, "3": 1}}, {"q": ["3"]}, ["mrr", "recall@5"])
    assert result.means == {"mrr": 0.5, "recall@5": 1.0}
    assert result.audit["duplicate_hits"] == 1


@pytest.mark.parametrize("form", [dict, list], ids=["scores", "ids"])
def test_a_number_and_its_text_are_one_query_and_so_refused(form: Any) -> None:
    with refused("duplicate-query", InputError, query="1"):
        mrr({1: form({"a": 1}), "1": form({"b": 1})}, {"1": ["a"]})
    with refused("duplicate-query", InputError, query="1"):
        mrr({"1": ["a"]}, {1: form({"a": 1}), "1": form({"b": 1})})


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("run", [{"q1": {"x": 3, "a": 2}, "q2": {"c": 1}}, {"q1": ["x", "a"], "q2": ["c"]}])
def test_json_files(tmp_path: Path, run: Any, indent: int | None) -> None:
    run_path, gold_path = tmp_path / "run.json", tmp_path / "gold.json"
    run_path.write_text(json.dumps(run, indent=indent))
    gold_path.write_text(json.dumps(GOLD, indent=indent))
    assert mrr(run_path, gold_path) == SCORES


def test_a_json_file_of_one_line_that_is_longer_than_what_is_looked_at(tmp_path: Path) -> None:
    run = {f"q{i}": {f"d{j}": j / 7 for j in range(30)} for i in range(500)}
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run))
    assert path.stat().st_size > 1 << 16
    assert karat.evaluate(path, {"q1": ["d29"], "q499": ["d28"]}, ["mrr"]).means == {"mrr": 0.75}


def test_small_slices_give_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    run = {f"q{i}": {f"d{(i * j) % 17}": (j * 5) % 7 for j in range(20)} for i in range(30)}
    gold = {f"q{i}": {f"d{i % 17}": 2, f"d{(i + 3) % 17}": 1} for i in range(32)}
    asked = ["ndcg@5", "map", "bpref", "distinct_docs@5"]
    before = saved_form(karat.evaluate(run, gold, asked))
    monkeypatch.setattr(dicts, "_SLICE_HITS", 30)
    assert len(list(karat.read_run(run).slices(frozenset(), Audit()))) > 5
    after = saved_form(karat.evaluate(run, gold, asked))
    assert (after.scores, after.audit) == (before.scores, before.audit)


@pytest.mark.parametrize(
    "score",
    ["0.5", "high", None, True, [1], float("nan"), float("inf"), -float("inf"), 10**400, b"1", 1j],
    ids=short,
)
def test_a_score_that_is_no_finite_number_is_refused(score: Any) -> None:
    with refused("bad-value", InputError, query="q1", field="a") as caught:
        mrr({"q1": {"x": 1.0, "a": score}})
    assert shown(score) in str(caught.value)


@pytest.mark.parametrize(
    "grade",
    ["1", "good", None, True, [1], float("nan"), float("inf"), 10**400],
    ids=short,
)
def test_a_grade_that_is_no_number_is_refused(grade: Any) -> None:
    with refused("bad-value", InputError, query="q1") as caught:
        mrr({"q1": ["a"]}, {"q1": {"b": 1, "a": grade}})
    assert "a" in str(caught.value.field)
    assert shown(grade) in str(caught.value)


@pytest.mark.parametrize("number", ["1" + "0" * 400, "1e999", '"high"', "null", "true", "NaN"], ids=short)
def test_a_score_in_a_json_file_that_is_no_finite_number_is_refused(tmp_path: Path, number: str) -> None:
    path = tmp_path / "run.json"
    path.write_text(f'{{"q1": {{"x": 1.0, "a": {number}}}}}')
    with pytest.raises(InputError) as caught:
        mrr(path)
    assert caught.value.file == str(path)


@pytest.mark.parametrize("hits", [5, None, "abc", 1.5, True, {"a"}], ids=short)
def test_hits_that_are_no_list_are_refused(hits: Any) -> None:
    with refused("wrong-type", InputError, query="q1", got=hits) as caught:
        mrr({"q1": hits})
    assert shown(hits) in str(caught.value)


@pytest.mark.parametrize("items", [5, None, "abc", 1.5, True], ids=short)
def test_gold_that_is_no_list_is_refused(items: Any) -> None:
    with refused("wrong-type", InputError, query="q1", got=items) as caught:
        mrr({"q1": ["a"]}, {"q1": items})
    assert shown(items) in str(caught.value)


@pytest.mark.parametrize("hit", [None, 1.5, ["a"], ("a", 1, 2), {"score": 1}, {"chunk_id": 1.5}, ("a", "b")], ids=short)
def test_a_hit_that_is_none_is_refused(hit: Any) -> None:
    with pytest.raises(InputError, match=r"topk\[1\]"):
        mrr({"q1": ["x", hit]})


@pytest.mark.parametrize("item", [{"id": "a"}, ["a"], None], ids=short)
def test_an_item_of_gold_that_is_no_id_is_refused(item: Any) -> None:
    with pytest.raises(InputError) as caught:
        mrr({"q1": ["a"]}, {"q1": ["b", item]})
    assert caught.value.query == "q1"
