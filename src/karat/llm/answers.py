"""JSON objects out of what models say: in fences, among words, with a comma too many, or cut off."""

from __future__ import annotations

import json
import re
from typing import Any

_THOUGHT = re.compile(r"<think(ing)?>.*?</think(ing)?>", re.S | re.I)
_LONGEST, _STARTS = 50_000, 50  # no answer that is worth reading is longer, and none begins more often
_DECODER = json.JSONDecoder(strict=False)  # line breaks within strings are a common slip
_TRAILING = re.compile(r",(\s*[}\]])")
_LAST_NAME = re.compile(r'([,{])\s*"[^"\\]*"$')
_CLOSING = {"{": "}", "[": "]"}


def objects_in(text: str) -> list[dict[str, Any]]:
    """The objects of an answer, those inside others not counted; a cut one is repaired where no whole one is there.

    >>> objects_in('Here it is: ```json\\n{"grade": 1, "quote": "so",}\\n```')
    [{'grade': 1, 'quote': 'so'}]
    >>> objects_in('{"intent": "to know", "grade": 2, "quote": "it was cut o')
    [{'intent': 'to know', 'grade': 2, 'quote': 'it was cut o'}]
    """
    said = _THOUGHT.sub("", text)[:_LONGEST]
    found = _whole(said) or _whole(_without_trailing(said))
    if found or "{" not in said:
        return found
    return _whole(_closed(_without_trailing(said[said.index("{") :])))


def _whole(text: str) -> list[dict[str, Any]]:
    found, at = [], text.find("{")
    for _ in range(_STARTS):
        if at < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            end = at + 1
        else:
            found.append(value)
        at = text.find("{", end)
    return found


def _without_trailing(text: str) -> str:
    return _TRAILING.sub(r"\1", text)


def _closed(text: str) -> str:
    """With everything closed that was left open. A name without a value at the end is dropped."""
    open_, in_string, escaped = [], False, False
    for letter in text:
        if in_string:
            if escaped:
                escaped = False
            elif letter == "\\":
                escaped = True
            elif letter == '"':
                in_string = False
        elif letter == '"':
            in_string = True
        elif letter in _CLOSING:
            open_.append(_CLOSING[letter])
        elif letter in "}]" and open_:
            open_.pop()
    if escaped:
        text = text[:-1]
    text += '"' if in_string else ""
    text = _LAST_NAME.sub(lambda found: found[1], text.rstrip().removesuffix(":").rstrip())
    return text.removesuffix(",") + "".join(reversed(open_))
