"""Round moments along an axis of time; values are seconds since 1970, in UTC."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import MAXYEAR, UTC, datetime, timedelta

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MOST = 8  # ticks
_MINUTE, _DAY = 60, 86_400
_MINUTES = (1, 5, 15, 30, 60, 3 * 60, 6 * 60, 12 * 60)
_DAYS = (1, 2, 7, 14)
_IN_MONTHS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000)
_MONDAY = 4 * _DAY  # the first one after 1970-01-01


def seconds(time: str) -> float:
    """
    >>> seconds("1970-01-02T00:00:00.000000Z")
    86400.0
    """
    return datetime.fromisoformat(time).timestamp()


def moment(value: float) -> str:
    """
    >>> moment(86400.0)
    '1970-01-02 00:00'
    """
    return _at(value).isoformat(" ", "minutes")[: len("1970-01-02 00:00")]


def time_ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Moments with short names; the first of each year, or of each day, says which it is.

    >>> [name for _, name in time_ticks(seconds("2025-11-20T10:00Z"), seconds("2026-04-02T00:00Z"))]
    ['Dec 2025', 'Jan 2026', 'Feb', 'Mar', 'Apr']
    >>> [name for _, name in time_ticks(seconds("2025-12-28T10:00Z"), seconds("2026-01-02T00:00Z"))]
    ['29 Dec 2025', '30 Dec', '31 Dec', '1 Jan 2026', '2 Jan']
    >>> [name for _, name in time_ticks(seconds("2025-06-01T22:10Z"), seconds("2025-06-02T02:40Z"))]
    ['1 Jun 23:00', '2 Jun 00:00', '01:00', '02:00']
    >>> [name for _, name in time_ticks(seconds("2015-06-01T22:10Z"), seconds("2025-06-02T02:00Z"))]
    ['2016', '2018', '2020', '2022', '2024']
    >>> time_ticks(86400.0, 86400.0)
    [(86400.0, '2 Jan 1970')]
    """
    if not high > low:
        return [(low, _date(_at(low), None))]
    for step in _MINUTES:
        if (high - low) / (step * _MINUTE) < _MOST:
            return _named(_steps(low, high, step * _MINUTE, 0), _clock)
    for step in _DAYS:
        if (high - low) / (step * _DAY) < _MOST:
            return _named(_steps(low, high, step * _DAY, _MONDAY if step % 7 == 0 else 0), _date)
    for step in _IN_MONTHS:
        found = list(_firsts(low, high, step))
        if len(found) <= _MOST:
            return _named(found, _month if step % 12 else lambda time, _: f"{time:%Y}")
    return [(low, moment(low)), (high, moment(high))]


def _named(places: Iterable[float], name: Callable[[datetime, datetime | None], str]) -> list[tuple[float, str]]:
    """Each place with its name, which depends on the place before."""
    found, before = list[tuple[float, str]](), None
    for place in places:
        time = _at(place)
        found.append((place, name(time, before)))
        before = time
    return found


def _steps(low: float, high: float, step: int, origin: int) -> Iterator[float]:
    place = origin + math.ceil((low - origin) / step) * step
    while place <= high:
        yield float(place)
        place += step


def _firsts(low: float, high: float, step: int) -> Iterator[float]:
    """The first of every so many months."""
    begin = _at(low)
    month = math.ceil((begin.year * 12 + begin.month - 1) / step) * step
    while month // 12 <= MAXYEAR:
        place = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC).timestamp()
        if place > high:
            return
        if place >= low:
            yield place
        month += step


def _clock(time: datetime, before: datetime | None) -> str:
    own = f"{time:%H:%M}"
    return own if before is not None and before.date() == time.date() else f"{time.day} {_MONTHS[time.month - 1]} {own}"


def _date(time: datetime, before: datetime | None) -> str:
    return f"{time.day} {_month(time, before)}"


def _month(time: datetime, before: datetime | None) -> str:
    name = _MONTHS[time.month - 1]
    return name if before is not None and before.year == time.year else f"{name} {time.year}"


def _at(value: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value)
