"""Records out of JSONL, a JSON list or YAML: decoded into a struct, with unknown fields kept."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import msgspec

from karat.errors import InputError
from karat.formats.base import Source, refusal
from karat.formats.yaml_io import load_yaml

S = TypeVar("S", bound=msgspec.Struct)

_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$", re.S)


class RecordDecoder(Generic[S]):
    """Decodes into `base`; a field that `base` does not know is added to the struct when it first appears.

    So known fields are checked and fast, and no field is lost. `extra_names` maps attribute → field.
    """

    def __init__(self, base: type[S]) -> None:
        self.base = base
        self.extra_names: dict[str, str] = {}
        self._refresh()

    def _refresh(self) -> None:
        self.struct: type[S] = msgspec.defstruct(  # type: ignore[assignment]
            self.base.__name__,
            [(attribute, Any, None) for attribute in self.extra_names],
            bases=(self.base,),
            rename=self.extra_names,
            forbid_unknown_fields=True,
            kw_only=True,
            gc=False,
        )
        self._decode = msgspec.json.Decoder(self.struct).decode

    def _learn(self, error: msgspec.ValidationError) -> bool:
        unknown = _UNKNOWN.fullmatch(str(error))
        if unknown is None:
            return False
        self.extra_names[f"extra_{len(self.extra_names)}"] = unknown[1]
        self._refresh()
        return True

    def decode(self, raw: bytes) -> S:
        while True:
            try:
                return self._decode(raw)
            except msgspec.ValidationError as error:
                if not self._learn(error):
                    raise

    def convert(self, value: object) -> S:
        while True:
            try:
                return msgspec.convert(value, self.struct)
            except msgspec.ValidationError as error:
                if not self._learn(error):
                    raise

    def extras(self, record: S) -> dict[str, Any]:
        found = {}
        for attribute, name in self.extra_names.items():
            value = getattr(record, attribute, None)
            if value is not None:
                found[name] = value
        return found


def read_objects(source: Source) -> Iterator[tuple[int | None, bytes | dict[str, Any]]]:
    """(line, record) for every record: raw bytes from JSONL, a dict from a JSON list or YAML."""
    if is_json_lines(source):
        return read_json_lines(source)
    value, lines = read_document(source)
    return list_entries(value, lines, source.label)


def read_json_lines(source: Source) -> Iterator[tuple[int | None, bytes]]:
    with source.open() as stream:
        try:
            for line, raw in enumerate(stream, 1):
                if not raw.isspace():
                    yield line, raw
        except (OSError, EOFError) as error:
            raise source.unreadable(error) from error


def read_document(source: Source) -> tuple[Any, list[int]]:
    """A whole JSON or YAML file."""
    with source.open() as stream:
        text = stream.read()
    if source.looks_like_json:
        try:
            return msgspec.json.decode(text), []
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise _document_error(error, text, source.label) from error
    return load_yaml(text, source.label)


def list_entries(value: Any, lines: list[int], label: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
    if isinstance(value, dict):
        value = next((v for v in value.values() if isinstance(v, list)), value)
    if not isinstance(value, list):
        raise InputError("no list of entries", file=label, expected="a list, or a mapping that holds one", got=value)
    for i, entry in enumerate(value):
        line = lines[i] if i < len(lines) else None
        if not isinstance(entry, dict):
            raise InputError(f"entry {i + 1} is no object", file=label, line=line, expected="an object", got=entry)
        yield line, entry


def decode_record(decoder: RecordDecoder[S], entry: bytes | dict[str, Any], label: str, line: int | None) -> S:
    try:
        return decoder.decode(entry) if isinstance(entry, bytes) else decoder.convert(entry)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise refusal(error, label, line, entry) from error


@contextmanager
def no_gc() -> Iterator[None]:
    """Millions of small objects that live on: looking for cycles among them costs half the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def is_json_lines(source: Source) -> bool:
    """One JSON object a line, not one value over the whole file (a list, or an unfinished first line)."""
    if not source.first_line.startswith(b"{"):
        return False
    try:
        msgspec.json.decode(source.first_line)
    except msgspec.DecodeError as error:
        return not ("truncated" in str(error) and b"\n" in source.head.strip())
    return True


def _document_error(error: Exception, text: bytes, label: str) -> InputError:
    at = re.search(r"byte (\d+)", str(error))
    line = None if at is None else text.count(b"\n", 0, int(at[1])) + 1
    return InputError(f"not JSON: {error}", file=label, line=line)
