"""Verdicts are those of plain difflib on every input, with and without rapidfuzz; only sooner."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from difflib import SequenceMatcher
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from readers import choose_reader

from karat.matching import cover as covering
from karat.matching.blocks import matched_letters
from karat.matching.cover import LIMIT, Cover, TooLong, cover, fewest_matches, normalise, reaches, reaches_fast


def plain(evidence: str, chunk: str, threshold: float) -> str | None:
    """The rule as anyone would write it."""
    if not evidence or not chunk:
        return None
    if evidence == chunk:
        return "exact"
    if evidence in chunk:
        return "contains"
    if chunk in evidence:
        return "contained"
    return "fuzzy" if SequenceMatcher(None, evidence, chunk).ratio() >= threshold else None


def rule(found: Cover | None) -> str | None:
    return None if found is None else found.rule


@pytest.fixture(params=["with rapidfuzz", "without"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to rule a pair out."""
    if request.param == "without":
        monkeypatch.setattr(covering, "reaches_fast", lambda: None)
    else:
        assert covering.reaches_fast() is not None, "rapidfuzz is part of karat[test]"


# Texts that are alike in part

PROSE = "the refund takes five days to arrive and is paid to the card that was used for the sale , 90 % in cash"
RTL = "يستغرق رد الأموال خمسة أيام ويعود إلى البطاقة החזר כספי תוך חמישה ימים"
WORDS = {
    "prose": PROSE.split(" "),
    "right to left": RTL.split(" "),
    "Chinese": list("退款需要五天才能到账并退回原支付卡。如果超过九十天，请联系客服。"),
    "few letters": ["a", "b", "ab ", "\x00", "İ", "ß"],
}
ANY = st.lists(st.text(max_size=4), min_size=1, max_size=20)  # control characters, emoji, combining marks


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str]:
    """An evidence and a chunk that share much of their text, from a few letters to far over difflib's 200."""
    words = draw(st.sampled_from(list(WORDS.values())) | ANY)
    between = draw(st.sampled_from([" ", "", "\n\t"]))
    chance = Random(draw(st.integers()))  # a list that hypothesis draws word by word is hardly ever long
    chunk = chance.choices(words, k=draw(st.sampled_from([0, 1, 4, 30, 90, 200])))
    evidence = list(chunk)
    if draw(st.integers(0, 4)) == 0:
        evidence = evidence[chance.randint(0, 9) : -chance.randint(1, 9)]
    for _ in range(draw(st.integers(0, 9))):
        at = chance.randint(0, len(evidence))
        part = evidence[at : at + chance.randint(0, 12)]
        evidence[at : at + len(part)] = chance.choices(words, k=chance.randint(0, 2))
        if chance.random() < 0.5:
            at = chance.randint(0, len(evidence))
            evidence[at:at] = part
    return normalise(between.join(evidence)), normalise(between.join(chunk))


THRESHOLDS = st.sampled_from([0.05, 0.3, 0.5, 0.6, 0.7, 0.7, 0.7, 0.8, 0.95, 1.0])


@pytest.mark.usefixtures("way")
@settings(max_examples=100)
@given(pair=pairs(), threshold=THRESHOLDS)
@example(pair=("", ""), threshold=0.7)
@example(pair=("", "x"), threshold=0.7)
@example(pair=("x", ""), threshold=0.7)
@example(pair=("ab", "ba"), threshold=0.5)
def test_the_same_verdict_as_plain_difflib(pair: tuple[str, str], threshold: float) -> None:
    for evidence, chunk in (pair, pair[::-1]):
        assert rule(cover(evidence, chunk, threshold)) == plain(evidence, chunk, threshold)


@pytest.mark.usefixtures("way")
@settings(max_examples=80)
@given(pair=pairs())
def test_at_the_very_threshold(pair: tuple[str, str]) -> None:
    """A threshold that is the ratio itself is reached, the next number above it is not."""
    ratio = SequenceMatcher(None, *pair).ratio()
    if plain(*pair, 2.0) is not None or not 0 < ratio < 1 or not all(pair):
        return
    assert cover(*pair, ratio) == Cover("fuzzy", ratio)
    assert cover(*pair, math.nextafter(ratio, 2)) is None


def test_the_pairs_are_worth_trying() -> None:
    """Guards the tests above: every verdict is among them, also past difflib's 200 characters."""
    seen: set[tuple[str | None, bool]] = set()

    @settings(max_examples=150, derandomize=True)
    @given(pair=pairs())
    def look(pair: tuple[str, str]) -> None:
        seen.update((plain(*both, 0.7), len(both[1]) >= 200) for both in (pair, pair[::-1]))

    look()
    assert {("fuzzy", False), ("fuzzy", True), (None, True), ("contains", True), ("contained", True)} <= seen


def test_the_order_of_the_arguments_matters_to_difflib() -> None:
    evidence, chunk = "tide", "diet"
    ratios = [SequenceMatcher(None, *pair).ratio() for pair in ((evidence, chunk), (chunk, evidence))]
    assert ratios[0] < ratios[1]
    assert cover(evidence, chunk, ratios[1]) is None
    assert cover(chunk, evidence, ratios[1]) == Cover("fuzzy", ratios[1])


