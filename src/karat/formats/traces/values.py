"""The values of an export of spans: lines, a JSON document, several documents in a row, rows of a table, or objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from karat.errors import InputError, shorten
from karat.files.decode_errors import DECODE_ERRORS, refusal
from karat.formats.base import Source, SourcePlace
from karat.formats.blocks import whole_lines
from karat.formats.layout import is_span_table
from karat.formats.mapped import container, plain_records
from karat.formats.records import is_json_lines, read_document
from karat.formats.tool_parts import cell
from karat.formats.traces.forms import is_span

_BLOCK = 1 << 20


class HeldSpans(NamedTuple):
    """Spans that are objects in memory."""

    label: str
    values: list[dict[str, Any]]


def spans_in_memory(given: Any) -> HeldSpans | None:
    """Spans in a list or a frame: dicts, rows of a table, or objects of a tool; None if these are none."""
    if isinstance(given, (list, tuple)):
        first = next(iter(given), None)
        if not isinstance(first, dict) and not _can_be_written(first):
            return None
        if is_span(first if isinstance(first, dict) else _written(first)):
            return HeldSpans("run", [one if isinstance(one, dict) else _written(one) for one in given])
        return None
    can_list = hasattr(given, "to_dicts") or hasattr(given, "iterrows")  # a frame of polars or pandas
    if not can_list or not is_span_table(map(str, given.columns)):
        return None
    rows = given.to_dict("records") if hasattr(given, "iterrows") else given.to_dicts()
    return HeldSpans("run", [{str(name): _plain(value) for name, value in row.items()} for row in rows])


def _plain(value: Any) -> Any:
    """A value without numpy, in which pandas keeps lists that it read from Parquet."""
    if hasattr(value, "tolist") and not isinstance(value, (str, bytes)):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _can_be_written(one: Any) -> bool:
    """Whether it is a span or trace of MLflow, OpenTelemetry or LangSmith, by what it can do."""
    return any(callable(getattr(one, name, None)) for name in ("to_json", "model_dump_json"))


def _written(one: Any) -> dict[str, Any]:
    text = one.to_json() if hasattr(one, "to_json") else one.model_dump_json()
    value = json.loads(text)
    return value if isinstance(value, dict) else {}


def span_values(source: Source | HeldSpans) -> Iterator[tuple[int | None, Any]]:
    """Every value, with its line."""
    if isinstance(source, HeldSpans):
        yield from enumerate(source.values, 1)
    elif container(source) == "table":
        for line, row in plain_records(source):
            yield line, {name: cell(value) for name, value in row.items()}
    elif is_json_lines(source):
        yield from _lines(source)
    else:
        yield from _documents(source)


def _lines(source: Source) -> Iterator[tuple[int | None, Any]]:
    line = 0
    for block in whole_lines(source, _BLOCK):
        for raw in block.split(b"\n")[: None if not block.endswith(b"\n") else -1]:
            line += 1
            if raw and not raw.isspace():
                try:
                    value = msgspec.json.decode(raw)
                except DECODE_ERRORS as error:
                    raise refusal(error, source.label, line, raw) from error
                yield line, value


def _documents(source: Source) -> Iterable[tuple[int | None, Any]]:
    """One document, or several in a row, as OpenTelemetry's console exporter writes them."""
    try:
        return [(None, read_document(source)[0])]
    except InputError as error:
        with source.open() as stream:
            text = stream.read().decode("utf-8-sig", "replace")
        found, at, line = list[tuple[int | None, Any]](), 0, 1
        decode = json.JSONDecoder().raw_decode
        while rest := text[at : at + 1]:
            if not rest.isspace():
                try:
                    value, end = decode(text, at)
                except (ValueError, RecursionError):
                    if not found:
                        raise error from None
                    place, got = SourcePlace(source.label, line), shorten(text[at : at + 60], 60)
                    raise place.error("not JSON", code=error.code, got=got) from None
                found.append((line, value))
            else:
                end = at + 1
            line, at = line + text.count("\n", at, end), end
        return found
