"""Records out of JSONL, a JSON list or YAML: decoded into a struct, with unknown fields kept."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np

from karat.data.ids import Ints
from karat.errors import InputError, shorten
from karat.files.decode_errors import DECODE_ERRORS, refusal
from karat.formats.base import Source
from karat.formats.json_columns import Columns, ValueKind, read_columns
from karat.formats.json_lines import LineTable, read_lines

S = TypeVar("S", bound=msgspec.Struct)
Lines: TypeAlias = Sequence[int | None]
Batch: TypeAlias = tuple[list[S], Lines]
Records: TypeAlias = "list[S] | LineTable"  # one by one, or lines that are all alike field by field
# The line of each entry of a list, by the list's id(): of the outermost list, or of those right under a mapping.
EntryLines: TypeAlias = dict[int, list[int]]

_BATCH_BYTES = 1 << 20
_BATCH_RECORDS = 1000
_PATIENCE = 3  # blocks of lines that are not all alike, after which none is expected to be
_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$\[\d+\]`)?$", re.S)
_LEARNT = 100  # more fields than that are no schema but data
_NO_LIST = (b"", b"null")
_UNLEARNABLE = re.compile(r'[\\"\x00-\x1f]')  # what msgspec does not take in the name of a field


class ListField(NamedTuple):
    """A field with a list of objects, the fields to read of them, and other fields with lists of the same kind.

    Fields in `beside` that the struct leaves as JSON (`msgspec.Raw`) are skipped.
    """

    name: str
    fields: Mapping[str, ValueKind]
    beside: tuple[str, ...] = ()


class RecordBatch(NamedTuple, Generic[S]):
    """Some records of a file."""

    records: Records[S]
    lines: Lines
    columns: Mapping[str, Columns] = {}  # lists read as columns, by field; others were decoded with the records
    places: Ints | None = None  # byte offset of each record in its file; None if unknown


class RecordDecoder(Generic[S]):
    """Decodes into `base`; a field that `base` does not know is added to the struct when it first appears.

    So known fields are checked and fast, and no field is lost: those that cannot be added are kept in a dict beside.
    `extra_names` maps attribute → field of those that were added.
    `freed` names a field that means something else here than in `base`: it is treated as one that `base` lacks.
    `lists` names a field whose lists of objects can be read as columns.
    """

    def __init__(self, base: type[S], freed: str | None = None, lists: ListField | None = None) -> None:
        self.base, self._lists = base, lists
        self.extra_names: dict[str, str] = {}
        self._freed = {freed: f"{freed} (unused)"} if freed in base.__struct_fields__ else {}
        self._unlike = 0  # blocks in a row whose lines were not all alike
        self._met: set[str] = set()  # fields that some line of the file has, as far as columns were read
        self._refresh()

    def _refresh(self) -> None:
        self.struct = self._struct(forbid_unknown_fields=True, gc=False)
        self._decoder = msgspec.json.Decoder(self.struct)
        self._outline = msgspec.json.Decoder(self._outline_struct())
        self._loose: type[S] | None = None  # the same with a dict; made when it is needed
        self._decoders: dict[str, Any] = {}  # of single fields; made when they are needed

    def _struct(self, **options: Any) -> type[S]:
        names = {**self._freed, **self.extra_names}
        fields = [(attribute, Any, None) for attribute in names]
        name = self.base.__name__
        return msgspec.defstruct(name, fields, bases=(self.base,), rename=names, kw_only=True, **options)  # type: ignore[return-value]

    def _outline_struct(self) -> type[S]:
        """A struct of the fields that were met, the lists as they are written; the other fields are None for all."""
        met = [f for f in msgspec.structs.fields(self.struct) if f.encode_name in self._met]
        return msgspec.defstruct(  # type: ignore[return-value]
            self.base.__name__,
            [(f.name, *((msgspec.Raw, msgspec.Raw()) if self._is_lists(f.name) else (f.type, None))) for f in met],
            namespace=dict.fromkeys(self.struct.__struct_fields__),
            rename={f.name: f.encode_name for f in met},
            forbid_unknown_fields=True,
            gc=False,
        )

    def _is_lists(self, name: str) -> bool:
        return self._lists is not None and (name == self._lists.name or name in self._lists.beside)

    def decode(self, raw: bytes) -> S:
        return self._decode(lambda kind: msgspec.json.decode(raw, type=kind))

    def convert(self, value: object) -> S:
        try:
            return self._decode(lambda kind: msgspec.convert(value, kind))
        except msgspec.ValidationError as error:
            if "got `numpy." not in str(error):
                raise
            # Scores straight from a retriever are numpy's more often than not.
            plain = msgspec.to_builtins(value, enc_hook=_plain)
            return self._decode(lambda kind: msgspec.convert(plain, kind))

    def _decode(self, into: Callable[[Any], Any]) -> S:
        while True:
            try:
                return into(self.struct)  # type: ignore[no-any-return]
            except msgspec.ValidationError as error:
                unknown = _UNKNOWN.fullmatch(str(error))
                if unknown is None:
                    raise
                if len(self.extra_names) == _LEARNT or _UNLEARNABLE.search(unknown[1]):
                    return self._keep_beside(into)
                self.extra_names[f"extra_{len(self.extra_names)}"] = unknown[1]
                self._refresh()

    def _keep_beside(self, into: Callable[[Any], Any]) -> S:
        if self._loose is None:
            self._loose = self._struct(gc=True, dict=True)
        record: S = into(self._loose)
        known = set(self.struct.__struct_encode_fields__)
        record.__dict__.update({name: value for name, value in into(dict[str, Any]).items() if name not in known})
        return record

    def decode_known_lines(self, block: bytes) -> list[S] | None:
        """All lines of a block at once, or None where one of them needs a closer look."""
        try:
            return self._decoder.decode_lines(block)
        except DECODE_ERRORS:
            return None

    def read_lines(self, block: bytes) -> LineTable | None:
        """All lines of a block as columns, or None where they are not all alike."""
        if self._lists is None or self._freed or self._unlike == _PATIENCE:
            return None
        try:
            first = self.decode(block[: block.find(b"\n") + 1] or block)
        except DECODE_ERRORS:
            return None
        table = None
        if not hasattr(first, "__dict__"):
            lists = (self._lists.name, *self._lists.beside)
            table = read_lines(block, lists, self._lists.fields, self._field_decoders())
        self._unlike = 0 if table is not None else self._unlike + 1
        return table

    def _field_decoders(self) -> dict[str, Any]:
        if not self._decoders:
            fields = msgspec.structs.fields(self.struct)
            self._decoders = {f.encode_name: msgspec.json.Decoder(f.type) for f in fields}
        return self._decoders

    def read_known_lists(self, block: bytes) -> tuple[list[S], dict[str, Columns]] | None:
        """The same, but the lists of objects stay JSON in the records and are read as columns."""
        if self._lists is None:
            return None
        records = self._outlines(block)
        if not records or self._lists.name not in self._met:
            return None
        columns = read_columns([getattr(r, self._lists.name) for r in records], self._lists.fields)
        if columns is None:
            return None
        found = {self._lists.name: columns}
        try:
            for name in self._met.intersection(self._lists.beside):
                self._read_beside(name, records, found)
        except DECODE_ERRORS:
            return None
        return records, found

    def _read_beside(self, name: str, records: list[S], found: dict[str, Columns]) -> None:
        """Read lists that a record may lack (None). They are decoded if they are not all alike."""
        assert self._lists is not None
        decoder = self._field_decoders()[name]
        if decoder.type is msgspec.Raw:
            return
        lists = [bytes(getattr(record, name)) for record in records]
        there = [text not in _NO_LIST for text in lists]
        alike = [text if has_one else b"[]" for text, has_one in zip(lists, there, strict=True)]
        columns = read_columns(alike, self._lists.fields) if any(there) else None
        if columns is not None:
            found[name] = columns
        for record, text, has_one in zip(records, lists, there, strict=True):
            if columns is None or not has_one:
                setattr(record, name, decoder.decode(text) if has_one else None)

    def _outlines(self, block: bytes) -> list[S] | None:
        while True:
            try:
                return self._outline.decode_lines(block)
            except DECODE_ERRORS as error:
                unknown = _UNKNOWN.fullmatch(str(error))
                if unknown is None or unknown[1] not in self.struct.__struct_encode_fields__:
                    return None
                self._met.add(unknown[1])
                self._outline = msgspec.json.Decoder(self._outline_struct())

    def extras(self, record: S) -> dict[str, Any]:
        """The fields of a record that `base` does not know."""
        found = {}
        for attribute, name in self.extra_names.items():
            value = getattr(record, attribute, None)
            if value is not None:
                found[name] = value
        return {**found, **getattr(record, "__dict__", {})}


def _plain(thing: Any) -> Any:
    return thing.item() if hasattr(thing, "item") and not hasattr(thing, "__len__") else shorten(thing)


def column(records: Records[Any], name: str) -> list[Any]:
    """One field of many records; None where they lack it."""
    if isinstance(records, LineTable):
        return records.column(name) if name in records else [None] * len(records)
    return list(map(attrgetter(name), records)) if has_field(records, name) else [None] * len(records)


def has_field(records: Records[Any], name: str) -> bool:
    """False where no record can have the field: none of their file does so far."""
    if isinstance(records, LineTable):
        return name in records
    return not records or name in records[0].__struct_fields__


def pick(records: Records[S], at: Sequence[int]) -> Records[S]:
    return records.pick(at) if isinstance(records, LineTable) else [records[i] for i in at]


def extra_columns(records: Records[Any], extra_names: dict[str, str]) -> dict[str, list[Any]]:
    """The fields of many records that their struct did not know at first, field by field; None where one lacks it."""
    if isinstance(records, LineTable):
        return {name: column(records, name) for name in extra_names.values()}
    columns = {name: [getattr(r, a, None) for r in records] for a, name in extra_names.items()}
    if any(kind.__dictoffset__ for kind in set(map(type, records))):
        for at, record in enumerate(records):
            for name, value in getattr(record, "__dict__", {}).items():
                columns.setdefault(name, [None] * len(records))[at] = value
    return columns


def read_batches(source: Source, decoder: RecordDecoder[S]) -> Iterator[Batch[S]]:
    """Decoded records with their lines, some at a time: small enough that their memory is used again at once."""
    for batch in read_column_batches(source, decoder):
        assert isinstance(batch.records, list)  # a decoder that names no lists reads no lines as columns
        yield batch.records, batch.lines


def read_column_batches(source: Source, decoder: RecordDecoder[S]) -> Iterator[RecordBatch[S]]:
    """The same, with the columns of the decoder's lists and the offsets of the records."""
    if is_json_lines(source):
        yield from _decode_lines(source, decoder)
        return
    value, lines = read_document(source)
    for batch in decode_entries(list_entries(value, lines, source.label), decoder, source.label):
        yield RecordBatch(*batch)


