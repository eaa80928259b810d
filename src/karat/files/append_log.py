"""Files that grow line by line: one writer, whole lines only, each synced to disk."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from karat.errors import ConfigError
from karat.files.atomic_write import cannot_write, check_writable

_BEGINS = b'{"query_id"'  # start of every line that Karat appends


class NotContinued(Exception):
    """The file has other content than such lines."""


class LineFile:
    """A JSONL file that continues where an earlier attempt stopped."""

    def __init__(self, path: Path, *, overwrite: bool = False) -> None:
        self.path = path
        check_writable(path)
        self._open()
        if overwrite:
            os.truncate(path, 0)

    def _open(self) -> None:
        while True:
            self._stream = self.path.open("ab", buffering=0)
            _lock(self._stream.fileno(), self.path)
            if self._is_there():
                return
            self._stream.close()  # it was replaced before it was locked

    def _is_there(self) -> bool:
        """Return whether the path still leads to the open file."""
        return self.path.exists() and os.path.samestat(os.fstat(self._stream.fileno()), self.path.stat())

    def _refuse_another(self) -> None:
        if not self._is_there():
            what, hint = "was moved, removed or replaced during writing", "put it back, then start again"
            raise ConfigError(what, code="file-replaced", file=str(self.path), hint=hint)

    def lines(self) -> list[bytes]:
        """Return the lines of earlier attempts. An incomplete last line is removed; a complete one without a line
        break gets one."""
        content = self.path.read_bytes()
        whole, rest = content[: content.rfind(b"\n") + 1], content[content.rfind(b"\n") + 1 :]
        if rest:
            if not whole and not rest.startswith(_BEGINS) and not _BEGINS.startswith(rest):
                raise NotContinued
            if _is_json(rest):
                self.append(b"\n")
                return (content + b"\n").splitlines(keepends=True)
            os.truncate(self.path, len(whole))
        return whole.splitlines(keepends=True)

    def append(self, content: bytes) -> None:
        """Write and sync the content, or nothing of it, so that no half line remains."""
        self._refuse_another()
        view, size = memoryview(content), os.fstat(self._stream.fileno()).st_size
        try:
            while view:
                view = view[self._stream.write(view) :]
            os.fsync(self._stream.fileno())
        except OSError as error:
            os.truncate(self.path, size)
            raise cannot_write(self.path, error) from error

    def drop(self, at: int) -> None:
        """Remove a line, counted without empty ones. The last one is cut off. For any other, the file is replaced, so
        that the lines after it are never missing."""
        self._refuse_another()
        lines = self.path.read_bytes().splitlines(keepends=True)
        said = [i for i, line in enumerate(lines) if line.strip()]
        before, after = b"".join(lines[: said[at]]), b"".join(lines[said[at] + 1 :])
        if after.strip():
            self.replace(before + after)
            return
        try:
            os.truncate(self.path, len(before))
            os.fsync(self._stream.fileno())
        except OSError as error:
            raise cannot_write(self.path, error) from error

    def close(self) -> None:
        """Close the file, and remove it if it is empty."""
        is_empty = self._is_there() and not self.path.stat().st_size
        self._stream.close()
        if is_empty:
            self.path.unlink()

    def replace(self, content: bytes) -> None:
        """Replace the content at once and sync it. The new file is locked before it is visible."""
        draft = LineFile(self.path.with_name(f".{self.path.name}.new"), overwrite=True)
        try:
            os.chmod(draft.path, self.path.stat().st_mode)
            draft.append(content)
            os.replace(draft.path, self.path)
        except BaseException as error:
            draft.path.unlink(missing_ok=True)
            draft._stream.close()  # releases its lock, which would block the next attempt
            if isinstance(error, OSError):
                raise cannot_write(self.path, error) from error
            raise
        self._stream.close()
        self._stream = draft._stream


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def _lock(handle: int, path: Path) -> None:
    """Prevent two writers from sharing a file, if the system has locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(
            "another run is writing this file", code="file-in-use", file=str(path), hint="stop it, or use another file"
        ) from None
    except (ImportError, OSError):
        return
