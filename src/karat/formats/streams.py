"""Files that are not read as they are: compressed ones (gzip, zstd), and parts of one."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from typing import IO, Any

from karat.errors import InputError, MissingExtra

Unreadable = Callable[[Exception], InputError]  # the error for a file that cannot be read
_PACKED = 1 << 13  # small, for all that it unpacks to is in memory at once


def decompressed(raw: IO[bytes], unreadable: Unreadable, *, is_zstd: bool) -> IO[bytes]:
    start = _open_zstd if is_zstd else lambda raw: gzip.GzipFile(fileobj=raw)
    return io.BufferedReader(_Decompressed(raw, start, unreadable))


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


class _Stream(io.RawIOBase):
    """A file read through another's eyes, and closed with it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Decompressed(_Stream):
    """A decompressed stream that can go back to its start, and whose damage is an error with the file's name."""

    def __init__(
        self, raw: IO[bytes], start: Callable[[IO[bytes]], Any], unreadable: Callable[[Exception], InputError]
    ) -> None:
        super().__init__(raw)
        self._start, self._unreadable, self._reader = start, unreadable, start(raw)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._raw.seek(0)
        self._reader = self._start(self._raw)
        return 0

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._reader.readinto(buffer))
        except Exception as error:  # gzip, zlib and the zstd packages raise kinds of their own
            raise self._unreadable(error) from error

    def seekable(self) -> bool:
        return True


class Window(_Stream):
    """A stretch of a file as if it were one."""

    def __init__(self, raw: IO[bytes], start: int, stop: int) -> None:
        super().__init__(raw)
        self._left = stop - start
        raw.seek(start)

    def readinto(self, buffer: Any) -> int:
        piece = self._raw.read(min(len(buffer), self._left))
        buffer[: len(piece)] = piece
        self._left -= len(piece)
        return len(piece)
