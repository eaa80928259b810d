"""Shared by all readers: opening files, and the base class of formats."""

from __future__ import annotations

import gc
import re
from abc import ABC
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import msgspec

from karat.data.gold import Gold
from karat.data.hits import Run
from karat.data.ids import Ints
from karat.errors import InputError, did_you_mean
from karat.files.decode_errors import DECODE_ERRORS
from karat.files.streams import BoundedLines, Window, is_compressed, open_content, open_plain, unreadable

T = TypeVar("T")
Kind = Literal["run", "gold"]
# Lists of a run log: the final ones, those before reranking, those of the query before rewriting.
Lists = Literal["topk", "raw", "topk_original"]

_BOM = b"\xef\xbb\xbf"
_HEAD = 1 << 16
IR_DATASETS = "ir_datasets:"  # and the name of a dataset of that package, instead of a path
LARGE = 50 << 20  # bytes of a file from which on a thread reads ahead
_LITTLE = 1 << 20  # bytes of a file that are hashed without OpenSSL
_STANDARD_INPUT = Path("/dev/stdin")
KEPT = 8 << 20  # bytes of hits kept until it is clear whether queries come back

SWAPPED = "did you swap run and gold? Use `karat eval RUN --gold GOLD`, or `karat.evaluate(run, gold)`"


class ReadOptions(msgspec.Struct, frozen=True):
    """Options of readers."""

    target: str | None = None  # field that holds the target of a single-target set
    split: str = "test"  # which qrels of a BEIR folder
    system: str | None = None  # read only this system of a run
    hits: Lists = "topk"  # which lists of a run log
    layout: Any = None  # of a table: which column has which role (formats/layout.py)
    query_from: Literal["retriever", "root"] = "retriever"  # of traces: the span with the question
    fields: Any = None  # of traces: the user's field map (formats/field_map.py)


class ParsedBytes:
    """Counts the bytes of run files that were passed to a parser, after decompression.

    The head of a file, used to recognise its format, is not counted. Other processes have their own count.
    """

    def __init__(self) -> None:
        self.bytes: int = 0  # since the last reset

    def add(self, size: int) -> None:
        self.bytes += size

    def reset(self) -> None:
        self.bytes = 0


PARSED = ParsedBytes()


class SourcePlace(NamedTuple):
    """The place that something was read from."""

    file: str
    line: int | None

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def error(self, what: str, **about: Any) -> InputError:
        return InputError(what, file=self.file, line=self.line, **about)


class Begun(Generic[T]):
    """The pieces of a run read so far, as long as they are small, and the rest. If the hits of a query turn out
    not to be together, all pieces are grouped, and none is read again."""

    def __init__(self, rest: Iterator[T]) -> None:
        self.rest = rest
        self._kept: list[T] = []
        self._room = KEPT

    @property
    def is_whole(self) -> bool:
        return self._room >= 0

    def keep(self, piece: T, size: int) -> None:
        """Add a piece of `rest`, and its size in memory."""
        self._room -= size
        self._kept.append(piece)
        if not self.is_whole:
            self._kept.clear()

    def __iter__(self) -> Iterator[T]:
        """All pieces, once."""
        kept, self._kept = self._kept, []
        yield from kept
        yield from self.rest


def changed_while_read(label: str) -> InputError:
    hint = "run the command again"
    return InputError("the file changed while it was being read", code="changed-while-read", file=label, hint=hint)


