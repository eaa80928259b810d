"""Choosing a reader in a test: the native one or the plain one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

T = TypeVar("T")


def choose_reader(patch: pytest.MonkeyPatch, pure: str) -> None:
    """Read as if this process, and those it starts, began with KARAT_PURE set to this."""
    patch.setenv("KARAT_PURE", pure)
    patch.setattr("karat.files.native._CHOSEN", [])


def plainly(call: Callable[[], T]) -> T:
    """What a call returns with the plain reader."""
    with pytest.MonkeyPatch.context() as patch:
        choose_reader(patch, "1")
        return call()
