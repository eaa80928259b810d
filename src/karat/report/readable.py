"""Makes text from data safe to read on a page: no control characters, no reversed direction, limited length."""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 2_000
QUERY = 300  # characters of a query that is shown in full
NAME = 120  # characters of a name
# Control characters, surrogates, the 66 noncharacters, and characters that reverse the text direction. Joiners stay:
# Persian and emoji need them. Compiled when it is used: few texts need it.
_UNREADABLE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
_PLAIN = re.compile(r"[ !#$%(-;=?-~]*")  # ASCII without special characters of HTML
_ASCII_NAME = re.compile(r"[!-~](?:[ -~]*[!-~])?")  # without leading or trailing spaces


def readable(text: str, longest: int = LONGEST) -> str:
    """Returns text that can be shown on a page once it is escaped.

    >>> readable("a\\x00b\\u202ec\\r\\n"), readable("x" * 100_000, 3)
    ('a�b�c�\\n', 'xxx… (99,997 more characters)')
    """
    if len(text) <= longest and text.isprintable():  # most texts, and ten times as fast
        return text
    more = len(text) - longest
    note = f"… ({more:,} more characters)"
    if more <= len(note):  # the note would be longer than the text it replaces
        return re.sub(_UNREADABLE, "�", text)
    return re.sub(_UNREADABLE, "�", text[:longest]) + note


def safe(text: str, longest: int = LONGEST) -> str:
    """Returns readable, escaped text, with a fast path because a page has a hundred thousand texts."""
    if len(text) <= longest and _PLAIN.fullmatch(text):
        return text
    from markupsafe import escape

    return str(escape(readable(text, longest)))


@lru_cache(maxsize=1 << 16)  # a page repeats the same names many times
def short_name(name: str) -> str:
    """Returns a name for one line. Long names keep both ends, because many names share a prefix.

    >>> short_name("a\tb"), len(short_name("x" * 500 + "1")), short_name("x" * 500 + "1")[-3:]
    ('a b', 120, 'xx1')
    """
    if len(name) > NAME:
        name = name[: NAME // 2] + "…" + name[-(NAME - NAME // 2 - 1) :]
    return readable(name.replace("\t", " ").replace("\n", " "))


def is_verbatim(name: str) -> bool:
    """Whether a name is shown unchanged, so that it cannot be confused with another."""
    if len(name) <= NAME and _ASCII_NAME.fullmatch(name):
        return True
    return name == short_name(name) == name.strip()
