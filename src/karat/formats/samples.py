"""The sample contract: `samples` with `expected_output`, and outputs as `{id, actualOutput}` lines (SPEC A3)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, TypeAlias

import msgspec

from karat.data.gold import Gold, GoldBuilder
from karat.data.hits import Run
from karat.data.ids import Ints
from karat.errors import InputError
from karat.files.decode_errors import DECODE_ERRORS, refusal
from karat.formats.base import Format, Kind, ReadOptions, Source
from karat.formats.dataset import dataset_of, header_of
from karat.formats.records import (
    RecordDecoder,
    S,
    decode_entries,
    decode_record,
    list_entries,
    read_batches,
    read_column_batches,
    read_document,
)
from karat.formats.run_log import RunLog
from karat.formats.run_parts import SystemRecords
from karat.formats.run_records import RunRecord

Expected: TypeAlias = list[str | int] | dict[str, float]
Batches: TypeAlias = Iterator[tuple[list[S], Sequence[int | None]]]


class Sample(msgspec.Struct, kw_only=True):
    """One sample: a question and the ids that answer it."""

    id: str | int
    input: dict[str, Any] | str | None = None
    expected_output: Expected | str
    metadata: dict[str, Any] | None = None


class Output(msgspec.Struct, kw_only=True):
    """What the system answered to one sample: JSON, or JSON in a string."""

    id: str | int
    actualOutput: Any = None  # the contract's own spelling
    output: Any = None
    system: str | None = None
    latency_ms: dict[str, float | None] | None = None


class SamplesFormat(Format):
    """YAML or JSON with `samples:`; outputs as JSONL with `id` and `actualOutput`."""

    name = "samples"
    kinds = frozenset({"gold", "run"})
    order = 20

    def recognises(self, source: Source, kind: Kind) -> bool:
        if source.is_folder:
            return False
        if kind == "run":
            return bool({"actualOutput", "actual_output"} & set(source.first_object or {}))
        if {"samples", "expected_output"} & set(source.first_object or {}):
            return True
        # In YAML a key of the outermost mapping, not a word of some text; in indented JSON at any depth.
        indented = rb'^\s*"samples"\s*:' if source.looks_like_json else rb"^samples\s*:"
        return re.search(indented, source.head, re.M) is not None

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        decoder, builder = RecordDecoder(Sample), GoldBuilder(source.label)
        batches, header = self._batches(source, decoder)
        for samples, lines in batches:
            for sample, line in zip(samples, lines, strict=True):
                _add(builder, sample, decoder.extras(sample), line)
        return builder.build(dataset_of(source, header_of(header)))

    def _batches(self, source: Source, decoder: RecordDecoder[Sample]) -> tuple[Batches[Sample], dict[str, Any]]:
        """The samples, and what is said of them all."""
        if "expected_output" in (source.first_object or {}):
            return read_batches(source, decoder), {}
        value, lines = read_document(source)
        header = value if isinstance(value, dict) else {"samples": value}
        if "samples" not in header:
            raise InputError(
                "no samples at the top of the file",
                code="missing-field",
                file=source.label,
                field="samples",
                expected="a list",
                got=", ".join(map(str, header)) or "nothing",
            )
        entries = list_entries(header["samples"], lines, source.label)
        return decode_entries(entries, decoder, source.label), header

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        return OutputRun(source, options.system)


class OutputRun(RunLog):
    """Outputs, read as the records of a run log that stand on the same lines."""

    def __init__(self, source: Source, system: str | None = None, hits: str = "topk", *, needed: bool = True) -> None:
        super().__init__(source.label, source, system, hits, needed=needed)

    def _like(self, records: Any, hits: str, *, needed: bool) -> RunLog:
        return OutputRun(records, self._system, hits, needed=needed)

    def _parts(self, columns: frozenset[str], lists: frozenset[str]) -> Iterator[SystemRecords]:
        outputs, decoder = RecordDecoder(Output), RecordDecoder(RunRecord)
        for batch in read_column_batches(self._records, outputs):
            assert isinstance(batch.records, list)  # a decoder that names no lists reads no lines as columns
            entries = self._entries(zip(batch.lines, batch.records, strict=True), outputs)
            records = [decode_record(decoder, entry, self.label, line) for line, entry in entries]
            yield SystemRecords(self.label, records, batch.lines, decoder.extra_names, places=batch.places)

    def _parts_at(self, places: Ints, columns: frozenset[str]) -> Iterator[SystemRecords]:
        outputs = RecordDecoder(Output)
        lines = (decode_record(outputs, line, self.label, None) for line in self._records.lines_at(places))
        entries = self._entries(zip(repeat(None), lines, strict=False), outputs)
        return self._decoded(entries, RecordDecoder(RunRecord), places)

    def _entries(
        self, outputs: Iterable[tuple[int | None, Output]], decoder: RecordDecoder[Output]
    ) -> Iterator[tuple[int | None, dict[str, Any]]]:
        for line, output in outputs:
            yield line, self._record(output, decoder.extras(output), line)

    def _record(self, output: Output, extras: dict[str, Any], line: int | None) -> dict[str, Any]:
        answer = output.actualOutput if output.actualOutput is not None else output.output
        if answer is None:
            answer = extras.pop("actual_output", None)
        record = {
            "query_id": output.id,
            "topk": _retrieved(answer, self.label, line),
            "system": output.system,
            "latency_ms": output.latency_ms,
        }
        return {**extras, **{k: v for k, v in record.items() if v is not None}}


def _add(builder: GoldBuilder, sample: Sample, extras: dict[str, Any], line: int | None) -> None:
    ids, grades = _expected(sample.expected_output, builder.label, line)
    metadata = sample.metadata or {}
    builder.add(str(sample.id), ids, grades, line=line, k=_cutoff(metadata, builder.label, line))
    question = sample.input.get("question") if isinstance(sample.input, dict) else sample.input
    if question is not None:
        builder.say("query", str(question))
    for name, value in {**extras, **metadata}.items():
        if name != "k":
            builder.say(name, value, tag=not isinstance(value, (list, dict)))


def _retrieved(answer: Any, label: str, line: int | None) -> list[Any]:
    """The ranked list in an output: `{"retrieved": [...]}` or a bare array, as JSON or as a string of it."""
    if isinstance(answer, str):
        try:
            answer = msgspec.json.decode(answer)
        except DECODE_ERRORS as error:
            raise refusal(error, label, line, answer.encode("utf-8", "replace")) from error
    if isinstance(answer, dict):
        answer = answer.get("retrieved")
    if not isinstance(answer, list):
        raise InputError(
            "no ranked list in the output",
            code="wrong-type",
            file=label,
            line=line,
            field="actualOutput",
            expected='{"retrieved": [{"id": …}, …]} or a list of ids',
            got=answer,
        )
    return answer


def _expected(expected: Expected | str, label: str, line: int | None) -> tuple[list[str], list[float]]:
    if isinstance(expected, str):
        expected = _expected_in_text(expected, label, line)
    if isinstance(expected, dict):
        return list(expected), list(expected.values())
    return [str(i) for i in expected], [1.0] * len(expected)


def _expected_in_text(text: str, label: str, line: int | None) -> Expected:
    """JSON in a string, or one id."""
    if text.lstrip()[:1] not in ("[", "{"):
        return [text]
    try:
        found: Expected = msgspec.json.decode(text, type=Expected)
    except DECODE_ERRORS as error:
        raise InputError(
            "not usable",
            code="bad-value",
            file=label,
            line=line,
            field="expected_output",
            expected="a list of ids or an object id: gain",
            got=text,
            hint="write one id that begins with a bracket as a list",
        ) from error
    return found


def _cutoff(metadata: dict[str, Any], label: str, line: int | None) -> int:
    k = metadata.get("k")
    if k is None:
        return 0
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= 2**53:
        raise InputError(
            "bad cutoff",
            code="bad-value",
            file=label,
            line=line,
            field="metadata.k",
            expected="a whole number, 1 or more",
            got=k,
        )
    return k
