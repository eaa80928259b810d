"""A terminal of 100 columns in an empty folder, beside which the demo set lies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from wording import Transcript

DEMO = Path(__file__).parents[2] / "examples" / "helpdesk"


@pytest.fixture
def terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, karat_command: Callable[..., tuple[int, str, str]]
) -> Transcript:
    (tmp_path / "helpdesk").symlink_to(DEMO)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("click.core._detect_program_name", lambda: "karat")  # not pytest, or whatever started it
    return Transcript(karat_command)