def decode_entries(
    entries: Iterable[tuple[int | None, Any]], decoder: RecordDecoder[S], label: str
) -> Iterator[Batch[S]]:
    records: list[S] = []
    lines: list[int | None] = []
    for line, entry in entries:
        records.append(decode_record(decoder, entry, label, line))
        lines.append(line)
        if len(records) == _BATCH_RECORDS:
            yield records, lines
            records, lines = [], []
    if records:
        yield records, lines


def _decode_lines(source: Source, decoder: RecordDecoder[S]) -> Iterator[RecordBatch[S]]:
    first, begin = 1, source.begin
    for block in whole_lines(source, _BATCH_BYTES):
        table = decoder.read_lines(block)
        starts = line_starts(block) if table is None else table.starts
        lines = range(first, first + len(starts))
        places = starts if begin is None else starts + begin
        if table is not None:
            yield RecordBatch(table, lines, table.columns, None if begin is None else places)
        else:
            for batch in _decode_block(block, lines, places, decoder, source.label):
                yield batch if begin is not None else batch._replace(places=None)
        first += len(starts)
        begin = None if begin is None else begin + len(block)


def _decode_block(
    block: bytes, lines: range, places: Ints, decoder: RecordDecoder[S], label: str
) -> Iterator[RecordBatch[S]]:
    outlined = decoder.read_known_lists(block)
    if outlined is not None and len(outlined[0]) == len(lines):
        yield RecordBatch(outlined[0], lines, outlined[1], places)
    elif (records := decoder.decode_known_lines(block)) is not None and len(records) == len(lines):
        yield RecordBatch(records, lines, {}, places)
    else:
        # A blank line, a field not met before, or a mistake: one by one, to cope or to say where.
        numbered = zip(lines, block.split(b"\n"), strict=False)
        filled = ((line, raw) for line, raw in numbered if raw and not raw.isspace())
        for entries, numbers in decode_entries(filled, decoder, label):
            yield RecordBatch(entries, numbers, {}, places[np.array(numbers) - lines.start])


