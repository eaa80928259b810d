"""Is the longest common subsequence of two texts long enough: a bound of what difflib can match."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache

_STRETCH = 32  # letters between two looks at whether it is still possible


@cache
def reaches_fast() -> Callable[[str, str, int], bool] | None:
    """The same as `reaches` through rapidfuzz, many times as fast; None where that is not installed."""
    try:
        from rapidfuzz.distance import LCSseq
    except ImportError:
        return None

    def fast(one: str, other: str, least: int) -> bool:
        # Without its score_cutoff: rapidfuzz 3.14 then misses some subsequences that have just the length asked for.
        return bool(LCSseq.similarity(one, other) >= least)

    return fast


def reaches(one: str, other: str, least: int) -> bool:
    """Whether the longest common subsequence has at least so many letters.

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
    """Letter → a number whose bits are its places. One evidence is compared with many chunks."""
    places: dict[str, int] = {}
    for i, letter in enumerate(text):
        places[letter] = places.get(letter, 0) | 1 << i
    return places
