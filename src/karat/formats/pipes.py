"""Input that can be read only once, as in `zcat run.gz | karat eval -`, is copied to a temporary file."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import IO, NamedTuple

from karat.errors import InputError


class _Copy(NamedTuple):
    written: int  # when the pipe was last written to
    file: IO[bytes]  # deleted when the process ends


_copies: dict[tuple[int, int], _Copy] = {}  # by device and inode of the pipe


def copied(pipe: Path, label: str) -> Path:
    """A file with the whole output of a pipe. The same file is returned until more is written to the pipe."""
    try:
        about = pipe.stat()
        key = about.st_dev, about.st_ino
        if key not in _copies or _copies[key].written != about.st_mtime_ns:
            file = tempfile.NamedTemporaryFile(prefix="karat-")  # noqa: SIM115 — other readers open it by its name
            with pipe.open("rb", buffering=0) as stream:
                shutil.copyfileobj(stream, file, 1 << 20)
            file.flush()
            atexit.register(file.close)
            _copies[key] = _Copy(pipe.stat().st_mtime_ns, file)
    except OSError as error:
        what = f"cannot copy the input to a temporary file: {error.strerror or error}"
        hint = "free disk space, or set TMPDIR to another folder"
        raise InputError(what, code="unreadable", file=label, expected=tempfile.gettempdir(), hint=hint) from error
    return Path(_copies[key].file.name)
