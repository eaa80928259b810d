"""What every reader shares: opening files, recognising formats, and turning parser complaints into errors."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
from abc import ABC
from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, ClassVar, Literal

import msgspec

from karat.errors import InputError, MissingExtra, meant, shorten
from karat.gold import Gold
from karat.hits import Run

Kind = Literal["run", "gold"]
# Lists of a run log: the final ones, those before reranking, those of the query before rewriting.
Lists = Literal["topk", "raw", "topk_original"]

_GZIP, _ZSTD, _BOM = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xef\xbb\xbf"
_HEAD = 1 << 16
_PACKED = 1 << 13  # small, for all that it unpacks to is in memory at once

SWAPPED = "did you swap run and gold? It is `karat eval RUN --gold GOLD`, `karat.evaluate(run, gold)`"

# Whatever a decoder may raise about a user's data.
DECODE_ERRORS = (msgspec.MsgspecError, UnicodeError, RecursionError, OverflowError, ValueError)


class Options(msgspec.Struct, frozen=True):
    """What a reader may be told."""

    target: str | None = None  # field that holds the target of a single-target set
    split: str = "test"  # which qrels of a BEIR folder
    system: str | None = None  # read only this system of a run
    hits: Lists = "topk"  # which lists of a run log
    layout: Any = None  # of a table: where it keeps what (formats/layout.py)


class Source:
    """A file (or folder) to read, with its first bytes."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.label = str(path)
        try:
            there = self.path.exists()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"this is no path: {reason}", got=self.label, hint="give the name of a file") from error
        if not there:
            raise InputError("no such file", file=self.label, hint=_nearby(self.path))

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
            raise self.unreadable(error) from error
        return stream

    def _decompressed(self) -> IO[bytes]:
        if self.is_folder:
            raise InputError("this is a folder", file=self.label, expected="a file, or a BEIR folder with qrels/")
        raw = self.path.open("rb")
        magic = raw.read(4)
        raw.seek(0)
        if magic[:2] == _GZIP:
            return io.BufferedReader(_Decompressed(self, raw, _open_gzip))
        if magic == _ZSTD:
            return io.BufferedReader(_Decompressed(self, raw, _open_zstd))
        return raw

    def unreadable(self, error: Exception) -> InputError:
        reason = "the compressed data ends too early" if isinstance(error, EOFError) else str(error)
        return InputError(f"cannot be read: {reason}", file=self.label)

    @cached_property
    def head(self) -> bytes:
        if self.is_folder:
            return b""
        with self.open() as stream:
            return stream.read(_HEAD)

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
            fields = msgspec.json.decode(self._whole_first_line(), type=dict[str, msgspec.Raw])
            return {name: _outline(raw) for name, raw in fields.items()}
        except DECODE_ERRORS:
            return self._object_of_broken_line()

    def _whole_first_line(self) -> bytes:
        if len(self.head) < _HEAD or b"\n" in self.head.lstrip():
            return self.first_line
        with self.open() as stream:
            return next(line.strip() for line in stream if line.strip())

    def _object_of_broken_line(self) -> dict[str, Any] | None:
        """Keys of a first line that is broken further on."""
        found = re.findall(rb'"(query_id|topk|gold|actualOutput|samples|id|query)"\s*:', self.first_line)
        return {key.decode(): None for key in found} if found else None

    @property
    def looks_like_json(self) -> bool:
        return self.first_line[:1] in (b"{", b"[")

    def refuse_nonsense(self) -> None:
        """Empty and binary files, before any reader tries."""
        if self.is_folder or self.head[:4] == b"PAR1":
            return
        if not self.head.strip():
            raise InputError("the file is empty", file=self.label)
        if b"\x00" in self.head:
            raise InputError(
                "this is a binary file",
                file=self.label,
                expected="text (JSONL, JSON, YAML, TREC, CSV, TSV; also .gz and .zst), Parquet or a BEIR folder",
            )

    def content_hash(self) -> str:
        digest = hashlib.sha256()
        with self.open() as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
        return "sha256:" + digest.hexdigest()[:16]


class SourcePart(Source):
    """Some whole lines of a file. What tells the format is the head of the whole file."""

    def __init__(self, whole: Source, start: int, stop: int) -> None:
        super().__init__(whole.path)
        self.label, self._start, self._stop = whole.label, start, stop
        self.head = whole.head

    def open(self) -> IO[bytes]:
        return io.BufferedReader(_Window(self.path.open("rb"), self._start, self._stop), 1 << 20)


