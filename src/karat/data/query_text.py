"""What the text of a query shows: how many words it has, and how many constraints."""

from __future__ import annotations

import re
from math import ceil

# Scripts without spaces, with the characters that a word has on average: Han and kana; Thai, Lao, Myanmar and Khmer.
# Compiled on use: the first one takes milliseconds.
_UNSPACED = (
    ("[\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+", 2),
    ("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+", 4),
)
_ENGLISH = """and or but with without for in on at by from under over above below between before after since until near
during about except excluding including only not than using that which who whose where when while if per via"""
_OTHERS = """y o pero con sin para en desde hasta sobre bajo entre antes después durante excepto solo que donde cuando
si e ou mas com sem em no na nos nas até sob depois quando se und oder aber mit ohne für im bei von unter über zwischen
vor nach seit bis außer nur wenn et mais avec sans pour dans chez avant après depuis jusque sauf où quand"""
_JOINTS = frozenset((*_ENGLISH.split(), *_OTHERS.split(), *",;:，、；："))
_TOKEN = re.compile(r"\w+|[,;:，、；：]")


def count_words(text: str) -> int:
    """Words between spaces; of a script without spaces, two characters of Han or kana and four of Thai, Lao, Myanmar or
    Khmer count as one, rounded up.

    >>> count_words("how do I get a refund"), count_words("如何申请退款"), count_words("PDF を開く")
    (6, 3, 3)
    """
    if text.isascii():
        return len(text.split())
    dense = 0
    for script, size in _UNSPACED:
        dense += sum(ceil(len(run) / size) for run in re.findall(script, text))
        text = re.sub(script, " ", text)
    rest = text.split()
    return dense + (sum(any(map(str.isalnum, word)) for word in rest) if dense else len(rest))


def count_constraints(text: str) -> int:
    """The parts of a query, split at commas and at words that add a condition, such as with, without, for,
    under and and (English, Spanish, Portuguese, German, French).

    >>> [count_constraints(t) for t in ("air fryer temperature", "vegan lasagna without nuts, under 30 minutes", "")]
    [1, 3, 0]
    """
    parts, inside = 0, False
    for token in _TOKEN.findall(text.lower()):
        if token in _JOINTS:
            inside = False
        elif not inside:
            parts, inside = parts + 1, True
    return parts
