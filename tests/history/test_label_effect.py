"""Pools from runs of a history, and what labels change in them: on both kinds of history."""

from __future__ import annotations

from typing import Any

import pytest
from refusals import refused

import karat
from karat.errors import InputError, KaratError
from karat.history.keep import keep_need, keep_result
from karat.history.label_effect import effect_of
from karat.history.pool_selection import PoolSelection, choose_pairs
from karat.history.store import NotThere, Store
from karat.labels.files import Key, Label
from karat.results.evaluate import evaluate_all

GOLD = [{"query_id": f"q{q}", "query": f"What about {q}?", "gold": [f"d{q}#1"]} for q in range(6)]


def run_log(shift: int) -> list[dict[str, Any]]:
    """Ten hits per query with texts. Another shift has other hits."""
    return [
        {
            "query_id": f"q{q}",
            "system": f"shift {shift}",
            "topk": [
                {"chunk_id": f"d{(i * (q + 1) + shift) % 13}#1", "score": 10 - i, "text": f"Text {i} for {q}"}
                for i in range(10)
            ],
        }
        for q in range(6)
    ]


@pytest.fixture
def runs(store: Store) -> list[str]:
    found = []
    for shift in (0, 3):
        [result] = evaluate_all(run_log(shift), GOLD, consumers=[keep_need]).values()
        found.append(store.save(keep_result(result)).id)
    return found


def label(query: str, item: str, grade: float | None, annotator: str = "ann") -> Label:
    reason = "skipped" if grade is None else None
    return Label(query_id=query, chunk_id=item, grade=grade, annotator=annotator, reason=reason)


def test_unjudged_hits_are_a_sample_with_a_known_probability(store: Store, runs: list[str]) -> None:
    every = choose_pairs(store, PoolSelection(choice="unjudged", runs=runs[:1], k=5))
    assert len(every.entries) == every.found == 6 * 5 - 3  # three queries have their gold among the first five
    assert {entry.inclusion_probability for entry in every.entries} == {1.0}
    assert all(entry.text and entry.query for entry in every.entries)
    some = choose_pairs(store, PoolSelection(choice="unjudged", runs=runs[:1], k=5, limit=9))
    assert {entry.inclusion_probability for entry in some.entries} == {9 / 27}
    known = {entry.key for entry in some.entries}
    rest = choose_pairs(store, PoolSelection(choice="unjudged", runs=runs[:1], k=5), known)
    assert (len(rest.entries), rest.labelled) == (18, 9)
    assert not known & {entry.key for entry in rest.entries}


def test_disagreements_are_in_one_list_only(store: Store, runs: list[str]) -> None:
    found = choose_pairs(store, PoolSelection(choice="disagreement", runs=runs, k=5))
    lists = [{(r["query_id"], h["chunk_id"]) for r in run_log(s) for h in r["topk"][:5]} for s in (0, 3)]
    judged = {(query["query_id"], query["gold"][0]) for query in GOLD}
    assert {(str(e.query_id), str(e.chunk_id)) for e in found.entries} == (lists[0] ^ lists[1]) - judged


def test_changed_queries_and_chosen_ones(store: Store, runs: list[str]) -> None:
    results = [karat.evaluate(run_log(shift), GOLD, ["recall@5"]).scores for shift in (0, 3)]
    both = zip(*(result.iter_rows() for result in results), strict=True)
    changed = {one[0] for one, other in both if one[1] != other[1]}
    asked = PoolSelection(choice="changed", runs=runs, k=3, metric="recall@5")
    assert {entry.query_id for entry in choose_pairs(store, asked).entries} == changed
    asked = PoolSelection(choice="queries", runs=runs[:1], k=4, queries=["q1", "nothing", "q2"])
    found = choose_pairs(store, asked, {Key("q1", "d0#1")})
    assert len(found.entries) == 8, "what is judged or labelled is asked for, too"
    assert {entry.inclusion_probability for entry in found.entries} == {None}


def test_selections_that_cannot_be(store: Store, runs: list[str], made_run: Any) -> None:
    with refused("bad-value", InputError, field="runs"):
        choose_pairs(store, PoolSelection(choice="disagreement", runs=runs[:1]))
    with refused("bad-value", InputError, field="runs"):
        choose_pairs(store, PoolSelection(choice="disagreement", runs=[runs[0], runs[0]]))
    with pytest.raises(NotThere):
        choose_pairs(store, PoolSelection(choice="unjudged", runs=["nobody"]))
    with refused("nothing-to-label", InputError):
        choose_pairs(store, PoolSelection(choice="queries", runs=runs[:1], queries=["nothing"]))
    old = store.save(made_run(1)).id
    with refused("no-hits", InputError):
        choose_pairs(store, PoolSelection(choice="unjudged", runs=[old]))


METRICS = ["recall@5", "ndcg@5", "mrr", "precision@5"]


def test_the_effect_is_what_an_evaluation_with_the_labels_says(store: Store, runs: list[str]) -> None:
    labels = [label("q1", "d0#1", 2), label("q3", "d4#1", 1), label("q3", "d8#1", 0), label("q4", "d0#1", None)]
    gold = karat.labels.with_labels(karat.read_gold(GOLD), labels)
    before, after = (karat.evaluate(run_log(0), one, METRICS) for one in (GOLD, gold))
    for query in ("q1", "q3", "q0"):
        found = effect_of(store, runs[0], query, labels, metrics=METRICS)
        assert (found.queries, found.unmeasured) == (2, [])
        for one in found.metrics:
            scores = [{row["query_id"]: row[one.metric] for row in r.scores.to_dicts()} for r in (before, after)]
            assert (one.query_gold, one.query_labels) == pytest.approx((scores[0][query], scores[1][query]))
            assert (one.run_gold, one.run_labels) == pytest.approx((before[one.metric].mean, after[one.metric].mean))


def test_people_who_disagree_give_no_grade(store: Store, runs: list[str]) -> None:
    both = [label("q1", "d0#1", 2), label("q1", "d0#1", 0, "ben")]
    found = effect_of(store, runs[0], "q1", both, metrics=["recall@5"])
    assert (found.labels, found.metrics[0].query_labels) == (0, found.metrics[0].query_gold)
    third = [*both, label("q1", "d0#1", 2, "eve")]
    found = effect_of(store, runs[0], "q1", third, metrics=["recall@5"])
    assert (found.labels, found.metrics[0].query_labels) == (1, 0.5)


def test_what_the_kept_hits_cannot_tell_is_named(store: Store) -> None:
    deep = [{"query_id": query, "topk": [f"d{i}" for i in range(40)]} for query in "qp"]
    gold = [{"query_id": "q", "query": "?", "gold": ["d30", "d2"]}, {"query_id": "p", "query": "?", "gold": ["d1"]}]
    [result] = evaluate_all(deep, gold, ["recall@50", "recall@5"], consumers=[keep_need]).values()
    run = store.save(keep_result(result)).id
    found = effect_of(store, run, "q", [label("q", "d0", 2)], metrics=["recall@50", "recall@5"])
    assert found.unmeasured == ["recall@50"]
    assert [(one.metric, one.query_gold, one.query_labels) for one in found.metrics] == [("recall@5", 0.5, 2 / 3)]
    beside = effect_of(store, run, "p", [label("q", "d0", 2)], metrics=["recall@50", "recall@5"])
    assert [(one.run_gold, one.run_labels) for one in beside.metrics] == [(1.0, None), (0.75, (1 + 2 / 3) / 2)]
    for name in ("nonsense@x", "recall@7"):
        with pytest.raises(KaratError):
            effect_of(store, run, "q", [], metrics=[name])