class Source:
    """A file (or folder) to read, with its first bytes."""

    def __init__(self, path: str | Path, *, is_run: bool = False) -> None:
        """`is_run`: count parsed bytes in PARSED."""
        self.path: Path = Path(path)
        self.label: str = str(path)
        self.is_run = is_run
        self.document: tuple[Any, int] | None = None  # value and size, if recognition parsed the whole file
        self.wants_lines = False  # whether to find the lines of entries in a JSON document: only after an error
        if self.label.startswith(IR_DATASETS):
            from karat.formats.ir_datasets import fetched

            self.path = fetched(self.label, "run" if is_run else "gold")
        try:
            there = self.path.exists()
            if not there and self.label == "-":
                self.path, there = _STANDARD_INPUT, True
            is_pipe = self.path.is_fifo() or self.path.is_socket()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(
                f"not a path: {reason}", code="bad-path", got=self.label, hint="give a file name"
            ) from error
        if is_pipe:
            from karat.formats.pipes import copied

            self.path = copied(self.path, self.label)
        elif not there:
            raise InputError("no such file", code="no-such-file", file=self.label, hint=_nearby(self.path))

    @property
    def is_folder(self) -> bool:
        return self.path.is_dir()

    def open(self) -> IO[bytes]:
        """The content, decompressed, without a byte order mark."""
        try:
            stream = self._decompressed()
            if stream.read(3) != _BOM:
                stream.seek(0)
        except OSError as error:
            raise unreadable(self.label, error) from error
        return stream

    @cached_property
    def begin(self) -> int | None:
        """Byte offset of its text; None if the file is compressed and cannot be read from the middle."""
        if not self.path.is_file():
            return None
        with self.path.open("rb") as raw:
            opening = raw.read(4)
        return None if is_compressed(opening) else len(_BOM) if opening.startswith(_BOM) else 0

    @property
    def reads_ahead(self) -> bool:
        """Whether it is large enough for a thread that reads ahead."""
        return self.path.stat().st_size >= LARGE

    @property
    def size(self) -> int | None:
        """Current size of its text in bytes; None if the file is compressed."""
        return None if self.begin is None else self.path.stat().st_size - self.begin

    def refuse_shorter(self, size: int | None, read: int) -> None:
        """Raise if less was read than the file held: it was truncated meanwhile."""
        if size is not None and read < size:
            raise changed_while_read(self.label)

    def lines_at(self, places: Ints) -> Iterator[bytes]:
        """Read the lines that begin at these byte offsets."""
        with self.path.open("rb") as raw:
            for place in places.tolist():
                raw.seek(place)
                line = raw.readline()
                self.note_parsed(len(line))
                yield line

    def holds(self, text: bytes) -> bool:
        """Whether this occurs anywhere in its text. A search is many times faster than reading records."""
        with self.open() as stream:
            end = b""
            while block := stream.read(1 << 20):
                if text in block or text in end + block[: len(text)]:
                    return True
                end = block[-len(text) :]
        return False

    def note_parsed(self, size: int) -> None:
        if self.is_run:
            PARSED.add(size)

    def _decompressed(self) -> IO[bytes]:
        if self.is_folder:
            raise InputError(
                "this is a folder", code="is-a-folder", file=self.label, expected="a file, or a BEIR folder with qrels/"
            )
        return open_content(self.path, self.label)

    @cached_property
    def head(self) -> bytes:
        if self.is_folder:
            return b""
        with self.open() as stream:
            head = stream.read(_HEAD)
            while len(head) == _HEAD and head.isspace():  # blank lines come first
                head = stream.read(_HEAD)
            return head

    @cached_property
    def first_line(self) -> bytes:
        """First line that is not blank (cut at the head's length)."""
        return next((line.strip() for line in self.head.split(b"\n") if line.strip()), b"")

    @cached_property
    def first_object(self) -> dict[str, Any] | None:
        """The first line as a JSON object, if it is one; long values are only outlined."""
        if not self.first_line.startswith(b"{"):
            return None
        try:
            line, is_all = self._whole_first_line()
            if is_all:
                return self._object_of_only_line(line)
            fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            return {name: _outline(raw) for name, raw in fields.items()}
        except DECODE_ERRORS:
            return self._object_of_broken_line()

    def _whole_first_line(self) -> tuple[bytes, bool]:
        """The first line, and whether it is longer than the head and the only line."""
        if len(self.head) < _HEAD or b"\n" in self.head.lstrip():
            return self.first_line, False
        with self.open() as stream:
            line = next(line.strip() for line in stream if line.strip())
            return line, not stream.read(1)

    def _object_of_only_line(self, line: bytes) -> dict[str, Any]:
        """A file with one long line is usually one mapping. It is kept, so that it is not parsed again."""
        found: dict[str, Any] = msgspec.json.decode(line)
        if {"query_id", "topk"} & set(found):
            return found
        self.document = found, len(line)
        return {name: _outline_of_value(value) for name, value in found.items()}

    def _object_of_broken_line(self) -> dict[str, Any] | None:
        """Keys of a first line that is invalid further on."""
        found = re.findall(rb'"(query_id|topk|gold|actualOutput|samples|id|query)"\s*:', self.first_line)
        return {key.decode(): None for key in found} if found else None

    @property
    def is_parquet(self) -> bool:
        return self.head[:4] == b"PAR1"

    @property
    def looks_like_json(self) -> bool:
        return self.first_line[:1] in (b"{", b"[")

    def refuse_nonsense(self) -> None:
        """Reject empty and binary files before any reader tries."""
        if self.is_folder or self.is_parquet:
            return
        if not self.head.strip():
            raise InputError("the file is empty", code="empty-file", file=self.label)
        zipped = self.head.startswith(b"PK\x03\x04")  # so does a workbook
        if b"\x00" in self.head or zipped:
            what = "this is a workbook or a zip archive" if zipped else "this is a binary file"
            expected = "text (JSONL, JSON, YAML, TREC, CSV, TSV; also .gz and .zst), Parquet or a BEIR folder"
            hint = "save the sheet as CSV, or unpack the archive" if zipped else None
            raise InputError(what, code="binary-file", file=self.label, expected=expected, hint=hint)

    def content_hash(self) -> str:
        digest = _sha256(little=self.size is not None and self.size < _LITTLE)
        with self.open() as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        return f"sha256:{digest.hexdigest()[:16]}"


