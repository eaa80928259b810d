"""Records from JSONL, a JSON list or YAML: decoded into a struct, with unknown fields kept."""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np

from karat.data.ids import Ints
from karat.errors import InputError, shorten
from karat.files.decode_errors import DECODE_ERRORS, refusal
from karat.files.limits import largest_line
from karat.files.native import native
from karat.formats.base import Source, SourcePlace
from karat.formats.blocks import cut_blocks, line_starts, read_ahead
from karat.formats.json_lines import Columns, LineReader, LineTable, ListField

S = TypeVar("S", bound=msgspec.Struct)
Lines: TypeAlias = Sequence[int | None]
Batch: TypeAlias = tuple[list[S], Lines]
Records: TypeAlias = "list[S] | LineTable"  # one by one, or field by field where all lines are alike
# The line of each entry of a list, by the list's id(): of the outermost list, or of those directly in a mapping.
EntryLines: TypeAlias = dict[int, list[int]]

_BETWEEN = re.compile(r"[\s,:]*")  # what separates the values of a JSON document
_BATCH_BYTES = 1 << 18  # the records of a batch fit in the cache of a core
_COLUMN_BATCHES = 32  # blocks that are read as columns are this many times as large
_BATCH_RECORDS = 1000
_PATIENCE = 3  # failed attempts to read blocks as columns, after which none is tried
_UNKNOWN = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$\[\d+\]`)?$", re.S)
_LEARNT = 100  # more fields than this are data, not a schema
_UNLEARNABLE = re.compile(r'[\\"\x00-\x1f]')  # what msgspec does not accept in a field name


class RecordList(list[S]):
    """Records of one type. All fields are taken out at once, when the first is asked for: a fourth of the work."""

    @cached_property
    def fields(self) -> dict[str, tuple[Any, ...]]:
        return dict(zip(self[0].__struct_fields__, zip(*map(msgspec.structs.astuple, self), strict=True), strict=True))

    def free(self) -> None:
        """Drop the records once they were used, so that the next take the same memory, which is in the cache."""
        self.clear()
        vars(self).clear()


class RecordBatch(NamedTuple, Generic[S]):
    """Some records of a file."""

    records: Records[S]
    lines: Lines
    columns: Mapping[str, Columns] = {}  # lists read as columns, by field; others were decoded with the records
    places: Ints | None = None  # byte offset of each record in its file; None if unknown
    written: bytes = b""  # the lines, where they were not read as columns


class RecordDecoder(Generic[S]):
    """Decodes into `base`; a field that `base` lacks is added to the struct when it first appears.

    So known fields are checked and fast, and no field is lost: those that cannot be added are kept in a separate dict.
    `extra_names` maps attribute → field of those that were added.
    `freed` names a field with another meaning than in `base`: it is treated as unknown.
    `lists` names a field whose lists of objects can be read as columns.
    """

    def __init__(self, base: type[S], freed: str | None = None, lists: ListField | None = None) -> None:
        self.base, self._lists = base, lists
        self.extra_names: dict[str, str] = {}
        self._freed = {freed: f"{freed} (unused)"} if freed in base.__struct_fields__ else {}
        self._unlike = 0  # consecutive blocks that could not be read as columns
        self._learning = threading.Lock()
        self._refresh()

    def _refresh(self) -> None:
        self.struct = self._struct(forbid_unknown_fields=True, gc=False)
        self._decoder = msgspec.json.Decoder(self.struct)
        self._loose: type[S] | None = None  # the same with a dict; created on demand
        self._readers = threading.local()  # one per thread, created on demand

    def _struct(self, **options: Any) -> type[S]:
        names = {**self._freed, **self.extra_names}
        fields = [(attribute, Any, None) for attribute in names]
        name = self.base.__name__
        return msgspec.defstruct(name, fields, bases=(self.base,), rename=names, kw_only=True, **options)  # type: ignore[return-value]

    def decode(self, raw: bytes) -> S:
        return self._decode(lambda kind: msgspec.json.decode(raw, type=kind))

    def convert(self, value: object) -> S:
        try:
            return self._decode(lambda kind: msgspec.convert(value, kind))
        except msgspec.ValidationError as error:
            if "got `numpy." not in str(error):
                raise
            # Scores from a retriever are often numpy values.
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
                self._learn(unknown[1])

    def _learn(self, name: str) -> None:
        """Add a field, unless another thread has just done so."""
        with self._learning:
            if name not in self.extra_names.values():
                self.extra_names[f"extra_{len(self.extra_names)}"] = name
                self._refresh()

    def _keep_beside(self, into: Callable[[Any], Any]) -> S:
        if self._loose is None:
            self._loose = self._struct(gc=True, dict=True)
        record: S = into(self._loose)
        known = set(self.struct.__struct_encode_fields__)
        record.__dict__.update({name: value for name, value in into(dict[str, Any]).items() if name not in known})
        return record

    def decode_known_lines(self, block: bytes) -> list[S] | None:
        """All lines of a block at once, or None where they must be read one by one."""
        try:
            return RecordList(self._decoder.decode_lines(block))
        except DECODE_ERRORS:
            return None

    @property
    def reads_columns(self) -> bool:
        """Whether `read_lines` may read a block."""
        return self._lists is not None and not self._freed and self._unlike < _PATIENCE and native() is not None

    def read_lines(self, block: bytes, size: int | None = None) -> LineTable | None:
        """All lines of a block as columns, or None where the plain reader must read them. `size`: how many bytes of the
        block count; all, if None."""
        if self._lists is None or not self.reads_columns:
            return None
        size = len(block) if size is None else size
        readers = self._readers
        found = self._line_reader(self._lists, readers).read(block, size)
        while isinstance(found, int):
            end = block.find(b"\n", found, size)
            try:
                self.decode(block[found : size if end < 0 else end])
            except DECODE_ERRORS:
                break
            if readers is self._readers:  # nothing was learned, by no thread
                break
            readers = self._readers
            found = self._line_reader(self._lists, readers).read(block, size)
        table = None if isinstance(found, int) else found
        self._unlike = 0 if table is not None else self._unlike + 1
        return table

    def _line_reader(self, lists: ListField, readers: threading.local) -> LineReader:
        if not hasattr(readers, "reader"):
            fields = msgspec.structs.fields(self.struct)
            readers.reader = LineReader(lists, {f.encode_name: msgspec.json.Decoder(f.type) for f in fields})
        reader: LineReader = readers.reader
        return reader

    def extras(self, record: S) -> dict[str, Any]:
        """The fields of a record that `base` does not have."""
        named = ((name, getattr(record, attribute, None)) for attribute, name in self.extra_names.items())
        found = {name: value for name, value in named if value is not None}
        return {**found, **getattr(record, "__dict__", {})}


