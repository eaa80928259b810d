"""Which words of a passage a query shares, and the part of a long passage that has them."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache

import msgspec

from karat.errors import MissingExtra
from karat.retrievers.words import fold, words

_WORD = re.compile(r"\w+")
_BEFORE = 40  # characters shown before the first shared word of a passage that is cut
_NEAR = 10  # characters within which a word begins, in most scripts that part words


class MarkedText(msgspec.Struct, frozen=True):
    """A text, or a part of it, with the places (from, to) of the words that the query has too."""

    text: str
    marks: list[tuple[int, int]] = []


def shared_words(query: str, text: str, language: str | None, length: int) -> MarkedText:
    """The passage, at most `length` characters of it, where most of the words are that the query has.

    >>> shared_words("refund window", "Within the refund windows of 90 days", "en", 30)
    MarkedText(text='Within the refund windows of …', marks=[(11, 17), (18, 25)])
    """
    shared = _words_of(query, language)
    return cut(MarkedText(text, [m.span() for m in _WORD.finditer(text) if shared[m[0]]]), length)


def cut(passage: MarkedText, length: int) -> MarkedText:
    """At most so many characters of a passage, those where most of its marks are.

    >>> cut(MarkedText("All fees apply. A wire has fees of 2 %.", [(4, 8), (18, 22), (27, 31)]), 20)
    MarkedText(text='…A wire has fees of…', marks=[(3, 7), (12, 16)])
    """
    text = passage.text
    if len(text) <= length:
        return passage
    start = _at_a_word(text, min(_start(passage, length), len(text) - length))
    head, tail = "…" if start else "", "…" if len(text) > start + length else ""
    end = start + length - len(head) - len(tail)
    shift = len(head) - start
    shown = head + text[start:end] + tail
    return MarkedText(shown, [(a + shift, b + shift) for a, b in passage.marks if a >= start and b <= end])


def _start(passage: MarkedText, length: int) -> int:
    """A little before the marks that stand closest together; the beginning where as many are there."""
    before = min(_BEFORE, length // 4)
    ends = [end for _, end in passage.marks]
    together = [bisect_right(ends, start - before + length) - i for i, (start, _) in enumerate(passage.marks)]
    most = max(together, default=0)
    if bisect_right(ends, length) >= most:
        return 0
    return max(passage.marks[together.index(most)][0] - before, 0)


def _at_a_word(text: str, start: int) -> int:
    """The start of the next word, where one is near."""
    space = text.find(" ", start - 1, start + _NEAR) if start else -1
    return start if space < 0 else space + 1


class _Shared(dict[str, bool]):
    """Word → whether the query has it too, found out once for all passages of a query."""

    def __init__(self, query: str, language: str | None) -> None:
        self._language = language
        self._wanted = frozenset(word for word in _stems(query, language) if len(word) > 1)  # not the m of "I'm"

    def __missing__(self, word: str) -> bool:
        self[word] = not self._wanted.isdisjoint(_stems(word, self._language))
        return self[word]


_words_of = lru_cache(8)(_Shared)


@lru_cache(1 << 16)  # the same words come again and again
def _stems(text: str, language: str | None) -> list[str]:
    try:
        return words(text, language)
    except MissingExtra:  # without a stemmer the same word is the same word
        return _WORD.findall(fold(text))
