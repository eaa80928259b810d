"""Pools: what goes in, in which order, and with what influence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refused

import karat
from karat.errors import ConfigError, InputError, KaratError
from karat.labels.files import Key, read_pool
from karat.labels.pool import Pool, make_pool

Lists = dict[str, list[str]]
Grades = dict[str, dict[str, float]]
ITEMS = [f"d{i}" for i in range(6)]
QUERIES = ["q0", "q1"]
METRICS = ["ndcg@3", "precision@3", "recall@3", "hit@3", "mrr", "map", "rbp", "ndcg(gain=linear)@5", "bpref"]

lists = st.fixed_dictionaries({q: st.lists(st.sampled_from(ITEMS), max_size=6, unique=True) for q in QUERIES})
grades = st.fixed_dictionaries(
    {q: st.dictionaries(st.sampled_from(ITEMS), st.sampled_from([0, 1, 2]), min_size=1, max_size=4) for q in QUERIES}
)


def run_of(found: Lists, texts: dict[str, str] | None = None) -> list[dict[str, Any]]:
    return [
        {"query_id": q, "topk": [{"chunk_id": i, **({"text": texts[i]} if texts and i in texts else {})} for i in ids]}
        for q, ids in found.items()
    ]


def keys(pool: Pool) -> set[Key]:
    return {entry.key for entry in pool.entries}


def try_pool(*arguments: Any, **options: Any) -> Pool | None:
    """None where nothing is left to label."""
    try:
        return make_pool(*arguments, **options)
    except InputError as error:
        if error.code == "nothing-to-label":
            return None
        raise


@given(lists, lists, grades, st.integers(1, 6))
@settings(max_examples=25)
def test_a_pool_is_the_union_without_what_is_judged(one: Lists, other: Lists, gold: Grades, k: int) -> None:
    expected = {Key(q, i) for q in QUERIES for run in (one, other) for i in run[q][:k] if i not in gold[q]}
    pool = try_pool([run_of(one), run_of(other)], gold, k=k)
    assert (keys(pool) if pool else set()) == expected
    if pool is None:
        return
    assert len(pool.entries) == len(expected) == pool.summary.pairs
    assert all(entry.inclusion_probability == 1 for entry in pool.entries)
    for entry in pool.entries:
        assert entry.origin is not None
        places = [
            run[entry.key.query].index(entry.key.item) + 1
            for run in (one, other)
            if entry.key.item in run[entry.key.query]
        ]
        assert sorted(entry.origin.ranks.values()) == sorted(place for place in places if place <= k)


def difference(one: Lists, other: Lists, gold: Grades, metric: str) -> np.ndarray:
    return np.array([karat.evaluate(run_of(run), gold, [metric]).means[metric] or 0.0 for run in (one, other)])


@given(lists, lists, grades, st.sampled_from(METRICS), st.integers(1, 6))
@settings(max_examples=15)
def test_influence_is_what_the_metric_says_with_the_label_put_in(
    one: Lists, other: Lists, gold: Grades, metric: str, k: int
) -> None:
    """Every metric, evaluated anew with each label in turn: only pairs that change the difference are pooled."""
    for q in QUERIES:  # a query without relevant gold has no value, and means of others are not what is looked at
        gold[q] = {**gold[q], "known": 2.0}
    pool = try_pool([run_of(one), run_of(other)], gold, k=k, metric=metric, only_differences=True)
    found = keys(pool) if pool else set()
    before = difference(one, other, gold, metric)
    for q in QUERIES:
        for item in {*one[q][:k], *other[q][:k]} - set(gold[q]):
            after = difference(one, other, {**gold, q: {**gold[q], item: 2.0}}, metric)
            change = abs(np.diff(after - before)[0])
            assert (Key(q, item) in found) == (change > 1e-12), (q, item, change)
            if pool is not None and Key(q, item) in found:
                (entry,) = (e for e in pool.entries if e.key == Key(q, item))
                assert entry.origin is not None
                assert 0 < (entry.origin.influence or 0) <= change + 1e-12, "times the chance to be relevant"


def test_a_budget_picks_what_moves_the_comparison_most() -> None:
    one = {"q0": ["a", "b", "c", "d"], "q1": ["x", "y"]}
    other = {"q0": ["e", "b", "c", "d"], "q1": ["x", "y"]}
    pool = make_pool([run_of(one), run_of(other)], {"q0": ["r"], "q1": ["r"]}, k=4, budget=2)
    assert keys(pool) == {Key("q0", "a"), Key("q0", "e")}, "the first place, which only one of the runs has"
    assert all(entry.inclusion_probability is None for entry in pool.entries), "picked, not drawn"
    assert pool.summary.chosen == "budget"
    assert 0.5 < (pool.summary.influence_share or 0) <= 1


def test_one_run_alone_is_moved_by_its_own_labels() -> None:
    pool = make_pool([run_of({"q": ["a", "b", "c"]})], {"q": ["r"]}, k=3, budget=1, metric="mrr")
    assert keys(pool) == {Key("q", "a")}


def test_hits_that_are_often_relevant_come_first() -> None:
    """Equal in what they can change, told apart by how often hits at their rank turned out to be relevant."""
    one: Lists = {f"q{i}": ["good", "bad"] for i in range(30)} | {"new0": ["a", "bad"], "new1": ["good", "b"]}
    gold = {q: {"good": 1, "bad": 0, "else": 1} for q in one}
    pool = make_pool([run_of(one)], gold, k=2, metric="precision@2", budget=1)
    assert keys(pool) == {Key("new0", "a")}


def test_same_lists_have_nothing_to_tell_apart() -> None:
    found = {"q": ["a", "b"]}
    with refused("nothing-to-label", InputError):
        make_pool([run_of(found), run_of(found)], {"q": ["r"]}, only_differences=True)


def test_a_sample_is_drawn_with_the_probability_that_it_says() -> None:
    found = {"q0": ["a", "b", "c"], "q1": ["d", "e"]}
    drawn: Counter[Key] = Counter()
    for seed in range(400):
        pool = make_pool([run_of(found)], {"q0": ["r"], "q1": ["r"]}, sample=2, seed=seed)
        assert len(pool.entries) == 2
        assert {entry.inclusion_probability for entry in pool.entries} == {2 / 5}
        drawn.update(keys(pool))
    assert len(drawn) == 5
    assert all(abs(count / 400 - 2 / 5) < 0.1 for count in drawn.values())


def test_the_order_is_shuffled_by_the_seed_and_does_not_depend_on_the_order_of_runs() -> None:
    one = {f"q{i}": [f"a{j}" for j in range(8)] for i in range(5)}
    other = {f"q{i}": [f"b{j}" for j in range(8)] for i in range(5)}
    gold = {q: ["r"] for q in one}
    asked: list[tuple[list[Any], int]] = [
        ([run_of(one), run_of(other)], 0),
        ([run_of(other), run_of(one)], 0),
        ([run_of(one), run_of(other)], 1),
    ]
    pools = [[entry.key for entry in make_pool(runs, gold, seed=seed).entries] for runs, seed in asked]
    assert pools[0] == pools[1] != pools[2]
    queries = [key.query for key in pools[0]]
    assert len([q for q, before in zip(queries, [None, *queries], strict=False) if q != before]) == 5, "read once each"
    assert queries != sorted(queries)
    firsts = [key.item for key, before in zip(pools[0], [None, *queries], strict=False) if key.query != before]
    assert len(set(firsts)) > 1, "the first passage of a query is not the first hit"


def test_near_duplicates_are_flagged_judged_ones_first() -> None:
    text = "Refunds for card payments take five working days to arrive."
    texts = {"a": text, "b": text.upper(), "c": "Cards ship in two weeks from now on.", "z": text + " "}
    pool = make_pool([run_of({"q": ["a", "b", "c", "z"]}, texts)], {"q": {"z": 1}})
    assert {entry.chunk_id: entry.near_duplicate_of for entry in pool.entries} == {"a": "z", "b": "z", "c": None}
    assert pool.summary.near_duplicates == 2


def test_no_answer_queries_and_documents_that_are_judged_are_left_out() -> None:
    gold = [
        {"query_id": "q", "query": "how", "gold": [{"doc_id": "d1"}], "language": "en"},
        {"query_id": "n", "query": "why", "no_answer": True},
    ]
    pool = make_pool([run_of({"q": ["d1#1", "d2#1"], "n": ["d3#1"]})], gold)
    (entry,) = pool.entries
    assert (entry.chunk_id, entry.query, entry.language) == ("d2#1", "how", "en")
    assert (pool.summary.judged, pool.summary.no_answer_queries, pool.summary.without_text) == (1, 1, 1)


def test_metrics_that_do_not_go_by_labels_are_refused() -> None:
    for metric in ("latency", "ndcg(level=doc)@5", "ndcg@2000tok", "novelty@5"):
        with refused("unsuitable-metric", ConfigError):
            make_pool([run_of({"q": ["a"]})], {"q": ["r"]}, budget=1, metric=metric)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    contents: dict[str, list[Any]] = {
        "old": [{"query_id": "q1", "topk": ["a", "b"]}, {"query_id": "q2", "topk": ["c"]}],
        "new": [{"query_id": "q1", "topk": ["b", "x"]}, {"query_id": "q2", "topk": ["c"]}],
        "gold": [{"query_id": "q1", "query": "how", "gold": ["b"]}, {"query_id": "q2", "query": "why", "gold": ["c"]}],
        "queries": [{"query_id": "q1", "query": "how"}, {"query_id": "q2", "query": "why"}],
        "corpus": [{"id": i, "title": f"T {i}", "text": f"text of {i}"} for i in "abcx"],
        "labels": [{"query_id": "q1", "chunk_id": "a", "grade": 0, "annotator": "ann"}],
    }
    for name, lines in contents.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {name: str(tmp_path / f"{name}.jsonl") for name in [*contents, "pool"]}


Command = Callable[..., tuple[int, str, str]]
Refuses = Callable[..., KaratError]


def test_the_command(karat_command: Command, files: dict[str, str]) -> None:
    asked = ["labels", "pool", files["old"], files["new"], "--gold", files["gold"], "-o", files["pool"]]
    code, out, err = karat_command(*asked, "--corpus", files["corpus"])
    assert code == 0
    assert out
    assert "2 pairs" in err
    assert {(e.chunk_id, e.title, e.text) for e in read_pool(files["pool"])} == {
        ("a", "T a", "text of a"),
        ("x", "T x", "text of x"),
    }
    code, out, _ = karat_command(*asked, "--labelled", files["labels"], "--json")
    assert code == 0
    assert json.loads(out)["pairs"] == 1
    assert [entry.chunk_id for entry in read_pool(files["pool"])] == ["x"]


def test_queries_alone_will_do(karat_command: Command, files: dict[str, str]) -> None:
    code, _, err = karat_command(
        "labels", "pool", files["old"], files["new"], "-g", files["queries"], "-o", files["pool"]
    )
    assert code == 0, err
    assert len(read_pool(files["pool"])) == 4


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (["--budget", "1", "--sample", "1"], "contradiction"),
        (["--metric", "recal@5", "--budget", "1"], "unknown-metric"),
        (["--labelled", "{gold}"], "missing-field"),
        (["-o", "{old}"], "would-overwrite"),
    ],
)
def test_what_the_command_refuses(karat_refuses: Refuses, files: dict[str, str], change: list[str], code: str) -> None:
    asked = ["labels", "pool", files["old"], files["new"], "--gold", files["gold"], "-o", files["pool"]]
    assert karat_refuses(*asked, *(part.format(**files) for part in change)).code == code
    assert not Path(files["pool"]).exists()


def test_a_budget_of_nothing_is_refused(karat_command: Command, files: dict[str, str]) -> None:
    code, out, err = karat_command(
        "labels", "pool", files["old"], "--gold", files["gold"], "-o", files["pool"], "--budget", "0"
    )
    assert (code, out) == (2, "")
    assert "--budget" in err


def test_an_empty_pool_is_said_and_not_written(karat_refuses: Refuses, files: dict[str, str]) -> None:
    error = karat_refuses(
        "labels",
        "pool",
        files["old"],
        "-g",
        files["gold"],
        "-o",
        files["pool"],
        "--depth",
        "1",
        "--labelled",
        files["labels"],
    )
    assert error.code == "nothing-to-label"
    assert not Path(files["pool"]).exists()