def _plain(thing: Any) -> Any:
    return thing.item() if hasattr(thing, "item") and not hasattr(thing, "__len__") else shorten(thing)


def column(records: Records[Any], name: str) -> list[Any]:
    """One field of many records; None where they lack it."""
    if isinstance(records, LineTable):
        return records.column(name) if name in records else [None] * len(records)
    if not has_field(records, name):
        return [None] * len(records)
    return list(records.fields[name] if isinstance(records, RecordList) and records else map(attrgetter(name), records))


def values_if_any(records: Records[Any], name: str) -> list[Any]:
    """One field of many records; empty where no record has it."""
    values = column(records, name) if has_field(records, name) else []
    return [] if values.count(None) == len(values) else values


def only_value(records: Records[Any], name: str) -> list[Any] | None:
    """The value of a field that all records have alike or lack, in a list; None where it has to be looked for."""
    if not isinstance(records, LineTable) or not len(records):
        return None
    return [None] if name not in records else records.values[name][:1] if name in records.alike else None


def different(records: Records[Any], name: str) -> list[Any]:
    """The different values of a field, in order of appearance; some perhaps more than once."""
    return records.different(name) if isinstance(records, LineTable) and name in records else column(records, name)


def has_field(records: Records[Any], name: str) -> bool:
    """False where no record can have the field, because none in the file has had it so far."""
    if isinstance(records, LineTable):
        return name in records
    return not records or name in records[0].__struct_fields__


