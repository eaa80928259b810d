"""Errors by their code and fields. Their sentences are in `tests/golden/wording/`, so that they can be improved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from karat.errors import KaratError


@contextmanager
def refused(code: str, kind: type[KaratError] = KaratError, **fields: Any) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Like `pytest.raises`, for an error with this code and these fields (`file`, `line`, `query`, `got` …)."""
    with pytest.raises(kind) as caught:
        yield caught
    assert caught.value.code == code, str(caught.value)
    wanted = {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}
    assert {name: getattr(caught.value, name) for name in fields} == wanted