# The bounds


@given(length=st.integers(1, 5000), threshold=st.floats(0.001, 1.0))
def test_fewest_matches(length: int, threshold: float) -> None:
    least = fewest_matches(length, threshold)
    assert 2.0 * least / length >= threshold
    assert least == 0 or 2.0 * (least - 1) / length < threshold


def longest(one: str, other: str) -> int:
    """Length of the longest common subsequence, by the table of every textbook."""
    row = [0] * (len(other) + 1)
    for a in one:
        before = 0
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], before + 1 if a == b else max(row[j], row[j - 1])
    return row[-1]


@settings(max_examples=80)
@given(
    one=st.text(max_size=40) | st.text("abc ", max_size=90), other=st.text(max_size=40) | st.text("abc ", max_size=90)
)
@example(  # rapidfuzz 3.14.6 finds 149 common letters here, and none when it is asked for at least 149
    one="% the takes was arrive the is for 90 is % refund the takes 90 the to and to in to , days the to sale % paid "
    "in paid the the arrive five arrive 90 , % for 90",
    other="% the takes was the is for 90 is % refund the takes 90 the to and to in to , days the to sale % paid "
    "in paid the the arrive five arrive 90 arrive , % for 90",
)
def test_the_longest_common_subsequence(one: str, other: str) -> None:
    ways: list[Callable[[str, str, int], bool]] = [reaches]
    if (fast := reaches_fast()) is not None:
        ways.append(fast)
    length = longest(one, other)
    for found in ways:
        assert found(one, other, length)
        assert not found(one, other, length + 1)


# What a person may hand in


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Refunds\r\n\ttake\u00a0five\u2003DAYS ", "refunds take five days"),
        ("\x1c\x1d a\x0bb \x85", "a b"),
        ("", ""),
        (" \n", ""),
        ("ÄÖÜ ΣΑΣ", "äöü σας"),
        ("a\x00b", "a\x00b"),
    ],
)
def test_normalise(text: str, expected: str) -> None:
    assert normalise(text) == expected


def test_an_evidence_longer_than_the_chunk() -> None:
    assert cover("refunds take five days", "five days") == Cover("contained")
    assert cover("refunds take five days and are paid to the card", "six days and no more") is None


@pytest.mark.usefixtures("way")
def test_a_million_characters_take_no_time() -> None:
    """Whatever can be told at a glance is told; what cannot is refused, and never begun."""
    english = normalise("the refund takes five days to arrive, and is paid to the card. " * 16_000)
    chinese = normalise("退款需要五天才能到账并退回原支付卡。" * 55_000)
    other = english[::-1]
    assert min(map(len, (english, chinese))) > 900_000
    start = time.process_time()
    assert cover("five days", english) == Cover("contains")
    assert cover(english, english) == Cover("exact")
    assert cover("x" + english[:200_000], english) is None  # too short to be alike
    assert cover(chinese, english) is None  # no letter in common
    with pytest.raises(TooLong):
        cover(other, english)
    assert time.process_time() - start < 20  # difflib alone would take hours


@pytest.mark.usefixtures("way")
def test_just_under_the_limit_is_compared() -> None:
    text = normalise("".join(f"the refund of sale {i} takes {i % 7} days. " for i in range(400)))
    changed = text[:6000] + " as the manual says " + text[6000:]
    assert len(text) * len(changed) < LIMIT
    assert rule(cover(changed, text)) == plain(changed, text, 0.7) == "fuzzy"


@pytest.mark.parametrize("pure", ["0", "1"])
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pairs())
def test_matched_letters_are_those_of_difflib(
    pure: str, monkeypatch: pytest.MonkeyPatch, pair: tuple[str, str]
) -> None:
    choose_reader(monkeypatch, pure)
    blocks = SequenceMatcher(None, *pair).get_matching_blocks()
    expected = sum(block.size for block in blocks)
    assert matched_letters(*pair) == matched_letters(*pair, expected) == expected
    assert matched_letters(*pair, expected + 1) <= expected


@pytest.mark.parametrize("seed", range(40))
def test_a_subsequence_of_exactly_the_fewest_letters_is_found(seed: int) -> None:
    """Long texts, in which rapidfuzz leaves out what cannot reach the minimum."""
    chance = Random(seed)
    one = "".join(chance.choices("abcdefgh ", k=chance.randint(66, 700)))
    other = "".join(letter for letter in one if chance.random() < 0.8)
    for _ in range(chance.randint(0, 150)):
        at = chance.randint(0, len(other))
        other = other[:at] + chance.choice("abcdefgh ") + other[at:]
    most = next(n for n in range(min(len(one), len(other)), -1, -1) if reaches(one, other, n))
    fast = reaches_fast()
    assert fast is not None
    for first, second in ((one, other), (other, one)):
        found = [fast(first, second, n) for n in range(max(most - 40, 0), most + 3)]
        assert found == [n <= most for n in range(max(most - 40, 0), most + 3)]
