"""Versions and dates: how they are read, and which is newer."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karat.data.versions import Version


def newer(version: Any, as_of: Any) -> bool | None:
    sides = Version.read(version), Version.read(as_of)
    assert sides[0] is not None, version
    assert sides[1] is not None, as_of
    return sides[0].newer_than(sides[1])


@pytest.mark.parametrize(
    ("version", "as_of", "expected"),
    [
        # dates against dates, however they are written
        ("2025-06-01", "2025-06-01", False),
        ("2025-06-02", "2025-06-01", True),
        ("v2025_06_02", "2025-06-01", True),
        ("V2025_06_01", "2025/06/01", False),
        ("2025.6.2", "2025-06-01", True),
        (20250602, "2025-06-01", True),
        (date(2025, 6, 2), "2025-06-01", True),
        ("9999-12-31", "2025-06-01", True),
        ("1215-06-15", "2025-06-01", False),
        # less exact ones: a document counts from its first moment, as_of to its last
        ("2025-06", "2025-06-15", False),
        ("2025-06", "2025-05-31", True),
        ("2025-06-30", "2025-06", False),
        ("2025-07-01", "2025-06", True),
        ("2025", "2025-06-15", False),
        ("2025-12-31T23:59:59.999999Z", 2025, False),
        ("2026-01-01T00:00Z", 2025, True),
        ("2024-02-29", "2024-02", False),
        # date-times, with and without a zone (UTC)
        ("2025-06-01T18:00", "2025-06-01", False),
        ("2025-06-01T18:00", "2025-06-01T17:59", True),
        ("2025-06-01 18:00:00", "2025-06-01T18:00Z", False),
        ("2025-06-01T18:00:00+02:00", "2025-06-01T16:00:00Z", False),
        ("2025-06-01T18:00:00-0200", "2025-06-01T19:59:59Z", True),
        ("2025-06-02T01:00+05", "2025-06-01", False),
        ("2025-06-01T18:00:30", "2025-06-01T18:00", False),
        ("2025-06-01T18:00:00.5Z", "2025-06-01T18:00:00.4Z", True),
        ("20260924_2000", "2026-09-24T19:59Z", True),
        (datetime(2025, 6, 2, tzinfo=UTC), "2025-06-01", True),
        # seconds and milliseconds since 1970
        (1748736000, "2025-06-01", False),
        (1748822400, "2025-06-01", True),
        ("1748822400000", "2025-06-01", True),
        (1748822400.25, "2025-06-01", True),
        # version numbers
        (4, 3, True),
        ("v3", "3", False),
        ("v10", "v9", True),
        ("1.10", "1.9", True),
        ("1.4.2", "v1.4", True),
        ("1.4.0", "1.4", False),
        (1.5, "1.4.9", True),
        ("2.0.0-rc.1", "2.0.0", False),
        ("2.0.0", "2.0.0-rc.1", True),
        ("2.0.0-rc.11", "2.0.0-rc.2", True),
        ("2.0.0-rc.1", "2.0.0-1", True),
        ("2.0.0+build7", "2.0.0", False),
        # what may be a year or a number goes with the other side
        (2025, 7, True),
        (7, 2025, False),
        (2025, "2024-12-31", True),
        # no order
        ("v3", "2025-01-01", None),
        ("2025-01-01", 3, None),
        ("1.4.2", "2025-01-01T00:00Z", None),
    ],
)
def test_which_is_newer(version: Any, as_of: Any, expected: bool | None) -> None:
    assert newer(version, as_of) is expected


@pytest.mark.parametrize(
    "value",
    [
        "latest",
        "2025-13-01",
        "2025-02-30",
        "2025-06-01T25:00",
        "2025-06-01T10:61",
        "2025-06-01T10:00:60",
        "2025-06-01T10",
        "2025-06-01T10:00+24:00",
        "0000-01-01",
        "2025-06_01",
        "June 2025",
        "v",
        "v2025_",
        "1..2",
        "-3",
        "２０２５-06-01",
        "9" * 5000,
        10**400,
        float("nan"),
        float("inf"),
        True,
        ["2025-06-01"],
        {"date": "2025-06-01"},
        None,
        "",
        "\x00",
    ],
)
def test_what_is_no_version(value: Any) -> None:
    assert Version.read(value) is None


DATES = st.dates(min_value=date(1000, 1, 1))
TIMES = st.datetimes(
    min_value=datetime(1000, 1, 2),
    max_value=datetime(9999, 12, 30),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))]),
)


@given(TIMES, TIMES)
def test_times_are_compared_as_python_compares_them(one: datetime, other: datetime) -> None:
    # Without a fraction a time lasts a second: compared here to the second, there with a fraction always.
    one, other = (t.replace(microsecond=t.microsecond or 1) for t in (one, other))
    assert newer(one.isoformat(), other.isoformat()) == (one > other)
    assert newer(one.isoformat(sep=" "), other) == (one > other)


@given(DATES, DATES)
def test_dates_are_compared_as_python_compares_them(one: date, other: date) -> None:
    for form in ("%04d-%02d-%02d", "v%04d_%02d_%02d", "%04d%02d%02d"):
        written = form % (one.year, one.month, one.day)
        assert newer(written, other) == (one > other)


NUMBERS = st.lists(st.integers(0, 99), min_size=2, max_size=4)


@given(NUMBERS, NUMBERS)
def test_numbers_are_compared_part_by_part(one: list[int], other: list[int]) -> None:
    width = max(len(one), len(other))
    first, second = ([*parts, *[0] * (width - len(parts))] for parts in (one, other))
    assert newer("v" + ".".join(map(str, one)), ".".join(map(str, other))) == (first > second)


ALIKE = st.from_regex(r"v?\d{1,6}[-_./]?\d{0,3}[-_.]?\d*")
ANYTHING = st.one_of(st.text(max_size=30), st.integers(), st.floats(), ALIKE)


@given(ANYTHING, ANYTHING)
def test_never_is_each_newer_than_the_other(one: Any, other: Any) -> None:
    versions = Version.read(one), Version.read(other)
    if versions[0] is not None and versions[1] is not None:
        verdicts = versions[0].newer_than(versions[1]), versions[1].newer_than(versions[0])
        assert verdicts != (True, True)
        assert (verdicts[0] is None) == (verdicts[1] is None)
        assert versions[0].newer_than(versions[0]) is False
