"""Which words of a passage a query shares, and the part of a long passage that has them."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from karat.errors import MissingExtra
from karat.retrievers.words import fold, words

_WORD = re.compile(r"\w+")
_BEFORE = 40  # characters shown before the first shared word of a passage that is cut


class Passage(msgspec.Struct, frozen=True):
    """A text, or a part of it, with the places (from, to) of the words that the query has too."""

    text: str
    marks: list[tuple[int, int]] = []


def shared_words(query: str, text: str, language: str | None, length: int) -> Passage:
    """The passage, at most `length` characters of it, from a little before the first word that the query has.

    >>> shared_words("refund window", "Within the refund windows of 90 days", "en", 30)
    Passage(text='Within the refund windows of …', marks=[(11, 17), (18, 25)])
    """
    wanted = frozenset(word for word in _stems(query, language) if len(word) > 1)  # not the m of "I'm"
    found = [m.span() for m in _WORD.finditer(text) if not wanted.isdisjoint(_stems(m[0], language))]
    start = max(found[0][0] - _BEFORE, 0) if found and len(text) > length else 0
    start = min(start, max(len(text) - length, 0))
    head, tail = "…" if start else "", "…" if len(text) > start + length else ""
    end = start + length - len(head) - len(tail)
    shift = len(head) - start
    shown = head + text[start:end] + tail
    return Passage(shown, [(a + shift, b + shift) for a, b in found if a >= start and b <= end])


@lru_cache(1 << 16)  # the same words come again and again
def _stems(text: str, language: str | None) -> list[str]:
    try:
        return words(text, language)
    except MissingExtra:  # without a stemmer the same word is the same word
        return _WORD.findall(fold(text))