def pick(records: Records[S], at: Sequence[int]) -> Records[S]:
    return records.pick(at) if isinstance(records, LineTable) else [records[i] for i in at]


def extra_columns(records: Records[Any], extra_names: dict[str, str]) -> dict[str, list[Any]]:
    """The added fields of many records, field by field; None where a record lacks one."""
    if isinstance(records, LineTable):
        return {name: column(records, name) for name in extra_names.values()}
    if isinstance(records, RecordList):
        return {name: column(records, attribute) for attribute, name in extra_names.items()}
    columns = defaultdict(
        lambda: [None] * len(records),
        {name: [getattr(r, a, None) for r in records] for a, name in extra_names.items()},
    )
    if any(kind.__dictoffset__ for kind in set(map(type, records))):
        for at, record in enumerate(records):
            for name, value in getattr(record, "__dict__", {}).items():
                columns[name][at] = value
    return dict(columns)


def read_records(source: Source, decoder: RecordDecoder[S]) -> Iterator[tuple[S, SourcePlace]]:
    """Every record with its place."""
    for batch in read_column_batches(source, decoder):
        assert isinstance(batch.records, list)  # without named lists, no lines are read as columns
        for record, line in zip(batch.records, batch.lines, strict=True):
            yield record, SourcePlace(source.label, line)


def read_column_batches(source: Source, decoder: RecordDecoder[S], *, ahead: bool = False) -> Iterator[RecordBatch[S]]:
    """Records some at a time: few enough that their memory is reused quickly. `ahead`: blocks may be read by another
    thread."""
    if is_json_lines(source):
        yield from _decode_lines(source, decoder, ahead=ahead)
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


def _decode_lines(source: Source, decoder: RecordDecoder[S], *, ahead: bool) -> Iterator[RecordBatch[S]]:
    first, begin = 1, source.begin
    whole = (
        max(_BATCH_BYTES, min(_BATCH_BYTES * _COLUMN_BATCHES, largest_line()))
        if decoder.reads_columns
        else _BATCH_BYTES
    )

    def read(cut: tuple[bytes, int]) -> tuple[bytes, int, LineTable | None]:
        return *cut, decoder.read_lines(*cut)

    blocks = cut_blocks(source, whole, lambda block: block.rfind(b"\n") + 1)
    for block, size, table in read_ahead(blocks, read) if ahead and decoder.reads_columns else map(read, blocks):
        if table is not None:
            lines, places = range(first, first + len(table)), None if begin is None else table.starts + begin
            yield RecordBatch(table, lines, table.columns, places)
            first += len(table)
        else:
            at = 0
            for piece in _pieces(block, size):  # few records at a time: their memory is reused quickly
                starts = line_starts(piece)
                lines, places = range(first, first + len(starts)), starts + at + (begin or 0)
                for batch in _decode_block(piece, lines, places, decoder, source.label):
                    yield batch._replace(places=None if begin is None else batch.places, written=piece)
                first, at = first + len(starts), at + len(piece)
        begin = None if begin is None else begin + size


def _pieces(block: bytes, size: int) -> Iterator[bytes]:
    """Whole lines of a block."""
    at = 0
    while at < size:
        end = size if size - at <= _BATCH_BYTES else block.find(b"\n", at + _BATCH_BYTES - 1, size) + 1 or size
        yield block[at:end]
        at = end