def _sha256(*, little: bool) -> Any:
    """SHA-256. OpenSSL is faster, but loading it takes longer than hashing a little text."""
    if little:
        for name in ("_sha2", "_sha256"):  # of Python itself: from 3.12 on, and before
            with suppress(ImportError):
                return import_module(name).sha256()
    import hashlib

    return hashlib.sha256()


class SourcePart(Source):
    """Some whole lines of a file. The format is recognised from the head of the whole file."""

    def __init__(self, whole: Source, start: int, stop: int) -> None:
        super().__init__(whole.path, is_run=whole.is_run)
        self.label: str = whole.label
        self._start = start
        self._stop = stop
        self.head, self.begin = whole.head, start

    @property
    def reads_ahead(self) -> bool:
        return False  # other cores read other parts

    @property
    def size(self) -> int | None:
        return self._stop - self._start

    def open(self) -> IO[bytes]:
        return BoundedLines(Window(self.path.open("rb"), self._start, self._stop), self.label, 1 << 20)


def source_parts(source: Source, least: int, key: Callable[[bytes], bytes] | None = None) -> list[Source] | None:
    """A file split where a line begins whose `key` differs from that of the line before; None where it is too small,
    compressed, or not a file."""
    if source.begin is None or (size := source.path.stat().st_size) < 2 * least:
        return None
    cuts = [source.begin]
    with open_plain(source.path, source.label) as raw:
        while cuts[-1] + 2 * least < size:
            cuts.append(_line_start(raw, cuts[-1] + least, key))
    cuts.append(size)
    return [SourcePart(source, start, stop) for start, stop in pairwise(cuts) if start < stop]


def _line_start(raw: IO[bytes], at: int, key: Callable[[bytes], bytes] | None) -> int:
    raw.seek(at)
    raw.readline()
    if key is None:
        return raw.tell()
    first = key(raw.readline())
    place = raw.tell()
    while (line := raw.readline()) and key(line) == first:
        place = raw.tell()
    return place


def _outline(raw: msgspec.Raw) -> Any:
    """A value, or only its kind if it is long."""
    text = memoryview(raw)
    if len(text) < _HEAD:
        return msgspec.json.decode(text)
    if text[0] == ord("["):
        return [{}] if re.match(rb"\[\s*\{", text) else [""]
    return {} if text[0] == ord("{") else ""


def _outline_of_value(value: Any) -> Any:
    """The same for a decoded value; lists and objects are always outlined."""
    if isinstance(value, list):
        return [{}] if value and isinstance(value[0], dict) else value[:1]
    return {} if isinstance(value, dict) else value


class Format(ABC):
    """One file format. A subclass reads runs, gold sets, or both."""

    name: ClassVar[str]
    kinds: ClassVar[frozenset[Kind]]
    takes_target: ClassVar[bool] = False  # whether --target applies
    order: ClassVar[int] = 50  # formats with lower numbers are tried first

    def recognises(self, source: Source, kind: Kind) -> bool:
        raise NotImplementedError

    def read_run(self, source: Source, options: ReadOptions) -> Run:
        raise NotImplementedError

    def read_gold(self, source: Source, options: ReadOptions) -> Gold:
        raise NotImplementedError


def _nearby(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist either"
    names = sorted(p.name for p in folder.iterdir())[:200]
    return did_you_mean(path.name, names) or "check the path"


@contextmanager
def no_gc() -> Iterator[None]:
    """Pause garbage collection: looking for cycles among millions of small objects takes half the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            is_due = gc.get_count()[0] > gc.get_threshold()[0]
            if is_due and not gc.get_freeze_count():  # what was made counts as old: looking at it would find no cycles
                gc.freeze()
                gc.unfreeze()
            gc.enable()