class _Window(io.RawIOBase):
    """A stretch of a file as if it were one."""

    def __init__(self, raw: IO[bytes], start: int, stop: int) -> None:
        self._raw, self._left = raw, stop - start
        raw.seek(start)

    def readinto(self, buffer: Any) -> int:
        piece = self._raw.read(min(len(buffer), self._left))
        buffer[: len(piece)] = piece
        self._left -= len(piece)
        return len(piece)

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()


def source_parts(source: Source, least: int, key: Callable[[bytes], bytes] | None = None) -> list[Source] | None:
    """A file cut where a line begins whose `key` differs from that of the line before it; None where it is too small,
    compressed, or no file."""
    if source.is_folder or source.path.stat().st_size < 2 * least:
        return None
    with source.path.open("rb") as raw:
        if raw.read(4).startswith((_GZIP, _ZSTD)):
            return None
        size = source.path.stat().st_size
        with source.open() as opened:  # after a byte order mark
            cuts = [opened.tell() if opened.tell() == len(_BOM) else 0]
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
    """A value, or of a long one its kind."""
    text = memoryview(raw)
    if len(text) < _HEAD:
        return msgspec.json.decode(text)
    if text[0] == ord("["):
        return [{}] if re.match(rb"\[\s*\{", text) else [""]
    return {} if text[0] == ord("{") else ""


class Format(ABC):
    """One file format. A subclass reads runs, gold sets, or both."""

    name: ClassVar[str]
    kinds: ClassVar[frozenset[Kind]]
    takes_target: ClassVar[bool] = False  # does --target mean something to it
    order: ClassVar[int] = 50  # who is asked first; the more particular, the lower

    def recognises(self, source: Source, kind: Kind) -> bool:
        raise NotImplementedError

    def read_run(self, source: Source, options: Options) -> Run:
        raise NotImplementedError

    def read_gold(self, source: Source, options: Options) -> Gold:
        raise NotImplementedError


def _open_gzip(raw: IO[bytes]) -> Any:
    return gzip.GzipFile(fileobj=raw)


def _open_zstd(raw: IO[bytes]) -> Any:
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        return zstd.ZstdFile(raw)
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError:
        raise MissingExtra("reading a .zst file", "zstandard", "zstd") from None
    return _ZstdFrames(zstandard.ZstdDecompressor().decompressobj, raw)


class _ZstdFrames:
    """All frames of a file. The package's own reader takes a file that ends too early for a short one."""

    def __init__(self, start: Callable[[], Any], raw: IO[bytes]) -> None:
        self._start, self._raw = start, raw
        self._frame: Any = None
        self._packed, self._ready = b"", memoryview(b"")

    def readinto(self, buffer: Any) -> int:
        while not self._ready and self._fill():
            pass
        size = min(len(buffer), len(self._ready))
        buffer[:size], self._ready = self._ready[:size], self._ready[size:]
        return size

    def _fill(self) -> bool:
        self._packed = self._packed or self._raw.read(_PACKED)
        if not self._packed:
            if self._frame is not None:
                raise EOFError
            return False
        self._frame = self._frame or self._start()
        self._ready = memoryview(self._frame.decompress(self._packed))
        self._packed = self._frame.unused_data
        if self._frame.eof:
            self._frame = None
        return True


class _Decompressed(io.RawIOBase):
    """A decompressed stream that can go back to its start, and whose damage is an error with the file's name."""

    def __init__(self, source: Source, raw: IO[bytes], start: Callable[[IO[bytes]], Any]) -> None:
        self._source, self._raw, self._start = source, raw, start
        self._reader = start(raw)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._raw.seek(0)
        self._reader = self._start(self._raw)
        return 0

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._reader.readinto(buffer))
        except Exception as error:  # gzip, zlib and the zstd packages raise kinds of their own
            raise self._source.unreadable(error) from error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()


def _nearby(path: Path) -> str:
    from karat.errors import did_you_mean

    folder = path.parent
    if not folder.is_dir():
        return f"the folder {folder} does not exist either"
    names = sorted(p.name for p in folder.iterdir())[:200]
    return did_you_mean(path.name, names) or "check the path"


