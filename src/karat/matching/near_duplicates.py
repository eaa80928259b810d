"""Finds texts that are nearly identical, letter by letter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from karat.matching.cover import normalise

THRESHOLD = 0.8
_SHINGLE = 5  # letters: words would not separate Chinese or Thai texts


def near_duplicates(texts: Sequence[str | None], threshold: float = THRESHOLD) -> list[int | None]:
    """For each text the position of the first one that it nearly repeats, None where it is new.

    Two texts are near duplicates when their sets of five consecutive letters (lower case, white space collapsed) share
    at least `threshold` of their union. Texts are only compared with new ones, so there are no chains.

    >>> near_duplicates(["Refunds take 5 days.", "Cards ship in two weeks.", "refunds  take 5 days", None])
    [None, None, 0, None]
    """
    holders: dict[str, list[int]] = {}  # shingle → the new texts that have it
    sizes: dict[int, int] = {}
    found: list[int | None] = []
    for at, parts in enumerate(shingles(text or "") for text in texts):
        shared = Counter(holder for part in parts for holder in holders.get(part, ()))
        alike = (h for h in sorted(shared) if shared[h] >= threshold * (len(parts) + sizes[h] - shared[h]))
        found.append(next(alike, None))
        if found[-1] is None:
            sizes[at] = len(parts)
            for part in parts:
                holders.setdefault(part, []).append(at)
    return found


def shingles(text: str) -> frozenset[str]:
    """All sequences of five letters; for a shorter text the text itself, for an empty one none."""
    plain = normalise(text)
    if len(plain) <= _SHINGLE:
        return frozenset([plain] if plain else [])
    return frozenset(plain[i : i + _SHINGLE] for i in range(len(plain) - _SHINGLE + 1))
