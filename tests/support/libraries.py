"""Other people's libraries that `make test` installs, and a smaller environment may lack."""

from __future__ import annotations

import os

import pytest


def library(name: str) -> None:
    """Skip without the library; `make test` installs it and allows no skipping."""
    if os.environ.get("KARAT_REQUIRE_FRAMEWORKS") == "1":
        __import__(name)
    else:
        pytest.importorskip(name, reason=f"needs karat[test-frameworks] for {name}")
