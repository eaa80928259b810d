"""Latencies from timestamps: when a query, or a stage of it, started and ended."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np

from karat.data.ids import Floats

TIMES = ("started_at", "ended_at", "timestamps")  # the fields that hold them
TOTAL = "total"
EXPECTED = "a time such as 2025-06-01T12:00:00.250Z, or seconds since 1970"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS = 1e11  # numbers from here on are milliseconds since 1970: as seconds they would be in the year 5138


class OddTime(Exception):
    """A time or latency that is invalid; `at`: the record."""

    def __init__(self, at: int, field: str, what: str, expected: str, got: Any) -> None:
        super().__init__(what)
        self.at = at
        self.field = field
        self.what = what
        self.expected = expected
        self.got = got


class _Span(NamedTuple):
    stage: str
    field: str  # of the end, for errors
    started: Any
    ended: Any


def latencies(started: Sequence[Any], ended: Sequence[Any], stages: Sequence[Any]) -> dict[str, Floats]:
    """Stage → milliseconds of each record, NaN where it has no start or no end.

    `started` and `ended` are times of the whole query (stage `total`), or objects {stage: time}; `stages` are objects
    {stage: {started_at, ended_at}}.
    """
    found: dict[str, Floats] = defaultdict(lambda: np.full(len(started), np.nan))
    for at, record in enumerate(zip(started, ended, stages, strict=True)):
        for span in _spans(*record):
            if span.started is not None and span.ended is not None:
                found[span.stage][at] = _milliseconds(at, span)
    return dict(found)


def refuse_impossible(logged: Mapping[str, Floats]) -> None:
    """Raise for logged latencies that are negative or infinite."""
    for stage, ms in logged.items():
        impossible = np.flatnonzero((ms < 0) | np.isinf(ms))
        if len(impossible):
            at, expected = int(impossible[0]), "a number of milliseconds, 0 or more"
            raise OddTime(at, f"latency_ms.{stage}", "invalid latency", expected, float(ms[at]))


def with_times(logged: Mapping[str, Floats], timed: Mapping[str, Floats]) -> dict[str, Floats]:
    """Latencies as logged, else from timestamps."""
    found = dict(logged)
    for stage, ms in timed.items():
        found[stage] = np.where(np.isnan(logged[stage]), ms, logged[stage]) if stage in logged else ms
    return found


def _spans(started: Any, ended: Any, stages: Any) -> Iterator[_Span]:
    if isinstance(started, Mapping) and isinstance(ended, Mapping):
        for stage in started:
            yield _Span(stage, f"ended_at.{stage}", started[stage], ended.get(stage))
    else:
        yield _Span(TOTAL, "ended_at", started, ended)
    for stage, times in stages.items() if isinstance(stages, Mapping) else ():
        if isinstance(times, Mapping):
            yield _Span(stage, f"timestamps.{stage}.ended_at", times.get("started_at"), times.get("ended_at"))


def _milliseconds(at: int, span: _Span) -> float:
    times = []
    for field, value in ((span.field.replace("ended_at", "started_at"), span.started), (span.field, span.ended)):
        time = _moment(value)
        if time is None:
            raise OddTime(at, field, "not a time", EXPECTED, value)
        times.append(time)
    if times[1] < times[0]:
        raise OddTime(at, span.field, "ended before it started", f"{span.started} or later", span.ended)
    return round(times[1] - times[0], 6)


def _moment(value: Any) -> float | None:
    """Milliseconds since 1970; a time without a zone is UTC.

    >>> _moment("2025-06-01T12:00:00.250Z") - _moment(1748779200)
    250.0
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            try:
                value = float(value)
            except ValueError:
                return None
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (aware - _EPOCH).total_seconds() * 1000
    if isinstance(value, (bool, date)) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value) if abs(value) >= _MILLISECONDS else value * 1000
