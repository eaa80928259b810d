"""Text from data for a page: nothing that a page has no letter for, nothing that turns it around, nothing endless."""

from __future__ import annotations

import re
from functools import lru_cache

LONGEST = 2_000
QUERY = 300  # characters of a query where it is read as a whole
NAME = 120  # characters of what is only a name
# Control characters, half characters, the 66 code points that are no characters, and those that reverse what
# follows. Joiners stay: Persian and emoji need them.
_UNREADABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef"
    + "".join(chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF))
    + "]"
)
_ASCII_NAME = re.compile(r"[!-~](?:[ -~]*[!-~])?")  # without white space at its ends


def readable(text: str, longest: int = LONGEST) -> str:
    """Text that may stand in a page, once it is escaped.

    >>> readable("a\\x00b\\u202ec\\r\\n"), readable("x" * 100_000, 3)
    ('a�b�c�\\n', 'xxx… (99,997 more characters)')
    """
    more = len(text) - longest
    note = f"… ({more:,} more characters)"
    if more <= len(note):  # a note longer than what it stands for would only hide it
        return _UNREADABLE.sub("�", text)
    return _UNREADABLE.sub("�", text[:longest]) + note


@lru_cache(maxsize=1 << 16)  # a page names the same passage again and again
def short_name(name: str) -> str:
    """A name in a line; of a long one both ends, for names often begin alike.

    >>> short_name("a\tb"), len(short_name("x" * 500 + "1")), short_name("x" * 500 + "1")[-3:]
    ('a b', 120, 'xx1')
    """
    if len(name) > NAME:
        name = name[: NAME // 2] + "…" + name[-(NAME - NAME // 2 - 1) :]
    return readable(name.replace("\t", " ").replace("\n", " "))


def is_verbatim(name: str) -> bool:
    """Whether a name stands in a line as it is, so that no other can be taken for it."""
    if len(name) <= NAME and _ASCII_NAME.fullmatch(name):
        return True
    return name == short_name(name) == name.strip()
