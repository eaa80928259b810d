"""Files that grow line by line: one writer, whole lines only, on the disk when it is said so."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from karat.errors import ConfigError
from karat.files.atomic_write import cannot_write, check_writable

_BEGINS = b'{"query_id"'  # as every line that Karat writes so


class NotContinued(Exception):
    """The file holds something else than such lines."""


class LineFile:
    """A JSONL file that an earlier try may have left, and that goes on from there."""

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
        """Whether what is written still goes to where the path leads."""
        return self.path.exists() and os.path.samestat(os.fstat(self._stream.fileno()), self.path.stat())

    def _refuse_another(self) -> None:
        if not self._is_there():
            what, hint = "was moved, removed or replaced while it was written", "put it back, then start again"
            raise ConfigError(what, code="file-replaced", file=str(self.path), hint=hint)

    def lines(self) -> list[bytes]:
        """What an earlier try has left. Half a line at the end is what it was killed over, and is cut; a whole one
        that lacks its line break gets it."""
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
        """Written, and on the disk; else nothing of it, so that what comes next does not follow half a line."""
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
        """Take a line back, counted without empty ones. The last one is cut; of any other the file is written anew, so
        that at no moment the lines after it are missing."""
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
        """A file into which nothing was written does not stay."""
        is_empty = self._is_there() and not self.path.stat().st_size
        self._stream.close()
        if is_empty:
            self.path.unlink()

    def replace(self, content: bytes) -> None:
        """Other lines in its place, all at once and on the disk; they are locked before anybody can see them."""
        draft = LineFile(self.path.with_name(f".{self.path.name}.new"), overwrite=True)
        try:
            os.chmod(draft.path, self.path.stat().st_mode)
            draft.append(content)
            os.replace(draft.path, self.path)
        except BaseException as error:
            draft.path.unlink(missing_ok=True)
            draft._stream.close()  # and with it its lock, which would be in the way of the next try
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
    """Two writers must not share a file; where the system has no locks, nobody is stopped."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ConfigError(
            "another run is writing this file", code="file-in-use", file=str(path), hint="end it, or name another file"
        ) from None
    except (ImportError, OSError):
        return
