"""Steps of a query in a run log: several lists in one line, or one line per step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from karat.data.hits import STEPS
from karat.errors import InputError, shorten
from karat.formats.json_lines import LineTable
from karat.formats.records import RecordDecoder, column, decode_record
from karat.formats.run_parts import SystemRecords
from karat.formats.run_records import RunRecord, RunStep, union_of

_BATCH = 1000


class _OnlySteps(msgspec.Struct):
    steps: list[RunStep]


class RunDecoder(RecordDecoder[Any]):
    """Decodes lines of a run log. A line with steps needs no `topk`: it is their union."""

    def decode(self, raw: bytes) -> Any:
        try:
            return super().decode(raw)
        except msgspec.ValidationError as error:
            made = _with_union(msgspec.json.decode(raw)) if "required field `topk`" in str(error) else None
            if made is None:
                raise
            return super().decode(msgspec.json.encode(made))

    def convert(self, value: object) -> Any:
        return super().convert(_with_union(value) or value)


def _with_union(value: Any) -> dict[str, Any] | None:
    """A record with a final list, if it only has steps."""
    if not isinstance(value, dict) or "topk" in value or STEPS not in value:
        return None
    steps = msgspec.convert({STEPS: value[STEPS]}, _OnlySteps).steps
    return {**value, "topk": union_of(steps, value.get("score_order"))}


class _Steps:
    """Lines of one query of one system."""

    def __init__(self, query: str) -> None:
        self.query = query
        self.lines: dict[int | None, tuple[Any, int | None]] = {}  # by step; None: the line with the final list

    def add(self, record: Any, line: int | None, label: str, system: str) -> None:
        if record.step in self.lines:
            of = "this query" if record.step is None else f"step {record.step} of this query"
            raise InputError(
                f"system {shorten(system, 40)!r} already has {of} (line {self.lines[record.step][1]})",
                code="duplicate-query",
                file=label,
                line=line,
                query=self.query,
                hint="use one line per query, system and step: remove one, or give it another step",
            )
        self.lines[record.step] = record, line

    def joined(self) -> tuple[Any, int | None]:
        """One record with all steps, and its line."""
        numbered = sorted((number, record) for number, (record, _) in self.lines.items() if number is not None)
        first_line = next(iter(self.lines.values()))[1]
        if not numbered:
            return self.lines[None][0], first_line
        records = [record for _, record in numbered]
        steps = [RunStep(query=r.query, topk=r.topk, latency_ms=r.latency_ms, usage=r.usage) for r in records]
        if None in self.lines:
            return replace(self.lines[None][0], steps=steps), first_line
        used = [one for record in records for one in record.usage or ()]
        errors = [record.error for record in records if record.error]
        record = replace(
            records[0],
            topk=union_of(steps, records[0].score_order),
            steps=steps,
            step=None,
            latency_ms=_total([record.latency_ms for record in records]),
            usage=used or None,
            error=errors[0] if len(errors) == len(records) else None,
        )
        return record, first_line


def _total(times: list[Any]) -> Any:
    """Latencies of all steps, stage by stage."""
    if any(one is None for one in times):
        return None
    stages: dict[str, float] = {}
    for one in times:
        for stage, ms in (one if isinstance(one, dict) else {"total": one}).items():
            stages[stage] = stages.get(stage, 0.0) + (ms or 0.0)
    return stages


def has_steps(part: SystemRecords) -> bool:
    """Whether lines are single steps."""
    if isinstance(part.records, LineTable) and "step" not in part.records:
        return False
    return any(number is not None for number in column(part.records, "step"))


def join_steps(
    parts: Iterable[SystemRecords], decoder: RecordDecoder[Any] | None, *, whole: bool
) -> Iterator[SystemRecords]:
    """Lines with a step, joined by query. `whole`: lines of a query may be anywhere, so that all are held; otherwise
    they follow each other. `decoder`: for lines that were read as columns."""
    held: dict[tuple[str, str], _Steps] = {}
    last: SystemRecords | None = None
    for part in parts:
        if not whole and not held and not has_steps(part):
            yield part
            continue
        part = _plain(part, decoder)
        assert isinstance(part.records, list)
        done: list[tuple[Any, int | None]] = []
        for record, line, query in zip(part.records, part.lines, part.queries, strict=True):
            key = record.system or "", query
            if not whole and key not in held:
                before = next((one for one in held if one[0] == key[0]), None)
                if before is not None:
                    done.append(held.pop(before).joined())
            held.setdefault(key, _Steps(query)).add(record, line, part.label, key[0])
        if done:
            yield _part(part, done)
        last = part
    rest = [steps.joined() for steps in held.values()]
    for at in range(0, len(rest), _BATCH):
        assert last is not None
        yield _part(last, rest[at : at + _BATCH])


def _part(like: SystemRecords, joined: list[tuple[Any, int | None]]) -> SystemRecords:
    records, lines = [record for record, _ in joined], [line for _, line in joined]
    return replace(like, records=records, lines=lines, columns={}, places=None)


def _plain(part: SystemRecords, decoder: RecordDecoder[Any] | None) -> SystemRecords:
    """The same records one by one."""
    if not isinstance(part.records, LineTable):
        return part
    table, decoder = part.records, decoder or RunDecoder(RunRecord)
    raw = (table.block[start:].partition(b"\n")[0] for start in table.starts.tolist())
    records = [decode_record(decoder, one, part.label, line) for one, line in zip(raw, part.lines, strict=True)]
    return replace(part, records=records, columns={}, extra_names=decoder.extra_names)
