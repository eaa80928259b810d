"""Strict bounds against all that is possible: every assignment of grades to every unjudged hit, one by one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import karat
from karat.bounding import strict_bounds
from karat.formats.read import read_gold, read_run
from karat.judged import Rules
from karat.metrics.grammar import parse_metric
from karat.unjudged import OpenLists, Seen, no_lists, open_lists, read_lists

METRICS = [
    *("hit@1", "hit@3", "precision@2", "precision@3", "recall@1", "recall@3", "mrr", "mrr@2", "rbp@3", "rbp(p=0.5)@2"),
    *("ndcg@1", "ndcg@2", "ndcg@3", "ndcg@9", "ndcg(gain=linear)@3", "ndcg(rel=2)@3", "recall(rel=2)@2", "hit(rel=2)@2"),
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


def between(first: list[str] | None, second: list[str], gold: dict[str, Any], seen: list[str] | None = None) -> OpenLists:
    judged, rules = read_gold({"q": gold}), Rules()
    sides = [
        no_lists(judged, rules) if found is None else read_lists(read_run({"q": found}), [""], judged, rules)[""]
        for found in (first, second)
    ]
    return open_lists(*sides, [Seen(np.zeros(len(seen), np.int64), seen)] if seen else [])


def possible(gold: dict[str, int], lists: list[list[str]], metrics: list[str]) -> dict[str, np.ndarray]:
    """Metric → scores of each list under every assignment of grades, one column a list."""
    open_ = [item for item in dict.fromkeys(itertools.chain(*lists)) if item not in gold]
    highest = max(gold.values())
    grades = itertools.product(range(highest + 1), repeat=len(open_))
    golds = {f"q{i}": gold | dict(zip(open_, given, strict=True)) for i, given in enumerate(grades)}
    sides = [karat.evaluate({q: found for q in golds}, golds, metrics) for found in lists]
    return {str(m): np.column_stack([side.values[str(m)] for side in sides]) for m in sides[0].metrics}


def bounds(metric: str, lists: OpenLists) -> tuple[float, float]:
    found = strict_bounds(parse_metric(metric), lists)
    assert found is not None
    return float(found[0][0]), float(found[1][0])


@settings(max_examples=60)
@given(situations())
def test_of_one_list(situation: tuple[dict[str, int], list[list[str]]]) -> None:
    gold, (found, other) = situation
    lists = between(None, found, gold, [item for item in other if item not in gold])
    for metric, scores in possible(gold, [found, other], METRICS).items():
        if not np.isnan(scores).any():  # graded gold may lack the level that a metric asks for
            assert bounds(metric, lists) == pytest.approx((scores[:, 0].min(), scores[:, 0].max())), metric


@settings(max_examples=60)
@given(situations())
def test_of_the_difference_of_two_lists_under_one_assignment(situation: tuple[dict[str, int], list[list[str]]]) -> None:
    gold, (first, second) = situation
    lists = between(first, second, gold)
    for metric, scores in possible(gold, [first, second], METRICS).items():
        if not np.isnan(scores).any():
            delta = scores[:, 1] - scores[:, 0]
            assert bounds(metric, lists) == pytest.approx((delta.min(), delta.max())), metric
