"""Whether a text covers an evidence text; agrees with difflib."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Literal

import msgspec

from karat.matching import THRESHOLD
from karat.matching.blocks import MOST, matched_letters

# Longer texts that neither contain each other nor differ obviously are not compared letter by letter: difflib takes
# 0.4 s for two texts of 30,000 characters, and minutes to hours for two of a million.
LIMIT = 10**9

Rule = Literal["exact", "contains", "contained", "fuzzy"]
_WORD = 64  # matches up to which rapidfuzz has nothing to leave out
_BEGIN, _MOSTLY = 3, 0.7  # so much of a text is compared first, unless it is most of it
_STRETCH = 32  # letters between two checks whether a match is still possible


class Cover(msgspec.Struct, frozen=True):
    """Why a chunk covers an evidence; `contains`: the chunk contains the evidence, `contained`: it is inside it."""

    rule: Rule
    ratio: float | None = None  # difflib's, where it was computed


class TooLong(Exception):
    """The two texts are too long to be compared letter by letter."""


def normalise(text: str) -> str:
    """Lower case, with white space collapsed to one blank and removed at the ends.

    >>> normalise("  Refunds take\\n5\\u3000DAYS ")
    'refunds take 5 days'
    """
    return " ".join(text.lower().split())


def cover(evidence: str, chunk: str, threshold: float = THRESHOLD) -> Cover | None:
    """Whether and why a chunk covers an evidence, both normalised; an empty text neither covers nor is covered.

    >>> cover("90 days", "within 90 days of the sale"), cover("paid by card, or in cash", "paid by card or cash")
    (Cover(rule='contains', ratio=None), Cover(rule='fuzzy', ratio=0.9090909090909091))
    >>> cover("90 days", "two weeks") is None
    True
    """
    if not evidence or not chunk:
        return None
    if evidence in chunk:
        return Cover("exact" if len(evidence) == len(chunk) else "contains")
    if chunk in evidence:
        return Cover("contained")
    # The order of the arguments matters to difflib: always evidence first, then chunk.
    if not _may_reach(evidence, chunk, threshold):
        return None
    ratio = _ratio(evidence, chunk, threshold)
    return Cover("fuzzy", ratio) if ratio >= threshold else None


def _ratio(evidence: str, chunk: str, threshold: float) -> float:
    """difflib's; where it does not reach the threshold, any lower number."""
    if len(evidence) * len(chunk) <= MOST:
        length = len(evidence) + len(chunk)
        return 2.0 * matched_letters(evidence, chunk, fewest_matches(length, threshold)) / length
    from difflib import SequenceMatcher  # slow to load, and few pairs need it

    return SequenceMatcher(None, evidence, chunk).ratio()


def _may_reach(evidence: str, chunk: str, threshold: float) -> bool:
    """Bounds of difflib's ratio, cheapest first. What difflib matches is a common subsequence of the two texts."""
    needed = fewest_matches(len(evidence) + len(chunk), threshold)
    if min(len(evidence), len(chunk)) < needed:
        return False
    too_long = len(evidence) * len(chunk) > LIMIT
    # The fast subsequence search is cheaper than counting letters, the slow one is not.
    fast = reaches_fast()
    if (too_long or fast is None) and (_letters(evidence) & _letters(chunk)).total() < needed:
        return False
    if too_long:
        raise TooLong
    return (fast or reaches)(evidence, chunk, needed)


_letters: Callable[[str], Counter[str]] = lru_cache(maxsize=64)(Counter)


@lru_cache(maxsize=4096)
def fewest_matches(length: int, threshold: float) -> int:
    """The fewest matches for which difflib's ratio, 2.0 · matches / length in floating point, reaches a threshold.

    >>> fewest_matches(10, 0.7), fewest_matches(1200, 0.7), fewest_matches(1200, 1.0)
    (4, 420, 600)
    """
    matches = int(threshold * length / 2)
    while 2.0 * matches / length < threshold:
        matches += 1
    while matches and 2.0 * (matches - 1) / length >= threshold:
        matches -= 1
    return matches


@cache
def reaches_fast() -> Callable[[str, str, int], bool] | None:
    """The same as `reaches` with rapidfuzz, many times faster; None where it is not installed."""
    try:
        from rapidfuzz.distance.LCSseq import similarity
    except ImportError:
        return None

    def common(one: str, other: str, least: int) -> bool:
        # One less than the minimum: with it, rapidfuzz 3.14 misses some subsequences of exactly that length.
        return bool(similarity(one, other, score_cutoff=least - 1 if least > _WORD else 0) >= least)

    def fast(one: str, other: str, least: int) -> bool:
        if len(one) > len(other):
            one, other = other, one
        # At most `spare` letters of the shorter text may be left out, so most of its end must be in the end of the
        # other. Different texts fail on their beginnings.
        spare = len(one) - least
        begin = _BEGIN * spare + _STRETCH
        if begin < _MOSTLY * len(one):
            rest = len(one) - begin - spare
            if not common(one[:begin], other[: len(other) - rest], begin - spare):
                return False
        return common(one, other, least)

    return fast


def reaches(one: str, other: str, least: int) -> bool:
    """Whether the longest common subsequence has at least this many letters.

    A bit for each letter of `one`, in a whole number of any length; a bit that is 0 ends a step of the length
    (Hyyrö, Bit-parallel LCS-length computation revisited, 2004).

    >>> reaches("refund", "redfin", 4), reaches("refund", "redfin", 5)
    (True, False)
    """
    places = _places(one)
    every = row = (1 << len(one)) - 1
    for start in range(0, len(other), _STRETCH):
        for letter in other[start : start + _STRETCH]:
            matched = row & places.get(letter, 0)
            row = (row + matched) | (row - matched)
        so_far, left = len(one) - (row & every).bit_count(), max(len(other) - start - _STRETCH, 0)
        if so_far + left < least:
            return False
    return min(len(one), len(other)) >= least


@lru_cache(maxsize=64)
def _places(text: str) -> dict[str, int]:
    """Letter → a number whose bits are its positions. Cached, since one evidence is compared with many chunks."""
    places: dict[str, int] = {}
    for i, letter in enumerate(text):
        places[letter] = places.get(letter, 0) | 1 << i
    return places
