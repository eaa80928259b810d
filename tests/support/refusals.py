"""Errors by their code and fields. Their sentences are in `tests/golden/wording/`, so that they can be improved."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from karat.errors import KaratError


class refused:
    """Like `pytest.raises`, for an error with this code and these fields (`file`, `line`, `query`, `got` …).

    A class, so that nothing holds the error and what it refers to (an open file, its lock) any longer.
    """

    def __init__(self, code: str, kind: type[KaratError] = KaratError, **fields: Any) -> None:
        self._code, self._raises = code, pytest.raises(kind)
        self._fields = {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}

    def __enter__(self) -> pytest.ExceptionInfo[Any]:
        self._caught: pytest.ExceptionInfo[Any] = self._raises.__enter__()
        return self._caught

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        swallowed = self._raises.__exit__(kind, error, trace)
        if swallowed and isinstance(error, KaratError):
            assert error.code == self._code, str(error)
            assert {name: getattr(error, name) for name in self._fields} == self._fields
        return bool(swallowed)
