"""The sample contract: `samples` with `expected_output`, and outputs as `{id, actualOutput}` records (SPEC A3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import msgspec
import numpy as np

from karat.data.attributes import is_tag
from karat.data.gold import Dataset, Gold
from karat.data.gold_builder import GoldBuilder
from karat.data.ids import Ints
from karat.files.decode_errors import DECODE_ERRORS, refusal
from karat.formats.base import Source, SourcePlace
from karat.formats.dataset import dataset_of, header_of
from karat.formats.records import (
    EntryLines,
    RecordBatch,
    RecordDecoder,
    decode_entries,
    decode_record,
    list_entries,
    read_column_batches,
    read_document,
    read_records,
)
from karat.formats.run_log import RunLog
from karat.formats.run_parts import SystemRecords
from karat.formats.run_records import RunRecord

Expected: TypeAlias = list[str | int] | dict[str, float]


class Sample(msgspec.Struct, kw_only=True):
    """One sample: a question and the ids that answer it."""

    id: str | int
    input: dict[str, Any] | str | None = None
    expected_output: Expected | str
    metadata: dict[str, Any] | None = None


class Output(msgspec.Struct, kw_only=True):
    """The system's answer to one sample: JSON, or JSON in a string."""

    id: str | int
    actualOutput: Any = None  # the contract's own spelling
    output: Any = None
    retrieved: list[Any] | None = None  # the answer itself, without the wrapper
    system: str | None = None
    latency_ms: dict[str, float | None] | float | None = None


def read_samples(source: Source) -> Gold:
    decoder = RecordDecoder(Sample)
    samples, header = _samples(source, decoder)
    return _built(source.label, samples, decoder).build(dataset_of(source, header_of(header)))


def _samples(
    source: Source, decoder: RecordDecoder[Sample]
) -> tuple[Iterable[tuple[Sample, SourcePlace]], dict[str, Any]]:
    """The samples, and the data that applies to all of them."""
    if "expected_output" in (source.first_object or {}):
        return read_records(source, decoder), {}
    value, lines = read_document(source)
    header = value if isinstance(value, dict) else {"samples": value}
    if "samples" not in header:
        what, got = "no samples at the top level of the file", ", ".join(map(str, header)) or "nothing"
        raise SourcePlace(source.label, None).error(
            what, code="missing-field", field="samples", expected="a list", got=got
        )
    return _decoded(header["samples"], lines, source.label, decoder), header


class OutputRun(RunLog):
    """Outputs, read as run log records on the same lines."""

    def _like(self, records: Any, hits: str, *, needed: bool) -> RunLog:
        return OutputRun(self.label, records, self._system, hits, needed=needed)

    knows_columns = False

    def may_say(self, column: str) -> bool:
        return True  # hits may be in a string, and all of their data is always read

    def _parts(self, columns: frozenset[str], lists: frozenset[str]) -> Iterator[SystemRecords]:
        outputs, decoder = RecordDecoder(Output), RecordDecoder(RunRecord)
        for batch in self._batches(outputs):
            assert isinstance(batch.records, list)  # without named lists, no lines are read as columns
            entries = (self._record(*pair, outputs) for pair in zip(batch.records, batch.lines, strict=True))
            pairs = zip(entries, batch.lines, strict=True)
            records = [decode_record(decoder, entry, self.label, line) for entry, line in pairs]
            yield SystemRecords(self.label, records, batch.lines, decoder.extra_names, places=batch.places)

    def _batches(self, decoder: RecordDecoder[Output]) -> Iterator[RecordBatch[Output]]:
        if isinstance(self._records, Source):
            yield from read_column_batches(self._records, decoder)
            return
        for records, lines in decode_entries(enumerate(self._records, 1), decoder, self.label):
            yield RecordBatch(records, lines, places=np.array(lines) - 1)

    def _parts_at(self, places: Ints, columns: frozenset[str]) -> Iterator[SystemRecords]:
        outputs, records = RecordDecoder(Output), self._records
        picked = records.lines_at(places) if isinstance(records, Source) else (records[at] for at in places.tolist())
        lines = (decode_record(outputs, record, self.label, None) for record in picked)
        entries = ((None, self._record(output, None, outputs)) for output in lines)
        return self._decoded(entries, RecordDecoder(RunRecord), places)

    def _record(self, output: Output, line: int | None, decoder: RecordDecoder[Output]) -> dict[str, Any]:
        extras = decoder.extras(output)
        spellings = (output.actualOutput, output.output, output.retrieved, extras.pop("actual_output", None))
        answer = next((said for said in spellings if said is not None), None)
        record = {
            "query_id": output.id,
            "topk": _retrieved(answer, SourcePlace(self.label, line)),
            "system": output.system,
            "latency_ms": output.latency_ms,
        }
        return {**extras, **{k: v for k, v in record.items() if v is not None}}


