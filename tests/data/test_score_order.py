"""The native library and numpy say the same of scores, lists and lookups."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from readers import plainly

from karat.data.hits import Hits
from karat.data.ids import (
    HashTable,
    Owners,
    confirmed,
    count_distinct,
    find,
    first_equal,
    has_repeats,
    hashes,
    keys,
    may_repeat,
)
from karat.data.packed_ids import has_byte, pack
from karat.data.score_order import best_first, ranks_are_places, score_order, ties_at
from karat.files.native import native
from karat.scoring.list_hashes import list_hashes

pytestmark = pytest.mark.skipif(native() is None, reason="no native reader: it is made by `make native`")

# Neighbours that differ in 64 bits only, beyond what 32 bits hold, missing, and equal.
SCORES = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-12, 1e300, 2e300, -1e300, float("nan"), 0.5, 3e-46])
LISTS = st.lists(st.lists(SCORES, max_size=12), max_size=5)
NAMES = st.lists(st.lists(st.sampled_from(["a", "b", "a#1", "é", "x" * 20]), max_size=6), max_size=5)


def offsets_of(lists: list[list[Any]]) -> Any:
    return np.append(0, np.cumsum([len(one) for one in lists])).astype(np.int64)


@given(st.lists(st.lists(st.sampled_from([0.0, -0.0, 1.0, 2.0, 0.5, -3.0]), max_size=80), max_size=5))
def test_best_first(lists: list[list[float]]) -> None:
    values, offsets = np.array([value for one in lists for value in one], np.float64), offsets_of(lists)
    given = values.copy()
    wanted = [value for one in lists for value in sorted(one, reverse=True)]
    assert best_first(values, offsets).tolist() == wanted == plainly(lambda: best_first(values, offsets)).tolist()
    assert values.tolist() == given.tolist()


@given(LISTS, st.sampled_from([32, 64]))
def test_the_order_of_scores(lists: list[list[float]], width: int) -> None:
    scores, offsets = np.array([score for one in lists for score in one], np.float64), offsets_of(lists)
    found = score_order(scores, offsets, width)
    expected = plainly(lambda: score_order(scores, offsets, width))
    assert found.facts.tolist() == expected.facts.tolist()
    assert found.tied.tolist() == expected.tied.tolist()


@given(st.lists(st.booleans(), max_size=20), st.data())
def test_ties_at_some_places(tied: list[bool], data: st.DataObject) -> None:
    flags = np.array([False, *tied])
    places = np.array(data.draw(st.lists(st.integers(0, len(tied)), max_size=6)), np.int64)
    found, expected = ties_at(flags, places), plainly(lambda: ties_at(flags, places))
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]


@given(st.lists(st.lists(st.sampled_from([1.0, 2.0, 3.0, float("nan")]), max_size=3), max_size=4))
def test_ranks_that_are_places(lists: list[list[float]]) -> None:
    ranks, offsets = np.array([rank for one in lists for rank in one]), offsets_of(lists)
    expected = all(one == [1.0, 2.0, 3.0][: len(one)] for one in lists)
    assert ranks_are_places(ranks, offsets) == plainly(lambda: ranks_are_places(ranks, offsets)) == expected


@given(NAMES, st.randoms(use_true_random=False))
def test_ids_of_lists(lists: list[list[str]], chance: Any) -> None:
    names, offsets = [name for one in lists for name in one], offsets_of(lists)
    ids, queries = pack(names), np.arange(len(lists))
    table = sorted({(query, name) for query, one in enumerate(lists) for name in one if chance.random() < 0.5})
    wanted, of = pack([name for _, name in table]), np.array([query for query, _ in table], np.int64)

    def looked_up() -> Any:
        rows, at = find(ids, Owners(offsets, queries), wanted, of)
        return sorted(zip(rows.tolist(), at.tolist(), strict=True))

    expected = [(r, table.index(pair)) for r, pair in enumerate(_pairs(lists)) if pair in table]
    assert looked_up() == plainly(looked_up) == expected
    assert may_repeat(ids, offsets) == any(len(set(one)) < len(one) for one in lists)
    assert has_byte(ids, ord("#")) == plainly(lambda: has_byte(ids, ord("#"))) == any("#" in name for name in names)


@given(st.lists(st.lists(st.sampled_from(list("abcdefgh") * 3), max_size=30), max_size=4))
def test_what_is_equal_in_lists(lists: list[list[str]]) -> None:
    names, offsets = [name for one in lists for name in one], offsets_of(lists)
    hashed = hashes(pack(names))
    found = [first_equal(hashed).tolist(), count_distinct(hashed, offsets).tolist()]
    assert found == [[names.index(name) for name in names], [len(set(one)) for one in lists]]
    assert found == plainly(lambda: [first_equal(hashed).tolist(), count_distinct(hashed, offsets).tolist()])


@pytest.mark.parametrize("size", [20, 100, 5000])
def test_one_repeat_in_a_long_list(size: int) -> None:
    names = [f"d{i}" for i in range(size)]
    offsets = np.array([0, size, size + 20])
    assert not may_repeat(pack(names + names[:20]), offsets)
    for first, again in ((0, size - 1), (size - 2, size - 1), (3, size // 2)):
        repeated = [*names, *names[:20]]
        repeated[again] = names[first]
        assert may_repeat(pack(repeated), offsets)


def _pairs(lists: list[list[str]]) -> list[tuple[int, str]]:
    return [(query, name) for query, one in enumerate(lists) for name in one]


def test_a_lookup_without_queries() -> None:
    table = HashTable(np.array([7, 2**63, 0], np.uint64))
    rows, at = table.find(np.array([0, 5, 2**63], np.uint64))
    assert (rows.tolist(), at.tolist()) == ([0, 2], [2, 1])
    assert not has_repeats(keys(np.array([7, 7], np.uint64), np.array([0, 1])))


@given(st.lists(st.integers(0, 30), max_size=4), st.booleans())
def test_hashes_of_lists(sizes: list[int], turned: bool) -> None:
    offsets = np.append(0, np.cumsum(sizes)).astype(np.int64)
    ids = pack([f"d{n}" for n in range(sum(sizes))])
    hits = Hits(system="s", queries=[f"q{n}" for n in range(len(sizes))], offsets=offsets, ids=ids)
    order = [row for first, end in pairwise(offsets.tolist()) for row in reversed(range(first, end))]
    judged: Any = SimpleNamespace(hits=hits, order=np.array(order, np.int64) if turned else None, n=len(sizes))
    assert list_hashes(judged).tolist() == plainly(lambda: list_hashes(judged)).tolist()  # type: ignore[union-attr]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 5)), max_size=20), st.sampled_from([None, ord("#")]))
def test_pairs_are_confirmed_by_their_texts(pairs: list[tuple[int, int]], byte: int | None) -> None:
    """Equal hashes of other texts are next to impossible, so pairs are given here."""
    ids, names = ["a#1", "b", "a", "é#2", "x" * 20 + "#3", "ab#1", "#"], ["a", "b", "a#1", "é", "x" * 20, "ab"]
    rows, items = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    found = confirmed(pack(ids), byte, pack(names), rows, items)
    wanted = [(r, i) for r, i in pairs if (ids[r] if byte is None else ids[r].partition("#")[0]) == names[i]]
    assert list(zip(*(part.tolist() for part in found), strict=True)) == wanted
    chosen = np.array([True, False] * 4)[: len(ids)]
    some = confirmed(pack(ids), byte, pack(names), rows, items, chosen)
    assert list(zip(*(part.tolist() for part in some), strict=True)) == [(r, i) for r, i in wanted if chosen[r]]
