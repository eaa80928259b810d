"""Temporary files of tests in memory: histories wait until what they write is on the disk, thousands of times."""

from __future__ import annotations

import os
import platform
import shutil
from contextlib import suppress
from pathlib import Path

_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30  # bytes; tests need about one
_ROOT = "PYTEST_DEBUG_TEMPROOT"  # where pytest makes its folders


def keep_files_in_memory() -> None:
    """Where there is room for them; before pytest makes its folders."""
    if _ROOT in os.environ or not _has_room():
        return
    folder = _MEMORY / f"karat-{os.getuid()}-{platform.node()[:16]}"
    folder.mkdir(mode=0o700, exist_ok=True)
    os.environ[_ROOT] = str(folder)
    for lock in folder.glob("pytest-of-*/pytest-*/.lock"):  # pytest would keep what was killed for days
        with suppress(FileNotFoundError):  # another session may end meanwhile
            if not Path(f"/proc/{lock.read_text()}").exists():
                shutil.rmtree(lock.parent, ignore_errors=True)


def _has_room() -> bool:
    if not os.access(_MEMORY, os.W_OK) or not Path("/proc/self").exists():
        return False
    found = os.statvfs(_MEMORY)
    return found.f_bavail * found.f_frsize >= _ROOM and not found.f_flag & os.ST_NOEXEC
