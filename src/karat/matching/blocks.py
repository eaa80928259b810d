"""The number of letters that difflib matches in two texts, found without its passes over every letter."""

from __future__ import annotations

from bisect import bisect_left

from karat.files.native import native

MOST = 500_000  # the product of two lengths up to which all pairs of equal letters are listed
_LONG, _STRETCH = 200, 16  # difflib's `autojunk`; letters compared at once


def matched_letters(one: str, other: str, least: int = 0) -> int:
    """The sum of the sizes of difflib's matching blocks; if that is below `least`, any lower number.

    difflib takes the longest run of equal letters, extends it, and does the same on both sides of it. Letters that are
    frequent in a long `other` only extend runs. So there are few pairs of letters that can start a run, and they are
    listed once.

    >>> from difflib import SequenceMatcher
    >>> texts = "paid by card, or in cash", "paid by card or cash"
    >>> matched_letters(*texts), sum(block.size for block in SequenceMatcher(None, *texts).get_matching_blocks())
    (20, 20)
    """
    library = native()
    if library is not None:
        letters = (one.encode("utf-32-le", "surrogatepass"), other.encode("utf-32-le", "surrogatepass"))
        found = int(library.karat_matched(letters[0], len(one), letters[1], len(other), least))
        if found >= 0:
            return found
    step = len(other) + 1  # a pair of places is one number: step · place in `one` + place in `other`
    total, left = 0, min(len(one), len(other))
    todo = [(0, len(one), 0, len(other), _pairs(one, other, step))]
    while todo:
        start, stop, from_, to, pairs = todo.pop()
        left -= min(stop - start, to - from_)
        at, size = _longest(pairs, step + 1) if pairs else (start * step + from_, 0)
        first, place = divmod(at, step)
        end, shift = first + size, place - first
        while size and first > start and first + shift > from_ and one[first - 1] == other[first + shift - 1]:
            first -= 1
        last = min(stop, to - shift)
        while end + _STRETCH <= last and one[end : end + _STRETCH] == other[end + shift : end + shift + _STRETCH]:
            end += _STRETCH
        while end < last and one[end] == other[end + shift]:
            end += 1
        if end == first:
            continue
        total += end - first
        above, below = first + shift, end + shift
        if start < first and from_ < above:
            left += min(first - start, above - from_)
            before = pairs[: bisect_left(pairs, first * step)]
            todo.append((start, first, from_, above, [pair for pair in before if pair % step < above]))
        if end < stop and below < to:
            left += min(stop - end, to - below)
            after = pairs[bisect_left(pairs, end * step) :]
            todo.append((end, stop, below, to, [pair for pair in after if pair % step >= below]))
        if total + left < least:
            return total
    return total


def _pairs(one: str, other: str, step: int) -> list[int]:
    """The places of equal letters, except those that are frequent in a long `other`."""
    most = len(other) // 100 + 1 if len(other) >= _LONG else len(other)
    pairs: list[int] = []
    for letter in set(one):
        if 0 < other.count(letter) <= most:
            places, rows = _places(letter, other), _places(letter, one)
            pairs += [row * step + place for row in rows for place in places]
    pairs.sort()
    return pairs


def _places(letter: str, text: str) -> list[int]:
    at = text.find(letter)
    found = []
    while at >= 0:
        found.append(at)
        at = text.find(letter, at + 1)
    return found


def _longest(pairs: list[int], diagonal: int) -> tuple[int, int]:
    """The first of the longest runs of pairs on a diagonal, and its size."""
    at, size = pairs[0], 1
    there = set(pairs) if len(pairs) > 1 else set()
    for pair in there and pairs:
        if pair + diagonal * size in there and pair - diagonal not in there:  # else no longer, or not the start
            end = pair + diagonal
            while end in there:
                end += diagonal
            if end - pair > diagonal * size:
                at, size = pair, (end - pair) // diagonal
    return at, size
