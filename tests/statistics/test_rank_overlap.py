"""Rank-biased overlap and Jaccard: published values, a naive implementation, and what both promise."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karat.statistics.rank_overlap import Rankings, Ties, jaccard, rank_biased_overlap

Groups = list[list[int]]  # the ids of a ranking, tied ones together

# Pairs of rankings with p and RBO^w, RBO^a and RBO^b, from the test data of Corsi and Urbano (2024), rounded.
PUBLISHED = [
    (
        "i13 (i1 i4 i5 i6)",
        "i3 i14 i11 (i10 i15) i12 (i6 i9) i4 i2",
        0.922383206681,
        0.1175784904,
        0.1146194692,
        0.1147483541,
    ),
    (
        "i13 i4 (i1 i2 i5 i6)",
        "i11 i14 i1 (i5 i6) (i3 i12) i8",
        0.936646766367,
        0.4197243846,
        0.4000423350,
        0.4103339828,
    ),
    (
        "(i4 i7 i15) (i2 i11) i8 i18",
        "i4 i8 i17 i11 (i2 i3 i5 i7 i9 i13 i14)",
        0.955836875419,
        0.6016713600,
        0.5842354647,
        0.6320871296,
    ),
    ("(i3 i5 i6 i8 i9)", "(i1 i6) (i8 i10) i11 i2 (i3 i4)", 0.946588158477, 0.4814778248, 0.4565053852, 0.4826840750),
    ("(i3 i6) (i2 i7) i10", "(i3 i6 i7 i10) (i1 i2)", 0.965413635277, 0.9460645375, 0.9205153447, 0.9568446518),
    (
        "i1 (i15 i16) i10 i12 i2 i14",
        "i16 (i1 i10 i11 i15) i2 (i4 i5 i6)",
        0.988786023529,
        0.6915271785,
        0.7056986088,
        0.7187220749,
    ),
]


def table(*rankings: Groups) -> Rankings:
    width = max((sum(map(len, groups)) for groups in rankings), default=0)
    ids, tied = np.zeros((len(rankings), width), np.uint32), np.zeros((len(rankings), width), np.bool_)
    for row, groups in enumerate(rankings):
        places = [(one, nth > 0) for group in groups for nth, one in enumerate(group)]
        for at, (one, again) in enumerate(places):
            ids[row, at], tied[row, at] = one, again
    return Rankings(ids, tied, np.array([sum(map(len, groups)) for groups in rankings], np.int64))


def parsed(text: str) -> Groups:
    """`i1 (i2 i3)`"""
    return [[int(i[1:]) for i in part.strip("()").split()] for part in re.findall(r"\([^)]*\)|\S+", text)]


def rbo(one: Groups, two: Groups, p: float = 0.9, ties: Ties = "b") -> float:
    return float(rank_biased_overlap(table(one), table(two), p, ties)[0])


def plain(letters: str) -> Groups:
    return [[ord(letter)] for letter in letters]


# --- published values


def test_the_example_of_webber_moffat_and_zobel() -> None:
    """Their lists abcdefg and zcavwxy: agreement 0, 0, 2/3, 2/4, 2/5, 2/6, 2/7; equation 30 by hand."""
    one, two = plain("abcdefg"), plain("zcavwxy")
    agreement = [Fraction(0), Fraction(0), *(Fraction(2, d) for d in range(3, 8))]
    p = Fraction(9, 10)
    by_hand = agreement[-1] * p**7 + (1 - p) / p * sum(a * p**d for d, a in enumerate(agreement, 1))
    assert rbo(one, two) == pytest.approx(float(by_hand), abs=1e-15)
    assert rbo(one, two) == pytest.approx(0.28821728571428573, abs=1e-15)  # rbo_ext of the package rbo 0.1.3


@pytest.mark.parametrize(("one", "two", "p", "w", "a", "b"), PUBLISHED)
def test_published_values_with_ties(one: str, two: str, p: float, w: float, a: float, b: float) -> None:
    found = [rbo(parsed(one), parsed(two), p, ties) for ties in ("w", "a", "b")]
    assert found == pytest.approx([w, a, b], abs=1e-9)


# --- a naive implementation


rankings = st.permutations(range(1, 9)).flatmap(
    lambda ids: st.tuples(st.just(ids), st.integers(0, 8), st.lists(st.booleans(), min_size=8, max_size=8))
)


def grouped(drawn: tuple[list[int], int, list[bool]], *, ties: bool = True) -> Groups:
    ids, size, again = drawn
    groups: Groups = []
    for one, tied in zip(ids[:size], again, strict=False):
        if ties and tied and groups:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def naive(one: Groups, two: Groups, p: float) -> float:
    """Equation 32 of Webber et al., as written, for rankings without ties."""
    short, long = sorted(([i for group in side for i in group] for side in (one, two)), key=len)
    s, n = len(short), len(long)
    if not n:
        return math.nan
    if not s:
        return 0.0

    def shared(depth: int) -> int:
        return len(set(short[:depth]) & set(long[:depth]))

    first = sum(shared(d) / d * p**d for d in range(1, n + 1))
    second = sum(shared(s) * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1))
    return (1 - p) / p * (first + second) + ((shared(n) - shared(s)) / n + shared(s) / s) * p**n


@settings(max_examples=60)
@given(one=rankings, two=rankings, p=st.sampled_from([0.5, 0.9, 0.98]))
def test_without_ties_it_is_equation_32(
    one: tuple[list[int], int, list[bool]], two: tuple[list[int], int, list[bool]], p: float
) -> None:
    first, other = grouped(one, ties=False), grouped(two, ties=False)
    for ties in ("w", "a", "b"):
        assert rbo(first, other, p, ties) == pytest.approx(naive(first, other, p), abs=1e-12, nan_ok=True)


@settings(max_examples=25)
@given(
    ids=st.permutations(range(1, 6)),
    other=st.permutations(range(2, 7)),
    again=st.lists(st.booleans(), min_size=10, max_size=10),
)
def test_variant_a_is_the_mean_over_all_orders(ids: list[int], other: list[int], again: list[bool]) -> None:
    one, two = grouped((ids, 5, again[:5])), grouped((other, 5, again[5:]))
    orders = [[[list(i) for i in zip(itertools.chain(*o))] for o in all_orders(side)] for side in (one, two)]
    assert rbo(one, two, 0.9, "a") == pytest.approx(
        fmean(naive(a, b, 0.9) for a in orders[0] for b in orders[1]), abs=1e-12
    )


def all_orders(groups: Groups) -> list[tuple[tuple[int, ...], ...]]:
    return list(itertools.product(*(itertools.permutations(group) for group in groups)))


# --- what it promises


@settings(max_examples=60)
@given(one=rankings, two=rankings)
def test_symmetric_within_0_and_1_and_exactly_1_for_the_same(
    one: tuple[list[int], int, list[bool]], two: tuple[list[int], int, list[bool]]
) -> None:
    first, other = grouped(one), grouped(two)
    for ties in ("w", "a", "b"):
        value = rbo(first, other, 0.9, ties)
        assert math.isnan(value) or 0 <= value <= 1
        assert rbo(other, first, 0.9, ties) == pytest.approx(value, abs=1e-12, nan_ok=True)
    if first:
        assert rbo(first, first) == 1.0
        assert rbo(first, [[i + 100 for i in group] for group in first]) == 0.0


@settings(max_examples=40)
@given(sides=st.lists(st.tuples(rankings, rankings), min_size=1, max_size=5))
def test_a_table_has_the_values_of_its_rows(
    sides: list[tuple[tuple[list[int], int, list[bool]], tuple[list[int], int, list[bool]]]],
) -> None:
    ones, twos = [grouped(one) for one, _ in sides], [grouped(two) for _, two in sides]
    together = rank_biased_overlap(table(*ones), table(*twos), 0.9)
    assert together == pytest.approx([rbo(a, b) for a, b in zip(ones, twos, strict=True)], nan_ok=True)
    alike = [
        len(set(itertools.chain(*a)) & set(itertools.chain(*b))) / len(both)
        if (both := {*itertools.chain(*a), *itertools.chain(*b)})
        else math.nan
        for a, b in zip(ones, twos, strict=True)
    ]
    assert jaccard(table(*ones), table(*twos)) == pytest.approx(alike, nan_ok=True)


def test_long_lists_are_matched_by_sorting() -> None:
    rng = np.random.default_rng(3)
    one, two = ([[int(i)] for i in rng.permutation(150)[:120]] for _ in range(2))
    assert rbo(one, two, 0.99) == pytest.approx(naive(one, two, 0.99), abs=1e-12)
    assert jaccard(table(one), table([]))[0] == 0.0


def test_no_list_is_an_empty_list() -> None:
    lists = Rankings(np.array([[1, 2], [1, 2]], np.uint32), np.zeros((2, 2), np.bool_), np.array([-1, 2]))
    assert rank_biased_overlap(lists, lists, 0.9)[1] == 1.0
    assert np.isnan(rank_biased_overlap(lists, lists, 0.9)[0])
    assert np.isnan(jaccard(lists, lists)[0])
    assert len(rank_biased_overlap(table(), table(), 0.9)) == 0
