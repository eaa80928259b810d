"""Reads files, decompressed if needed, with limits for lines and unpacked size."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from karat.errors import InputError, KaratError, MissingExtra
from karat.files.limits import expands_too_far, largest_content, largest_line, line_too_long

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# Of the zstd format: bytes of the longest header of a frame, frames without content, and blocks of one repeated byte.
_LONGEST_HEADER, _SKIPPABLE, _REPEATED_BYTE = 18, 0x184D2A50, 1
_BLOCK = 1 << 20


def is_compressed(opening: bytes) -> bool:
    skippable = int.from_bytes(opening[:4], "little") & ~0xF == _SKIPPABLE  # pzstd begins with such a frame
    return opening.startswith((_GZIP, _ZSTD)) or skippable


def open_plain(path: Path, label: str) -> BoundedLines:
    """Open a file without decompressing it."""
    return BoundedLines(io.FileIO(path), label)


def open_content(path: Path, label: str) -> BoundedLines:
    """Open a file; decompress it if its first bytes show that it is compressed."""
    raw = path.open("rb")
    magic = raw.read(4)
    raw.seek(0)
    if not is_compressed(magic):
        raw.close()
        return open_plain(path, label)
    return BoundedLines(_Decompressed(raw, _open_gzip if magic.startswith(_GZIP) else _open_zstd, label), label)


def unreadable(label: str, error: Exception) -> InputError:
    reason = str(error)
    hint = None if getattr(error, "errno", None) else "copy or compress the file again"  # not if the system refuses it
    if isinstance(error, EOFError):
        reason = "the compressed data ends too early"
    elif reason.startswith("Not a gzipped file"):
        reason = "not all of it is gzip data"
    return InputError(f"cannot be read: {reason}", code="unreadable", file=label, hint=hint)


class BoundedLines(io.BufferedReader):
    """A stream that raises an error for a line that is too long, before reading all of it."""

    def __init__(self, raw: io.RawIOBase, label: str, size: int = _BLOCK >> 3) -> None:
        super().__init__(raw, size)
        self._label, self._limit = label, largest_line()

    def readline(self, size: int | None = -1) -> bytes:
        if size is not None and 0 <= size <= self._limit:
            return super().readline(size)
        line = super().readline(self._limit + 1)
        if len(line) > self._limit:
            raise line_too_long(self._label)
        return line

    def __next__(self) -> bytes:
        if line := self.readline():
            return line
        raise StopIteration

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size >= 0:
            return super().read(size)
        if isinstance(self.raw, io.FileIO):
            self._refuse_long_lines()
            return super().read()
        blocks, line, total = [], 0, 0
        while block := super().read(_BLOCK):
            blocks.append(block)
            total += len(block)
            if isinstance(self.raw, _Decompressed) and total > largest_content(self.raw.packed, at_once=True):
                raise expands_too_far(self._label, at_once=True)
            last = block.rfind(b"\n")
            line = line + len(block) if last < 0 else len(block) - last - 1
            if line > self._limit:
                raise line_too_long(self._label)
        return b"".join(blocks)

    def _refuse_long_lines(self) -> None:
        """Check a plain file without reading it into memory."""
        at = self.tell()
        if os.fstat(self.fileno()).st_size - at <= self._limit:  # also: an empty file cannot be mapped
            return
        from mmap import ACCESS_READ, mmap

        with mmap(self.fileno(), 0, access=ACCESS_READ) as content:
            while len(content) - at > self._limit:
                last = content.rfind(b"\n", at, at + self._limit + 1)
                if last < 0:
                    raise line_too_long(self._label)
                at = last + 1


def _open_gzip(raw: IO[bytes]) -> Any:
    import gzip  # few files are compressed

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
    return _ZstdReader(zstandard, raw)


class _ZstdReader:
    """Reads all frames of a file. The package does not notice a file that ends too early: here its end is checked."""

    def __init__(self, package: Any, raw: IO[bytes]) -> None:
        self._package, self._raw = package, raw
        self._reader = package.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
        self._checked = False

    def readinto(self, buffer: Any) -> int:
        size = int(self._reader.readinto(buffer))
        if not (size or self._checked) and len(buffer):
            self._refuse_cut()
            self._checked = True
        return size

    def _refuse_cut(self) -> None:
        """Raise an error if the file ends within a frame. Only the headers are read."""
        at, end = 0, self._raw.seek(0, os.SEEK_END)
        while at < end:
            head = self._read(at, _LONGEST_HEADER)
            if int.from_bytes(head[:4], "little") & ~0xF == _SKIPPABLE:
                at += 8 + int.from_bytes(head[4:8], "little")
                continue
            try:
                at += self._package.frame_header_size(head)
                checked = self._package.get_frame_parameters(head).has_checksum
            except self._package.ZstdError:
                raise EOFError from None
            last = False
            while not last:
                block = int.from_bytes(self._read(at, 3), "little")
                last, kind, size = bool(block & 1), block >> 1 & 3, block >> 3
                at += 3 + (1 if kind == _REPEATED_BYTE else size)
            at += 4 if checked else 0
        if at != end:
            raise EOFError
        self._raw.seek(end)

    def _read(self, at: int, size: int) -> bytes:
        self._raw.seek(at)
        if not (found := self._raw.read(size)):
            raise EOFError
        return found


class _Stream(io.RawIOBase):
    """A stream over another file, closed together with it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Decompressed(_Stream):
    """A decompressed stream that can rewind to its start, and whose errors name the file."""

    def __init__(self, raw: IO[bytes], start: Callable[[IO[bytes]], Any], label: str) -> None:
        super().__init__(raw)
        self._start, self._label, self._reader, self._read = start, label, start(raw), 0

    def seek(self, offset: int, whence: int = 0) -> int:
        self._raw.seek(0)
        self._reader, self._read = self._start(self._raw), 0
        return 0

    def readinto(self, buffer: Any) -> int:
        try:
            size = int(self._reader.readinto(buffer))
        except KaratError:
            raise
        except Exception as error:  # gzip, zlib and the zstd packages raise different errors
            raise unreadable(self._label, error) from error
        self._read += size
        if self._read > largest_content(self.packed):
            raise expands_too_far(self._label)
        return size

    def seekable(self) -> bool:
        return True

    @property
    def packed(self) -> int:
        """Return the bytes of the compressed file read so far."""
        return self._raw.tell()


class Window(_Stream):
    """A part of a file that acts as a file."""

    def __init__(self, raw: IO[bytes], start: int, stop: int) -> None:
        super().__init__(raw)
        self._left = stop - start
        raw.seek(start)

    def readinto(self, buffer: Any) -> int:
        piece = self._raw.read(min(len(buffer), self._left))
        buffer[: len(piece)] = piece
        self._left -= len(piece)
        return len(piece)
