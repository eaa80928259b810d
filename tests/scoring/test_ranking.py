"""The order of hits, against a plain sort of every list."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import karat
from karat.data.audit import Audit
from karat.data.ids import take_list
from karat.formats.read import read_gold, read_run
from karat.formats.spill import Spilling
from karat.scoring.judge import judge
from karat.scoring.judged import Rules

# Numbers of which many are equal in 32 bits, and not in 64.
CLOSE = [0.3, 0.3 + 1e-9, 0.3 + 2e-9, 0.30000001192092896, 0.0, -0.0, 1e-60, 2e-60, 1e39, 2e39, -1e39, 16777217.0]
CLOSE += [16777216.0, 16777218.0]
LISTS = st.dictionaries(st.sampled_from("abcdefghäz日"), st.sampled_from(CLOSE), min_size=1, max_size=11)


def in_32_bits(score: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", score))[0])
    except OverflowError:
        return float("inf") if score > 0 else float("-inf")


def plain_order(hits: dict[str, float], width: int) -> list[str]:
    key: Callable[[float], float] = in_32_bits if width == 32 else float
    by_id = sorted(hits, key=str.encode, reverse=True)
    return sorted(by_id, key=lambda name: -key(hits[name]))


def order_of(run: object, queries: list[str], depth: int, rules: Rules) -> tuple[dict[str, list[str]], Audit]:
    audit, found = Audit(), dict[str, list[str]]()
    gold = read_gold({query: ["none"] for query in queries})
    for hits in read_run(run).slices(frozenset(), Audit()):
        judged = judge(hits, gold, rules, audit, depth=depth)
        assert judged.hits is not None
        of, rows = judged.top(depth)
        for query, name in zip(of.tolist(), take_list(judged.hits.ids, rows), strict=True):
            found.setdefault(judged.hits.queries[query], []).append(name)
    return found, audit


@pytest.mark.parametrize("width", [32, 64])
@given(lists=st.lists(LISTS, min_size=1, max_size=4))
def test_scores_are_compared_in_their_width(width: int, lists: list[dict[str, float]]) -> None:
    run = {f"q{i}": hits for i, hits in enumerate(lists)}
    found, audit = order_of(run, list(run), 20, Rules(score_width=width))  # type: ignore[arg-type]
    assert found == {query: plain_order(hits, width) for query, hits in run.items()}
    key = in_32_bits if width == 32 else float
    assert audit["score_ties"] == sum(len({*map(key, hits.values())}) < len(hits) for hits in lists)
    close = [len({*map(key, hits.values())}) < len({*hits.values()}) for hits in lists]
    assert audit["score_width"] == sum(close)


@pytest.mark.parametrize("width", [32, 64])
@given(hits=st.dictionaries(st.integers(0, 999).map(str), st.sampled_from(CLOSE), min_size=50, max_size=60))
def test_what_is_kept_for_a_second_look_is_enough(width: int, hits: dict[str, float]) -> None:
    """Lists that cannot be read again are cut to their first hits: those of either width."""
    run = Spilling(read_run({"q": hits}), 3)
    for _ in run.slices(frozenset(), Audit()):
        pass
    kept, audit, gold = [], Audit(), read_gold({"q": ["none"]})
    for some in run.look("", ["q"], None, frozenset()):
        judged = judge(some, gold, Rules(score_width=width), audit, depth=3)  # type: ignore[arg-type]
        assert judged.hits is not None
        kept += take_list(judged.hits.ids, judged.top(3)[1])
    assert kept == plain_order(hits, width)[:3]


def test_equal_in_32_bits_is_a_tie_for_filters_too() -> None:
    """`top_k` keeps the first of a list, and of a repeat the first place counts: both by the same order."""
    run = {"q": {"a": 0.3 + 1e-9, "b": 0.3, "c": 0.1}}
    for width, first in ((32, "b"), (64, "a")):
        result = karat.evaluate(run, {"q": [first]}, ["hit@1"], top_k=1, score_width=width)
        assert result.means["hit@1"] == 1.0


def test_a_width_that_there_is_not_is_refused() -> None:
    with pytest.raises(karat.KaratError):
        karat.evaluate({"q": ["a"]}, {"q": ["a"]}, ["mrr"], score_width=16)
