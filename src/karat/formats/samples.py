"""The sample contract: `samples` with `expected_output`, and outputs as `{id, actualOutput}` lines (SPEC A3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from karat.errors import InputError
from karat.formats.base import DECODE_ERRORS, Format, Kind, Options, Source, refusal
from karat.formats.gold_file import dataset_of
from karat.formats.records import RecordDecoder, decode_entries, list_entries, read_batches, read_document
from karat.formats.run_log import RunLog
from karat.gold import Gold, GoldBuilder
from karat.hits import Run


class Sample(msgspec.Struct, kw_only=True):
    """One sample: a question and the ids that answer it."""

    id: str | int
    input: dict[str, Any] | str | None = None
    expected_output: list[str | int] | dict[str, float] | str
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
        return (
            re.search(rb'^\s*"?samples"?\s*:', source.head, re.M) is not None
            or re.match(rb'\s*\{\s*"samples"\s*:', source.head) is not None
            or "expected_output" in (source.first_object or {})
        )

    def read_gold(self, source: Source, options: Options) -> Gold:
        decoder, builder = RecordDecoder(Sample), GoldBuilder(source.label)
        for sample, line in self._samples(source, decoder):
            ids, grades = _expected(sample, source.label, line)
            metadata = sample.metadata or {}
            builder.add(str(sample.id), ids, grades, line=line, k=_cutoff(metadata, source.label, line))
            question = sample.input.get("question") if isinstance(sample.input, dict) else sample.input
            if question is not None:
                builder.say("query", str(question))
            for name, value in {**decoder.extras(sample), **metadata}.items():
                if name != "k":
                    builder.say(name, value, tag=not isinstance(value, (list, dict)))
        return builder.build(dataset_of(source))

    def _samples(self, source: Source, decoder: RecordDecoder[Sample]) -> Iterator[tuple[Sample, int | None]]:
        if "expected_output" in (source.first_object or {}):
            batches = read_batches(source, decoder)
        else:
            value, lines = read_document(source)
            found = value.get("samples") if isinstance(value, dict) else value
            if not isinstance(found, list):
                raise InputError("no list of samples", file=source.label, field="samples", expected="a list", got=found)
            entries = list_entries(found, lines, source.label)
            batches = decode_entries(entries, decoder, source.label)
        for samples, numbers in batches:
            yield from zip(samples, numbers, strict=True)

    def read_run(self, source: Source, options: Options) -> Run:
        return RunLog(source.label, _Outputs(source), options.system)


class _Outputs:
    """Outputs as records of a run log; read again whenever they are iterated."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __iter__(self) -> Iterator[dict[str, Any]]:
        decoder = RecordDecoder(Output)
        for outputs, lines in read_batches(self.source, decoder):
            for output, line in zip(outputs, lines, strict=True):
                yield self._record(output, decoder.extras(output), line)

    def _record(self, output: Output, extras: dict[str, Any], line: int | None) -> dict[str, Any]:
        answer = output.actualOutput if output.actualOutput is not None else output.output
        if answer is None:
            answer = extras.pop("actual_output", None)
        topk = _retrieved(answer, self.source.label, line)
        record = {
            "query_id": output.id,
            "topk": topk,
            "system": output.system,
            "latency_ms": output.latency_ms,
        }
        return {**{k: v for k, v in record.items() if v is not None}, **extras}


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
            file=label,
            line=line,
            field="actualOutput",
            expected='{"retrieved": [{"id": …}, …]} or a list of ids',
            got=answer,
        )
    return answer


def _expected(sample: Sample, label: str, line: int | None) -> tuple[list[str], list[float]]:
    expected: Any = sample.expected_output
    if isinstance(expected, str):
        try:
            expected = msgspec.json.decode(expected)
        except RecursionError as error:
            raise refusal(error, label, line) from error
        except DECODE_ERRORS:
            expected = [expected]
    if isinstance(expected, dict):
        try:
            return [str(i) for i in expected], [float(g) for g in expected.values()]
        except (TypeError, ValueError) as error:
            raise InputError(
                "a gain is no number", file=label, line=line, field="expected_output", got=expected
            ) from error
    if not isinstance(expected, list):
        expected = [expected]
    return [str(i) for i in expected], [1.0] * len(expected)


def _cutoff(metadata: dict[str, Any], label: str, line: int | None) -> int:
    k = metadata.get("k")
    if k is None:
        return 0
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise InputError(
            "bad cutoff",
            file=label,
            line=line,
            field="metadata.k",
            expected="a whole number, 1 or more",
            got=k,
        )
    return k
