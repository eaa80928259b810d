"""A short run of `make fuzz-native`."""

from __future__ import annotations

import pytest
from fuzz_native import fuzz

from karat.files.native import build


def test_damaged_files_never_break_the_native_reader() -> None:
    if build.compiler() is None:
        pytest.skip("no C compiler")
    said = fuzz(seconds=6, seed=1)
    if said == "no sanitizers":
        pytest.skip("the C compiler has no AddressSanitizer")
    assert said is None
