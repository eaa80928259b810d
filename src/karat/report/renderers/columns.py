"""Text in the columns of a terminal: width, line breaks, and how columns share a line."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import cache

_WORD = re.compile(r"\s*\S+\s*")
_JOINER, _AS_EMOJI = "\u200d", "\ufe0f"  # joins the characters around it; shows the character before it as an emoji


_MARKS = re.compile("[\u1160-\u11ff\ud7b0-\ud7ff\U0001f3fb-\U0001f3ff]")  # parts of Hangul letters, skin tones


@cache
def _letter_cells(letter: str) -> int:
    """Columns of one code point: 0 for combining characters, 2 for CJK and emoji."""
    if unicodedata.category(letter) in ("Mn", "Mc", "Me", "Cf") or _MARKS.match(letter):
        return int(letter == "\xad")
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _letters(text: str) -> list[tuple[str, int]]:
    """Splits text into graphemes, each with its number of columns."""
    found: list[tuple[str, int]] = []
    joined = False
    for letter in text:
        cells = _letter_cells(letter)
        if found and (joined or not cells):
            before, width = found[-1]
            found[-1] = (before + letter, 2 if letter == _AS_EMOJI and width else width)
        else:
            found.append((letter, cells))
        joined = letter == _JOINER
    return found


def cells_of(text: str) -> int:
    """Returns the number of columns that a text takes on a terminal.

    >>> cells_of("abc"), cells_of("漢字"), cells_of("e\\u0301")
    (3, 4, 1)
    """
    return len(text) if text.isascii() else sum(cells for _, cells in _letters(text))


def cut(text: str, width: int) -> str:
    """Cuts a text to a width; a wide character that does not fit becomes a space."""
    if cells_of(text) <= width:
        return text
    line = _chopped(text, width)[0]
    return line + " " * (width - cells_of(line)) if cells_of(line) <= width else " " * width


def _chopped(text: str, width: int) -> list[str]:
    """Splits a word that is longer than a line."""
    if text.isascii():
        return [text[start : start + width] for start in range(0, len(text), width)]
    pieces, used = [""], 0
    for letter, cells in _letters(text):
        if used + cells > width and pieces[-1]:
            pieces.append("")
            used = 0
        pieces[-1] += letter
        used += cells
    return pieces


def wrapped(text: str, width: int) -> list[str]:
    """Returns the lines of a text, wrapped between words; words longer than a line are split.

    >>> wrapped("one two three\\nfour", 8)
    ['one two ', 'three', 'four']
    """
    return [line for paragraph in text.split("\n") for line in _broken(paragraph, width)]


def _broken(text: str, width: int) -> list[str]:
    if cells_of(text) <= width:
        return [text]
    lines: list[str] = []
    room = 0
    for word in _WORD.findall(text) or [text]:
        size = cells_of(word.rstrip())
        if lines and size <= room:
            lines[-1] += word
        else:
            lines += _chopped(word, width) if size > width else [word]
        room = width - cells_of(lines[-1])
    return [cut(line, width) for line in lines]


def shared_width(sizes: Sequence[int], foldable: Sequence[bool], room: int) -> list[int]:
    """Returns column widths that fit: the widest foldable columns shrink first, then all of them.

    >>> shared_width([10, 60, 50], [False, True, True], 100)
    [10, 45, 45]
    """
    found = list(sizes)
    while (excess := sum(found) - room) > 0:
        wide = sorted({0, *(size for size, may in zip(found, foldable, strict=True) if may)})
        if len(wide) == 1:
            break
        second, widest = wide[-2:]
        chosen = [i for i, size in enumerate(found) if foldable[i] and size == widest]
        _give(found, chosen, excess, [min(excess, widest - second)] * len(chosen))
    while (excess := sum(found) - room) > 0:
        chosen = [i for i, size in enumerate(found) if size]
        _give(found, chosen, excess, [found[i] for i in chosen])
    return found


def _give(sizes: list[int], chosen: Sequence[int], excess: int, most: Sequence[int]) -> None:
    """Takes the same amount from each chosen column, up to its limit."""
    for place, (i, limit) in enumerate(zip(chosen, most, strict=True)):
        given = min(limit, round(excess / (len(chosen) - place)))
        sizes[i] -= given
        excess -= given