def gold_from_samples(samples: list[Any]) -> Gold:
    """Samples in memory."""
    decoder = RecordDecoder(Sample)
    lines = {id(samples): list(range(1, len(samples) + 1))}
    return _built("gold", _decoded(samples, lines, "gold", decoder), decoder).build(Dataset())


def _decoded(
    samples: Any, lines: EntryLines, label: str, decoder: RecordDecoder[Sample]
) -> Iterator[tuple[Sample, SourcePlace]]:
    for line, entry in list_entries(samples, lines, label):
        yield decode_record(decoder, entry, label, line), SourcePlace(label, line)


def _built(label: str, samples: Iterable[tuple[Sample, SourcePlace]], decoder: RecordDecoder[Sample]) -> GoldBuilder:
    builder = GoldBuilder(label)
    for sample, place in samples:
        _add(builder, sample, decoder.extras(sample), place)
    return builder


def _add(builder: GoldBuilder, sample: Sample, extras: dict[str, Any], place: SourcePlace) -> None:
    expected = _expected(sample.expected_output, place)
    ids = [str(i) for i in expected]
    grades = list(expected.values()) if isinstance(expected, dict) else [1.0] * len(ids)
    metadata = sample.metadata or {}
    k, graded = cutoff_of(metadata, place), isinstance(expected, dict)
    builder.add(str(sample.id), ids, grades, line=place.line, k=k, graded=graded)
    question = sample.input.get("question") if isinstance(sample.input, dict) else sample.input
    if question is not None:
        builder.say("query", str(question))
    for name, value in {**extras, **metadata}.items():
        if name != "k":
            tag = is_tag(name, value) if name in metadata else not isinstance(value, (list, dict))
            builder.say(name, value, tag=tag)


def _retrieved(answer: Any, place: SourcePlace) -> list[Any]:
    """The ranked list in an output: `{"retrieved": [...]}` or a bare array, as JSON or as a string of it."""
    if isinstance(answer, str):
        try:
            answer = msgspec.json.decode(answer)
        except DECODE_ERRORS as error:
            raise refusal(error, *place, answer.encode("utf-8", "replace")) from error
    if isinstance(answer, dict):
        answer = answer.get("retrieved")
    if not isinstance(answer, list):
        what, expected = "no ranked list in the output", '{"retrieved": [{"id": …}, …]} or a list of ids'
        raise place.error(what, code="wrong-type", field="actualOutput", expected=expected, got=answer)
    return answer


def _expected(expected: Expected | str, place: SourcePlace) -> Expected:
    """Ids, or ids with grades; a text is JSON, or one id."""
    if isinstance(expected, str) and expected.lstrip()[:1] not in ("[", "{"):
        return [expected]
    if isinstance(expected, str):
        try:
            read: Expected = msgspec.json.decode(expected, type=Expected)
            return read
        except DECODE_ERRORS as error:
            raise place.error(
                "invalid value",
                code="bad-value",
                field="expected_output",
                expected="a list of ids, or an object {id: gain}",
                got=expected,
                hint="write a single id that begins with a bracket as a list",
            ) from error
    return expected


def cutoff_of(metadata: dict[str, Any], place: SourcePlace) -> int:
    """The cutoff in the metadata of a query; 0: none."""
    k = metadata.get("k")
    if k is None:
        return 0
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= 2**53:
        expected = "a whole number, 1 or more"
        raise place.error("invalid cutoff", code="bad-value", field="metadata.k", expected=expected, got=k)
    return k