def _decode_block(
    block: bytes, lines: range, places: Ints, decoder: RecordDecoder[S], label: str
) -> Iterator[RecordBatch[S]]:
    if (records := decoder.decode_known_lines(block)) is not None and len(records) == len(lines):
        yield RecordBatch(records, lines, {}, places)
    else:
        # A blank line, a new field or an error: read one by one, to handle it or to report its line.
        numbered = zip(lines, block.split(b"\n"), strict=False)
        filled = ((line, raw) for line, raw in numbered if raw and not raw.isspace())
        for entries, numbers in decode_entries(filled, decoder, label):
            yield RecordBatch(entries, numbers, {}, places[np.array(numbers) - lines.start])


def read_document(source: Source) -> tuple[Any, EntryLines]:
    """A whole JSON or YAML file."""
    if source.document is not None and not source.wants_lines:
        (value, size), source.document = source.document, None
        source.note_parsed(size)
        return value, {}
    with source.open() as stream:
        text = stream.read()
    source.note_parsed(len(text))
    if source.looks_like_json:
        try:
            value = msgspec.json.decode(text)
            return value, _entry_lines(text.decode("utf-8", "replace"), value) if source.wants_lines else {}
        except DECODE_ERRORS as error:
            raise _document_error(error, text, source.label) from error
    from karat.files.yaml import load_yaml  # PyYAML is slow to import, and most files are not YAML

    return load_yaml(text, source.label)


def _entry_lines(text: str, value: Any) -> EntryLines:
    """Lines of the entries of a list, or of the lists in a mapping, in a JSON document."""
    decode, lines = json.JSONDecoder().raw_decode, EntryLines()

    def after(at: int) -> int:
        found = _BETWEEN.match(text, at)
        return at if found is None else found.end()

    def entries(listed: list[Any], at: int) -> int:
        """From the place after the bracket to the place after the list."""
        numbers = lines.setdefault(id(listed), [])
        line, counted = 1, 0
        while text[at := after(at)] != "]":
            line, counted = line + text.count("\n", counted, at), at
            numbers.append(line)
            at = decode(text, at)[1]
        return at + 1

    at = after(0) + 1
    if isinstance(value, list):
        entries(value, at)
    elif isinstance(value, dict):
        while text[at := after(at)] != "}":
            name, at = decode(text, at)
            at = after(at)
            at = entries(value[name], at + 1) if text[at] == "[" else decode(text, at)[1]
    return lines


def list_entries(value: Any, lines: EntryLines, label: str) -> Iterator[tuple[int | None, dict[str, Any]]]:
    """The entries of a list, or of the list of objects in a mapping (a header may hold other lists)."""
    if isinstance(value, dict):
        lists = [v for v in value.values() if isinstance(v, list)]
        value = next((v for v in lists if v and isinstance(v[0], dict)), lists[0] if lists else value)
    if not isinstance(value, list):
        expected = "a list, or a mapping that holds one"
        raise InputError("no list of entries", code="wrong-type", file=label, expected=expected, got=value)
    numbers = lines.get(id(value), [])
    for i, entry in enumerate(value):
        line = numbers[i] if i < len(numbers) else None
        if not isinstance(entry, dict):
            raise InputError(
                f"entry {i + 1} is not an object",
                code="wrong-type",
                file=label,
                line=line,
                expected="an object",
                got=entry,
            )
        yield line, entry


def decode_record(decoder: RecordDecoder[S], entry: bytes | dict[str, Any], label: str, line: int | None) -> S:
    try:
        return decoder.decode(entry) if isinstance(entry, bytes) else decoder.convert(entry)
    except DECODE_ERRORS as error:
        raise refusal(error, label, line, entry) from error


def is_json_lines(source: Source) -> bool:
    """Whether there is one JSON object per line, not one value over the whole file."""
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


def decodable(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The lines that are JSON objects."""
    for line in lines:
        try:
            found = msgspec.json.decode(line)
        except DECODE_ERRORS:
            continue
        if isinstance(found, dict):
            yield found
