"""Versions and dates: reads `doc_version` and `as_of`, and tells whether one is newer than the other.

A version is a time (2025-06-01, 2025-06-01T12:00Z, 2025-06, 2025, v2025_06_01, seconds since 1970), a number (3, v2,
1.4.2, 2.0.0-rc1), or may be either (2025, 20250601). Two versions are compared as times where both can be read as one,
else as numbers; v3 and 2025-01-01 have no order.

Times without a zone are UTC. A time covers its whole period: 2025-06 is all of June. A document is as old as the
start of its period, and `as_of` lasts to the end of its own, so nothing counts as newer that may not be.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from datetime import date
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

Span: TypeAlias = tuple[int, int]  # first and last microsecond since 1970, UTC

EXPECTED = "a date, a time or a version, such as 2025-06-01, 2025-06, 2025-06-01T12:00Z, v2025_06_01, 3 or 1.4.2"

_LARGEST = 10**18
_SECOND = 10**6
_DAY = 86_400 * _SECOND
_EPOCH = date(1970, 1, 1).toordinal()
# Text patterns: they are compiled when the first version is read, and most runs have none.
_DATE = (
    r"v? (?P<year>\d{4}) (?: (?P<sep>[-_./]) (?P<month>\d{1,2})"
    r"(?: (?P=sep) (?P<day>\d{1,2}) (?P<time>[T\ _].+)? )? )?"
)
_COMPACT = r"v? (?P<year>\d{4}) (?P<month>\d\d) (?P<day>\d\d) (?P<time>[T\ _].+)?"
_TIME = (
    r"[T\ _] (\d\d) :? (\d\d) (?: :? (\d\d) (?: [.,] (\d{1,9}) )? )? \s*"
    r"(?: Z | UTC | (?P<sign>[-+]) (?P<hours>\d\d) (?: :? (?P<minutes>\d\d) )? )?"
)
_SINCE_1970 = r"(\d{10}) (?: \.\d+ )? | (\d{10})\d{3}"  # seconds, or milliseconds
_BUILD = r"(?: \+ [\w.-]* )?"
_NUMBER = rf"v? (\d{{1,18}} (?: \.\d{{1,18}} )*) {_BUILD}"
_BEFORE = rf"v? (\d{{1,18}} (?: \.\d{{1,18}} )+) - ([\w.-]+) {_BUILD}"  # a pre-release


class Version(msgspec.Struct, frozen=True):
    """A version as a time, as a number, or as both."""

    text: str
    span: Span | None
    number: tuple[Any, ...] | None

    def newer_than(self, as_of: Version) -> bool | None:
        """Whether it is newer than another version; None where the two have no order.

        >>> june, day = Version.read("2025-06"), Version.read("2025-06-15")
        >>> june.newer_than(day), day.newer_than(june), Version.read("2025-07-01").newer_than(june)
        (False, False, True)
        >>> Version.read("v1.10").newer_than(Version.read("1.9")), Version.read("v3").newer_than(june)
        (True, None)
        """
        if self.span is not None and as_of.span is not None:
            return self.span[0] > as_of.span[1]
        if self.number is not None and as_of.number is not None:
            return self.number > as_of.number
        return None

    @property
    def kind(self) -> str:
        return "a version number" if self.span is None else "a date" if self.number is None else "a date or a number"

    @staticmethod
    def read(value: Any) -> Version | None:
        """The version in a text; None where it is neither a time nor a number."""
        text = _text(value)
        return None if text is None else _read(text)


def _whole(pattern: str, text: str) -> re.Match[str] | None:
    return re.fullmatch(pattern, text, re.A | re.I | re.X)


def is_said(value: Any) -> bool:
    """Whether a field has a value: not null, and not empty as in a CSV file."""
    return value is not None and not (isinstance(value, str) and not value.strip())


def _text(value: Any) -> str | None:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < _LARGEST:
        return None
    return str(int(value)) if value == int(value) else repr(value)


@lru_cache(1 << 16)
def _read(text: str) -> Version | None:
    span, number = _span(text), _number(text)
    return None if span is None and number is None else Version(text, span, number)


def _span(text: str) -> Span | None:
    since = _whole(_SINCE_1970, text)
    if since is not None:
        first = int(since[1] or since[2]) * _SECOND
        return first, first + _SECOND - 1
    found = _whole(_DATE, text) or _whole(_COMPACT, text)
    if found is None:
        return None
    year, month, day = (None if found[part] is None else int(found[part]) for part in ("year", "month", "day"))
    assert year is not None
    try:
        first = (date(year, month or 1, day or 1).toordinal() - _EPOCH) * _DAY
    except ValueError:
        return None
    if found["time"]:
        return _moment(first, found["time"])
    days = 1 if day else monthrange(year, month)[1] if month else 366 if isleap(year) else 365
    return first, first + days * _DAY - 1


def _moment(day: int, text: str) -> Span | None:
    found = _whole(_TIME, text)
    if found is None:
        return None
    hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3))
    zone = int(found["hours"] or 0) * 3600 + int(found["minutes"] or 0) * 60
    if hour > 23 or minute > 59 or second > 59 or zone >= 86_400:
        return None
    fraction = int((found[4] or "").ljust(6, "0")[:6])
    seconds = hour * 3600 + minute * 60 + second - (-zone if found["sign"] == "-" else zone)
    first = day + seconds * _SECOND + fraction
    exact = 1 if found[4] else _SECOND if found[3] else 60 * _SECOND
    return first, first + exact - 1


def _number(text: str) -> tuple[Any, ...] | None:
    """As Semantic Versioning orders them: 1.2 = 1.2.0, and 2.0.0-rc1 comes before 2.0.0."""
    found = _whole(_NUMBER, text) or _whole(_BEFORE, text)
    if found is None:
        return None
    parts = [int(part) for part in found[1].split(".")]
    while parts and not parts[-1]:
        parts.pop()
    if found.re.pattern == _NUMBER:
        return tuple(parts), (1,)
    before = ((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in found[2].split("."))
    return tuple(parts), (0, *before)