def line_starts(block: bytes) -> Ints:
    """Where the lines of a block begin."""
    breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
    return np.append(0, breaks[:-1] + 1 if block.endswith(b"\n") else breaks + 1)


def whole_lines(source: Source, size: int) -> Iterator[bytes]:
    """The file in blocks of about `size` bytes that end with a line."""
    with source.open() as stream:
        while block := stream.read(size):
            rest = b"" if block.endswith(b"\n") else stream.readline()
            source.note_parsed(len(block) + len(rest))
            yield block + rest


def read_document(source: Source) -> tuple[Any, EntryLines]:
    """A whole JSON or YAML file."""
    if source.document is not None:
        (value, size), source.document = source.document, None
        source.note_parsed(size)
        return value, {}
    with source.open() as stream:
        text = stream.read()
    source.note_parsed(len(text))
    if source.looks_like_json:
        try:
            return msgspec.json.decode(text), {}
        except DECODE_ERRORS as error:
            raise _document_error(error, text, source.label) from error
    from karat.files.yaml import load_yaml  # PyYAML is slow to import, and most files are no YAML

    return load_yaml(text, source.label)


def list_entries(value: Any, lines: EntryLines, label: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """The entries of a list, or of the list of objects under a mapping (a header may hold other lists)."""
    if isinstance(value, dict):
        lists = [v for v in value.values() if isinstance(v, list)]
        value = next((v for v in lists if v and isinstance(v[0], dict)), lists[0] if lists else value)
    if not isinstance(value, list):
        raise InputError(
            "no list of entries",
            code="wrong-type",
            file=label,
            expected="a list, or a mapping that holds one",
            got=value,
        )
    numbers = lines.get(id(value), [])
    for i, entry in enumerate(value):
        line = numbers[i] if i < len(numbers) else None
        if not isinstance(entry, dict):
            raise InputError(
                f"entry {i + 1} is no object", code="wrong-type", file=label, line=line, expected="an object", got=entry
            )
        yield line, entry


def decode_record(decoder: RecordDecoder[S], entry: bytes | dict[str, Any], label: str, line: int | None) -> S:
    try:
        return decoder.decode(entry) if isinstance(entry, bytes) else decoder.convert(entry)
    except DECODE_ERRORS as error:
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
    except DECODE_ERRORS as error:
        return not ("truncated" in str(error) and b"\n" in source.head.strip())
    return True


def _document_error(error: Exception, text: bytes, label: str) -> InputError:
    if not isinstance(error, msgspec.DecodeError):
        return refusal(error, label, None)
    at = re.search(r"byte (\d+)", str(error))
    line = text.count(b"\n", 0, int(at[1]) if at else len(text.rstrip())) + 1
    return InputError(f"not JSON: {error}", code="not-json", file=label, line=line)