_COMPLAINT = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`(?P<path>[^`]*)`)?$", re.S)
_TYPES = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def refusal(error: Exception, label: str, line: int | None, raw: object = None) -> InputError:
    """msgspec's complaint about one record as an error with place, expectation and what was found."""
    if isinstance(error, RecursionError):
        return InputError("nested too deeply", file=label, line=line)
    if isinstance(error, msgspec.ValidationError):
        return _invalid(str(error), label, line, raw)
    text = str(error)
    if "NaN" in text or (isinstance(raw, bytes) and re.search(rb":\s*-?(NaN|Infinity)\b", raw)):
        return InputError(
            "NaN and Infinity are no JSON numbers",
            file=label,
            line=line,
            expected="finite numbers",
            hint="write null, or leave the field out",
        )
    if "truncated" in text:
        return InputError(
            "the line is cut off: JSON ends in the middle",
            file=label,
            line=line,
            got=raw,
            hint="was the file copied while it was written? Remove or complete the line",
        )
    if isinstance(error, UnicodeError) or "utf-8" in text.lower():
        return InputError("the line is not UTF-8 text", file=label, line=line, hint="save the file as UTF-8")
    found = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    return InputError(
        f"not JSON ({text.removeprefix('JSON is malformed: ')})",
        file=label,
        line=line,
        expected="one JSON object a line",
        got=found,
    )


def _invalid(text: str, label: str, line: int | None, raw: object) -> InputError:
    parts = _COMPLAINT.fullmatch(text)
    assert parts is not None
    path = (parts["path"] or "$").removeprefix("$").lstrip(".")
    what = parts["what"]
    missing = re.fullmatch(r"Object missing required field `(.*)`", what)
    if missing:
        field = f"{path}.{missing[1]}" if path else missing[1]
        hint = meant([missing[1]], _at(raw, path) or ())
        return InputError("the field is missing", file=label, line=line, field=field, hint=hint)
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what, re.S)
    if unknown:
        return InputError("unknown field", file=label, line=line, field=f"{path}.{unknown[1]}" if path else unknown[1])
    if what == "Number out of range":
        got = _value_at(raw, path) or _huge_number(raw)
        return InputError("not usable", file=label, line=line, field=path, expected="a finite number", got=got)
    bound = re.fullmatch(r"Expected `(\w+)` (<=|>=|<|>) (\S+)", what)
    if bound:
        expected, got = f"{_TYPES.get(bound[1], bound[1])} {bound[2]} {bound[3]}", _value_at(raw, path)
        return InputError("out of range", file=label, line=line, field=path, expected=expected, got=got)
    kinds = re.fullmatch(r"Expected `(.*?)`(?:, got `(.*)`)?", what)
    if kinds:
        expected = " or ".join(_TYPES.get(t.strip(), t.strip()) for t in kinds[1].split("|"))
        if not parts["key"]:
            path = _culprit(raw, path, kinds[2])
        # What stands at the path of a bad key is the object that has it: too much to show.
        got = kinds[2] if parts["key"] else _value_at(raw, path) or kinds[2]
        what = "a key of the wrong type" if parts["key"] else "wrong type"
        return InputError(what, file=label, line=line, field=path or None, expected=expected, got=got)
    return InputError(what, file=label, line=line, field=path or None)


def _huge_number(raw: object) -> str | None:
    found = re.search(rb"-?\d[\d.]*[eE]\+?\d{3,}|-?\d{300,}", raw) if isinstance(raw, bytes) else None
    return None if found is None else found[0].decode()


_KINDS = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None), "array": list, "object": dict}


def _culprit(raw: object, path: str, kind: str | None) -> str:
    """The path with the key that msgspec leaves open (`gold[...]`): the first whose value is of the refused kind."""
    head, open_, rest = path.partition("[...]")
    values = _at(raw, head) if open_ and not rest else None
    for key, value in values.items() if isinstance(values, dict) else ():
        if type(value) is _KINDS.get(kind or ""):
            return f"{head}[{key}]"
    return path


def _value_at(raw: object, path: str) -> str | None:
    value = _at(raw, path)
    return None if value is None else f"'{shorten(value)}'" if isinstance(value, str) else shorten(value)


def _at(raw: object, path: str) -> Any:
    """What stands at a path such as `topk[0].score` or `gold[doc 1.html]`; None where nothing does."""
    try:
        value: Any = msgspec.json.decode(raw) if isinstance(raw, bytes) else raw
        for inner, name in re.findall(r"\[([^\]]*)\]|([^.\[]+)", path):
            value = value[int(inner)] if isinstance(value, list) else value[inner or name]
    except (*DECODE_ERRORS, KeyError, IndexError, TypeError):
        return None
    return value
