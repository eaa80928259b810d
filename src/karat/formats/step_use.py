"""Times and usage of a query that only its searches log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from karat.data.audit import Audit
from karat.data.hits import STEPS
from karat.data.prices import Usage
from karat.formats.json_lines import LineTable
from karat.formats.records import Records, column


class StepUse(msgspec.Struct, gc=False):
    """What one search took."""

    latency_ms: dict[str, float | None] | float | None = None
    usage: list[Usage] | None = None


class _OnlyUse(msgspec.Struct, gc=False):
    steps: list[StepUse] | None = None


_SUMMED = ("latency_ms", "usage")
_UNSAID = msgspec.Raw()
_LINE, _LIST = msgspec.json.Decoder(_OnlyUse), msgspec.json.Decoder(list[StepUse] | None)


def uses_in(records: Records[Any]) -> list[Sequence[Any] | None]:
    """The searches of each record; None if it has no steps."""
    if not isinstance(records, LineTable):
        written = column(records, STEPS)
        return [None] * len(written) if written.count(_UNSAID) == len(written) else list(map(_decoded, written))
    if STEPS not in records.skipped:
        return [None] * len(records)
    return [_LINE.decode(records.block[at:].partition(b"\n")[0]).steps for at in records.starts.tolist()]


def _decoded(steps: Any) -> Any:
    if not isinstance(steps, msgspec.Raw):
        return steps
    return None if steps == _UNSAID else _LIST.decode(steps)


def with_sums(said: list[Any], steps: Sequence[Sequence[Any] | None], field: str) -> list[Any]:
    """A field of records; where they lack it, what their searches say of it together, if it can be added up."""
    if field not in _SUMMED or not any(steps):
        return said
    add = total_time if field == "latency_ms" else _joined
    return [
        add([getattr(step, field) for step in made]) if one is None and made else one
        for one, made in zip(said, steps, strict=True)
    ]


def count_sums(
    records: Records[Any], queries: Sequence[str], steps: Sequence[Sequence[Any] | None], audit: Audit
) -> None:
    """Count queries whose times or usage are those of their searches together."""
    if not any(steps):
        return
    for field in _SUMMED:
        said = with_sums(column(records, field), steps, field)
        own = column(records, field)
        found = [q for q, one, made in zip(queries, own, said, strict=True) if one is None and made is not None]
        audit.count(f"summed_{field}", len(found), found[:3])


def total_time(times: Sequence[Any]) -> dict[str, float] | None:
    """The times of all searches, stage by stage; None if one of them has none."""
    if any(one is None for one in times):
        return None
    stages: dict[str, float] = {}
    for one in times:
        for stage, ms in (one if isinstance(one, dict) else {"total": one}).items():
            stages[stage] = stages.get(stage, 0.0) + (ms or 0.0)
    return stages


def _joined(usages: Sequence[Any]) -> list[Any] | None:
    return [used for usage in usages for used in usage or ()] or None
