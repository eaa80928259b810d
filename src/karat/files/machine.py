"""The cores of this machine, and how the C library handles memory."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENAS = -1, -3, -8  # of malloc.h
_LARGEST_KEPT = 32 << 20  # bytes; the most that glibc would learn by itself


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def keep_freed_memory() -> None:
    """Let glibc use freed megabytes again.

    It would return them to the system and request them again, page by page, until it has learned better: 3 % of the
    time of a short command, and a fifth of reading a large run. What it keeps grows with the largest freed block.
    """
    if _may_set("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_") and _set(_MMAP_THRESHOLD, _LARGEST_KEPT):
        _set(_TRIM_THRESHOLD, 2 * _LARGEST_KEPT)


@cache
def share_memory() -> None:
    """Let threads use the same memory: glibc would keep what one of them freed for that thread alone."""
    if _may_set("MALLOC_ARENA_MAX"):
        _set(_ARENAS, 1)


def _may_set(*names: str) -> bool:
    """Whether the environment leaves it to us."""
    return os.environ.keys().isdisjoint((*names, "GLIBC_TUNABLES"))


def _set(option: int, value: int) -> bool:
    with suppress(OSError, AttributeError, TypeError):  # other C libraries
        return bool(ctypes.CDLL(None).mallopt(option, value))
    return False
