"""Strict bounds against all that is possible: every assignment of grades to every unjudged hit, one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import karat
from karat.data.gold import Gold
from karat.formats.read import read_gold
from karat.results.strict_bounds import flip, strict_bounds
from karat.scoring.judged import Rules
from karat.scoring.metrics.grammar import parse_metric
from karat.scoring.unjudged import Lists, OpenLists, PooledItems, no_lists, open_lists
from karat.scoring.views import Need
from karat.statistics.fewest import fewest_changes

METRICS = [
    *("hit@1", "hit@3", "precision@2", "precision@3", "recall@1", "recall@3", "mrr", "mrr@2", "rbp@3", "rbp(p=0.5)@2"),
    *("rbp(p=0.5,top=2)@3", "rbp(rel=2,top=3)@2", "precision(by=returned)@2", "precision(by=returned)@5"),
    *(
        "ndcg@1",
        "ndcg@2",
        "ndcg@3",
        "ndcg@9",
        "ndcg(gain=linear)@3",
        "ndcg(rel=2)@3",
        "recall(rel=2)@2",
        "hit(rel=2)@2",
    ),
]
NO_BOUNDS = ["map", "f1@3", "bpref", "wrecall@3", "complete@3", "rprecision", "recall(average=micro)@3", "recall@99tok"]
GOLD, OPEN = ["a", "b", "c"], ["u", "v", "w", "x"]


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, int], list[list[str]]]:
    """Gold with a relevant item, and two lists of judged and unjudged items."""
    gold = draw(st.dictionaries(st.sampled_from(GOLD), st.integers(0, 2), min_size=1))
    gold[draw(st.sampled_from(GOLD))] = draw(st.integers(1, 2))
    lists = [draw(st.permutations(GOLD + OPEN))[: draw(st.integers(0, 6))] for _ in range(2)]
    return gold, lists


def whole_lists(run: dict[str, list[str]], gold: Gold) -> Lists:
    return karat.evaluate(run, gold, ["mrr"], consumers=[lambda setup: Need(open_hits=True)]).unjudged_lists("chunk")


def between(
    first: list[str] | None, second: list[str], gold: dict[str, Any], seen: list[str] | None = None
) -> OpenLists:
    judged, rules = read_gold({"q": gold}), Rules()
    sides = [
        no_lists(judged, rules) if found is None else whole_lists({"q": found}, judged) for found in (first, second)
    ]
    return open_lists(*sides, [PooledItems(np.zeros(len(seen), np.int64), seen)] if seen else [])


def possible(gold: dict[str, int], lists: list[list[str]], metrics: list[str]) -> dict[str, np.ndarray]:
    """Metric → scores of each list under every assignment of grades, one column a list."""
    open_ = [item for item in dict.fromkeys(itertools.chain(*lists)) if item not in gold]
    highest = max(gold.values())
    grades = itertools.product(range(highest + 1), repeat=len(open_))
    golds = {f"q{i}": gold | dict(zip(open_, given, strict=True)) for i, given in enumerate(grades)}
    sides = [karat.evaluate(dict.fromkeys(golds, found), golds, metrics) for found in lists]
    return {str(m): np.column_stack([side.values[str(m)] for side in sides]) for m in sides[0].metrics}


def bounds(metric: str, lists: OpenLists) -> tuple[float, float]:
    found = strict_bounds(parse_metric(metric), lists)
    assert found is not None
    return float(found[0][0]), float(found[1][0])


def test_the_formulas_by_hand() -> None:
    """Two of three relevant items in the top 5, where two hits are unjudged; one more is unjudged below."""
    gold = {"a": 1, "b": 1, "c": 1, "n": 0}
    lists = between(None, ["u", "a", "n", "v", "b", "w"], gold, ["elsewhere"])
    assert bounds("hit@1", lists) == (0, 1)
    assert bounds("hit@2", lists) == (1, 1)
    assert bounds("precision@5", lists) == pytest.approx((2 / 5, 4 / 5))
    assert bounds("recall@5", lists) == pytest.approx((2 / (3 + 2), (2 + 2) / (3 + 2)))
    assert bounds("mrr", lists) == pytest.approx((1 / 2, 1))
    assert bounds("rbp(p=0.5)@5", lists) == pytest.approx((1 / 4 + 1 / 32, 1 / 2 + 1 / 4 + 1 / 16 + 1 / 32))


def test_gold_only_is_no_lower_bound_of_ndcg() -> None:
    """An unjudged hit below k may be what should stand on top."""
    low, high = bounds("ndcg@1", between(None, ["a", "u"], {"a": 1, "z": 2}))
    assert (low, high) == pytest.approx((1 / 3, 1 / 3))
    low, high = bounds("ndcg@2", between(None, ["a", "x", "u"], {"a": 2, "x": 0}))
    assert low < 1 == high


def test_rbp_with_its_residual() -> None:
    """What comes after the end of the list is open, too."""
    gold, run = {"q": {"a": 1, "n": 0}}, {"q": ["u", "a", "n"]}
    means = karat.evaluate(run, gold, ["rbp", "rbp_residual"]).means
    assert bounds("rbp", between(None, run["q"], gold["q"])) == pytest.approx(
        (means["rbp"], means["rbp"] + means["rbp_residual"])  # type: ignore[operator]
    )


def test_chunks_of_an_unjudged_document_are_one_label() -> None:
    lists = between(None, ["d#1", "u#1", "u#2", "w#1"], {"d": 1})
    assert lists.names == ["u", "w"]
    assert bounds("recall@3", lists) == pytest.approx((1 / 2, 1))
    assert bounds("precision@3", lists) == pytest.approx((1 / 3, 1))  # every chunk of a document counts there


def test_a_query_that_the_run_lacks_has_nothing_to_label() -> None:
    gold, rules = read_gold({"q": ["a"], "p": ["a"]}), Rules()
    lists = open_lists(no_lists(gold, rules), whole_lists({"p": ["u"]}, gold))
    for metric in ("hit@1", "rbp", "ndcg@2"):
        found = strict_bounds(parse_metric(metric), lists)
        assert found is not None
        assert (found[0][0], found[1][0]) == (0, 0), metric


@pytest.mark.parametrize("name", NO_BOUNDS)
def test_the_rest_has_no_bounds(name: str) -> None:
    assert strict_bounds(parse_metric(name), between(None, ["a", "u"], {"a": 1})) is None


def test_a_query_without_relevant_gold_has_none() -> None:
    for metric in METRICS:
        found = strict_bounds(parse_metric(metric), between(None, ["u"], {"a": 0}))
        assert found is not None
        assert np.isnan(found).all()


@settings(max_examples=30)
@given(situations())
def test_of_one_list(situation: tuple[dict[str, int], list[list[str]]]) -> None:
    gold, (found, other) = situation
    lists = between(None, found, gold, [item for item in other if item not in gold])
    for metric, scores in possible(gold, [found, other], METRICS).items():
        if not np.isnan(scores).any():  # graded gold may lack the level that a metric asks for
            assert bounds(metric, lists) == pytest.approx((scores[:, 0].min(), scores[:, 0].max())), metric


@settings(max_examples=30)
@given(situations())
def test_of_the_difference_of_two_lists_under_one_assignment(situation: tuple[dict[str, int], list[list[str]]]) -> None:
    gold, (first, second) = situation
    lists = between(first, second, gold)
    for metric, scores in possible(gold, [first, second], METRICS).items():
        if not np.isnan(scores).any():
            delta = scores[:, 1] - scores[:, 0]
            assert bounds(metric, lists) == pytest.approx((delta.min(), delta.max())), metric


@settings(max_examples=20)
@given(situations(), st.integers(0, 3))
def test_with_few_labels(situation: tuple[dict[str, int], list[list[str]]], labels: int) -> None:
    """What at most so many labels can do: assignments in which no more items are other than irrelevant."""
    gold, (first, second) = situation
    lists = between(first, second, gold)
    open_ = [item for item in dict.fromkeys([*first, *second]) if item not in gold]
    assignments = itertools.product(range(max(gold.values()) + 1), repeat=len(open_))
    few = np.array([sum(grade > 0 for grade in grades) <= labels for grades in assignments])
    for name, scores in possible(gold, [first, second], METRICS).items():
        if not np.isnan(scores).any():
            metric = parse_metric(name)
            influence = metric.influence(lists)
            assert influence is not None
            lowest = (scores[few, 1] - scores[few, 0]).min()
            assert metric.lowest(lists, influence, labels)[0] == pytest.approx(lowest), name


@settings(max_examples=20)
@given(
    st.lists(situations(), min_size=2, max_size=2),
    st.sampled_from(["ndcg@3", "recall@2", "precision@2", "mrr", "hit@1"]),
)
def test_the_smallest_set_of_labels_that_takes_the_lead(
    given_: list[tuple[dict[str, int], list[list[str]]]], name: str
) -> None:
    """Against every set of labels of two queries together."""
    # A label may be as high as the highest of the gold set, and each query is tried by itself below.
    assume(max(given_[0][0].values()) == max(given_[1][0].values()))
    metric = parse_metric(name)
    curves, sizes = [], []
    for gold, (first, second) in given_:
        open_ = [item for item in dict.fromkeys([*first, *second]) if item not in gold]
        assignments = itertools.product(range(max(gold.values()) + 1), repeat=len(open_))
        scores = possible(gold, [first, second], [name])[name]
        curves.append(scores[:, 1] - scores[:, 0])
        sizes.append(np.array([sum(grade > 0 for grade in grades) for grades in assignments]))
    together = curves[0][:, None] + curves[1]
    labels = sizes[0][:, None] + sizes[1]
    found = flip(metric, _two(given_), np.arange(2))
    flipped = labels[together <= 1e-9]
    if together[0, 0] <= 1e-9 or not len(flipped):
        assert found is None
        return
    assert found is not None
    assert len(found.items) >= flipped.min()
    assert len(found.items) == flipped.min() if found.exact else len(found.items) <= flipped.min() + 1


def _two(given_: list[tuple[dict[str, int], list[list[str]]]]) -> OpenLists:
    gold = read_gold({f"q{i}": gold for i, (gold, _) in enumerate(given_)})
    runs = [{f"q{i}": lists[side] for i, (_, lists) in enumerate(given_)} for side in range(2)]
    return open_lists(*(whole_lists(run, gold) for run in runs))


@settings(max_examples=100)
@given(st.lists(st.lists(st.integers(0, 6), min_size=3, max_size=3), min_size=1, max_size=3), st.integers(1, 12))
def test_the_fewest_changes_against_every_choice(steps: list[list[int]], needed: int) -> None:
    lowered = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(np.array(steps), axis=1)], axis=1)
    choices = itertools.product(range(4), repeat=len(steps))
    enough = [sum(c) for c in choices if sum(lowered[i, n] for i, n in enumerate(c)) >= needed]
    found = fewest_changes(lowered, needed)
    if not enough:
        assert found is None
        return
    assert found is not None
    reached = sum(lowered[i, n] for i, n in enumerate(found.changes))
    assert reached >= needed
    assert found.changes.sum() >= min(enough)
    if found.exact or all(np.diff(row).tolist() == sorted(np.diff(row), reverse=True) for row in lowered):
        assert found.exact
        assert found.changes.sum() == min(enough)
