"""Files that are compressed, with gzip or Zstandard: told by their first bytes, read as if they were not."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from typing import IO, Any, TypeAlias

from karat.errors import MissingExtra

MAGIC = _GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_PACKED = 1 << 13  # small, for all that it unpacks to is in memory at once

Damage: TypeAlias = Callable[[Exception], Exception]  # what a decoder says → what is raised


def decompressed(raw: IO[bytes], damage: Damage) -> IO[bytes]:
    """The content of a file that was opened; the file itself where it is not compressed."""
    magic = raw.read(4)
    raw.seek(0)
    if magic.startswith(_GZIP):
        return io.BufferedReader(_Decompressed(raw, _open_gzip, damage))
    if magic == _ZSTD:
        return io.BufferedReader(_Decompressed(raw, _open_zstd, damage))
    return raw


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

    def __init__(self, raw: IO[bytes], start: Callable[[IO[bytes]], Any], damage: Damage) -> None:
        self._raw, self._start, self._damage = raw, start, damage
        self._reader = start(raw)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._raw.seek(0)
        self._reader = self._start(self._raw)
        return 0

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._reader.readinto(buffer))
        except Exception as error:  # gzip, zlib and the zstd packages raise kinds of their own
            raise self._damage(error) from error

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._raw.close()
        super().close()
