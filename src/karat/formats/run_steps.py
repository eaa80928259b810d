"""Steps of a query in a run log: several lists in one line, or one line per step."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from karat.data.hits import METADATA, OTHER_LISTS, STEPS
from karat.errors import InputError, shorten
from karat.formats.json_lines import Columns, LineTable
from karat.formats.records import RecordDecoder, column, decode_record
from karat.formats.run_parts import SystemRecords
from karat.formats.run_records import Hit, RunRecord, RunStep, union_of
from karat.formats.step_use import total_time

_BATCH = 1000
TOPK = "topk"
_LISTS = (TOPK, *OTHER_LISTS)
_LISTLESS = re.compile(r"Object missing required field `topk`|Expected `array`, got `null` - at `\$\S*\.topk`")


class _OnlySteps(msgspec.Struct):
    steps: list[RunStep]


class RunDecoder(RecordDecoder[Any]):
    """Decodes lines of a run log. A line with steps needs no `topk`: it is their union. If it failed, it needs none."""

    def decode(self, raw: bytes) -> Any:
        try:
            return super().decode(raw)
        except msgspec.ValidationError as error:
            made = _with_lists(msgspec.json.decode(raw)) if _LISTLESS.match(str(error)) else None
            if made is None:
                raise
            return super().decode(msgspec.json.encode(made))

    def convert(self, value: object) -> Any:
        return super().convert(_with_lists(value) or value)


class SizedDecoder(RunDecoder):
    """The same, with the tokens of hits as a column. Blocks with a hit without tokens are read whole, for its text."""

    def read_lines(self, block: bytes, size: int | None = None) -> LineTable | None:
        table = super().read_lines(block, size)
        if table is None or all(_has_tokens(lists) for lists in table.columns.values()):
            return table
        self._unlike += 1
        return None


def _has_tokens(lists: Columns) -> bool:
    tokens = lists.values.get("tokens")
    return not lists.counts.any() if tokens is None else bool(((tokens >= 0) & (tokens <= 2**53)).all())


class DescribedDecoder(RunDecoder):
    """The same, where all other fields of a hit belong to its metadata."""

    def decode(self, raw: bytes) -> Any:
        record = super().decode(raw)
        made = _described(msgspec.json.decode(raw))
        return record if made is None else super().convert(made)

    def convert(self, value: object) -> Any:
        made = _described(value) if isinstance(value, dict) else None
        return super().convert(value if made is None else made)

    def decode_known_lines(self, block: bytes) -> list[Any] | None:
        return None


_OWN_FIELDS = frozenset(Hit.__struct_fields__)


def _described(value: dict[str, Any]) -> dict[str, Any] | None:
    """A record whose hits have all of their other fields in `metadata`; None if they have no others."""
    made = {name: hits for name in _LISTS if (hits := _with_metadata(value.get(name))) is not None}
    steps = value.get(STEPS)
    if isinstance(steps, list):
        inner = [_described(step) if isinstance(step, dict) else None for step in steps]
        if any(inner):
            made[STEPS] = [one or step for one, step in zip(inner, steps, strict=True)]
    return {**value, **made} if made else None


def _with_metadata(hits: Any) -> list[Any] | None:
    if not isinstance(hits, list):
        return None
    others = [hit.keys() - _OWN_FIELDS if isinstance(hit, dict) else None for hit in hits]
    if not any(others):
        return None
    return [_moved(hit, names) if names else hit for hit, names in zip(hits, others, strict=True)]


def _moved(hit: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    inner = hit.get(METADATA)
    kept = {name: value for name, value in hit.items() if name not in names}
    if inner is not None and not isinstance(inner, dict):
        return hit
    return {**kept, METADATA: {**{name: hit[name] for name in names}, **(inner or {})}}


def _with_lists(value: Any) -> dict[str, Any] | None:
    """A record with all lists that it needs: the union of its steps, and empty ones where something failed. None if
    they are missing without a reason."""
    if not isinstance(value, dict):
        return None
    steps = value.get(STEPS)
    if isinstance(steps, list) and any(map(_failed, steps)):
        value = {**value, STEPS: [{**step, TOPK: []} if _failed(step) else step for step in steps]}
    elif TOPK in value and not _failed(value):
        return None
    if value.get(TOPK) is not None:
        return {**value}
    if _failed(value) and not value.get(STEPS):
        return {**value, TOPK: []}
    if STEPS not in value:
        return None
    found = msgspec.convert({STEPS: value[STEPS]}, _OnlySteps).steps
    return {**value, TOPK: union_of(found, value.get("score_order"))}


def _failed(value: Any) -> bool:
    """Whether a record or a step has an error instead of a list."""
    return isinstance(value, dict) and value.get(TOPK) is None and bool(value.get("error"))


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
            latency_ms=total_time([record.latency_ms for record in records]),
            usage=used or None,
            error=errors[0] if len(errors) == len(records) else None,
        )
        return record, first_line


def has_steps(part: SystemRecords) -> bool:
    """Whether lines are single steps."""
    if isinstance(part.records, LineTable) and "step" not in part.records:
        return False
    steps = column(part.records, "step")
    return steps.count(None) < len(steps)


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
